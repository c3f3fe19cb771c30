package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Where the fields of package kernels' nvfp4Clips are.
const (
	clipAmax    = 0
	clipRaw     = clipAmax + 1024
	clipSteps   = clipRaw + 1024
	clipLimits  = clipSteps + 1024
	clipMass    = clipLimits + 1024
	clipScales  = clipMass + 2048
	clipCrowded = clipScales + 256
	clipBits    = clipCrowded + 256
	clipCounts  = clipBits + 32 // zero, high, low, shallow, deep, subnormal, from the second and from the third bin of depth on
	clipLargest = clipCounts + 64
	clipLanes   = clipLargest + 64
	clipDepth   = clipLanes + 192
)

func counter(i int, base reg.GPVirtual) operand.Mem {
	return operand.Mem{Base: base, Disp: clipCounts + 8*i}
}

// add counts the bits.
func (g *byBlock) add(bits reg.GPVirtual, count reg.GPVirtual) {
	n := g.GP32()
	g.POPCNTL(bits, n)
	g.ADDQ(n.As64(), count)
}

// widen is half of a vector of f32 as f64.
func (g *byBlock) widen(base reg.GPVirtual, disp int) reg.VecVirtual {
	x := g.vec()
	g.VCVTPS2PD(operand.Mem{Base: base, Disp: disp}, x)
	return x
}

// clips finds out which blocks are clipped.
func (g *byBlock) clips() {
	g.begin("nvfp4Clips", "func(groups int, steps *float32, c *uint32)",
		"does what of nvfp4CountRef needs no elements, for 16 blocks a group, groups > 0: it takes amax, raw and scales of c and",
		"fills steps, limits, mass and bits, and adds to zero, high, low and largest.")
	groups, table, c := g.pointer("groups"), g.pointer("steps"), g.pointer("c")
	bitsAt := g.GP64()
	g.LEAQ(operand.Mem{Base: c, Disp: clipBits}, bitsAt)
	var counts [3]reg.GPVirtual
	for i := range counts {
		counts[i] = g.GP64()
		g.MOVQ(counter(i, c), counts[i])
	}
	start := c
	c = g.GP64()
	g.MOVQ(start, c)
	scales, mass := g.GP64(), g.GP64()
	g.LEAQ(operand.Mem{Base: c, Disp: clipScales}, scales)
	g.LEAQ(operand.Mem{Base: c, Disp: clipMass}, mass)
	zero, high, low, six := g.all(0), g.all(0x43e80000), g.all(0x3a800000), g.all(0x40c00000)
	var largest []reg.VecVirtual
	for at := 0; at < 64; at += g.bytes() {
		l := g.vec()
		g.VMOVUPS(operand.Mem{Base: c, Disp: clipLargest + at}, l)
		largest = append(largest, l)
	}
	g.Label("loop")
	for at := 0; at < 64; at += g.bytes() {
		amax, raw := g.vec(), g.vec()
		g.VMOVUPS(operand.Mem{Base: c, Disp: clipAmax + at}, amax)
		g.VMOVUPS(operand.Mem{Base: c, Disp: clipRaw + at}, raw)
		some := g.bits(greater, amax, zero)
		highs, lows := g.bits(greater, raw, high), g.bits(lessEqual, raw, low)
		g.ANDL(some, highs)
		g.ANDL(some, lows)
		g.add(highs, counts[1])
		g.add(lows, counts[2])
		g.XORL(operand.U32(1<<g.v.lanes-1), some)
		g.add(some, counts[0])
		i := at / g.bytes()
		g.VPMAXUD(amax, largest[i], largest[i])

		code, step := g.vec(), g.vec()
		g.VPMOVZXBD(operand.Mem{Base: scales, Disp: at / 4}, code)
		from := operand.Mem{Base: table, Index: code, Scale: 4}
		if g.v.lanes == 16 {
			k := g.K()
			g.KXNORW(k, k, k)
			g.VGATHERDPS(from, k, step)
		} else {
			m := g.YMM()
			g.VPCMPEQD(m, m, m)
			g.VGATHERDPS(m, from, step)
		}
		g.VMOVUPS(step, operand.Mem{Base: c, Disp: clipSteps + at})
		// The sign of amax − 6·step is exact: it is rounded once.
		excess := g.vec()
		g.VMOVAPS(amax, excess)
		g.VFNMADD231PS(six, step, excess)
		clipped := g.bits(greater, excess, zero)
		if g.v.lanes == 16 {
			g.MOVW(clipped.As16(), operand.Mem{Base: bitsAt})
		} else {
			g.MOVB(clipped.As8(), operand.Mem{Base: bitsAt, Disp: at / 32})
		}
		limit := g.vec()
		if g.v.lanes == 16 {
			g.VMULPS_RD_SAE(six, step, limit)
		} else {
			// Where the product was rounded up, take the f32 before it.
			rest := g.vec()
			g.VMULPS(six, step, limit)
			g.VMOVAPS(limit, rest)
			g.VFMSUB231PS(six, step, rest)
			g.VPSRAD(operand.U8(31), rest, rest)
			g.VPADDD(rest, limit, limit)
		}
		g.VMOVUPS(limit, operand.Mem{Base: c, Disp: clipLimits + at})
		for half := range 2 {
			x := g.widen(c, clipAmax+at+half*g.bytes()/2)
			g.VMULPD(x, x, x)
			g.VMOVUPD(x, operand.Mem{Base: mass, Disp: 2*at + half*g.bytes()})
		}
	}
	g.ADDQ(operand.U8(64), c)
	g.ADDQ(operand.U8(16), scales)
	g.ADDQ(operand.U32(128), mass)
	g.ADDQ(operand.U8(2), bitsAt)
	g.DECQ(groups)
	g.JNE(operand.LabelRef("loop"))
	for i := range counts {
		g.MOVQ(counts[i], counter(i, start))
	}
	for i, l := range largest {
		g.VMOVUPS(l, operand.Mem{Base: start, Disp: clipLargest + i*g.bytes()})
	}
	g.VZEROUPPER()
	g.RET()
}

// depths counts clipped blocks by depth.
func (g *byBlock) depths() {
	var masks operand.Mem
	if g.v.lanes == 8 {
		masks = g.StaticGlobal("nvfp4LaneMasks")
		g.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 64 {
			mask := uint64(0)
			if i/4>>(i%4)&1 == 1 {
				mask = ^mask
			}
			g.AddDatum(8*i, operand.U64(mask))
		}
	}
	g.begin("nvfp4Depths", "func(groups int, c *uint32)",
		"counts the clipped blocks, 16 a group, groups > 0, as nvfp4Tap.clip does: from amax, steps, mass, scales and bits of c",
		"to all the rest.")
	groups, start := g.pointer("groups"), g.pointer("c")
	c, mass, at8 := g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(start, c)
	g.LEAQ(operand.Mem{Base: c, Disp: clipMass}, mass)
	g.XORQ(at8, at8)
	maskTable := g.GP64()
	if g.v.lanes == 8 {
		g.LEAQ(masks, maskTable)
	}
	all64 := func(bits uint64) reg.VecVirtual {
		r, x, v := g.GP64(), g.XMM(), g.vec()
		g.MOVQ(operand.U64(bits), r)
		g.VMOVQ(r, x)
		g.VBROADCASTSD(x, v)
		return v
	}
	one, six, twenty := all64(0x3ff0000000000000), all64(0x4018000000000000), all64(0x4034000000000000)
	two, shallowest, last := all64(0x4000000000000000), all64(0x3fb0000000000000), all64(0x4033000000000000) // 2, 1/16, 19
	width := g.v.lanes / 2
	var lanes [3][]reg.VecVirtual
	for class := range lanes {
		for i := 0; i < 8; i += width {
			l := g.vec()
			g.VMOVUPD(operand.Mem{Base: start, Disp: clipLanes + 64*class + 8*i}, l)
			lanes[class] = append(lanes[class], l)
		}
	}
	g.Label("loop")
	for i := 0; i < 16; i += width {
		clipped, sub := g.GP32(), g.GP32()
		g.MOVWLZX(operand.Mem{Base: start, Index: at8, Scale: 2, Disp: clipBits}, clipped)
		if i > 0 {
			g.SHRL(operand.U8(i), clipped)
		}
		g.ANDL(operand.U32(1<<width-1), clipped)
		// Codes below 8 are subnormal.
		small, scale := g.XMM(), g.GP64()
		g.MOVQ(at8, scale)
		g.SHLQ(operand.U8(4), scale)
		g.VMOVQ(operand.Mem{Base: start, Index: scale, Scale: 1, Disp: clipScales + i}, small)
		limit := g.XMM()
		sevens := g.GP64()
		g.MOVQ(operand.U64(0x0808080808080808), sevens)
		g.VMOVQ(sevens, limit)
		g.VPCMPGTB(small, limit, small)
		g.VPMOVMSKB(small, sub)
		g.ANDL(clipped, sub)

		depth, twentieths := g.widen(c, clipSteps+4*i), g.vec()
		g.VMULPD(six, depth, depth)
		g.VDIVPD(g.widen(c, clipAmax+4*i), depth, depth)
		g.VSUBPD(depth, one, depth)
		g.VMULPD(twenty, depth, twentieths)
		deep := g.bits64(greater, depth, shallowest)
		second, third := g.bits64(greaterEqual, twentieths, one), g.bits64(greaterEqual, twentieths, two)
		for _, r := range []reg.GPVirtual{deep, second, third} {
			g.ANDL(clipped, r)
		}
		g.count(second, counter(6, start))
		g.count(third, counter(7, start))
		shallow := g.GP32()
		g.MOVL(deep, shallow)
		g.XORL(clipped, shallow) // clipped, not deep
		for _, r := range []reg.GPVirtual{shallow, deep} {
			normal := g.GP32()
			g.MOVL(sub, normal)
			g.NOTL(normal)
			g.ANDL(normal, r)
		}
		masses := g.vec()
		g.VMOVUPD(operand.Mem{Base: mass, Disp: 8 * i}, masses)
		for class, r := range []reg.GPVirtual{shallow, deep, sub} {
			g.count(r, counter(3+class, start))
			l := lanes[class][i/width%len(lanes[class])]
			if g.v.lanes == 16 {
				k := g.K()
				g.KMOVB(r, k)
				g.VADDPD(masses, l, k, l)
				continue
			}
			part := g.vec()
			g.SHLL(operand.U8(5), r)
			g.VANDPD(operand.Mem{Base: maskTable, Index: r.As64(), Scale: 1}, masses, part)
			g.VADDPD(part, l, l)
		}
		// The first two bins follow from the counts; what is deeper is rare.
		next, done := g.label("deeper", i), g.label("shallower", i)
		g.TESTL(third, third)
		g.JEQ(operand.LabelRef(done))
		bins := g.XMM()
		where := g.AllocLocal(32)
		g.VMINPD(last, twentieths, twentieths)
		if g.v.lanes == 16 {
			y := g.YMM()
			g.VCVTTPD2DQ(twentieths, y)
			g.VMOVDQU(y, where)
		} else {
			g.VCVTTPD2DQY(twentieths, bins)
			g.VMOVDQU(bins, where)
		}
		g.Label(next)
		lane, bin := g.GP32(), g.GP32()
		g.BSFL(third, lane)
		g.MOVL(where.Idx(lane.As64(), 4), bin)
		g.INCQ(operand.Mem{Base: start, Index: bin.As64(), Scale: 8, Disp: clipDepth})
		lower := g.GP32()
		g.LEAL(operand.Mem{Base: third.As64(), Disp: -1}, lower)
		g.ANDL(lower, third)
		g.JNE(operand.LabelRef(next))
		g.Label(done)
	}
	g.ADDQ(operand.U8(64), c)
	g.ADDQ(operand.U32(128), mass)
	g.INCQ(at8)
	g.DECQ(groups)
	g.JNE(operand.LabelRef("loop"))
	for class := range lanes {
		for i, l := range lanes[class] {
			g.VMOVUPD(l, operand.Mem{Base: start, Disp: clipLanes + 64*class + 8*i*width})
		}
	}
	g.VZEROUPPER()
	g.RET()
}

func (g *byBlock) label(name string, i int) string { return name + string(rune('a'+i)) }

// count adds the bits to a count in memory.
func (g *byBlock) count(bits reg.GPVirtual, m operand.Mem) {
	n := g.GP32()
	g.POPCNTL(bits, n)
	g.ADDQ(n.As64(), m)
}

// crowdedWords lists the clipped blocks that have more than one element above
// their limit.
func crowdedWords(ctx *build.Context) {
	crowded(ctx, "nvfp4CrowdedWords", 2)
}

func crowdedFloats(ctx *build.Context) { crowded(ctx, "nvfp4CrowdedFloats", 4) }

func crowded(ctx *build.Context, name string, size int) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " lists in crowded of c those blocks in bits of c, 64 a word, words > 0, that have more than one element whose magnitude is above the limit; it returns how many. Of 16-bit elements the limits are in the upper halves.")
	ctx.SignatureExpr("func(words int, src *byte, c *uint32) (n int)")
	words := ctx.Load(ctx.Param("words"), ctx.GP64()).(reg.GPVirtual)
	src := ctx.Load(ctx.Param("src"), ctx.GP64()).(reg.GPVirtual)
	c := ctx.Load(ctx.Param("c"), ctx.GP64()).(reg.GPVirtual)
	mask := magnitudes(ctx, ymm, size)
	bitsAt, list, base, n := ctx.GP64(), ctx.GP64(), ctx.GP64(), ctx.GP64()
	ctx.LEAQ(operand.Mem{Base: c, Disp: clipBits}, bitsAt)
	ctx.LEAQ(operand.Mem{Base: c, Disp: clipCrowded}, list)
	ctx.XORQ(base, base)
	ctx.XORQ(n, n)
	ctx.Label("word")
	left := ctx.GP64()
	ctx.MOVQ(operand.Mem{Base: bitsAt}, left)
	ctx.TESTQ(left, left)
	ctx.JEQ(operand.LabelRef("next"))
	ctx.Label("block")
	block, at := ctx.GP64(), ctx.GP64()
	ctx.BSFQ(left, block)
	ctx.BLSRQ(left, left)
	ctx.ADDQ(base, block)
	ctx.MOVQ(block, at)
	ctx.SHLQ(operand.U8(map[int]int{2: 5, 4: 6}[size]), at)
	limit, x, above := ctx.YMM(), ctx.YMM(), ctx.GP32()
	if size == 2 {
		ctx.VPBROADCASTW(operand.Mem{Base: c, Index: block, Scale: 4, Disp: clipLimits + 2}, limit)
		ctx.VPAND(operand.Mem{Base: src, Index: at, Scale: 1}, mask, x)
		ctx.VPCMPGTW(limit, x, x)
	} else {
		y := ctx.YMM()
		ctx.VPBROADCASTD(operand.Mem{Base: c, Index: block, Scale: 4, Disp: clipLimits}, limit)
		ctx.VPAND(operand.Mem{Base: src, Index: at, Scale: 1}, mask, x)
		ctx.VPAND(operand.Mem{Base: src, Index: at, Scale: 1, Disp: 32}, mask, y)
		ctx.VPCMPGTD(limit, x, x)
		ctx.VPCMPGTD(limit, y, y)
		ctx.VPACKSSDW(y, x, x)
	}
	// Two bits an element. The block is listed at once, and again overwritten
	// where it does not belong there.
	ctx.VPMOVMSKB(x, above)
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
