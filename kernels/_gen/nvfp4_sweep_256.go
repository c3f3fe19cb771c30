package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["nvfp4_sweep_avx2"] = nvfp4Sweep256 }

// nvfp4Sweep256 is nvfp4Sweep512 with eight lanes.
func nvfp4Sweep256(ctx *build.Context) {
	g := newSearch256(ctx, "nvfp4SweepAVX2")
	g.begin("chooses the scales of 8·groups blocks, groups > 0, from all scales.")
	best, bestScale, going := g.limit, g.bestScale, g.bestBin
	live, start, steps := g.strict, g.start, g.index
	group, down, up, upFrom, done := g.label("group"), g.label("down"), g.label("up"), g.label("upFrom"), g.label("done")
	wins := func(than operand.U8) {
		g.VCMPPS(than, best, g.p[0], g.t)
		g.VPAND(going, g.t, g.t)
		g.VBLENDVPS(g.t, g.p[0], best, best)
		g.VBLENDVPS(g.t, g.scale, bestScale, bestScale)
	}
	// place leaves 8 times the distance of E4M3 values at x in t, 0 in lanes
	// that stand still.
	place := func(x reg.VecPhysical) {
		g.VPAND(g.exponent, x, g.t)
		g.VPMAXUD(g.float(0x1p-6), g.t, g.t)
		g.VPAND(going, g.t, g.t)
	}
	// goOn keeps lanes going where also the mask in t is set, else jumps.
	goOn := func(otherwise string) {
		g.VPAND(g.t, going, going)
		g.VPTEST(going, going)
		g.JEQ(operand.LabelRef(otherwise))
	}

	g.Label(group)
	g.load()
	g.VMOVUPS(operand.Mem{Base: g.amax}, g.t)
	g.raw()
	g.round()
	g.VMOVUPS(g.scale, start)
	g.reciprocal()
	g.blockError()
	g.VMOVAPS(g.p[0], best)
	// Where the smallest scale gives codes 0 throughout, it is that.
	g.VMOVUPS(g.largest, going)
	g.VCMPPS(searchCmpGT, g.float(0.25*0x1p-9), going, going)
	g.VMOVUPS(going, live)
	g.VMOVUPS(g.float(0x1p-9), bestScale)
	g.VBLENDVPS(going, g.scale, bestScale, bestScale)

	g.Label(down)
	g.VCMPPS(searchCmpGT, g.float(0x1p-9), g.scale, g.t)
	g.VPAND(g.t, going, going)
	g.VPSUBD(g.word(1), g.scale, g.t)
	place(g.t)
	g.VFNMADD231PS(g.float(0.125), g.t, g.scale)
	g.VMOVUPS(g.largest, g.t)
	g.VFNMADD231PS(g.six, g.scale, g.t)
	g.VPXOR(g.t2, g.t2, g.t2)
	g.VMAXPS(g.t2, g.t, g.t)
	g.VMULPS(g.t, g.t, g.t)
	g.VCMPPS(searchCmpLE, best, g.t, g.t)
	goOn(upFrom)
	g.reciprocal()
	g.blockError()
	wins(searchCmpLE)
	g.JMP(operand.LabelRef(down))

	g.Label(upFrom)
	g.VMOVUPS(live, going)
	g.VMOVUPS(start, g.scale)
	g.XORL(steps.As32(), steps.As32())
	g.Label(up)
	g.VCMPPS(searchCmpLT, g.float(448), g.scale, g.t)
	goOn(done)
	place(g.scale)
	g.VFMADD231PS(g.float(0.125), g.t, g.scale)
	g.reciprocal()
	g.blockError()
	wins(searchCmpLT)
	g.INCL(steps.As32())
	g.TESTL(operand.U32(3), steps.As32())
	g.JNE(operand.LabelRef(up))
	// Whether the elements below half a step forbid all that is larger.
	half, zero := g.recip, g.t2
	g.VMULPS(g.float(0.5), g.scale, half)
	g.VPXOR(zero, zero, zero)
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
	g.VCMPPS(searchCmpLT, best, g.p[0], g.t)
	goOn(done)
	g.JMP(operand.LabelRef(up))

	g.Label(done)
	g.VMOVUPS(start, g.scale)
	g.code(g.scale)
	g.VMOVAPS(g.t, g.p[0])
	g.code(bestScale)
	g.VPSUBD(g.p[0], g.t, g.p[0])
	g.bytes(g.t, g.scales)
	g.VPADDD(g.word(8), g.p[0], g.p[0])
	g.VPXOR(g.t, g.t, g.t)
	g.VPMAXSD(g.t, g.p[0], g.p[0])
	g.VPMINSD(g.word(15), g.p[0], g.p[0])
	g.VPCMPEQD(operand.Mem{Base: g.amax}, g.t, g.t)
	g.VBLENDVPS(g.t, g.word(8), g.p[0], g.p[0])
	g.bytes(g.p[0], g.choices)
	g.next(group)
}
