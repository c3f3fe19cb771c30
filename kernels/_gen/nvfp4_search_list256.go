package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

func init() { files["nvfp4_search_avx2"] = nvfp4List256 }

// nvfp4List256 is nvfp4List512 with eight lanes.
func nvfp4List256(ctx *build.Context) {
	g := newSearch256(ctx, "nvfp4ListAVX2")
	g.begin("chooses the scales of 8·groups blocks, groups > 0, from a list.")
	groups, candidates, skip, done := g.label("group"), g.label("candidate"), g.label("skip"), g.label("done")

	g.MOVL(operand.Mem{Base: g.args, Disp: searchArgCandidates}, g.total.As32())
	g.Label(groups)
	g.load()
	g.VMOVUPS(g.word(0x7f800000), g.limit)
	g.VMOVUPS(g.word(1), g.t)
	g.VMOVUPS(g.t, g.strict)
	g.XORL(g.index.As32(), g.index.As32())
	g.MOVL(operand.Mem{Base: g.args, Disp: searchArgAscending}, g.until.As32())

	g.Label(candidates)
	g.VMOVUPS(operand.Mem{Base: g.amax}, g.t)
	g.VMULPS(g.candidate(searchArgMultipliers, g.t2), g.t, g.t)
	g.raw()
	g.round()
	g.VMOVUPS(g.largest, g.t)
	g.VFNMADD231PS(g.six, g.scale, g.t)
	g.VPXOR(g.t2, g.t2, g.t2)
	g.VMAXPS(g.t2, g.t, g.t)
	g.VMULPS(g.t, g.t, g.t)
	g.VCMPPS(searchCmpLE, g.limit, g.t, g.t)
	g.VPTEST(g.t, g.t)
	g.JEQ(operand.LabelRef(skip))
	g.reciprocal()
	g.blockError()
	g.VCMPPS(searchCmpLE, g.limit, g.p[0], g.t)
	g.VPSUBD(g.strict, g.p[0], g.p[0])
	g.VBLENDVPS(g.t, g.p[0], g.limit, g.limit)
	g.VBLENDVPS(g.t, g.scale, g.bestScale, g.bestScale)
	g.VBLENDVPS(g.t, g.candidate(searchArgBins, g.t2), g.bestBin, g.bestBin)
	g.Label(skip)
	g.INCQ(g.index)
	g.CMPQ(g.index, g.until)
	g.JB(operand.LabelRef(candidates))

	g.CMPQ(g.index, g.total)
	g.JE(operand.LabelRef(done))
	g.MOVQ(g.total, g.until)
	// From here on equals replace what is not the first: 1 and, where it is
	// the first, −1.
	g.VPCMPEQD(g.arg(searchArgBins, g.t), g.bestBin, g.t)
	g.VPADDD(g.strict, g.t, g.t)
	g.VPADDD(g.t, g.limit, g.limit)
	g.VPXOR(g.t, g.t, g.t)
	g.VMOVUPS(g.t, g.strict)
	g.JMP(operand.LabelRef(candidates))

	g.Label(done)
	g.code(g.bestScale)
	g.bytes(g.t, g.scales)
	g.bytes(g.bestBin, g.choices)
	g.next(groups)
}
