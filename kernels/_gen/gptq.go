package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["gptq"] = gptq }

// gptqRules are those of package kernels' gptqRule that have a kernel: E2M1 by
// quotients, and integers.
func gptqRules() []encodeRule {
	rules := []encodeRule{{name: "E2M1", mantissa: 1, lowest: bits1, largest: bits6}}
	for _, r := range encodeRules {
		if !r.float() {
			rules = append(rules, r)
		}
	}
	return rules
}

// factorStride is the bytes from a row of a block of M to the next: package
// kernels' factorBlock in f32.
const factorStride = 128 * 4

const largestF32 = 0x7f7fffff

func gptq(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		gen := func() *blockGen {
			return &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
		}
		for _, r := range gptqRules() {
			gen().columns(r)
		}
		gen().bookColumns()
		gen().moved()
		gen().measure()
	}
}

// loadPointer is a parameter in a register.
func (g *blockGen) loadPointer(name string) reg.GPVirtual {
	return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual)
}

// target is w+c, w where that is not finite, 0 where w is not. finite clears a
// register's lanes where w is not finite.
func (g *blockGen) target(w, c reg.VecVirtual) (t reg.VecVirtual, finite func(x reg.VecVirtual) reg.VecVirtual) {
	sum := g.new()
	g.VADDPS(c, w, sum)
	if g.wide() {
		kw, ks := g.K(), g.K()
		g.VPCMPUD(operand.U8(2), g.k(largestF32), g.andWith(g.k(absMask), w), kw)
		g.VPCMPUD(operand.U8(2), g.k(largestF32), g.andWith(g.k(absMask), sum), ks)
		t = g.new()
		g.VMOVAPS(w, t)
		g.VMOVAPS(sum, ks, t)
		finite = func(x reg.VecVirtual) reg.VecVirtual {
			r := g.new()
			g.VMOVAPS_Z(x, kw, r)
			return r
		}
		return finite(t), finite
	}
	large := g.load(g.k(largestF32).(operand.Mem))
	wrong := func(x reg.VecVirtual) reg.VecVirtual {
		r := g.new()
		g.VPCMPGTD(large, g.andWith(g.k(absMask), x), r)
		return r
	}
	odd, oddSum := wrong(w), wrong(sum)
	t = g.new()
	g.VBLENDVPS(oddSum, w, sum, t)
	finite = func(x reg.VecVirtual) reg.VecVirtual {
		r := g.new()
		g.VANDNPS(x, odd, r)
		return r
	}
	return finite(t), finite
}

// spreadTo adds x·m[i] to (or takes it off) the vectors from dst on, for i from 0
// to left−1. left and the pointers are lost.
func (g *blockGen) spreadTo(name string, x reg.VecVirtual, minus bool, m, dst, left reg.GPVirtual) {
	const unroll = 4
	width := 4 * g.v.lanes
	one := func(i int) {
		c := g.load(operand.Mem{Base: dst, Disp: width * i})
		at := operand.Mem{Base: m, Disp: 4 * i}
		switch {
		case g.wide() && minus:
			g.VFNMADD231PS_BCST(at, x, c)
		case g.wide():
			g.VFMADD231PS_BCST(at, x, c)
		default:
			f := g.new()
			g.VBROADCASTSS(at, f)
			if minus {
				g.VFNMADD231PS(f, x, c)
			} else {
				g.VFMADD231PS(f, x, c)
			}
		}
		g.VMOVUPS(c, operand.Mem{Base: dst, Disp: width * i})
	}
	g.SUBQ(operand.U8(unroll), left)
	g.JL(operand.LabelRef(name + "Few"))
	g.Label(name + "Loop")
	for i := range unroll {
		one(i)
	}
	g.ADDQ(operand.U8(4*unroll), m)
	g.ADDQ(operand.U32(width*unroll), dst)
	g.SUBQ(operand.U8(unroll), left)
	g.JGE(operand.LabelRef(name + "Loop"))
	g.Label(name + "Few")
	g.ADDQ(operand.U8(unroll), left)
	g.JZ(operand.LabelRef(name + "Done"))
	g.Label(name + "Last")
	one(0)
	g.ADDQ(operand.U8(4), m)
	g.ADDQ(operand.U32(width), dst)
	g.DECQ(left)
	g.JNZ(operand.LabelRef(name + "Last"))
	g.Label(name + "Done")
}

// columns writes gptqColumnsRef of one rule.
func (g *blockGen) columns(r encodeRule) {
	prepare := func() {
		if r.roundX || r.roundQ {
			g.prepare(1, 0x7fff, upper16)
		}
		switch {
		case r.float():
			g.prepare(r.largest, r.lowest, infF32, r.magic(), r.codeBase(), signF32)
		case r.minimum:
			g.prepare(0, bits15)
		default:
			g.prepare(bitsM8, bits7, 8)
		}
	}
	g.columnsBy(r.name, "offsets", "", prepare, func(base reg.GPVirtual, held func(param string) reg.VecVirtual, t reg.VecVirtual) (code, q reg.VecVirtual) {
		p := g.newParams(base)
		p.held[paramStep] = held("steps")
		if r.minimum || r.zero {
			p.held[paramOffset] = held("offsets")
		}
		return g.quantized(r, p, t)
	})
}

// bookStride is the bytes from a number of package kernels' gptqBook to the next,
// bookBorders how many borders stand before the values.
const (
	bookStride  = 16 * 4
	bookBorders = 3
)

// bookColumns writes gptqColumnsRef of a codebook: the code is how many borders the
// target is beyond.
func (g *blockGen) bookColumns() {
	prepare := func() { g.prepare(1) }
	says := " book is the whole of a gptqBook."
	g.columnsBy("Codebook", "book", says, prepare, func(base reg.GPVirtual, held func(param string) reg.VecVirtual, t reg.VecVirtual) (code, q reg.VecVirtual) {
		step := held("steps")
		u := g.over(step, t)
		g.Load(g.Param("book"), base)
		at := func(i int) operand.Mem { return operand.Mem{Base: base, Disp: bookStride * i} }
		const above = 0x1e // greater than, ordered, quiet
		code, value := g.new(), g.load(at(bookBorders))
		g.clear(code)
		for i := range bookBorders {
			next := at(bookBorders + 1 + i)
			if g.wide() {
				k := g.K()
				g.VCMPPS(operand.U8(above), at(i), u, k)
				g.VMOVUPS(next, k, value)
				g.VPADDD(g.k(1), code, k, code)
				continue
			}
			beyond := g.new()
			g.VCMPPS(operand.U8(above), at(i), u, beyond)
			g.VBLENDVPS(beyond, next, value, value)
			g.VPSUBD(beyond, code, code)
		}
		return code, g.times(step, value)
	})
}

// columnsBy writes gptqColumnsRef with what makes a code and what it decodes to of a
// target; extra is its parameter beside the steps. held loads a parameter that stands in
// lanes, by way of a register that is free.
func (g *blockGen) columnsBy(rule, extra, says string, prepare func(), code func(free reg.GPVirtual, held func(param string) reg.VecVirtual, t reg.VecVirtual) (code, q reg.VecVirtual)) {
	name := "gptqColumns" + rule + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is gptqColumnsRef of count columns, at least 1, by gptq" + rule + ". All pointers are at the first of them, m at its own element of M; behind are the columns of the block after the first." + says)
	g.SignatureExpr("func(count, behind int, m *float32, d *float64, params *int32, w, c, e *float32, codes *byte, steps, " + extra + " *float32, loss *float64)")
	count, behind := g.loadPointer("count"), g.loadPointer("behind")
	m, d, params := g.loadPointer("m"), g.loadPointer("d"), g.loadPointer("params")
	w, c, e, codes := g.loadPointer("w"), g.loadPointer("c"), g.loadPointer("e"), g.loadPointer("codes")
	width := 4 * g.v.lanes

	g.prepare(absMask, largestF32)
	prepare()
	g.Label("column")
	at, base := g.GP64(), g.GP64()
	g.MOVLQSX(operand.Mem{Base: params}, at)
	held := func(param string) reg.VecVirtual {
		g.Load(g.Param(param), base)
		x := g.new()
		g.VMOVUPS(operand.Mem{Base: base, Index: at, Scale: 4}, x)
		return x
	}
	x := g.load(operand.Mem{Base: w})
	t, finite := g.target(x, g.load(operand.Mem{Base: c}))
	chosen, q := code(base, held, t)
	g.storeLowBytes(chosen, codes)
	miss := g.new()
	g.VSUBPS(q, x, miss)
	miss = finite(miss)
	g.VMOVUPS(miss, operand.Mem{Base: e})
	q = finite(q)
	weight, lossAt := g.new(), g.loadPointer("loss")
	g.VBROADCASTSD(operand.Mem{Base: d}, weight)
	for half := range 2 {
		td, qd := g.double(t, half), g.double(q, half)
		g.VSUBPD(qd, td, td)
		g.VMULPD(td, td, td)
		sum := g.new()
		mem := operand.Mem{Base: lossAt, Disp: width * half}
		g.VMOVUPD(mem, sum)
		g.VFMADD231PD(weight, td, sum)
		g.VMOVUPD(sum, mem)
	}
	g.ADDQ(operand.U8(4), m)
	g.ADDQ(operand.U8(width), c)
	left, from, to := g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(behind, left)
	g.MOVQ(m, from)
	g.MOVQ(c, to)
	g.spreadTo("spread", miss, false, from, to, left)
	g.DECQ(behind)
	g.ADDQ(operand.U32(factorStride), m)
	g.ADDQ(operand.U8(8), d)
	g.ADDQ(operand.U8(4), params)
	g.ADDQ(operand.U8(width), w)
	g.ADDQ(operand.U8(width), e)
	g.ADDQ(operand.U8(g.v.lanes), codes)
	g.DECQ(count)
	g.JNZ(operand.LabelRef("column"))
	g.VZEROUPPER()
	g.RET()
}

// double is one half of x in f64.
func (g *blockGen) double(x reg.VecVirtual, half int) reg.VecVirtual {
	r := g.new()
	switch {
	case half == 0 && g.wide():
		g.VCVTPS2PD(x.AsY(), r)
	case half == 0:
		g.VCVTPS2PD(x.AsX(), r)
	case g.wide():
		y := g.YMM()
		g.VEXTRACTF64X4(operand.U8(1), x, y)
		g.VCVTPS2PD(y, r)
	default:
		y := g.XMM()
		g.VEXTRACTF128(operand.U8(1), x, y)
		g.VCVTPS2PD(y, r)
	}
	return r
}

// moved writes gptqMovedRef.
func (g *blockGen) moved() {
	name := "gptqMoved" + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is gptqMovedRef of count columns, at least 1; v has what is added to them. m is at the first one's own element of M.")
	g.SignatureExpr("func(count int, m, w, v *float32)")
	count, m, w, v := g.loadPointer("count"), g.loadPointer("m"), g.loadPointer("w"), g.loadPointer("v")
	width := 4 * g.v.lanes
	g.prepare(absMask, largestF32)
	g.Label("column")
	own := g.GP64()
	g.MOVQ(v, own)
	x := g.load(operand.Mem{Base: v})
	g.ADDQ(operand.U8(4), m)
	g.ADDQ(operand.U8(width), v)
	left, from, to := g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(count, left)
	g.DECQ(left)
	g.MOVQ(m, from)
	g.MOVQ(v, to)
	g.spreadTo("spread", x, true, from, to, left)
	weight := g.load(operand.Mem{Base: w})
	t, finite := g.target(weight, x)
	// A weight that is not finite stays, and t is 0 there.
	good := finite(weight)
	odd := g.new()
	if g.wide() {
		g.VPXORD(good, weight, odd)
	} else {
		g.VXORPS(good, weight, odd)
	}
	g.VMOVUPS(g.or(t, odd), operand.Mem{Base: own})
	g.ADDQ(operand.U8(width), w)
	g.ADDQ(operand.U32(factorStride), m)
	g.DECQ(count)
	g.JNZ(operand.LabelRef("column"))
	g.VZEROUPPER()
	g.RET()
}

// measure writes blockMeasureRef.
func (g *blockGen) measure() {
	name := "blockMeasure" + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is blockMeasureRef of n finite elements, a positive multiple of 16.")
	g.SignatureExpr("func(w, q *float32, n int, bins float32, dst *byte, sums *float64)")
	w, q, n, dst, sums := g.loadPointer("w"), g.loadPointer("q"), g.loadPointer("n"), g.loadPointer("dst"), g.loadPointer("sums")
	g.prepare(bits16, absMask)
	p := g.newParams(q)
	all := g.new()
	g.VBROADCASTSS(g.param("bins"), all)
	p.held[paramBins] = all
	acc := g.newSums(sums)
	g.Label("elements")
	decoded := g.load(operand.Mem{Base: q})
	g.storeBins(g.load(operand.Mem{Base: w}), decoded, p, dst)
	acc.add(w, decoded)
	g.ADDQ(operand.U32(4*g.v.lanes), w)
	g.ADDQ(operand.U32(4*g.v.lanes), q)
	g.ADDQ(operand.U32(g.v.lanes), dst)
	g.SUBQ(operand.U32(g.v.lanes), n)
	g.JNZ(operand.LabelRef("elements"))
	acc.store()
	g.VZEROUPPER()
	g.RET()
}
