package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["nvfp4_count_nibbles"] = func(ctx *build.Context) { nibbles512(ctx) } }

// nibbles512 counts nibbles by their bits: four vectors of nibbles are turned
// into four vectors of first, second, third and fourth bits, and for each set of
// bits the nibbles that have all of them are counted.
func nibbles512(ctx *build.Context) {
	ctx.Function("countNibblesAVX512")
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc("countNibblesAVX512 adds the nibbles of n times 256 bytes, n > 0, to the counts; see nibbleCounts.")
	ctx.SignatureExpr("func(n int, src *byte, counts *uint64)")
	n := ctx.Load(ctx.Param("n"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	counts := ctx.Load(ctx.Param("counts"), ctx.GP64()).(reg.GPVirtual)
	var sums [16]reg.VecVirtual
	for s := 1; s < 16; s++ {
		sums[s] = ctx.ZMM()
		ctx.VMOVDQU64(operand.Mem{Base: counts, Disp: 64 * s}, sums[s])
	}
	pairs, fours := ctx.ZMM(), ctx.ZMM()
	bits := ctx.GP32()
	ctx.MOVL(operand.U32(0x55555555), bits)
	ctx.VPBROADCASTD(bits, pairs)
	ctx.MOVL(operand.U32(0x33333333), bits)
	ctx.VPBROADCASTD(bits, fours)

	ctx.Label("loop")
	var v [4]reg.VecVirtual
	for i := range v {
		v[i] = ctx.ZMM()
		ctx.VMOVDQU64(operand.Mem{Base: src, Disp: 64 * i}, v[i])
	}
	// swap exchanges the bits of a that are not in the mask with those of b
	// that are, shift places apart.
	swap := func(a, b reg.VecVirtual, mask reg.VecVirtual, shift uint64) {
		up, down := ctx.ZMM(), ctx.ZMM()
		ctx.VPSLLQ(operand.U8(shift), b, up)
		ctx.VPSRLQ(operand.U8(shift), a, down)
		ctx.VPTERNLOGD(selectBits, mask, up, a)
		ctx.VPTERNLOGD(selectBits, mask, b, down)
		ctx.VMOVDQA64(down, b)
	}
	swap(v[0], v[1], pairs, 1)
	swap(v[2], v[3], pairs, 1)
	swap(v[0], v[2], fours, 2)
	swap(v[1], v[3], fours, 2)
	all := [16]reg.VecVirtual{1: v[0], 2: v[1], 4: v[2], 8: v[3]}
	for s := 1; s < 16; s++ {
		if all[s] == nil {
			low := s & -s
			all[s] = ctx.ZMM()
			ctx.VPANDD(all[low], all[s-low], all[s])
		}
		count := ctx.ZMM()
		ctx.VPOPCNTQ(all[s], count)
		ctx.VPADDQ(count, sums[s], sums[s])
	}
	ctx.ADDQ(operand.U32(256), src)
	ctx.DECQ(n)
	ctx.JNE(operand.LabelRef("loop"))
	for s := 1; s < 16; s++ {
		ctx.VMOVDQU64(sums[s], operand.Mem{Base: counts, Disp: 64 * s})
	}
	ctx.VZEROUPPER()
	ctx.RET()
}
