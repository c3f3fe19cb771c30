package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["nvfp4_search_avx512"] = nvfp4List512 }

// nvfp4List512 tries the candidates of a list. Beside the error of the best so
// far stands whether an equal one may replace it: the first candidate wins
// against equals, and of the others the one that comes first in the list. The
// kernel tries the first, then what follows it in the list, then what precedes
// it, from the back, because those clip and are the easier to drop the less
// the best error is.
func nvfp4List512(ctx *build.Context) {
	g := newSearch512(ctx, "nvfp4ListAVX512")
	g.begin("chooses the scales of 16·groups blocks, groups > 0, from a list.")
	limit, bestScale, bestBin, strict := searchZMM(29), searchZMM(30), searchZMM(31), searchZMM(27)
	// limit: a candidate wins whose error is at most that.
	index, until, total := reg.RCX, reg.R11, reg.R12
	groups, candidates, skip, done := g.label("group"), g.label("candidate"), g.label("skip"), g.label("done")

	g.MOVL(g.arg(searchArgCandidates), total.As32())
	g.Label(groups)
	g.load()
	g.VBROADCASTSS(g.word(0x7f800000), limit)
	g.VPBROADCASTD(g.word(1), strict)
	g.XORL(index.As32(), index.As32())
	g.MOVL(g.arg(searchArgAscending), until.As32())

	g.Label(candidates)
	g.VMOVUPS(g.at(g.amax, 0), g.t)
	g.VMULPS_BCST(operand.Mem{Base: g.args, Disp: searchArgMultipliers, Index: index, Scale: 4}, g.t, g.t)
	g.raw()
	g.round()
	// The largest element alone may show that no block can take this one.
	g.VMOVAPS(g.largest, g.t)
	g.VFNMADD231PS_BCST(g.float(6), g.scale, g.t)
	g.VPXORD(g.t2, g.t2, g.t2)
	g.VMAXPS(g.t2, g.t, g.t)
	g.VMULPS(g.t, g.t, g.t)
	g.VCMPPS(searchCmpLE, limit, g.t, reg.K1)
	g.KORTESTW(reg.K1, reg.K1)
	g.JEQ(operand.LabelRef(skip))
	g.reciprocal()
	g.blockError()
	g.VCMPPS(searchCmpLE, limit, g.p[0], reg.K1)
	g.VPSUBD(strict, g.p[0], reg.K1, limit)
	g.VMOVAPS(g.scale, reg.K1, bestScale)
	g.VPBROADCASTD(operand.Mem{Base: g.args, Disp: searchArgBins, Index: index, Scale: 4}, reg.K1, bestBin)
	g.Label(skip)
	g.INCQ(index)
	g.CMPQ(index, until)
	g.JB(operand.LabelRef(candidates))

	g.CMPQ(index, total)
	g.JE(operand.LabelRef(done))
	g.MOVQ(total, until)
	// From here on equals replace what is not the first.
	g.VPCMPD_BCST(operand.U8(4), g.arg(searchArgBins), bestBin, reg.K1)
	g.VPADDD(strict, limit, reg.K1, limit)
	g.VPXORD(strict, strict, strict)
	g.JMP(operand.LabelRef(candidates))

	g.Label(done)
	g.code(bestScale)
	g.VPMOVDB(g.t, g.at(g.scales, 0))
	g.VPMOVDB(bestBin, g.at(g.choices, 0))
	g.next(groups)
}
