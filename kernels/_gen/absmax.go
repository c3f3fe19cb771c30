package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["absmax"] = absMax }

func absMax(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		absMaxWhole(ctx, v, 2)
		absMaxWhole(ctx, v, 4)
	}
	for _, element := range []string{"BF16", "F16", "F32"} {
		blockAmax512(ctx, element)
	}
	for _, element := range []string{"16", "F32"} {
		blockAmax256(ctx, element)
	}
}

// maxUnsigned is VPMAXU for elements of so many bytes.
func maxUnsigned(ctx *build.Context, size int, a, b operand.Op, dst reg.VecVirtual) {
	if size == 2 {
		ctx.VPMAXUW(a, b, dst)
	} else {
		ctx.VPMAXUD(a, b, dst)
	}
}

// magnitudes is a vector of the bits that hold a magnitude.
func magnitudes(ctx *build.Context, v vectors, size int) reg.VecVirtual {
	mask, x, bits := v.reg(ctx), ctx.XMM(), ctx.GP32()
	if size == 2 {
		ctx.MOVL(operand.U32(0x7fff7fff), bits)
	} else {
		ctx.MOVL(operand.U32(0x7fffffff), bits)
	}
	ctx.VMOVD(bits, x)
	ctx.VPBROADCASTD(x, mask)
	return mask
}

// and is VPAND, which has another name in 512 bits.
func and(ctx *build.Context, v vectors, a, b operand.Op, dst reg.VecVirtual) {
	if v.lanes == 16 {
		ctx.VPANDD(a, b, dst)
	} else {
		ctx.VPAND(a, b, dst)
	}
}

// absMaxWhole goes through memory once. It reads ahead of itself: that gains a
// tenth over what the processor foresees.
func absMaxWhole(ctx *build.Context, v vectors, size int) {
	const vectorsAtATime = 4
	name := map[int]string{2: "absMax16", 4: "absMax32"}[size] + v.suffix
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " is the largest magnitude of little-endian words in n times 256 bytes, n > 0.")
	ctx.SignatureExpr("func(n int, src *byte) uint32")
	n := ctx.Load(ctx.Param("n"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	mask := magnitudes(ctx, v, size)
	var m [vectorsAtATime]reg.VecVirtual
	for i := range m {
		m[i] = v.reg(ctx)
		and(ctx, v, operand.Mem{Base: src, Disp: i * 4 * v.lanes}, mask, m[i])
	}
	ctx.Label("loop")
	for at := 0; at < 256; at += 64 {
		ctx.PREFETCHT0(operand.Mem{Base: src, Disp: 4096 + at})
	}
	for at := 0; at < 256; at += 4 * v.lanes {
		x, i := v.reg(ctx), at/(4*v.lanes)%vectorsAtATime
		and(ctx, v, operand.Mem{Base: src, Disp: at}, mask, x)
		maxUnsigned(ctx, size, x, m[i], m[i])
	}
	ctx.ADDQ(operand.U32(256), src)
	ctx.DECQ(n)
	ctx.JNE(operand.LabelRef("loop"))
	maxUnsigned(ctx, size, m[1], m[0], m[0])
	maxUnsigned(ctx, size, m[3], m[2], m[2])
	maxUnsigned(ctx, size, m[2], m[0], m[0])
	if v.lanes == 16 {
		half := ctx.YMM()
		ctx.VEXTRACTI64X4(operand.U8(1), m[0], half)
		maxUnsigned(ctx, size, half, m[0].AsY(), half)
		m[0] = half
	}
	a, b := ctx.XMM(), ctx.XMM()
	ctx.VEXTRACTI128(operand.U8(1), m[0].AsY(), a)
	maxUnsigned(ctx, size, a, m[0].AsX(), a)
	for _, order := range []operand.U8{0x4e, 0xb1} { // halves, then quarters
		ctx.VPSHUFD(order, a, b)
		maxUnsigned(ctx, size, a, b, a)
	}
	if size == 2 {
		ctx.VPSLLD(operand.U8(16), a, b)
		ctx.VPMAXUW(a, b, a)
		ctx.VPSRLD(operand.U8(16), a, a)
	}
	result := ctx.GP32()
	ctx.VMOVD(a, result)
	ctx.Store(result, ctx.ReturnIndex(0))
	ctx.VZEROUPPER()
	ctx.RET()
}

// blockTree halves a number of vectors of magnitudes, each of which holds
// one or two blocks, until in each 128-bit lane there is a dword for each of four
// of them.
func blockTree(ctx *build.Context, v vectors, size int, load func(i int) reg.VecVirtual, n int) []reg.VecVirtual {
	merge := func(a, b reg.VecVirtual, low, high func(b, a, dst reg.VecVirtual)) reg.VecVirtual {
		x := v.reg(ctx)
		low(b, a, x)
		high(b, a, b)
		maxUnsigned(ctx, size, x, b, b)
		return b
	}
	var fours []reg.VecVirtual
	for i := 0; i < n; i += 4 {
		var halves [2]reg.VecVirtual
		for h := range halves {
			halves[h] = merge(load(i+2*h), load(i+2*h+1),
				func(b, a, dst reg.VecVirtual) { ctx.VPUNPCKLQDQ(b, a, dst) },
				func(b, a, dst reg.VecVirtual) { ctx.VPUNPCKHQDQ(b, a, dst) })
		}
		fours = append(fours, merge(halves[0], halves[1],
			func(b, a, dst reg.VecVirtual) { ctx.VSHUFPS(operand.U8(0x88), b, a, dst) },
			func(b, a, dst reg.VecVirtual) { ctx.VSHUFPS(operand.U8(0xdd), b, a, dst) }))
	}
	return fours
}

// blockAmax512 takes 16 blocks at a time.
func blockAmax512(ctx *build.Context, element string) {
	size := 2
	if element == "F32" {
		size = 4
	}
	name := "blockAmax" + element + "AVX512"
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " is blockAmaxRef for n times 16 blocks, n > 0, but it stores too what follows a block that is not finite.")
	ctx.SignatureExpr("func(n int, src *byte, amax *uint32) (blocks int)")
	n := ctx.Load(ctx.Param("n"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	amax := ctx.Load(ctx.Param("amax"), ctx.GP64()).(reg.GPVirtual)
	mask := magnitudes(ctx, zmm, size)
	inf, bits, blocks := ctx.ZMM(), ctx.GP32(), ctx.GP64()
	ctx.MOVL(operand.U32(0x7f800000), bits)
	ctx.VPBROADCASTD(bits, inf)
	ctx.XORQ(blocks, blocks)
	high, order, odd := ctx.ZMM(), ctx.ZMM(), ctx.K()
	if size == 2 {
		ctx.MOVL(operand.U32(0xffff0000), bits)
		ctx.VPBROADCASTD(bits, high)
		ctx.MOVL(operand.U32(0xaaaaaaaa), bits)
		ctx.KMOVD(bits, odd)
		table := ctx.StaticGlobal(name + "Order")
		ctx.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 32 {
			// Vector v of the eight has blocks 2v and 2v+1; their words are in
			// lanes 0 and 2.
			block := i / 2
			if element == "F16" {
				block = i % 16
			}
			v := block / 2
			ctx.AddDatum(2*i, operand.U16(uint16(16*(block%2)+2*(v%4)+v/4)))
		}
		ctx.VMOVDQU16(table, order)
	}
	ctx.Label("loop")
	load := func(i int) reg.VecVirtual {
		x := ctx.ZMM()
		ctx.VPANDD(operand.Mem{Base: src, Disp: 64 * i}, mask, x)
		return x
	}
	var out reg.VecVirtual
	if size == 4 {
		out = reduceLanes(ctx, blockTree(ctx, zmm, size, load, 16))
	} else {
		f := blockTree(ctx, zmm, size, load, 8)
		a, b := ctx.ZMM(), ctx.ZMM()
		ctx.VPSLLD(operand.U8(16), f[1], a)
		ctx.VPTERNLOGD(selectBits, high, f[0], a) // the first words of both
		ctx.VPSRLD(operand.U8(16), f[0], b)
		ctx.VPTERNLOGD(selectBits, high, b, f[1]) // and the second ones
		ctx.VPMAXUW(a, f[1], a)
		ctx.VSHUFI64X2(operand.U8(0xb1), a, a, b) // neighbouring lanes
		ctx.VPMAXUW(a, b, a)
		out = ctx.ZMM()
		if element == "F16" {
			ctx.VPERMW(a, order, a)
			ctx.VCVTPH2PS(a.AsY(), out)
		} else {
			ctx.VPERMW_Z(a, order, odd, out)
		}
	}
	ctx.VMOVDQU32(out, operand.Mem{Base: amax})
	bad, some := ctx.K(), ctx.GP32()
	ctx.VPCMPUD(operand.U8(5), inf, out, bad) // ≥
	ctx.KMOVW(bad, some)
	ctx.TESTL(some, some)
	ctx.JNE(operand.LabelRef("found"))
	ctx.ADDQ(operand.U8(16), blocks)
	ctx.ADDQ(operand.U32(16*16*size), src)
	ctx.ADDQ(operand.U8(64), amax)
	ctx.DECQ(n)
	ctx.JNE(operand.LabelRef("loop"))
	ctx.JMP(operand.LabelRef("done"))
	ctx.Label("found")
	ctx.BSFL(some, some)
	ctx.ADDQ(some.As64(), blocks)
	ctx.Label("done")
	ctx.Store(blocks, ctx.ReturnIndex(0))
	ctx.VZEROUPPER()
	ctx.RET()
}

// reduceLanes reduces the four lanes of each of four vectors to one.
func reduceLanes(ctx *build.Context, f []reg.VecVirtual) reg.VecVirtual {
	merge := func(a, b reg.VecVirtual) reg.VecVirtual {
		x := ctx.ZMM()
		ctx.VSHUFI64X2(operand.U8(0x88), b, a, x)
		ctx.VSHUFI64X2(operand.U8(0xdd), b, a, b)
		ctx.VPMAXUD(x, b, b)
		return b
	}
	return merge(merge(f[0], f[1]), merge(f[2], f[3]))
}

// blockAmax256 takes 8 blocks at a time. 16-bit words are not widened here.
func blockAmax256(ctx *build.Context, element string) {
	size := 2
	if element == "F32" {
		size = 4
	}
	name := "blockAmax" + element + "AVX2"
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " puts the largest magnitudes of n times 8 blocks, n > 0, into amax; those of 16 bits are in the upper halves.")
	ctx.SignatureExpr("func(n int, src *byte, amax *uint32)")
	n := ctx.Load(ctx.Param("n"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	amax := ctx.Load(ctx.Param("amax"), ctx.GP64()).(reg.GPVirtual)
	mask := magnitudes(ctx, ymm, size)
	ctx.Label("loop")
	f := blockTree(ctx, ymm, size, func(i int) reg.VecVirtual {
		x := ctx.YMM()
		at := operand.Mem{Base: src, Disp: 16 * size * i}
		ctx.VPAND(at, mask, x)
		if size == 4 {
			y := ctx.YMM()
			ctx.VPAND(at.Offset(32), mask, y)
			ctx.VPMAXUD(y, x, x)
		}
		return x
	}, 8)
	a, b := ctx.YMM(), ctx.YMM()
	if size == 4 {
		ctx.VPERM2I128(operand.U8(0x20), f[1], f[0], a)
		ctx.VPERM2I128(operand.U8(0x31), f[1], f[0], b)
		ctx.VPMAXUD(a, b, a)
	} else {
		for i, x := range f { // the larger word of each dword goes to its upper half
			shifted := ctx.YMM()
			ctx.VPSLLD(operand.U8(16), x, shifted)
			ctx.VPMAXUW(x, shifted, shifted)
			ctx.VPSRLD(operand.U8(16), shifted, f[i])
			ctx.VPSLLD(operand.U8(16), f[i], f[i])
		}
		ctx.VPERM2I128(operand.U8(0x20), f[1], f[0], a)
		ctx.VPERM2I128(operand.U8(0x31), f[1], f[0], b)
		ctx.VPMAXUD(a, b, a)
	}
	ctx.VMOVDQU(a, operand.Mem{Base: amax})
	ctx.ADDQ(operand.U32(8*16*size), src)
	ctx.ADDQ(operand.U8(32), amax)
	ctx.DECQ(n)
	ctx.JNE(operand.LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}
