package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["nvfp4_encode"] = nvfp4Encode }

func nvfp4Encode(ctx *build.Context) {
	for _, element := range []string{"BF16", "F16", "F32"} {
		for _, kind := range encodeKinds {
			(&encode512{ctx: ctx, element: element, bf16: element == "BF16", encodeKind: kind}).function()
		}
	}
}

// encodeChunk is package kernels' nvfp4Chunk.
const encodeChunk = 256

// selectBits is VPTERNLOG's truth table for mask ? dst : other, with the mask
// first and other second.
const selectBits = operand.U8(0xe4)

// encodeKind is what a function may take for granted of its run.
type encodeKind struct {
	name string
	tame bool // no element is 7 steps or more
	calm bool // none can be further off than the worst so far
}

var encodeKinds = []encodeKind{{}, {name: "Tame", tame: true}, {name: "Calm", tame: true, calm: true}}

// encode512 is nvfp4Encode with 512-bit vectors. A vector of f32 holds the even
// or the odd elements of two blocks, so that the two codes of a byte come from
// the same lane of two vectors; four blocks fill a vector with codes and error
// bins, four bits each.
type encode512 struct {
	ctx     *build.Context
	element string
	bf16    bool
	encodeKind

	src, scales, steps, buf reg.GPVirtual

	magnitudes, high, one, whole, magic, abs, coarse, nibble reg.VecVirtual
	six, ones, sign, oddBytes, outer, up126, down24          operand.Mem // constants that are broadcast where they are used
	w2, q2, wq, e2, worst, far                               reg.VecVirtual
	evens, odds                                              reg.VecVirtual // f32 sources: where elements come from
	second                                                   reg.OpmaskVirtual
}

func (g *encode512) function() {
	ctx := g.ctx
	name := "nvfp4Encode" + g.encodeKind.name + g.element + "AVX512"
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(g.doc(name)...)
	ctx.SignatureExpr("func(fours int, src, scales *byte, steps *float32, codes, bins *byte, lanes *float64)")
	fours := ctx.Load(ctx.Param("fours"), ctx.GP64()).(reg.GPVirtual)
	g.src = ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	g.scales = ctx.Load(ctx.Param("scales"), ctx.GP64()).(reg.GPVirtual)
	g.steps = ctx.Load(ctx.Param("steps"), ctx.GP64()).(reg.GPVirtual)
	codes := ctx.Load(ctx.Param("codes"), ctx.GP64()).(reg.GPVirtual)
	bins := ctx.Load(ctx.Param("bins"), ctx.GP64()).(reg.GPVirtual)
	lanes := ctx.Load(ctx.Param("lanes"), ctx.GP64()).(reg.GPVirtual)

	// A vector is stored and its upper half loaded where that is widened:
	// that leaves the shuffle unit to others.
	g.buf = ctx.GP64()
	ctx.LEAQ(ctx.AllocLocal(256+64), g.buf)
	ctx.ADDQ(operand.U8(63), g.buf)
	ctx.ANDQ(operand.I8(-64), g.buf)

	g.high = g.constant(0xffff0000)
	if !g.tame {
		g.one = g.constant(0x3f800000)
		g.six = g.memory("nvfp4Six", 0x40c00000)
	}
	g.whole = g.constant(0x4b000000) // 2²³, whose last place is 1
	g.magic = ctx.ZMM()
	ctx.VMOVDQU32(encodeMagic(ctx, name+"Magic", 16), g.magic)
	g.abs = g.constant(0x7fffffff)
	g.coarse = g.constant(0x47000000) // 2¹⁵, whose last place is 2⁻⁸
	g.nibble = g.constant(0x0000000f)
	g.ones = g.memory("nvfp4Ones", 0x00010001)
	g.sign = g.memory("nvfp4Sign", 0x00080008)
	g.oddBytes = g.memory("nvfp4OddBytes", 0xff00ff00)
	g.outer = g.memory("nvfp4Outer", 0xf0f00f0f)
	if g.element == "F32" {
		g.up126, g.down24 = g.memory("nvfp4Up126", 0x7e800000), g.memory("nvfp4Down24", 0x33800000)
	}
	if g.bf16 {
		g.magnitudes = g.constant(0x7fff7fff)
	} else {
		g.evens, g.odds = ctx.ZMM(), ctx.ZMM()
		ctx.VMOVDQU32(bytes512(ctx, name+"Evens", func(i int) byte { return byte(i / 2 * (1 - min(i%4, 1))) }), g.evens)
		ctx.VMOVDQU32(bytes512(ctx, name+"Odds", func(i int) byte { return byte((i/2 + 1) * (1 - min(i%4, 1))) }), g.odds)
	}
	order := ctx.ZMM()
	ctx.VMOVDQU32(bytes512(ctx, name+"Order", func(i int) byte { return byte(i%16*4 + i/16) }), order)
	g.second = ctx.K()
	k := ctx.GP32()
	ctx.MOVL(operand.U32(0xff00), k)
	ctx.KMOVW(k, g.second)

	sums := []*reg.VecVirtual{&g.w2, &g.q2, &g.wq, &g.e2, &g.worst, &g.far}
	for i, s := range sums {
		*s = ctx.ZMM()
		ctx.VMOVUPD(operand.Mem{Base: lanes, Disp: 64 * i}, *s)
	}

	ctx.Label("four")
	for at := 0; at < 2*g.stride(); at += 64 { // of the next run, which lies behind this one
		ctx.PREFETCHT0(operand.Mem{Base: g.src, Disp: encodeChunk/2*g.stride() + at})
	}
	z0, z := g.pair(0), g.pair(1)
	ctx.VPSLLD(operand.U8(8), z, z)
	ctx.VPTERNLOGD_BCST(selectBits, g.oddBytes, z0, z)
	// A dword now has codes and bins of four elements. Bring the four codes
	// into its lower half and the bins into the upper.
	up, down := ctx.ZMM(), ctx.ZMM()
	ctx.VPSLLD(operand.U8(12), z, up)
	ctx.VPSRLD(operand.U8(12), z, down)
	ctx.VPTERNLOGD(selectBits, g.high, down, up)
	ctx.VPTERNLOGD_BCST(selectBits, g.outer, up, z)
	ctx.VPERMB(z, order, z)
	ctx.VMOVDQU64(z.AsY(), operand.Mem{Base: codes})
	ctx.VEXTRACTI64X4(operand.U8(1), z, operand.Mem{Base: bins})
	ctx.ADDQ(operand.U32(2*g.stride()), g.src)
	ctx.ADDQ(operand.U8(4), g.scales)
	ctx.ADDQ(operand.U8(32), codes)
	ctx.ADDQ(operand.U8(32), bins)
	ctx.DECQ(fours)
	ctx.JNE(operand.LabelRef("four"))

	for i, s := range sums {
		ctx.VMOVUPD(*s, operand.Mem{Base: lanes, Disp: 64 * i})
	}
	ctx.VZEROUPPER()
	ctx.RET()
}

func (k encodeKind) doc(name string) []string {
	doc := []string{
		name + " is nvfp4EncodeRef for fours blocks of four, fours > 0, with every step between",
		"2⁻⁸⁹ and 2¹⁰⁹, of bf16 2¹⁶, and their reciprocals behind the steps. bins gets the error bins of the elements, four bits each in any order, 0 where",
	}
	if k.tame {
		return append(doc, "a bin is ErrorBins-1: then bit 8 or 24 of an entry of lanes.far says that there are such. The run is "+map[bool]string{false: "tame.", true: "calm."}[k.calm])
	}
	return append(doc, "a bin is ErrorBins-1, which lanes.far counts.")
}

// stride is the bytes of two blocks.
func (g *encode512) stride() int {
	if g.element == "F32" {
		return 128
	}
	return 64
}

func (g *encode512) constant(bits uint32) reg.VecVirtual {
	v, r := g.ctx.ZMM(), g.ctx.GP32()
	g.ctx.MOVL(operand.U32(bits), r)
	g.ctx.VPBROADCASTD(r, v)
	return v
}

func (g *encode512) memory(name string, bits uint32) operand.Mem {
	m := g.ctx.StaticGlobal(name + g.encodeKind.name + g.element)
	g.ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	g.ctx.AddDatum(0, operand.U32(bits))
	return m
}

// bytes512 is a vector of constants in memory.
func bytes512(ctx *build.Context, name string, f func(i int) byte) operand.Mem {
	m := ctx.StaticGlobal(name)
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 64 {
		ctx.AddDatum(i, operand.U8(f(i)))
	}
	return m
}

// pair does two blocks and returns in each 16-bit half of a dword, even element
// first, the code in bits 0 to 3 and the error bin in 4 to 7.
func (g *encode512) pair(p int) reg.VecVirtual {
	ctx := g.ctx
	w := [2]reg.VecVirtual{ctx.ZMM(), ctx.ZMM()}
	signs := ctx.ZMM()
	at := operand.Mem{Base: g.src, Disp: p * g.stride()}
	if g.bf16 {
		raw, nonzero := ctx.ZMM(), ctx.K()
		ctx.VMOVDQU32(at, raw)
		ctx.VPTESTMW(g.magnitudes, raw, nonzero)
		// The sign of each word goes to bit 3 of it; a zero has none.
		ctx.VPSRLW_Z(operand.U8(12), raw, nonzero, signs)
		ctx.VPANDD(g.magnitudes, raw, raw)
		ctx.VPSLLD(operand.U8(16), raw, w[0])
		ctx.VPANDD(g.high, raw, w[1])
	} else {
		first, second := ctx.ZMM(), ctx.ZMM()
		if g.element == "F16" {
			ctx.VCVTPH2PS(at, first)
			ctx.VCVTPH2PS(at.Offset(32), second)
		} else {
			ctx.VMOVUPS(at, first)
			ctx.VMOVUPS(at.Offset(64), second)
		}
		ctx.VMOVAPS(g.evens, w[0])
		ctx.VPERMI2PS(second, first, w[0])
		ctx.VMOVAPS(g.odds, w[1])
		ctx.VPERMI2PS(second, first, w[1])
	}
	step, reciprocal := ctx.ZMM(), ctx.ZMM()
	for b := range 2 {
		code := ctx.GP64()
		ctx.MOVBQZX(operand.Mem{Base: g.scales, Disp: 2*p + b}, code)
		for i, v := range []reg.VecVirtual{step, reciprocal} {
			m := operand.Mem{Base: g.steps, Index: code, Scale: 4, Disp: i * encodeReciprocals}
			if b == 0 {
				ctx.VBROADCASTSS(m, v)
			} else {
				ctx.VBROADCASTSS(m, g.second, v)
			}
		}
	}
	var q, fields, sign [2]reg.VecVirtual
	for i := range 2 {
		if !g.bf16 {
			sign[i] = g.signs(w[i], step)
		}
		q[i], fields[i] = g.elements(w[i], step, reciprocal)
		ctx.VMOVAPS(w[i], g.at(2*i))
		ctx.VMOVAPS(q[i], g.at(2*i+1))
	}
	for half := range 2 { // the lower one is the first block
		for i := range 2 {
			g.sum(w[i], q[i], i, half)
		}
	}
	ctx.VPSLLD(operand.U8(16), fields[1], fields[1])
	ctx.VPTERNLOGD(selectBits, g.high, fields[0], fields[1])
	if g.tame {
		ctx.VPORD(fields[1], g.far, g.far)
	} else {
		far := ctx.ZMM()
		ctx.VPSRLD(operand.U8(8), fields[1], far)
		ctx.VPANDD_BCST(g.ones, far, far)
		ctx.VPADDD(far, g.far, g.far)
	}
	if !g.bf16 {
		ctx.VPSLLD(operand.U8(16), sign[1], sign[1])
		ctx.VPORD(sign[0], sign[1], signs)
	}
	ctx.VPTERNLOGD_BCST(selectBits, g.sign, fields[1], signs)
	return signs
}

func (g *encode512) at(i int) operand.Mem { return operand.Mem{Base: g.buf, Disp: 64 * i} }

// signs takes the signs off 16 elements and returns them in bit 3 of each dword,
// none where the quotient of element and step is 0.
func (g *encode512) signs(w, step reg.VecVirtual) reg.VecVirtual {
	ctx := g.ctx
	signs, nonzero := ctx.ZMM(), ctx.K()
	ctx.VMOVDQA32(w, signs)
	ctx.VPANDD(g.abs, w, w)
	if g.element == "F32" {
		// A quotient up to 2⁻¹⁵⁰ rounds to 0. Both products are exact, or the
		// left one is infinite.
		large, least := ctx.ZMM(), ctx.ZMM()
		ctx.VMULPS_BCST(g.up126, w, large)
		ctx.VMULPS_BCST(g.down24, step, least)
		ctx.VCMPPS(greater, least, large, nonzero)
	} else {
		ctx.VPTESTMD(w, w, nonzero) // none is so small
	}
	ctx.VPSRLD_Z(operand.U8(28), signs, nonzero, signs)
	return signs
}

// elements rounds the magnitudes of 16 elements of two blocks. In each dword of
// fields the magnitude of the code is in bits 0 to 2 and the error in units of
// 2⁻⁸, at most 2⁸, in bits 4 to 8; the rest is anything.
func (g *encode512) elements(w, step, reciprocal reg.VecVirtual) (q, fields reg.VecVirtual) {
	ctx := g.ctx
	x, rest, t := ctx.ZMM(), ctx.ZMM(), ctx.ZMM()
	// See encodeMagic and, of the quotient, encodeReciprocals.
	ctx.VMULPS(reciprocal, w, x)
	ctx.VMOVAPS(w, rest)
	ctx.VFNMADD231PS(step, x, rest)
	octave := ctx.ZMM()
	if g.tame {
		ctx.VMOVAPS(w, octave)
		ctx.VFMADD213PS_RZ_SAE(g.whole, reciprocal, octave)
	}
	ctx.VFMADD231PS(reciprocal, rest, x)
	clamped := x
	if !g.tame {
		clamped = ctx.ZMM()
		ctx.VMINPS_BCST(g.six, x, clamped) // 6 where infinity times something made x NaN
		ctx.VADDPS_RZ_SAE(g.whole, clamped, octave)
	}
	ctx.VPERMPS(g.magic, octave, octave)
	ctx.VADDPS(octave, clamped, t)
	v, d := ctx.ZMM(), ctx.ZMM()
	ctx.VSUBPS(octave, t, v)
	ctx.VSUBPS(v, x, d)
	ctx.VANDPS(g.abs, d, d)
	if !g.tame {
		ctx.VMINPS(g.one, d, d) // 1 where it is NaN
	}
	ctx.VADDPS_RZ_SAE(g.coarse, d, d)
	ctx.VPTERNLOGD(selectBits, g.nibble, d, t)
	q = ctx.ZMM()
	ctx.VMULPS(step, v, q)
	return q, t
}

// sum adds eight elements, the lower or upper half of w, to the record.
func (g *encode512) sum(w, q reg.VecVirtual, i, half int) {
	ctx := g.ctx
	w64, q64, e := ctx.ZMM(), ctx.ZMM(), ctx.ZMM()
	if half == 0 {
		ctx.VCVTPS2PD(w.AsY(), w64)
		ctx.VCVTPS2PD(q.AsY(), q64)
	} else {
		ctx.VCVTPS2PD(g.at(2*i).Offset(32), w64)
		ctx.VCVTPS2PD(g.at(2*i+1).Offset(32), q64)
	}
	ctx.VSUBPD(q64, w64, e)
	ctx.VFMADD231PD(w64, w64, g.w2)
	ctx.VFMADD231PD(q64, q64, g.q2)
	ctx.VFMADD231PD(q64, w64, g.wq)
	ctx.VFMADD231PD(e, e, g.e2)
	if !g.calm {
		ctx.VRANGEPD(operand.U8(0xb), e, g.worst, g.worst) // the larger magnitude
	}
}
