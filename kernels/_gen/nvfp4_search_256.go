package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// search256 writes one search for AVX2, eight blocks at a time. What does not
// fit into registers stands in the frame.
type search256 struct {
	*build.Context
	name   string
	labels int

	u       [16]operand.Mem // magnitudes in units of weight_scale_2
	largest operand.Mem     // of u
	strict  operand.Mem     // of a list: 1 while an equal error does not win; of a sweep: what is searched at all
	start   operand.Mem     // of a sweep: the first scale

	recip, scale                      reg.VecPhysical // of the candidate
	p                                 [4]reg.VecPhysical
	exponent, one, magic, six         reg.VecPhysical // constants
	t, t2, t3                         reg.VecPhysical
	limit, bestScale, bestBin         reg.VecPhysical
	args, src, amax, scales, choices  reg.GPPhysical
	groups, index, until, total, flag reg.GPPhysical
	consts                            map[string]operand.Mem
}

func newSearch256(ctx *build.Context, name string) *search256 {
	return &search256{
		Context: ctx, name: name, consts: map[string]operand.Mem{},
		recip: reg.Y0, scale: reg.Y1, p: [4]reg.VecPhysical{reg.Y2, reg.Y3, reg.Y4, reg.Y5},
		exponent: reg.Y6, one: reg.Y7, magic: reg.Y8, six: reg.Y9,
		t: reg.Y10, t2: reg.Y11, t3: reg.Y12, limit: reg.Y13, bestScale: reg.Y14, bestBin: reg.Y15,
		args: reg.RDI, src: reg.RSI, amax: reg.RDX, scales: reg.R8, choices: reg.R9,
		groups: reg.R10, index: reg.RCX, until: reg.R11, total: reg.R12, flag: reg.RAX,
	}
}

func (g *search256) label(what string) string {
	g.labels++
	return fmt.Sprintf("%s%d", what, g.labels)
}

// words is a constant of eight 32-bit words.
func (g *search256) words(what string, word func(lane int) uint32) operand.Mem {
	if m, ok := g.consts[what]; ok {
		return m
	}
	m := g.StaticGlobal(g.name + "_" + what)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		g.AddDatum(4*i, operand.U32(word(i)))
	}
	g.consts[what] = m
	return m
}

func (g *search256) word(w uint32) operand.Mem {
	return g.words(fmt.Sprintf("w%08x", w), func(int) uint32 { return w })
}

func (g *search256) float(f float32) operand.Mem { return g.word(math.Float32bits(f)) }

// arg broadcasts an argument.
func (g *search256) arg(offset int, r reg.VecPhysical) reg.VecPhysical {
	g.VBROADCASTSS(operand.Mem{Base: g.args, Disp: offset}, r)
	return r
}

// candidate broadcasts what the list has for the candidate.
func (g *search256) candidate(offset int, r reg.VecPhysical) reg.VecPhysical {
	g.VBROADCASTSS(operand.Mem{Base: g.args, Disp: offset, Index: g.index, Scale: 4}, r)
	return r
}

func (g *search256) compareArg(offset int, with operand.U8) {
	g.CMPL(operand.Mem{Base: g.args, Disp: offset}, with)
}

func (g *search256) begin(doc string) {
	g.Function(g.name)
	g.Pragma("noescape")
	g.SignatureExpr(nvfp4SearchSignature)
	g.Doc(g.name+" "+doc, "src and amax are those of nvfp4ChooseRef, args is a nvfp4SearchArgs.", "See nvfp4ChooseRef.")
	g.Load(g.Param("args"), g.args)
	g.Load(g.Param("src"), g.src)
	g.Load(g.Param("amax"), g.amax)
	g.Load(g.Param("scales"), g.scales)
	g.Load(g.Param("choices"), g.choices)
	g.Load(g.Param("groups"), g.groups)
	frame := g.AllocLocal(32 * 19)
	for i := range g.u {
		g.u[i] = frame.Offset(32 * i)
	}
	g.largest, g.strict, g.start = frame.Offset(32*16), frame.Offset(32*17), frame.Offset(32*18)
	g.VMOVUPS(g.word(0x7f800000), g.exponent)
	g.VMOVUPS(g.float(1), g.one)
	g.VMOVUPS(g.word(22<<23), g.magic)
	g.VMOVUPS(g.float(6), g.six)
}

// load reads the next eight blocks into u and moves src on.
func (g *search256) load() {
	f16, f32, done := g.label("f16"), g.label("f32"), g.label("loaded")
	unit, low, abs := reg.Y13, reg.Y14, reg.Y15
	g.arg(searchArgUnit, unit)
	g.VMOVUPS(g.word(0x7fffffff), abs)
	g.compareArg(searchArgElement, searchF16)
	g.JE(operand.LabelRef(f16))
	g.JA(operand.LabelRef(f32))

	for quad := range 2 {
		columns := g.quad(func(row int, r reg.VecPhysical) {
			g.VMOVDQU(operand.Mem{Base: g.src, Disp: 32*row + 16*quad}, r.AsX())
			g.VINSERTI128(operand.U8(1), operand.Mem{Base: g.src, Disp: 32*(row+4) + 16*quad}, r, r)
		})
		for k, c := range columns {
			g.VPSLLD(operand.U8(16), c, low)
			g.VANDPS(abs, low, low)
			g.VMULPS(unit, low, low)
			g.VMOVUPS(low, g.u[8*quad+2*k])
			g.VPSRLD(operand.U8(16), c, c)
			g.VPSLLD(operand.U8(16), c, c)
			g.VANDPS(abs, c, c)
			g.VMULPS(unit, c, c)
			g.VMOVUPS(c, g.u[8*quad+2*k+1])
		}
	}
	g.ADDQ(operand.U32(256), g.src)
	g.JMP(operand.LabelRef(done))

	g.Label(f16)
	for quad := range 4 {
		g.floats(quad, g.quad(func(row int, r reg.VecPhysical) {
			g.VMOVQ(operand.Mem{Base: g.src, Disp: 32*row + 8*quad}, r.AsX())
			g.VPINSRQ(operand.U8(1), operand.Mem{Base: g.src, Disp: 32*(row+4) + 8*quad}, r.AsX(), r.AsX())
			g.VCVTPH2PS(r.AsX(), r)
		}), unit, abs)
	}
	g.ADDQ(operand.U32(256), g.src)
	g.JMP(operand.LabelRef(done))

	g.Label(f32)
	for quad := range 4 {
		g.floats(quad, g.quad(func(row int, r reg.VecPhysical) {
			g.VMOVDQU(operand.Mem{Base: g.src, Disp: 64*row + 16*quad}, r.AsX())
			g.VINSERTI128(operand.U8(1), operand.Mem{Base: g.src, Disp: 64*(row+4) + 16*quad}, r, r)
		}), unit, abs)
	}
	g.ADDQ(operand.U32(512), g.src)
	g.Label(done)
	g.VMULPS(operand.Mem{Base: g.amax}, unit, unit)
	g.VMOVUPS(unit, g.largest)
}

// floats takes four columns of f32.
func (g *search256) floats(quad int, columns [4]reg.VecPhysical, unit, abs reg.VecPhysical) {
	for k, c := range columns {
		g.VANDPS(abs, c, c)
		g.VMULPS(unit, c, c)
		g.VMOVUPS(c, g.u[4*quad+k])
	}
}

// quad gives four columns of eight rows each. row loads four words of rows i
// and i+4 into the halves of a register.
func (g *search256) quad(row func(i int, r reg.VecPhysical)) [4]reg.VecPhysical {
	a, b := [4]reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3}, [4]reg.VecPhysical{reg.Y4, reg.Y5, reg.Y10, reg.Y11}
	for i, r := range a {
		row(i, r)
	}
	g.VUNPCKLPS(a[1], a[0], b[0])
	g.VUNPCKHPS(a[1], a[0], b[1])
	g.VUNPCKLPS(a[3], a[2], b[2])
	g.VUNPCKHPS(a[3], a[2], b[3])
	g.VUNPCKLPD(b[2], b[0], a[0])
	g.VUNPCKHPD(b[2], b[0], a[1])
	g.VUNPCKLPD(b[3], b[1], a[2])
	g.VUNPCKHPD(b[3], b[1], a[3])
	return a
}

// round makes the raw scales in t into scale, an E4M3 value that is not 0.
func (g *search256) round() {
	g.VMINPS(g.float(448), g.t, g.t)
	g.VPAND(g.exponent, g.t, g.t2)
	g.VPMAXUD(g.float(0x1p-6), g.t2, g.t2)
	g.VPADDD(g.word(20<<23), g.t2, g.t2)
	g.VADDPS(g.t2, g.t, g.t)
	g.VSUBPS(g.t2, g.t, g.scale)
	g.VPXOR(g.t2, g.t2, g.t2)
	g.VPCMPEQD(g.t2, g.scale, g.t2)
	g.VBLENDVPS(g.t2, g.arg(searchArgZeroScale, g.t), g.scale, g.scale)
}

// reciprocal makes recip from scale, whose mantissa has three bits.
func (g *search256) reciprocal() {
	g.VPSRLD(operand.U8(20), g.scale, g.t)
	g.VPERMPS(g.words("recips", func(i int) uint32 { return math.Float32bits(1/(1+float32(i)/8)) + 127<<23 }), g.t, g.recip)
	g.VPAND(g.exponent, g.scale, g.t)
	g.VPSUBD(g.t, g.recip, g.recip)
}

// raw makes the raw scales in t from block maxima in t.
func (g *search256) raw() {
	ct, ct32, done := g.label("ct"), g.label("ct32"), g.label("raw")
	g.VDIVPS(g.arg(searchArgDivisor, g.t2), g.t, g.t)
	g.compareArg(searchArgConvention, searchCT32)
	g.JE(operand.LabelRef(ct32))
	g.JA(operand.LabelRef(ct))
	g.VPXOR(g.t2, g.t2, g.t2)
	g.VPCMPEQD(g.t2, g.t, g.t2)
	g.VBLENDVPS(g.t2, g.one, g.t, g.t)
	g.compareArg(searchArgConvention, searchStatic)
	g.JNE(operand.LabelRef(done))
	g.VMULPS(g.arg(searchArgFactor, g.t2), g.t, g.t)
	g.VDIVPS(g.arg(searchArgDivisor2, g.t2), g.t, g.t)
	g.JMP(operand.LabelRef(done))

	g.Label(ct)
	g.VPSRLD(operand.U8(16), g.t, g.t2)
	g.VPAND(g.word(1), g.t2, g.t2)
	g.VPADDD(g.t2, g.t, g.t)
	g.VPADDD(g.word(0x7fff), g.t, g.t)
	g.VPAND(g.word(0xffff0000), g.t, g.t)
	g.Label(ct32)
	g.VMULPS(g.arg(searchArgFactor, g.t2), g.t, g.t)
	g.Label(done)
}

// blockError leaves the errors under scale in p[0]. What is below 7 steps does
// not round to more than 6.
func (g *search256) blockError() {
	bounded, done := g.label("bounded"), g.label("error")
	g.VMULPS(g.largest, g.recip, g.t)
	g.VCMPPS(searchCmpGE, g.float(6.99), g.t, g.t)
	g.VPTEST(g.t, g.t)
	g.JNE(operand.LabelRef(bounded))
	g.terms(false)
	g.JMP(operand.LabelRef(done))
	g.Label(bounded)
	g.terms(true)
	g.Label(done)
	g.sum()
}

// sum leaves the sum of p in p[0].
func (g *search256) sum() {
	g.VADDPS(g.p[1], g.p[0], g.p[0])
	g.VADDPS(g.p[3], g.p[2], g.p[2])
	g.VADDPS(g.p[2], g.p[0], g.p[0])
}

// terms rounds by the sum with a power of two whose last place is the distance
// of E2M1 values around x: 1/2 below 2, 1 below 4, then 2. The power's exponent
// is that of the rounded product, which where it differs from the product's own
// is a value of E2M1 under either.
func (g *search256) terms(bounded bool) {
	for i, u := range g.u {
		g.VMULPS(u, g.recip, g.t)
		g.VMAXPS(g.one, g.t, g.t)
		g.VPAND(g.exponent, g.t, g.t)
		g.VPADDD(g.magic, g.t, g.t)
		g.VMOVAPS(g.t, g.t2)
		g.VFMADD231PS(u, g.recip, g.t2)
		g.VSUBPS(g.t, g.t2, g.t2)
		if bounded {
			g.VMINPS(g.six, g.t2, g.t2) // 6 for NaN too
		}
		g.VFNMADD213PS(u, g.scale, g.t2)
		if i < 4 {
			g.VMULPS(g.t2, g.t2, g.p[i])
			continue
		}
		g.VMULPS(g.t2, g.t2, g.t2)
		g.VADDPS(g.t2, g.p[i&3], g.p[i&3])
	}
}

// code leaves the E4M3 codes of scales s in t.
func (g *search256) code(s reg.VecPhysical) {
	g.VPSRLD(operand.U8(20), s, g.t)
	g.VPSUBD(g.word((127-7)<<3), g.t, g.t)
	g.VMULPS(g.float(0x1p9), s, g.t2)
	g.VCVTPS2DQ(g.t2, g.t2)
	g.VCMPPS(searchCmpLT, g.float(0x1p-6), s, g.t3)
	g.VBLENDVPS(g.t3, g.t2, g.t, g.t)
}

// bytes writes the words of r, which are below 256, as bytes.
func (g *search256) bytes(r reg.VecPhysical, to reg.GPPhysical) {
	g.VEXTRACTI128(operand.U8(1), r, g.t2.AsX())
	g.VPACKUSDW(g.t2.AsX(), r.AsX(), r.AsX())
	g.VPACKUSWB(r.AsX(), r.AsX(), r.AsX())
	g.VMOVQ(r.AsX(), operand.Mem{Base: to})
}

func (g *search256) next(loop string) {
	g.ADDQ(operand.U8(32), g.amax)
	g.ADDQ(operand.U8(8), g.scales)
	g.ADDQ(operand.U8(8), g.choices)
	g.DECQ(g.groups)
	g.JNE(operand.LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}
