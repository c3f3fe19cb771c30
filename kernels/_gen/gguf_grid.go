package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["gguf_grid"] = ggufGrid }

// gridGen writes sums over tries of a scale and a minimum. A vector of eight lanes is
// one try; of sixteen, two tries side by side.
type gridGen struct {
	lanesOf
	out, tries, x, w, n reg.GPVirtual
}

// Sizes of gridTry and gridSums, and a place in gridLevels.
const (
	gridTrySize    = 8
	gridSumsSize   = 32
	gridValuesAt   = 64
	gridSpreadAt   = 128
	gridBoundsWide = 15
)

func ggufGrid(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		g := &gridGen{lanesOf: lanesOf{ctx, v}}
		g.uniform()
		g.levels()
	}
}

// uniform clamps and rounds to integers.
func (g *gridGen) uniform() {
	var low, high, magic reg.VecVirtual
	g.function("uniformSums", "low, high float32", "", func() {
		low, high = g.new(), g.new()
		g.VBROADCASTSS(g.address("low"), low)
		g.VBROADCASTSS(g.address("high"), high)
		magic = g.all(math.Float32bits(3 << 22))
	}, func(t reg.VecVirtual) reg.VecVirtual {
		l := g.new()
		g.VMINPS(high, t, l)
		g.VMAXPS(low, l, l)
		g.VADDPS(magic, l, l)
		g.VSUBPS(magic, l, l)
		return l
	})
}

// levels finds the nearest of sixteen values by their bounds: all are counted in
// narrow vectors, and searched by halves in wide ones.
func (g *gridGen) levels() {
	var table reg.GPVirtual
	var values [2]reg.VecVirtual
	var halves [4]reg.VecVirtual
	var ones [4]reg.VecVirtual
	g.function("levelSums", "table *float32", " table is a gridLevels.", func() {
		table = g.Load(g.Param("table"), g.GP64()).(reg.GPVirtual)
		if !g.wide() {
			for i := range values {
				values[i] = g.load(operand.Mem{Base: table, Disp: gridValuesAt + 32*i})
			}
			return
		}
		values[0] = g.load(operand.Mem{Base: table, Disp: gridValuesAt})
		for i := range halves { // bounds from 7, 3, 1 and 0 on
			halves[i] = g.new()
			if i == 0 {
				g.VBROADCASTSS(operand.Mem{Base: table, Disp: 4 * 7}, halves[i])
			} else {
				g.VMOVUPS(operand.Mem{Base: table, Disp: 4 * (8>>i - 1)}, halves[i])
			}
			ones[i] = g.all(8 >> i)
		}
	}, func(t reg.VecVirtual) reg.VecVirtual {
		l := g.new()
		if !g.wide() {
			count, is := g.new(), g.new()
			g.VPXOR(count, count, count)
			for i := range gridBoundsWide {
				g.VCMPPS(operand.U8(13), operand.Mem{Base: table, Disp: gridSpreadAt + 32*i}, t, is)
				g.VPSUBD(is, count, count)
			}
			upper := g.new()
			g.VPERMPS(values[0], count, l)
			g.VPERMPS(values[1], count, upper)
			g.VPSLLD(operand.U8(28), count, count)
			g.VBLENDVPS(count, upper, l, l)
			return l
		}
		index, bound := g.new(), g.new()
		k := g.K()
		g.VCMPPS(operand.U8(13), halves[0], t, k)
		g.VMOVDQA32_Z(ones[0], k, index)
		for i := 1; i < len(halves); i++ {
			g.VPERMPS(halves[i], index, bound)
			k := g.K()
			g.VCMPPS(operand.U8(13), bound, t, k)
			g.VPADDD(ones[i], index, k, index)
		}
		g.VPERMPS(values[0], index, l)
		return l
	})
}

// function writes the frame: nearest makes l of t.
func (g *gridGen) function(name, params, doc string, prepare func(), nearest func(t reg.VecVirtual) reg.VecVirtual) {
	g.Function(name + g.v.suffix)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	what := "tries, one or more"
	if g.wide() {
		what = "pairs of tries, one or more"
	}
	g.Doc(name + g.v.suffix + " is " + name + "Ref of so many " + what + ", and of n elements, a positive multiple of 8." + doc)
	g.SignatureExpr("func(out, tries *float32, count int, x, w *float32, n int, " + params + ")")
	load := func(p string) reg.GPVirtual { return g.Load(g.Param(p), g.GP64()).(reg.GPVirtual) }
	g.out, g.tries = load("out"), load("tries")
	count := load("count")
	x, w, n := load("x"), load("w"), load("n")
	g.SHLQ(operand.U8(2), n)
	prepare()
	inverse, least := g.new(), g.new()
	var upper reg.Register
	if g.wide() {
		word := g.GP32()
		upper = g.K()
		g.MOVL(operand.U32(0xff00), word)
		g.KMOVW(word, upper)
	}
	acc := make([]reg.VecVirtual, 5)
	for i := range acc {
		acc[i] = g.new()
	}
	g.Label("try")
	g.VBROADCASTSS(operand.Mem{Base: g.tries}, inverse)
	g.VBROADCASTSS(operand.Mem{Base: g.tries, Disp: 4}, least)
	if g.wide() {
		g.VBROADCASTSS(operand.Mem{Base: g.tries, Disp: gridTrySize}, upper, inverse)
		g.VBROADCASTSS(operand.Mem{Base: g.tries, Disp: gridTrySize + 4}, upper, least)
	}
	for _, a := range acc {
		g.clear(a)
	}
	at := g.GP64()
	g.XORQ(at, at)
	g.Label("elements")
	xs, ws := g.both(operand.Mem{Base: x, Index: at, Scale: 1}), g.both(operand.Mem{Base: w, Index: at, Scale: 1})
	t := g.new()
	g.VSUBPS(least, xs, t)
	g.VMULPS(inverse, t, t)
	l := nearest(t)
	r, wr, wl := g.new(), g.new(), g.new()
	g.VSUBPS(l, t, r)
	g.VMULPS(r, ws, wr)
	g.VMULPS(l, ws, wl)
	g.VADDPS(wr, acc[3], acc[3])
	g.VADDPS(wl, acc[4], acc[4])
	for i, factors := range [3][2]reg.VecVirtual{{r, wr}, {l, wr}, {l, wl}} {
		p := g.new()
		g.VMULPS(factors[0], factors[1], p)
		g.VADDPS(p, acc[i], acc[i])
	}
	g.ADDQ(operand.U32(32), at)
	g.CMPQ(at, n)
	g.JNE(operand.LabelRef("elements"))
	g.store(acc)
	tries := 1
	if g.wide() {
		tries = 2
	}
	g.ADDQ(operand.U32(tries*gridTrySize), g.tries)
	g.ADDQ(operand.U32(tries*gridSumsSize), g.out)
	g.DECQ(count)
	g.JNZ(operand.LabelRef("try"))
	g.VZEROUPPER()
	g.RET()
}

// address is that of a parameter.
func (g *gridGen) address(name string) operand.Mem {
	p, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// clear makes a vector 0.
func (g *gridGen) clear(v reg.VecVirtual) {
	if g.wide() {
		g.VPXORD(v, v, v)
	} else {
		g.VPXOR(v, v, v)
	}
}

// both is eight elements of memory, twice in a wide vector.
func (g *gridGen) both(m operand.Mem) reg.VecVirtual {
	v := g.new()
	if g.wide() {
		g.VBROADCASTF32X8(m, v)
	} else {
		g.VMOVUPS(m, v)
	}
	return v
}

// store adds the lanes of each sum up, 0 and 4, 2 and 6, 1 and 5, 3 and 7 first, and
// writes them: one try in XMM registers, two in the halves of YMM ones.
func (g *gridGen) store(acc []reg.VecVirtual) {
	narrow := func() reg.VecVirtual {
		if g.wide() {
			return g.YMM()
		}
		return g.XMM()
	}
	same := func(v reg.VecVirtual) reg.VecVirtual {
		if g.wide() {
			return v.AsY().(reg.VecVirtual)
		}
		return v.AsX().(reg.VecVirtual)
	}
	four := make([]reg.VecVirtual, len(acc))
	for i, a := range acc {
		high := g.new()
		if g.wide() {
			low := g.new()
			g.VSHUFF32X4(operand.U8(0x88), a, a, low)
			g.VSHUFF32X4(operand.U8(0xdd), a, a, high)
			a = low
		} else {
			g.VEXTRACTF128(operand.U8(1), a, high.AsX())
		}
		four[i] = narrow()
		g.VADDPS(same(high), same(a), four[i])
	}
	pair := func(a, b reg.VecVirtual) reg.VecVirtual { // 0+2 and 1+3 of a, then of b
		low, high := narrow(), narrow()
		g.VUNPCKLPD(b, a, low)
		g.VUNPCKHPD(b, a, high)
		g.VADDPS(high, low, low)
		return low
	}
	whole := func(p, q reg.VecVirtual) reg.VecVirtual {
		even, odd := narrow(), narrow()
		g.VSHUFPS(operand.U8(0x88), q, p, even)
		g.VSHUFPS(operand.U8(0xdd), q, p, odd)
		g.VADDPS(odd, even, even)
		return even
	}
	first := whole(pair(four[0], four[1]), pair(four[2], four[3]))
	last := pair(four[4], four[4])
	last = whole(last, last)
	g.VMOVUPS(first.AsX(), operand.Mem{Base: g.out})
	g.VMOVSS(last.AsX(), operand.Mem{Base: g.out, Disp: 16})
	if g.wide() {
		for i, v := range []reg.VecVirtual{first, last} {
			x := g.XMM()
			g.VEXTRACTF32X4(operand.U8(1), v, x)
			if i == 0 {
				g.VMOVUPS(x, operand.Mem{Base: g.out, Disp: gridSumsSize})
			} else {
				g.VMOVSS(x, operand.Mem{Base: g.out, Disp: gridSumsSize + 16})
			}
		}
	}
}
