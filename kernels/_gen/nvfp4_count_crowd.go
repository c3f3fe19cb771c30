package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What crowded and crowdedMass write looks at one block at a time, of those few
// that are clipped in more than one element. Every set uses it.

// aboveLimit loads the magnitudes of a block and gives masks of those above its
// limit; there are two vectors of f32 and one of 16-bit words.
func aboveLimit(ctx *build.Context, size int, mask reg.VecVirtual, src, c, block reg.GPVirtual) (x, above []reg.VecVirtual) {
	at, limit := ctx.GP64(), ctx.YMM()
	ctx.MOVQ(block, at)
	ctx.SHLQ(operand.U8(map[int]int{2: 5, 4: 6}[size]), at)
	if size == 2 {
		ctx.VPBROADCASTW(operand.Mem{Base: c, Index: block, Scale: 4, Disp: clipLimits + 2}, limit)
	} else {
		ctx.VPBROADCASTD(operand.Mem{Base: c, Index: block, Scale: 4, Disp: clipLimits}, limit)
	}
	for disp := 0; disp < 16*size; disp += 32 {
		v, m := ctx.YMM(), ctx.YMM()
		ctx.VPAND(operand.Mem{Base: src, Index: at, Scale: 1, Disp: disp}, mask, v)
		if size == 2 {
			ctx.VPCMPGTW(limit, v, m)
		} else {
			ctx.VPCMPGTD(limit, v, m)
		}
		x, above = append(x, v), append(above, m)
	}
	return x, above
}

func crowded(ctx *build.Context, name string, size int) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name+" lists in crowded of c those blocks in dense of c, 64 a word, words > 0, that have more than one element",
		"above the limit, and returns how many. Of 16-bit elements the limits are in the upper halves.")
	ctx.SignatureExpr("func(words int, src *byte, c *uint32) (n int)")
	words := ctx.Load(ctx.Param("words"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	c := ctx.Load(ctx.Param("c"), ctx.GP64()).(reg.GPVirtual)
	mask := magnitudes(ctx, ymm, size)
	bitsAt, list, base, n := ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.LEAQ(operand.Mem{Base: c, Disp: clipDense}, bitsAt)
	ctx.LEAQ(operand.Mem{Base: c, Disp: clipCrowded}, list)
	ctx.XORQ(base, base)
	ctx.XORQ(n, n)
	ctx.Label("word")
	left := ctx.GP64()
	ctx.MOVQ(operand.Mem{Base: bitsAt}, left)
	ctx.TESTQ(left, left)
	ctx.JEQ(operand.LabelRef("next"))
	ctx.Label("block")
	block, above := ctx.GP64(), ctx.GP32()
	ctx.BSFQ(left, block)
	ctx.BLSRQ(left, left)
	ctx.ADDQ(base, block)
	_, masks := aboveLimit(ctx, size, mask, src, c, block)
	if size == 4 {
		ctx.VPACKSSDW(masks[1], masks[0], masks[0])
	}
	// Two bits an element. The block is listed at once, and again overwritten
	// where it does not belong there.
	ctx.VPMOVMSKB(masks[0], above)
	ctx.MOVB(block.As8(), operand.Mem{Base: list, Index: n, Scale: 1})
	ctx.POPCNTL(above, above)
	ctx.SHRL(operand.U8(2), above)
	ctx.NEGL(above) // carry where there are two or more
	ctx.ADCQ(operand.U8(0), n)
	ctx.TESTQ(left, left)
	ctx.JNE(operand.LabelRef("block"))
	ctx.Label("next")
	ctx.ADDQ(operand.U8(8), bitsAt)
	ctx.ADDQ(operand.U8(64), base)
	ctx.DECQ(words)
	ctx.JNE(operand.LabelRef("word"))
	ctx.Store(n, ctx.ReturnIndex(0))
	ctx.VZEROUPPER()
	ctx.RET()
}

// crowdedMass sums squares: even and odd elements of f64 in eight lanes, then
// the lanes.
func crowdedMass(ctx *build.Context, name string, size int) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " puts massAbove of the first n blocks in crowded of c into mass, n > 0.")
	ctx.SignatureExpr("func(n int, src *byte, c *uint32)")
	n := ctx.Load(ctx.Param("n"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	c := ctx.Load(ctx.Param("c"), ctx.GP64()).(reg.GPVirtual)
	mask, high := magnitudes(ctx, ymm, size), ctx.YMM()
	ctx.VPCMPEQD(high, high, high)
	ctx.VPSLLD(operand.U8(16), high, high)
	list := ctx.GP64()
	ctx.LEAQ(operand.Mem{Base: c, Disp: clipCrowded}, list)
	ctx.Label("loop")
	block := ctx.GP64()
	ctx.MOVBQZX(operand.Mem{Base: list}, block)
	x, above := aboveLimit(ctx, size, mask, src, c, block)
	for i := range x {
		ctx.VPAND(above[i], x[i], x[i])
	}
	even, odd := ctx.YMM(), ctx.YMM()
	if size == 2 {
		ctx.VPSLLD(operand.U8(16), x[0], even)
		ctx.VPAND(high, x[0], odd)
	} else {
		ctx.VSHUFPS(operand.U8(0x88), x[1], x[0], even)
		ctx.VSHUFPS(operand.U8(0xdd), x[1], x[0], odd)
		ctx.VPERMPD(operand.U8(0xd8), even, even)
		ctx.VPERMPD(operand.U8(0xd8), odd, odd)
	}
	var sums [2]reg.VecVirtual
	for half := range sums {
		sums[half] = ctx.YMM()
		for i, v := range []reg.VecVirtual{even, odd} {
			w := ctx.YMM()
			if half == 1 {
				upper := ctx.XMM()
				ctx.VEXTRACTI128(operand.U8(1), v, upper)
				ctx.VCVTPS2PD(upper, w)
			} else {
				ctx.VCVTPS2PD(v.AsX(), w)
			}
			if i == 0 {
				ctx.VMULPD(w, w, sums[half])
			} else {
				ctx.VFMADD231PD(w, w, sums[half])
			}
		}
	}
	ctx.VADDPD(sums[1], sums[0], sums[0])
	a, b := ctx.XMM(), ctx.XMM()
	ctx.VEXTRACTF128(operand.U8(1), sums[0], a)
	ctx.VADDPD(a, sums[0].AsX(), a)
	ctx.VPERMILPD(operand.U8(1), a, b)
	ctx.VADDSD(b, a, a)
	ctx.VMOVSD(a, operand.Mem{Base: c, Index: block, Scale: 8, Disp: clipMass})
	ctx.INCQ(list)
	ctx.DECQ(n)
	ctx.JNE(operand.LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}
