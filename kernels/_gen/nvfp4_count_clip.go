package main

import (
	"github.com/mmcloughlin/avo/attr"
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
	clipStep    = clipDepth + 160
	clipWild    = clipStep + 64
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
		"fills steps, limits, mass and bits, adds to zero, high, low and largest, and leaves in wild whether an element may be 7",
		"steps or more and in step the largest steps.")
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
	seven := g.all(0x40dccccd) // 6.9, since products and quotients are rounded
	largestStep, wild := g.vec(), g.GP32()
	g.VMOVUPS(zero, largestStep)
	g.XORL(wild, wild)
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
		most := g.vec()
		g.VPMAXUD(step, largestStep, largestStep)
		g.VMULPS(seven, step, most)
		g.ORL(g.bits(greaterEqual, amax, most), wild)
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
	g.VMOVUPS(largestStep, operand.Mem{Base: start, Disp: clipStep})
	g.MOVL(wild, operand.Mem{Base: start, Disp: clipWild})
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
