package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dense finds the blocks of bf16 with more than one element above their limit.
// It looks at all blocks, since half of them are clipped and to pick these takes
// longer.
func (g *byBlock) dense() {
	g.begin("nvfp4Dense", "func(words int, src *byte, c *uint32)",
		"sets in dense of c, 64 blocks a word, words > 0, the bits of those blocks of bf16 that have more than one element above",
		"the limit.")
	words, src, c := g.pointer("words"), g.pointer("src"), g.pointer("c")
	dense := g.GP64()
	g.LEAQ(operand.Mem{Base: c, Disp: clipDense}, dense)
	limits := g.AllocLocal(64)
	above := g.AllocLocal(64 * g.maskBytes()) // a mask of elements for each block
	magnitude, upper, minusOne := g.all(0x7fff7fff), g.all(0xffff0000), g.all(0xffffffff)
	single := g.all(0x55555555) // one bit of the two of an element
	var second reg.OpmaskVirtual
	if g.v.lanes == 16 {
		second = g.K()
		r := g.GP32()
		g.MOVL(operand.U32(0xff00), r)
		g.KMOVW(r, second)
	}
	g.Label("word")
	at, left := g.GP64(), g.GP64()
	g.XORQ(at, at)
	g.MOVQ(operand.U32(4), left)
	g.Label("sixteen")
	// Both halves of a dword become the upper half of the limit.
	for i := 0; i < 64; i += g.bytes() {
		high, low := g.vec(), g.vec()
		g.VMOVUPS(operand.Mem{Base: c, Disp: clipLimits + i}, high)
		g.VPSRLD(operand.U8(16), high, low)
		g.and(upper, high, high)
		g.VPADDD(high, low, low)
		g.VMOVUPS(low, limits.Offset(i))
	}
	blocks := g.bytes() / 32 // in a vector
	for b := 0; b < 16; b += blocks {
		x, limit := g.vec(), g.vec()
		g.and(operand.Mem{Base: src, Disp: 32 * b}, magnitude, x)
		g.VPBROADCASTD(limits.Offset(4*b), limit)
		to := above.Offset(g.maskBytes()*b).Idx(at, 1)
		if blocks == 2 {
			k := g.K()
			g.VPBROADCASTD(limits.Offset(4*b+4), second, limit)
			g.VPCMPW(operand.U8(6), limit, x, k) // greater
			g.KMOVD(k, to)
			continue
		}
		r := g.GP32()
		g.VPCMPGTW(limit, x, x)
		g.VPMOVMSKB(x, r)
		g.MOVL(r, to)
	}
	g.ADDQ(operand.U32(16*g.maskBytes()), at)
	g.ADDQ(operand.U8(64), c)
	g.ADDQ(operand.U32(16*32), src)
	g.DECQ(left)
	g.JNE(operand.LabelRef("sixteen"))
	// m & (m-1) is 0 where there is at most one.
	for i := 0; i < 64*g.maskBytes(); i += g.bytes() {
		m, less, r := g.vec(), g.vec(), g.GP32()
		g.VMOVUPS(above.Offset(i), m)
		if blocks == 2 {
			k := g.K()
			g.VPADDW(minusOne, m, less)
			g.VPTESTMW(less, m, k)
			g.KMOVD(k, operand.Mem{Base: dense, Disp: i / 16})
			continue
		}
		g.VPAND(single, m, m)
		g.VPADDD(minusOne, m, less)
		g.VPAND(less, m, m)
		g.VPXOR(less, less, less)
		g.VPCMPEQD(less, m, m)
		g.VMOVMSKPS(m, r)
		g.NOTL(r)
		g.MOVB(r.As8(), operand.Mem{Base: dense, Disp: i / 32})
	}
	g.ADDQ(operand.U8(8), dense)
	g.DECQ(words)
	g.JNE(operand.LabelRef("word"))
	g.VZEROUPPER()
	g.RET()
}

// maskBytes is what a mask of the elements of a block takes: a bit an element,
// or two.
func (g *byBlock) maskBytes() int { return 32 / g.v.lanes }
