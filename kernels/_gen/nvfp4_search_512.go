package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The searches for NVFP4 block scales take one block a lane, so that sixteen
// blocks try a candidate each at once and no sum runs across lanes.

// Where the fields of nvfp4SearchArgs are; a test holds them against the type.
const (
	searchArgElement     = 0
	searchArgConvention  = 4
	searchArgUnit        = 8
	searchArgDivisor     = 12
	searchArgFactor      = 16
	searchArgDivisor2    = 20
	searchArgZeroScale   = 24
	searchArgAscending   = 28
	searchArgCandidates  = 32
	searchArgMultipliers = 36
	searchArgBins        = searchArgMultipliers + 4*16
)

// Values of the fields element and convention.
const (
	searchBF16, searchF16                              = 1, 2
	searchModelOpt, searchStatic, searchCT32, searchCT = 0, 1, 2, 3
)

// Comparisons.
const (
	searchCmpEQ = operand.U8(0)
	searchCmpLT = operand.U8(1)
	searchCmpLE = operand.U8(2)
	searchCmpGE = operand.U8(13)
	searchCmpGT = operand.U8(14)
)

const nvfp4SearchSignature = "func(args *uint32, src *byte, amax *uint32, scales, choices *byte, groups int)"

// search512 writes one search for AVX-512. Registers that live through a
// group of sixteen blocks:
type search512 struct {
	*build.Context
	name   string
	labels int

	u              [16]reg.VecPhysical // magnitudes in units of weight_scale_2
	cellsA, cellsB reg.VecPhysical     // what a quarter rounds to
	magic          reg.VecPhysical     // 2²¹, whose last place is a quarter
	recip, scale   reg.VecPhysical     // of the candidate
	p              [4]reg.VecPhysical
	t, t2          reg.VecPhysical
	largest        reg.VecPhysical // of u

	args, src, amax, scales, choices, groups reg.GPPhysical
	consts                                   map[string]operand.Mem
}

func newSearch512(ctx *build.Context, name string) *search512 {
	g := &search512{Context: ctx, name: name, consts: map[string]operand.Mem{}}
	for i := range g.u {
		g.u[i] = searchZMM(i)
	}
	g.cellsA, g.cellsB, g.magic, g.recip, g.scale = searchZMM(16), searchZMM(17), searchZMM(18), searchZMM(19), searchZMM(20)
	for i := range g.p {
		g.p[i] = searchZMM(21 + i)
	}
	g.t, g.t2, g.largest = searchZMM(25), searchZMM(26), searchZMM(28)
	g.args, g.src, g.amax, g.scales, g.choices, g.groups = reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.R9, reg.R10
	return g
}

func searchZMM(i int) reg.VecPhysical {
	return []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}[i]
}

// label makes a name unique in the file.
func (g *search512) label(what string) string {
	g.labels++
	return fmt.Sprintf("%s%d", what, g.labels)
}

// table is a constant of 32-bit words in memory.
func (g *search512) table(what string, words []uint32) operand.Mem {
	if m, ok := g.consts[what]; ok {
		return m
	}
	m := g.StaticGlobal(g.name + "_" + what)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, w := range words {
		g.AddDatum(4*i, operand.U32(w))
	}
	g.consts[what] = m
	return m
}

// word is a constant to broadcast.
func (g *search512) word(w uint32) operand.Mem {
	return g.table(fmt.Sprintf("w%08x", w), []uint32{w})
}

func (g *search512) float(f float32) operand.Mem { return g.word(math.Float32bits(f)) }

func (g *search512) arg(offset int) operand.Mem { return operand.Mem{Base: g.args, Disp: offset} }

// begin loads the arguments, end returns.
func (g *search512) begin(doc string) {
	g.Function(g.name)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	g.SignatureExpr(nvfp4SearchSignature)
	g.Doc(g.name+" "+doc, "src and amax are those of nvfp4ChooseRef, args is a nvfp4SearchArgs.", "See nvfp4ChooseRef.")
	g.Load(g.Param("args"), g.args)
	g.Load(g.Param("src"), g.src)
	g.Load(g.Param("amax"), g.amax)
	g.Load(g.Param("scales"), g.scales)
	g.Load(g.Param("choices"), g.choices)
	g.Load(g.Param("groups"), g.groups)
}

// load reads the next sixteen blocks into u and moves src on; then it loads
// the constants.
func (g *search512) load() {
	f16, f32, done := g.label("f16"), g.label("f32"), g.label("loaded")
	g.CMPL(g.arg(searchArgElement), operand.U8(searchF16))
	g.JE(operand.LabelRef(f16))
	g.JA(operand.LabelRef(f32))

	rows := g.rowRegisters()
	for i, r := range rows {
		g.VMOVDQU32(g.at(g.src, 64*i), r)
	}
	for k, c := range g.transpose(rows) {
		g.VPSLLD(operand.U8(16), c, g.u[2*k])
		g.VPANDD_BCST(g.word(0x7fffffff), g.u[2*k], g.u[2*k])
		g.VPANDD_BCST(g.word(0x7fff0000), c, g.u[2*k+1])
	}
	g.ADDQ(operand.U32(512), g.src)
	g.JMP(operand.LabelRef(done))

	g.Label(f16)
	for half := range 2 {
		rows := g.rowRegisters()
		for i, r := range rows {
			g.VMOVDQU32(g.at(g.src, 64*i+16*half), r.AsX())
			g.VINSERTI32X4(operand.U8(1), g.at(g.src, 64*i+32+16*half), r.AsY(), r.AsY())
			g.VCVTPH2PS(r.AsY(), r)
		}
		g.magnitudes(half, rows)
	}
	g.ADDQ(operand.U32(512), g.src)
	g.JMP(operand.LabelRef(done))

	g.Label(f32)
	for half := range 2 {
		rows := g.rowRegisters()
		for i, r := range rows {
			g.VMOVDQU32(g.at(g.src, 128*i+32*half), r.AsY())
			g.VINSERTI64X4(operand.U8(1), g.at(g.src, 128*i+64+32*half), r, r)
		}
		g.magnitudes(half, rows)
	}
	g.ADDQ(operand.U32(1024), g.src)

	g.Label(done)
	for _, u := range g.u {
		g.VMULPS_BCST(g.arg(searchArgUnit), u, u)
	}
	g.VMOVUPS(g.at(g.amax, 0), g.largest)
	g.VMULPS_BCST(g.arg(searchArgUnit), g.largest, g.largest)
	cells := searchCells()
	g.VMOVUPS(g.table("cellsA", cells[:16]), g.cellsA)
	g.VMOVUPS(g.table("cellsB", cells[16:]), g.cellsB)
	g.VBROADCASTSS(g.float(0x1p21), g.magic)
}

// magnitudes takes eight columns of f32.
func (g *search512) magnitudes(half int, rows []reg.VecPhysical) {
	for k, c := range g.transpose(rows) {
		g.VPANDD_BCST(g.word(0x7fffffff), c, g.u[8*half+k])
	}
}

func (g *search512) at(base reg.GPPhysical, disp int) operand.Mem {
	return operand.Mem{Base: base, Disp: disp}
}

func (g *search512) rowRegisters() []reg.VecPhysical {
	rows := make([]reg.VecPhysical, 8)
	for i := range rows {
		rows[i] = searchZMM(16 + i)
	}
	return rows
}

// transpose takes registers of two rows of eight words each and gives one of
// sixteen rows for each column. Each of three stages moves one bit of the row
// from the register's number to the lane, and one of the column the other way.
func (g *search512) transpose(rows []reg.VecPhysical) []reg.VecPhysical {
	free := searchZMM(24)
	var index [3][2]reg.VecPhysical
	for stage := range index {
		for bit := range index[stage] {
			words := make([]uint32, 16)
			for l := range words {
				b3, b2, b1, b0 := uint32(l>>3), uint32(l>>2&1), uint32(l>>1&1), uint32(l&1)
				switch stage {
				case 0: // (r0 k2 k1 k0) and r3 give (r3 r0 k1 k0)
					words[l] = b3<<4 | b2<<3 | uint32(bit)<<2 | b1<<1 | b0
				case 1: // (r3 r0 k1 k0) and r2 give (r3 r2 r0 k0)
					words[l] = b2<<4 | b3<<3 | b1<<2 | uint32(bit)<<1 | b0
				default: // (r3 r2 r0 k0) and r1 give (r3 r2 r1 r0)
					words[l] = b1<<4 | b3<<3 | b2<<2 | b0<<1 | uint32(bit)
				}
			}
			index[stage][bit] = searchZMM(25 + 2*stage + bit)
			g.VMOVDQU32(g.table(fmt.Sprintf("lanes%d%d", stage, bit), words), index[stage][bit])
		}
	}
	// regs is indexed by the bits of the row and of the column that are in the
	// register's number: r3 r2 r1, then r2 r1 k2, then r1 k2 k1, then k2 k1 k0.
	regs := rows
	for stage := range index {
		out := make([]reg.VecPhysical, 8)
		for i := range 4 {
			x, y := regs[i], regs[i+4]
			g.VMOVDQA32(x, free)
			g.VPERMT2D(y, index[stage][0], x)
			g.VPERMT2D(y, index[stage][1], free)
			out[2*i], out[2*i+1], free = x, free, y
		}
		regs = out
	}
	return regs
}

// searchCells are the E2M1 values that magnitudes in [i/4, (i+1)/4) round to.
func searchCells() []uint32 {
	cells := make([]uint32, 32)
	for i := range cells {
		var v float32
		for _, b := range []struct {
			quarters int
			value    float32
		}{{1, 0.5}, {3, 1}, {5, 1.5}, {7, 2}, {10, 3}, {14, 4}, {20, 6}} {
			if i >= b.quarters {
				v = b.value
			}
		}
		cells[i] = math.Float32bits(v)
	}
	return cells
}

// round makes the raw scales in t into scale, an E4M3 value that is not 0.
func (g *search512) round() {
	// The sum with a number whose last place is that of E4M3 rounds.
	g.VMINPS_BCST(g.float(448), g.t, g.t)
	g.VPANDD_BCST(g.word(0x7f800000), g.t, g.t2)
	g.VPMAXUD_BCST(g.float(0x1p-6), g.t2, g.t2)
	g.VPADDD_BCST(g.word(20<<23), g.t2, g.t2)
	g.VADDPS(g.t2, g.t, g.t)
	g.VSUBPS(g.t2, g.t, g.scale)
	g.VPTESTNMD(g.scale, g.scale, reg.K1)
	g.VBROADCASTSS(g.arg(searchArgZeroScale), reg.K1, g.scale)
}

// reciprocal makes recip from scale, whose mantissa has three bits.
func (g *search512) reciprocal() {
	words := make([]uint32, 16)
	for i := range words {
		words[i] = math.Float32bits(1/(1+float32(i&7)/8)) + 127<<23
	}
	g.VPSRLD(operand.U8(20), g.scale, g.t)
	g.VPERMPS(g.table("recips", words), g.t, g.recip)
	g.VPANDD_BCST(g.word(0x7f800000), g.scale, g.t)
	g.VPSUBD(g.t, g.recip, g.recip)
}

// raw makes the raw scales in t from block maxima in t.
func (g *search512) raw() {
	static, ct, ct32, done := g.label("static"), g.label("ct"), g.label("ct32"), g.label("raw")
	g.VDIVPS_BCST(g.arg(searchArgDivisor), g.t, g.t)
	g.CMPL(g.arg(searchArgConvention), operand.U8(searchCT32))
	g.JE(operand.LabelRef(ct32))
	g.JA(operand.LabelRef(ct))
	g.VPTESTNMD(g.t, g.t, reg.K1)
	g.VBROADCASTSS(g.float(1), reg.K1, g.t)
	g.CMPL(g.arg(searchArgConvention), operand.U8(searchStatic))
	g.JE(operand.LabelRef(static))
	g.JMP(operand.LabelRef(done))

	g.Label(static)
	g.VMULPS_BCST(g.arg(searchArgFactor), g.t, g.t)
	g.VDIVPS_BCST(g.arg(searchArgDivisor2), g.t, g.t)
	g.JMP(operand.LabelRef(done))

	g.Label(ct)
	g.VPSRLD(operand.U8(16), g.t, g.t2)
	g.VPANDD_BCST(g.word(1), g.t2, g.t2)
	g.VPADDD(g.t2, g.t, g.t)
	g.VPADDD_BCST(g.word(0x7fff), g.t, g.t)
	g.VPANDD_BCST(g.word(0xffff0000), g.t, g.t)
	g.Label(ct32)
	g.VMULPS_BCST(g.arg(searchArgFactor), g.t, g.t)
	g.Label(done)
}

// blockError leaves the errors under scale in p[0]. Where no element is above
// 7.9 steps the quarters need no bound.
func (g *search512) blockError() {
	bounded, done := g.label("bounded"), g.label("error")
	g.VMULPS(g.recip, g.largest, g.t)
	g.VCMPPS_BCST(searchCmpGE, g.float(7.9), g.t, reg.K1)
	g.KORTESTW(reg.K1, reg.K1)
	g.JNE(operand.LabelRef(bounded))
	g.terms(false)
	g.JMP(operand.LabelRef(done))
	g.Label(bounded)
	g.VPBROADCASTD(g.word(math.Float32bits(0x1p21)+31), g.t2)
	g.terms(true)
	g.Label(done)
	g.sum()
}

// sum leaves the sum of p in p[0].
func (g *search512) sum() {
	g.VADDPS(g.p[1], g.p[0], g.p[0])
	g.VADDPS(g.p[3], g.p[2], g.p[2])
	g.VADDPS(g.p[2], g.p[0], g.p[0])
}

func (g *search512) terms(bounded bool) {
	for i, u := range g.u {
		g.VMOVAPS(g.magic, g.t)
		g.VFMADD231PS_RD_SAE(g.recip, u, g.t)
		if bounded {
			g.VPMINUD(g.t2, g.t, g.t)
		}
		g.VPERMI2PS(g.cellsB, g.cellsA, g.t)
		g.VFNMADD213PS(u, g.scale, g.t)
		if i < 4 {
			g.VMULPS(g.t, g.t, g.p[i])
			continue
		}
		g.VMULPS(g.t, g.t, g.t)
		g.VADDPS(g.t, g.p[i&3], g.p[i&3])
	}
}

// code leaves the E4M3 codes of scales s in t.
func (g *search512) code(s reg.VecPhysical) {
	g.VPSRLD(operand.U8(20), s, g.t)
	g.VPSUBD_BCST(g.word((127-7)<<3), g.t, g.t)
	g.VCMPPS_BCST(searchCmpLT, g.float(0x1p-6), s, reg.K1)
	g.VMULPS_BCST(g.float(0x1p9), s, g.t2)
	g.VCVTPS2DQ(g.t2, reg.K1, g.t)
}

// next moves on to the next group and returns when there is none.
func (g *search512) next(loop string) {
	g.ADDQ(operand.U8(64), g.amax)
	g.ADDQ(operand.U8(16), g.scales)
	g.ADDQ(operand.U8(16), g.choices)
	g.DECQ(g.groups)
	g.JNE(operand.LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}
