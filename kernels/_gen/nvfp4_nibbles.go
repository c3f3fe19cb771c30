package main

import (
	"math/bits"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() {
	files["nvfp4_count_nibbles"] = func(ctx *build.Context) {
		nibbles256(ctx)
		nibbles512(ctx)
	}
}

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
	word := ctx.GP32()
	ctx.MOVL(operand.U32(0x55555555), word)
	ctx.VPBROADCASTD(word, pairs)
	ctx.MOVL(operand.U32(0x33333333), word)
	ctx.VPBROADCASTD(word, fours)

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

// nibbles256 is the same with the counts in memory, and bits of a byte counted
// by looking up its halves.
func nibbles256(ctx *build.Context) {
	table := ctx.StaticGlobal("nibbleBits")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 32 {
		ctx.AddDatum(i, operand.U8(bits.OnesCount(uint(i%16))))
	}
	ctx.Function("countNibblesAVX2")
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc("countNibblesAVX2 adds the nibbles of n times 256 bytes, n > 0, to the counts; see nibbleCounts.")
	ctx.SignatureExpr("func(n int, src *byte, counts *uint64)")
	n := ctx.Load(ctx.Param("n"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	counts := ctx.Load(ctx.Param("counts"), ctx.GP64()).(reg.GPVirtual)
	constant := func(bits uint32) reg.VecVirtual {
		r, x, v := ctx.GP32(), ctx.XMM(), ctx.YMM()
		ctx.MOVL(operand.U32(bits), r)
		ctx.VMOVD(r, x)
		ctx.VPBROADCASTD(x, v)
		return v
	}
	low, lookup, zero := constant(0x0f0f0f0f), ctx.YMM(), constant(0)
	ctx.VMOVDQU(table, lookup)
	ctx.SHLQ(operand.U8(1), n) // 128 bytes at a time
	ctx.Label("loop")
	var v [4]reg.VecVirtual
	for i := range v {
		v[i] = ctx.YMM()
		ctx.VMOVDQU(operand.Mem{Base: src, Disp: 32 * i}, v[i])
	}
	swap := func(a, b reg.VecVirtual, mask uint32, shift uint64) {
		m, up, down := constant(mask), ctx.YMM(), ctx.YMM()
		ctx.VPSRLQ(operand.U8(shift), a, down)
		ctx.VPAND(m, down, down)
		ctx.VPAND(m, a, a)
		ctx.VPAND(m, b, up)
		ctx.VPSLLQ(operand.U8(shift), up, up)
		ctx.VPOR(up, a, a)
		ctx.VPANDN(b, m, b)
		ctx.VPOR(down, b, b)
	}
	swap(v[0], v[1], 0x55555555, 1)
	swap(v[2], v[3], 0x55555555, 1)
	swap(v[0], v[2], 0x33333333, 2)
	swap(v[1], v[3], 0x33333333, 2)
	// count takes those with all bits of s; the sets of the upper two bits are
	// joined with those of the lower two one by one.
	count := func(s int, x reg.VecVirtual) {
		a, b := ctx.YMM(), ctx.YMM()
		ctx.VPAND(low, x, a)
		ctx.VPSRLD(operand.U8(4), x, b)
		ctx.VPAND(low, b, b)
		ctx.VPSHUFB(a, lookup, a)
		ctx.VPSHUFB(b, lookup, b)
		ctx.VPADDB(a, b, a)
		ctx.VPSADBW(zero, a, a)
		m := operand.Mem{Base: counts, Disp: 64 * s}
		ctx.VPADDQ(m, a, a)
		ctx.VMOVDQU(a, m)
	}
	lower, upper := ctx.YMM(), ctx.YMM()
	ctx.VPAND(v[0], v[1], lower)
	ctx.VPAND(v[2], v[3], upper)
	sets := [4][2]reg.VecVirtual{1: {v[0], v[2]}, 2: {v[1], v[3]}, 3: {lower, upper}}
	for hi := range 4 {
		for lo := range 4 {
			switch {
			case hi == 0 && lo == 0:
			case hi == 0:
				count(lo, sets[lo][0])
			case lo == 0:
				count(hi<<2, sets[hi][1])
			default:
				both := ctx.YMM()
				ctx.VPAND(sets[lo][0], sets[hi][1], both)
				count(hi<<2|lo, both)
			}
		}
	}
	ctx.ADDQ(operand.U32(128), src)
	ctx.DECQ(n)
	ctx.JNE(operand.LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}
