package main

import (
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
	clipDense   = clipBits + 32
	clipCounts  = clipDense + 32 // zero, high, low, shallow, deep, subnormal, from the second and from the third bin of depth on
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
