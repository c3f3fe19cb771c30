package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["nvfp4_weighted"] = nvfp4Weighted512 }

// nvfp4Weighted512 is bestWeighted with a block a lane, as nvfp4Sweep512 is
// bestFrom. Factors come from memory, sixteen elements of sixteen blocks to a
// group.
func nvfp4Weighted512(ctx *build.Context) {
	g := newSearch512(ctx, "nvfp4WeightedAVX512")
	g.Function(g.name)
	g.Attributes(attr.NOSPLIT)
	g.Pragma("noescape")
	g.SignatureExpr("func(args *uint32, src *byte, amax *uint32, factors *float32, scales, choices *byte, groups int)")
	g.Doc(g.name+" chooses the scales of 16·groups blocks, groups > 0, by weighed errors.", "src and amax are those of nvfp4ChooseRef, args is a nvfp4SearchArgs, factors are tiles of nvfp4Weights.", "See nvfp4ChooseRef.")
	factors := reg.R11
	g.Load(g.Param("args"), g.args)
	g.Load(g.Param("src"), g.src)
	g.Load(g.Param("amax"), g.amax)
	g.Load(g.Param("factors"), factors)
	g.Load(g.Param("scales"), g.scales)
	g.Load(g.Param("choices"), g.choices)
	g.Load(g.Param("groups"), g.groups)
	heaviest, heaviestFactor := g.AllocLocal(64), g.AllocLocal(64)
	factor := func(i int) operand.Mem { return operand.Mem{Base: factors, Disp: 64 * i} }

	best, bestScale, start := searchZMM(29), searchZMM(30), searchZMM(31)
	going, live, steps := reg.K2, reg.K3, reg.RCX
	group, down, up, upFrom, done := g.label("group"), g.label("down"), g.label("up"), g.label("upFrom"), g.label("done")
	wins := func(than operand.U8) {
		g.VCMPPS(than, best, g.p[0], going, reg.K1)
		g.VMOVAPS(g.p[0], reg.K1, best)
		g.VMOVAPS(g.scale, reg.K1, bestScale)
	}
	place := func(x reg.VecPhysical) {
		g.VPANDD_BCST(g.word(0x7f800000), x, g.t)
		g.VPMAXUD_BCST(g.float(0x1p-6), g.t, g.t)
	}
	// term adds the square in t with the factor of element i.
	term := func(i int) {
		g.VMULPS(g.t, g.t, g.t)
		if i < 4 {
			g.VMULPS(factor(i), g.t, g.p[i])
			return
		}
		g.VMULPS(factor(i), g.t, g.t)
		g.VADDPS(g.t, g.p[i&3], g.p[i&3])
	}
	terms := func(bounded bool) {
		for i, u := range g.u {
			g.VMOVAPS(g.magic, g.t)
			g.VFMADD231PS_RD_SAE(g.recip, u, g.t)
			if bounded {
				g.VPMINUD(g.t2, g.t, g.t)
			}
			g.VPERMI2PS(g.cellsB, g.cellsA, g.t)
			g.VFNMADD213PS(u, g.scale, g.t)
			term(i)
		}
	}
	weighedError := func() {
		bounded, summed := g.label("bounded"), g.label("error")
		g.VMULPS(g.recip, g.largest, g.t)
		g.VCMPPS_BCST(searchCmpGE, g.float(7.9), g.t, reg.K1)
		g.KORTESTW(reg.K1, reg.K1)
		g.JNE(operand.LabelRef(bounded))
		terms(false)
		g.JMP(operand.LabelRef(summed))
		g.Label(bounded)
		g.VPBROADCASTD(g.word(0x4a00001f), g.t2) // 2²¹ + 31 quarters
		terms(true)
		g.Label(summed)
		g.sum()
	}

	g.Label(group)
	g.load()
	for _, u := range append(g.u[:], g.largest) {
		g.VMINPS_BCST(g.float(0x1p60), u, u)
	}
	// The element that counts most, the first of equals.
	most := g.p[0]
	g.VMOVAPS(g.u[0], g.p[1])
	g.VMOVUPS(factor(0), g.p[2])
	g.VMULPS(g.u[0], g.u[0], most)
	g.VMULPS(g.p[2], most, most)
	for i := 1; i < len(g.u); i++ {
		g.VMULPS(g.u[i], g.u[i], g.t)
		g.VMULPS(factor(i), g.t, g.t)
		g.VCMPPS(searchCmpGT, most, g.t, reg.K1)
		g.VMOVAPS(g.t, reg.K1, most)
		g.VMOVAPS(g.u[i], reg.K1, g.p[1])
		g.VMOVUPS(factor(i), reg.K1, g.p[2])
	}
	g.VMOVUPS(g.p[1], heaviest)
	g.VMOVUPS(g.p[2], heaviestFactor)

	g.VMOVUPS(g.at(g.amax, 0), g.t)
	g.raw()
	g.round()
	g.VMOVAPS(g.scale, start)
	g.VMOVAPS(g.scale, bestScale)
	g.reciprocal()
	weighedError()
	g.VMOVAPS(g.p[0], best)
	g.VCMPPS_BCST(searchCmpGT, g.float(0.25*0x1p-9), g.largest, live)
	g.KNOTW(live, reg.K1)
	g.VBROADCASTSS(g.float(0x1p-9), reg.K1, bestScale)

	g.KMOVW(live, going)
	g.Label(down)
	g.VCMPPS_BCST(searchCmpGT, g.float(0x1p-9), g.scale, going, going)
	g.VPSUBD_BCST(g.word(1), g.scale, g.t)
	place(g.t)
	g.VFNMADD231PS_BCST(g.float(0.125), g.t, going, g.scale)
	g.VMOVUPS(heaviest, g.t)
	g.VFNMADD231PS_BCST(g.float(6), g.scale, g.t)
	g.VPXORD(g.t2, g.t2, g.t2)
	g.VMAXPS(g.t2, g.t, g.t)
	g.VMULPS(g.t, g.t, g.t)
	g.VMULPS(heaviestFactor, g.t, g.t)
	g.VCMPPS(searchCmpLE, best, g.t, going, going)
	g.KORTESTW(going, going)
	g.JEQ(operand.LabelRef(upFrom))
	g.reciprocal()
	weighedError()
	wins(searchCmpLE)
	g.JMP(operand.LabelRef(down))

	g.Label(upFrom)
	g.KMOVW(live, going)
	g.VMOVAPS(start, g.scale)
	g.XORL(steps.As32(), steps.As32())
	g.Label(up)
	g.VCMPPS_BCST(searchCmpLT, g.float(448), g.scale, going, going)
	g.KORTESTW(going, going)
	g.JEQ(operand.LabelRef(done))
	place(g.scale)
	g.VFMADD231PS_BCST(g.float(0.125), g.t, going, g.scale)
	g.reciprocal()
	weighedError()
	wins(searchCmpLT)
	g.INCL(steps.As32())
	g.TESTL(operand.U32(3), steps.As32())
	g.JNE(operand.LabelRef(up))
	// Whether the elements below half a step forbid all that is larger.
	half, zero := g.recip, g.t2
	g.VMULPS_BCST(g.float(0.5), g.scale, half)
	g.VPXORD(zero, zero, zero)
	for i, u := range g.u {
		g.VSUBPS(u, half, g.t)
		g.VMINPS(u, g.t, g.t)
		g.VMAXPS(zero, g.t, g.t)
		term(i)
	}
	g.sum()
	g.VCMPPS(searchCmpLT, best, g.p[0], going, going)
	g.JMP(operand.LabelRef(up))

	g.Label(done)
	g.code(start)
	g.VMOVDQA32(g.t, g.p[0])
	g.code(bestScale)
	g.VPMOVDB(g.t, g.at(g.scales, 0))
	g.VPSUBD(g.p[0], g.t, g.t)
	g.VPADDD_BCST(g.word(8), g.t, g.t)
	g.VPXORD(g.t2, g.t2, g.t2)
	g.VPMAXSD(g.t2, g.t, g.t)
	g.VPMINSD_BCST(g.word(15), g.t, g.t)
	g.VMOVDQU32(g.at(g.amax, 0), g.t2)
	g.VPTESTNMD(g.t2, g.t2, reg.K1)
	g.VPBROADCASTD(g.word(8), reg.K1, g.t)
	g.VPMOVDB(g.t, g.at(g.choices, 0))
	g.ADDQ(operand.U32(1024), factors)
	g.next(group)
}
