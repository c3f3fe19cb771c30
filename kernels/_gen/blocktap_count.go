package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["blocktap_count"] = blockCount }

// countKind is what a function counts: the values of both halves of the bytes,
// of the upper ones, or of bytes up to 16.
type countKind struct {
	name, doc string
	low, high bool
	sixteen   bool
}

var countKinds = []countKind{
	{name: "Pairs", doc: "both halves", low: true, high: true},
	{name: "High", doc: "the upper halves", high: true},
	{name: "Bins", doc: "values up to 16", low: true, sixteen: true},
}

// countInputs is how many vectors of values a round takes.
const countInputs = 16

// bytes is what a round takes of the data.
func (k countKind) bytes(v vectors) int {
	n := countInputs * 4 * v.lanes
	if k.low && k.high {
		n /= 2
	}
	return n
}

func blockCount(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		for _, k := range countKinds {
			g := &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
			g.count(k)
		}
	}
}

// count writes one function. Each value is looked up as one bit of a byte, for
// 0…7 or for 8…15, and the bits of a position are counted over many vectors by
// carry-save adders, so that only one vector in sixteen is looked at bit by bit
// (Muła, Kurz, Lemire, Faster Population Counts Using AVX2 Instructions, 2018,
// of whole words; here by position).
func (g *blockGen) count(kind countKind) {
	name := "blockCount" + kind.name + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(fmt.Sprintf("%s adds the use of %s in rounds·%d bytes to counts; see countRef.", name, kind.doc, kind.bytes(g.v)))
	g.SignatureExpr("func(data *byte, rounds int, counts *int64)")
	counts := g.Load(g.Param("counts"), g.GP64()).(reg.GPVirtual)
	g.prepare(0x0f0f0f0f)
	if g.wide() {
		g.prepare(0x10101010)
		for bit := range 8 {
			g.prepare(0x01010101 << bit)
		}
		g.countPass(kind, counts, "", 0, 1)
	} else {
		// Registers do for one half of the values at a time.
		g.countPass(kind, counts, "Low", 0)
		g.countPass(kind, counts, "High", 1)
	}
	g.VZEROUPPER()
	g.RET()
}

// countPass goes over all data for the values 8·half … 8·half+7 of each half.
func (g *blockGen) countPass(kind countKind, counts reg.GPVirtual, label string, halves ...int) {
	data := g.Load(g.Param("data"), g.GP64()).(reg.GPVirtual)
	rounds := g.Load(g.Param("rounds"), g.GP64()).(reg.GPVirtual)
	var sums [2][4]reg.VecVirtual // ones, twos, fours, eights
	var lookup [2]reg.VecVirtual
	for _, half := range halves {
		lookup[half] = g.load(g.oneHot(half))
		for i := range sums[half] {
			sums[half][i] = g.new()
			g.clear(sums[half][i])
		}
	}
	g.Label("round" + label)
	var carries [2][4][]reg.VecVirtual // by level, what waits for a partner
	vector := 0
	for input := 0; input < countInputs; {
		bytes := g.load(operand.Mem{Base: data, Disp: vector * 4 * g.v.lanes})
		vector++
		var values []reg.VecVirtual
		if kind.low {
			low := bytes
			if !kind.sixteen { // else the look-up ignores the fifth bit
				low = g.andWith(g.k(0x0f0f0f0f), bytes)
			}
			values = append(values, low)
		}
		if kind.high {
			shifted := g.new()
			g.VPSRLW(operand.U8(4), bytes, shifted)
			values = append(values, g.andWith(g.k(0x0f0f0f0f), shifted))
		}
		if kind.sixteen && halves[0] == 0 {
			// It is looked up as 0.
			n := g.countBit(bytes, 4, counts, 16, 0)
			g.SUBQ(n, operand.Mem{Base: counts})
		}
		for _, v := range values {
			for _, half := range halves {
				hot := g.new()
				g.VPSHUFB(v, lookup[half], hot)
				g.carry(&sums[half], &carries[half], 0, hot, func(sixteens reg.VecVirtual) {
					g.countBits(sixteens, counts, half, 4)
				})
			}
			input++
		}
	}
	g.ADDQ(operand.U32(kind.bytes(g.v)), data)
	g.DECQ(rounds)
	g.JNZ(operand.LabelRef("round" + label))
	for _, half := range halves {
		for weight, s := range sums[half] {
			g.countBits(s, counts, half, weight)
		}
	}
}

// carry adds a vector of bits of weight 2^level. Two of a weight go into the
// sum of that weight at once, and the carry goes on.
func (g *blockGen) carry(sums *[4]reg.VecVirtual, waiting *[4][]reg.VecVirtual, level int, x reg.VecVirtual, out func(reg.VecVirtual)) {
	if level == len(sums) {
		out(x)
		return
	}
	if len(waiting[level]) == 0 {
		waiting[level] = append(waiting[level], x)
		return
	}
	y := waiting[level][0]
	waiting[level] = nil
	g.carry(sums, waiting, level+1, g.carrySave(sums[level], x, y), out)
}

// carrySave leaves the sum of three in s and gives the carry.
func (g *blockGen) carrySave(s, x, y reg.VecVirtual) (carry reg.VecVirtual) {
	carry = g.new()
	if g.wide() {
		g.VMOVDQA32(s, carry)
		g.VPTERNLOGD(operand.U8(0xe8), x, y, carry) // the majority
		g.VPTERNLOGD(operand.U8(0x96), x, y, s)     // odd
		return carry
	}
	odd, both := g.new(), g.new()
	g.VPXOR(x, s, odd)
	g.VPAND(x, s, both)
	g.VPAND(y, odd, carry)
	g.VPOR(both, carry, carry)
	g.VPXOR(y, odd, s)
	return carry
}

func (g *blockGen) clear(r reg.VecVirtual) {
	if g.wide() {
		g.VPXORD(r, r, r)
	} else {
		g.VPXOR(r, r, r)
	}
}

// countBits adds the bits of each position, 2^weight apiece, to the counts of
// the values of a half.
func (g *blockGen) countBits(x reg.VecVirtual, counts reg.GPVirtual, half, weight int) {
	for bit := range 8 {
		g.countBit(x, bit, counts, 8*half+bit, weight)
	}
}

// countBit adds how often a bit is set in the bytes of x, times 2^weight, to a
// count.
func (g *blockGen) countBit(x reg.VecVirtual, bit int, counts reg.GPVirtual, value, weight int) reg.GPVirtual {
	n := g.GP64()
	if g.wide() {
		k := g.K()
		g.VPTESTMB(g.k(0x01010101<<bit), x, k)
		g.KMOVQ(k, n)
		g.POPCNTQ(n, n)
	} else {
		top := x
		if bit < 7 {
			top = g.new()
			g.VPSLLW(operand.U8(7-bit), x, top)
		}
		g.VPMOVMSKB(top, n.As32())
		g.POPCNTL(n.As32(), n.As32())
	}
	if weight > 0 {
		g.SHLQ(operand.U8(weight), n)
	}
	g.ADDQ(n, operand.Mem{Base: counts, Disp: 8 * value})
	return n
}

// oneHot is a table for VPSHUFB: bit i of what is at 8·half+i.
func (g *blockGen) oneHot(half int) operand.Mem {
	words := make([]uint32, g.v.lanes)
	for i := range words {
		if i%4/2 == half {
			words[i] = 0x08040201 << (4 * (i % 2))
		}
	}
	return g.constants(fmt.Sprintf("blocksOneHot%d%s", half, g.v.suffix), words...)
}
