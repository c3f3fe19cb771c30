package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// depths counts clipped blocks by depth, 1 − 6·step/amax, whose quotient, and
// difference, and their product with 20, are rounded to f64.
//
// What depths are compared with, 1/16, 1/20 and 2/20, needs no division: with
// x = amax − 6·step, depth > 1/16 is 16·x > amax, and so on. Up to amax = 8·step x is a
// multiple of two last places of step and below 2²⁴ of them, so exact, and of a
// difference that is rounded once the sign is right; farther on all comparisons
// hold by far. The rounding of depth is 2⁻⁵³, while it is 2⁻³¹ from where it is
// compared or right there. Right there, 1/16 is exact; 19/20 rounds down, so that depth is
// in the second bin; 9/10 rounds up, so that 20 times depth stays below 2 and depth out of
// the third.
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
	one, six, twenty, last := g.number("One", 1), g.number("Six", 6), g.number("Twenty", 20), g.number("Last", 19)
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
	zero, times6, times10, times16, times20 := g.all(0), g.all(0x40c00000), g.all(0x41200000), g.all(0x41800000), g.all(0x41a00000)
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
	clipped, sub, scale := g.GP32(), g.GP32(), g.GP64()
	g.MOVWLZX(operand.Mem{Base: start, Index: at8, Scale: 2, Disp: clipBits}, clipped)
	g.TESTL(clipped, clipped)
	g.JEQ(operand.LabelRef("next"))
	// Codes below 8 are subnormal.
	g.MOVQ(at8, scale)
	g.SHLQ(operand.U8(4), scale)
	g.VPMOVMSKB(g.below8(operand.Mem{Base: start, Index: scale, Scale: 1, Disp: clipScales}), sub)
	g.ANDL(clipped, sub)

	var deep, second, third reg.GPVirtual
	for at := 0; at < 64; at += g.bytes() {
		step, amax, x := g.vec(), g.vec(), g.vec()
		g.VMOVUPS(operand.Mem{Base: c, Disp: clipSteps + at}, step)
		g.VMOVUPS(operand.Mem{Base: c, Disp: clipAmax + at}, amax)
		g.VMOVAPS(amax, x)
		g.VFNMADD231PS(times6, step, x)
		for _, than := range []struct {
			times     reg.VecVirtual
			predicate operand.U8
			bits      *reg.GPVirtual
		}{{times16, greater, &deep}, {times20, greaterEqual, &second}, {times10, greater, &third}} {
			d := g.vec()
			g.VMOVAPS(amax, d)
			g.VFMSUB231PS(than.times, x, d)
			bits := g.bits(than.predicate, d, zero)
			if at == 0 {
				*than.bits = bits
				continue
			}
			g.SHLL(operand.U8(at/4), bits)
			g.ORL(bits, *than.bits)
		}
	}
	for _, r := range []reg.GPVirtual{deep, second, third} {
		g.ANDL(clipped, r)
	}
	g.count(second, counter(6, start))
	g.count(third, counter(7, start))
	shallow, normal := g.GP32(), g.GP32()
	g.MOVL(deep, shallow)
	g.XORL(clipped, shallow) // clipped, not deep
	g.MOVL(sub, normal)
	g.NOTL(normal)
	g.ANDL(normal, shallow)
	g.ANDL(normal, deep)
	for class, r := range []reg.GPVirtual{shallow, deep, sub} {
		g.count(r, counter(3+class, start))
		for i := 0; i < 16; i += width {
			l := lanes[class][i/width%len(lanes[class])]
			if g.v.lanes == 16 {
				k := g.K()
				g.KMOVW(r, k)
				g.VADDPD(operand.Mem{Base: mass, Disp: 8 * i}, l, k, l)
				g.SHRL(operand.U8(width), r)
				continue
			}
			part, which := g.vec(), g.GP32()
			g.MOVL(r, which)
			g.ANDL(operand.U8(1<<width-1), which)
			g.SHLL(operand.U8(5), which)
			g.VMOVUPD(operand.Mem{Base: maskTable, Index: which.As64(), Scale: 1}, part)
			g.VANDPD(operand.Mem{Base: mass, Disp: 8 * i}, part, part)
			g.VADDPD(part, l, l)
			g.SHRL(operand.U8(width), r)
		}
	}
	// The first two bins follow from the counts; what is deeper is rare.
	g.TESTL(third, third)
	g.JEQ(operand.LabelRef("next"))
	g.Label("deeper")
	lane, bin, lower := g.GP32(), g.GP32(), g.GP32()
	limit, depth := g.XMM(), g.XMM()
	g.BSFL(third, lane)
	g.VXORPD(depth, depth, depth)
	g.VCVTSS2SD(operand.Mem{Base: c, Index: lane.As64(), Scale: 4, Disp: clipSteps}, depth, limit)
	g.VCVTSS2SD(operand.Mem{Base: c, Index: lane.As64(), Scale: 4, Disp: clipAmax}, depth, depth)
	g.VMULSD(six, limit, limit)
	g.VDIVSD(depth, limit, limit)
	g.VMOVSD(one, depth)
	g.VSUBSD(limit, depth, depth)
	g.VMULSD(twenty, depth, depth)
	g.VMINSD(last, depth, depth)
	g.VCVTTSD2SI(depth, bin)
	g.INCQ(operand.Mem{Base: start, Index: bin.As64(), Scale: 8, Disp: clipDepth})
	g.LEAL(operand.Mem{Base: third.As64(), Disp: -1}, lower)
	g.ANDL(lower, third)
	g.JNE(operand.LabelRef("deeper"))
	g.Label("next")
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

// below8 is a mask of which of 16 bytes are below 8.
func (g *byBlock) below8(m operand.Mem) reg.VecVirtual {
	small, limit, eights := g.XMM(), g.XMM(), g.GP64()
	g.VMOVDQU(m, small)
	g.MOVQ(operand.U64(0x0808080808080808), eights)
	g.VMOVQ(eights, limit)
	g.VPBROADCASTQ(limit, limit)
	g.VPCMPGTB(small, limit, small)
	return small
}

// number is an f64 in memory.
func (g *byBlock) number(name string, x float64) operand.Mem {
	m := g.StaticGlobal("nvfp4Depths" + name + g.v.suffix)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	g.AddDatum(0, operand.U64(math.Float64bits(x)))
	return m
}

// count adds the bits to a count in memory.
func (g *byBlock) count(bits reg.GPVirtual, m operand.Mem) {
	n := g.GP32()
	g.POPCNTL(bits, n)
	g.ADDQ(n.As64(), m)
}
