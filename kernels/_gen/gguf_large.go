package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// large are the blocks of 256. Their scales are themselves small integers: these
// are scaled first, all of a block, and kept as f32 in local memory.
func (g *ggufGen) large() {
	none := func() {}
	g.blocks("Q2K", 256, 84, 128, none, func() {
		g.scaleBytes(g.lowNibbles(0, 0), g.half(80), 0)
		g.scaleBytes(g.lowNibbles(0, 4), g.half(82), 64)
		for n := range 2 {
			q := g.bytes32(g.at(16 + 32*n))
			for s := range 4 {
				x := g.and(g.shifted(q, 2*s), g.d.bytes("three", 3))
				i := 8*n + 2*s
				g.write(x, 128*n+32*s, [2]operand.Op{g.scale(i), g.scale(i + 1)}, g.lessMin(16+i, 17+i))
			}
		}
	})
	g.blocks("Q3K", 256, 110, 64, none, func() {
		g.scaleBytes(g.sixBits(96), g.half(108), 0)
		high := g.bytes32(g.at(0))
		for n := range 2 {
			q := g.bytes32(g.at(32 + 32*n))
			for s := range 4 {
				// 4 is taken off where the bit is not set.
				mask := g.d.bytes(bitNames[4*n+s], int8(uint8(1)<<(4*n+s)))
				set := g.and(high, mask)
				g.VPCMPEQB(mask, set, set)
				four := g.YMM()
				g.VPANDN(g.d.bytes("four", 4), set, four)
				x := g.less(g.and(g.shifted(q, 2*s), g.d.bytes("three", 3)), four)
				i := 8*n + 2*s
				g.write(x, 128*n+32*s, [2]operand.Op{g.scale(i), g.scale(i + 1)}, nil)
			}
		}
	})
	for _, bits := range []int{4, 5} {
		name, bytes, qs := "Q4K", 144, 16
		if bits == 5 {
			name, bytes, qs = "Q5K", 176, 48
		}
		g.blocks(name, 256, bytes, 64, none, func() {
			g.scalesAndMinima(4)
			var high reg.VecVirtual
			if bits == 5 {
				high = g.bytes32(g.at(16))
			}
			for j := range 8 {
				q := g.bytes32(g.at(qs + 32*(j/2)))
				x := g.and(g.shifted(q, 4*(j%2)), g.fifteen())
				if bits == 5 {
					x = g.or(x, g.where16(high, g.d.bytes(bitNames[j], int8(uint8(1)<<j))))
				}
				d := g.scale(j)
				g.write(x, 32*j, [2]operand.Op{d, d}, g.lessMin(8+j, 8+j))
			}
		})
	}
	g.blocks("Q6K", 256, 210, 64, none, func() {
		scales := g.XMM()
		g.VMOVDQU(g.at(192), scales)
		g.scaleBytes(scales, g.half(208), 0)
		for n := range 2 {
			high := g.bytes32(g.at(128 + 32*n))
			for k := range 4 {
				low := g.and(g.shifted(g.bytes32(g.at(64*n+32*(k%2))), 4*(k/2)), g.fifteen())
				up := g.shifted(g.and(g.shifted(high, 2*k), g.d.bytes("three", 3)), -4)
				x := g.less(g.or(low, up), g.d.bytes("thirtytwo", 32))
				i := 8*n + 2*k
				g.write(x, 128*n+32*k, [2]operand.Op{g.scale(i), g.scale(i + 1)}, nil)
			}
		}
	})
	var table reg.VecVirtual
	g.blocks("IQ4XS", 256, 136, 64, func() { table = g.bytes32(g.d.bytes("iq4", iq4Values...)) }, func() {
		g.spreadScales()
		for j := range 8 {
			d := g.scale(j)
			g.write(g.values(g.nibbles(8+16*j), table), 32*j, [2]operand.Op{d, d}, nil)
		}
	})
}

// bitNames name memory with one bit of each byte.
var bitNames = [8]string{"bit0", "bit1", "bit2", "bit3", "bit4", "bit5", "bit6", "bit7"}

// scale is the local f32 of an index in every lane.
func (g *ggufGen) scale(i int) reg.VecVirtual {
	r := g.new()
	g.VBROADCASTSS(g.local.Offset(4*i), r)
	return r
}

// lessMin takes the local f32 of an index off the products of each half.
func (g *ggufGen) lessMin(low, high int) func(int, reg.VecVirtual) {
	m := [2]reg.VecVirtual{g.scale(low), nil}
	m[1] = m[0]
	if high != low {
		m[1] = g.scale(high)
	}
	return func(half int, v reg.VecVirtual) { g.VSUBPS(m[half], v, v) }
}

// scaleBytes scales 16 signed bytes by d into local memory.
func (g *ggufGen) scaleBytes(x, d reg.VecVirtual, offset int) {
	for part := 0; part < 16; part += g.v.lanes {
		if part > 0 {
			y := g.XMM()
			g.VPSRLDQ(operand.U8(8), x, y)
			x = y
		}
		v := g.new()
		g.VPMOVSXBD(x, v)
		g.VCVTDQ2PS(v, v)
		g.VMULPS(d, v, v)
		g.VMOVUPS(v, g.local.Offset(offset+4*part))
	}
}

// lowNibbles are those of 16 bytes that are moved down first.
func (g *ggufGen) lowNibbles(offset int, shift uint8) reg.VecVirtual {
	x := g.XMM()
	g.VMOVDQU(g.at(offset), x)
	if shift > 0 {
		g.VPSRLW(operand.U8(shift), x, x)
	}
	g.VPAND(g.fifteen(), x, x)
	return x
}

// word is 64 bits of constant.
func (g *ggufGen) word(v uint64) reg.GPVirtual {
	r := g.GP64()
	g.MOVQ(operand.U64(v), r)
	return r
}

// bytes16 is two words as 16 bytes.
func (g *ggufGen) bytes16(low, high reg.GPVirtual) reg.VecVirtual {
	x, y := g.XMM(), g.XMM()
	g.VMOVQ(low, x)
	g.VMOVQ(high, y)
	g.VPUNPCKLQDQ(y, x, x)
	return x
}

// sixBits are Q3_K's 16 scales less 32: four bits of each in 8 bytes, low nibbles
// first, two more in 4 bytes, lowest bits first.
func (g *ggufGen) sixBits(offset int) reg.VecVirtual {
	low, high, up := g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(g.at(offset), low)
	g.MOVQ(low, high)
	g.SHRQ(operand.U8(4), high)
	nibble := g.word(0x0f0f0f0f0f0f0f0f)
	g.ANDQ(nibble, low)
	g.ANDQ(nibble, high)
	g.MOVL(g.at(offset+8), up.As32())
	// Bytes 0 to 3 and, above them, the same moved down by two bits; then both by four.
	for _, to := range []reg.GPVirtual{low, high} {
		a, b := g.GP64(), g.GP64()
		g.MOVQ(up, a)
		g.MOVQ(up, b)
		g.SHLQ(operand.U8(4), a)
		g.SHLQ(operand.U8(34), b)
		two := g.word(0x30303030)
		g.ANDQ(two, a)
		g.SHLQ(operand.U8(32), two)
		g.ANDQ(two, b)
		g.ORQ(a, to)
		g.ORQ(b, to)
		g.SHRQ(operand.U8(4), up)
	}
	x := g.bytes16(low, high)
	g.VPSUBB(g.d.bytes("thirtytwo", 32), x, x)
	return x
}

// scalesAndMinima scales those of Q4_K and Q5_K, six bits of each of eight in 12
// bytes, by the block's two f16: eight scales and then eight minima.
func (g *ggufGen) scalesAndMinima(offset int) {
	a, b, c := g.GP64(), g.GP64(), g.GP64()
	g.MOVL(g.at(offset), a.As32())
	g.MOVL(g.at(offset+4), b.As32())
	g.MOVL(g.at(offset+8), c.As32())
	// The first four of each are whole in a and b; of the others the nibbles are in
	// c and the upper two bits in the upper ones of a and b.
	words := make([]reg.GPVirtual, 2)
	for i, x := range []reg.GPVirtual{a, b} {
		first, up, low := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(x, first)
		g.ANDQ(operand.U32(0x3f3f3f3f), first)
		g.MOVQ(x, up)
		g.SHRQ(operand.U8(2), up)
		g.ANDQ(operand.U32(0x30303030), up)
		g.MOVQ(c, low)
		if i == 1 {
			g.SHRQ(operand.U8(4), low)
		}
		g.ANDQ(operand.U32(0x0f0f0f0f), low)
		g.ORQ(low, up)
		g.SHLQ(operand.U8(32), up)
		g.ORQ(up, first)
		words[i] = first
	}
	d, m := g.half(0), g.half(2)
	x := g.bytes16(words[0], words[1])
	if !g.wide() {
		g.scaleEight(x, d, 0)
		y := g.XMM()
		g.VPSRLDQ(operand.U8(8), x, y)
		g.scaleEight(y, m, 32)
		return
	}
	// The upper eight lanes take the minima's factor.
	both := g.new()
	g.VINSERTF64X4(operand.U8(1), m.AsY(), d, both)
	g.scaleBytes(x, both, 0)
}

// scaleEight scales 8 bytes by d into local memory.
func (g *ggufGen) scaleEight(x, d reg.VecVirtual, offset int) {
	v := g.YMM()
	g.VPMOVSXBD(x, v)
	g.VCVTDQ2PS(v, v)
	g.VMULPS(d.AsY(), v, v)
	g.VMOVUPS(v, g.local.Offset(offset))
}

// spreadScales scales IQ4_XS's eight scales less 32: nibbles in 4 bytes, two more
// bits of each in 2.
func (g *ggufGen) spreadScales() {
	low, high := g.GP64(), g.GP64()
	g.MOVL(g.at(4), low.As32())
	g.MOVWQZX(g.at(2), high)
	g.PDEPQ(g.word(0x0f0f0f0f0f0f0f0f), low, low)
	g.PDEPQ(g.word(0x3030303030303030), high, high)
	g.ORQ(high, low)
	x := g.XMM()
	g.VMOVQ(low, x)
	g.VPSUBB(g.d.bytes("thirtytwo", 32), x, x)
	g.scaleEight(x, g.half(0), 0)
}
