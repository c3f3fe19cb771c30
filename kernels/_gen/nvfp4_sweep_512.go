package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["nvfp4_sweep_avx512"] = nvfp4Sweep512 }

// nvfp4Sweep512 is bestFrom with a block a lane: every lane walks from its own
// scale, until none has anything left to try.
func nvfp4Sweep512(ctx *build.Context) {
	g := newSearch512(ctx, "nvfp4SweepAVX512")
	g.begin("chooses the scales of 16·groups blocks, groups > 0, from all scales.")
	best, bestScale, start := searchZMM(29), searchZMM(30), searchZMM(31)
	going, live, steps := reg.K2, reg.K3, reg.RCX
	group, down, up, upFrom, done := g.label("group"), g.label("down"), g.label("up"), g.label("upFrom"), g.label("done")
	wins := func(than operand.U8) {
		g.VCMPPS(than, best, g.p[0], going, reg.K1)
		g.VMOVAPS(g.p[0], reg.K1, best)
		g.VMOVAPS(g.scale, reg.K1, bestScale)
	}
	// place leaves an eighth of the power of two at or below x, the distance of
	// E4M3 values there, times 8 in t.
	place := func(x reg.VecPhysical) {
		g.VPANDD_BCST(g.word(0x7f800000), x, g.t)
		g.VPMAXUD_BCST(g.float(0x1p-6), g.t, g.t)
	}

	g.Label(group)
	g.load()
	g.VMOVUPS(g.at(g.amax, 0), g.t)
	g.raw()
	g.round()
	g.VMOVAPS(g.scale, start)
	g.VMOVAPS(g.scale, bestScale)
	g.reciprocal()
	g.blockError()
	g.VMOVAPS(g.p[0], best)
	// Where the smallest scale gives codes 0 throughout, it is that.
	g.VCMPPS_BCST(searchCmpGT, g.float(0.25*0x1p-9), g.largest, live)
	g.KNOTW(live, reg.K1)
	g.VBROADCASTSS(g.float(0x1p-9), reg.K1, bestScale)

	g.KMOVW(live, going)
	g.Label(down)
	g.VCMPPS_BCST(searchCmpGT, g.float(0x1p-9), g.scale, going, going)
	g.VPSUBD_BCST(g.word(1), g.scale, g.t)
	place(g.t)
	g.VFNMADD231PS_BCST(g.float(0.125), g.t, going, g.scale)
	g.VMOVAPS(g.largest, g.t)
	g.VFNMADD231PS_BCST(g.float(6), g.scale, g.t)
	g.VPXORD(g.t2, g.t2, g.t2)
	g.VMAXPS(g.t2, g.t, g.t)
	g.VMULPS(g.t, g.t, g.t)
	g.VCMPPS(searchCmpLE, best, g.t, going, going)
	g.KORTESTW(going, going)
	g.JEQ(operand.LabelRef(upFrom))
	g.reciprocal()
	g.blockError()
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
	g.blockError()
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
		if i < 4 {
			g.VMULPS(g.t, g.t, g.p[i])
			continue
		}
		g.VMULPS(g.t, g.t, g.t)
		g.VADDPS(g.t, g.p[i&3], g.p[i&3])
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
	g.next(group)
}
