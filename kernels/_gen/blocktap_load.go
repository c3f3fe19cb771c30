package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["blocktap_load"] = blockLoad }

// Where the fields of blockRange are; a test holds them against the type.
const (
	rangeLo, rangeHi, rangeAmax, rangeOdd, rangeSize = 0, 4, 8, 12, 16
)

const minusInfF32 = 0xff800000

func blockLoad(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		for _, element := range []string{"BF16", "F16", "F32"} {
			g := &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
			g.loadBlocks(element)
		}
	}
}

// loadBlocks writes the function for one kind of element.
func (g *blockGen) loadBlocks(element string) {
	name := "blockLoad" + element + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is blockLoadRef for groups groups of group elements, both positive, group a multiple of 16. It returns the largest magnitude among all, as f32 bits; where that is of no finite number the ranges mean nothing.")
	g.SignatureExpr("func(src *byte, w *float32, ranges *float32, groups, group int) uint32")
	src := g.Load(g.Param("src"), g.GP64()).(reg.GPVirtual)
	w := g.Load(g.Param("w"), g.GP64()).(reg.GPVirtual)
	ranges := g.Load(g.Param("ranges"), g.GP64()).(reg.GPVirtual)
	groups := g.Load(g.Param("groups"), g.GP64()).(reg.GPVirtual)
	left := g.GP64()
	inf, minusInf, mag := g.all(infF32), g.all(minusInfF32), g.all(absMask)
	worst := g.new()
	g.clear(worst)
	lo, hi := g.new(), g.new()

	g.Label("group")
	g.VMOVUPS(inf, lo)
	g.VMOVUPS(minusInf, hi)
	g.Load(g.Param("group"), left)
	g.Label("elements")
	x := g.new()
	size := 2
	switch element {
	case "BF16":
		g.VPMOVZXWD(operand.Mem{Base: src}, x)
		g.VPSLLD(operand.U8(16), x, x)
	case "F16":
		g.VCVTPH2PS(operand.Mem{Base: src}, x)
	default:
		size = 4
		g.VMOVUPS(operand.Mem{Base: src}, x)
	}
	g.VMOVUPS(x, operand.Mem{Base: w})
	g.VMINPS(x, lo, lo)
	g.VMAXPS(x, hi, hi)
	g.VPMAXSD(g.and(mag, x), worst, worst)
	g.ADDQ(operand.U32(size*g.v.lanes), src)
	g.ADDQ(operand.U32(4*g.v.lanes), w)
	g.SUBQ(operand.U32(g.v.lanes), left)
	g.JNZ(operand.LabelRef("elements"))
	g.storeRange(lo, hi, ranges)
	g.ADDQ(operand.U32(rangeSize), ranges)
	g.DECQ(groups)
	g.JNZ(operand.LabelRef("group"))

	out := g.GP32()
	g.VMOVD(g.largestInt(worst), out)
	g.Store(out, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

// storeRange reduces the lanes: −lo in one half of a vector, hi in the other,
// so that both take the same steps. Adding to 0 makes a −0 +0.
func (g *blockGen) storeRange(lo, hi reg.VecVirtual, dst reg.GPVirtual) {
	var least, most reg.VecVirtual // of what is left in 128 bits
	if g.wide() {
		l, h := g.YMM(), g.YMM()
		g.VEXTRACTF64X4(operand.U8(1), lo, l)
		g.VEXTRACTF64X4(operand.U8(1), hi, h)
		g.VMINPS(lo.AsY(), l, l)
		g.VMAXPS(hi.AsY(), h, h)
		l2, h2 := g.XMM(), g.XMM()
		g.VEXTRACTF128(operand.U8(1), l, l2)
		g.VEXTRACTF128(operand.U8(1), h, h2)
		g.VMINPS(l.AsX(), l2, l2)
		g.VMAXPS(h.AsX(), h2, h2)
		least, most = l2, h2
	} else {
		l2, h2 := g.XMM(), g.XMM()
		g.VEXTRACTF128(operand.U8(1), lo, l2)
		g.VEXTRACTF128(operand.U8(1), hi, h2)
		g.VMINPS(lo.AsX(), l2, l2)
		g.VMAXPS(hi.AsX(), h2, h2)
		least, most = l2, h2
	}
	zero, both, other := g.XMM(), g.YMM(), g.YMM()
	g.VXORPS(zero, zero, zero)
	g.VSUBPS(least, zero, both.AsX())
	g.VINSERTF128(operand.U8(1), most, both, both)
	for _, swap := range []operand.U8{0x4e, 0xb1} {
		g.VPERMILPS(swap, both, other)
		g.VMAXPS(other, both, both)
	}
	high, amax := g.XMM(), g.XMM()
	g.VEXTRACTF128(operand.U8(1), both, high)
	g.VMAXSS(both.AsX(), high, amax)
	g.VADDSS(zero, high, high)
	g.VADDSS(zero, amax, amax)
	g.VSUBSS(both.AsX(), zero, both.AsX())
	g.VMOVSS(both.AsX(), operand.Mem{Base: dst, Disp: rangeLo})
	g.VMOVSS(high, operand.Mem{Base: dst, Disp: rangeHi})
	g.VMOVSS(amax, operand.Mem{Base: dst, Disp: rangeAmax})
	g.MOVL(operand.U32(0), operand.Mem{Base: dst, Disp: rangeOdd})
}

// largestInt is the largest lane, in the lowest one.
func (g *blockGen) largestInt(x reg.VecVirtual) reg.VecVirtual {
	y := x.AsY()
	if g.wide() {
		h := g.YMM()
		g.VEXTRACTI64X4(operand.U8(1), x, h)
		g.VPMAXSD(x.AsY(), h, h)
		y = h
	}
	h, swapped := g.XMM(), g.XMM()
	g.VEXTRACTI128(operand.U8(1), y, h)
	g.VPMAXSD(y.(reg.VecVirtual).AsX(), h, h)
	for _, swap := range []operand.U8{0x4e, 0xb1} {
		g.VPSHUFD(swap, h, swapped)
		g.VPMAXSD(swapped, h, h)
	}
	return h
}
