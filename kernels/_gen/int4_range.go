package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["int4_range"] = int4Range }

// Coefficients of the polynomial of rangeTerm, and what makes an index of the
// exponent of its argument.
var (
	rangeCoefficients = []float32{-0.01663830131292343, 0.16280370950698853, 0.925420343875885, -0.0716114491224289}
	rangePowers       = 32
)

const (
	rangeFirstExponent = 127 - 25
	mantissaMask       = 1<<23 - 1
)

func int4Range(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		for _, r := range encodeRules {
			if !r.float() {
				g := &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
				g.rangeError(r)
			}
		}
	}
}

// powers is rangePower.
func (g *blockGen) powers() operand.Mem {
	words := make([]uint32, rangePowers)
	for i := 1; i < rangePowers; i++ {
		words[i] = math.Float32bits(float32(math.Exp2(1.2 * float64(i-25))))
	}
	return g.constants("rangePowers", words...)
}

// rangeError writes the function of one rule.
func (g *blockGen) rangeError(r encodeRule) {
	name := "rangeError" + r.name + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is rangeErrorRef by rule" + r.name + " of n finite elements, a positive multiple of 16, under one candidate or more. powers is rangePower.")
	g.SignatureExpr("func(w *float32, n int, params *float32, candidates int, norm float32, powers, lanes *float32)")
	w, n := g.GP64(), g.GP64()
	params := g.Load(g.Param("params"), g.GP64()).(reg.GPVirtual)
	candidates := g.Load(g.Param("candidates"), g.GP64()).(reg.GPVirtual)
	powers := g.Load(g.Param("powers"), g.GP64()).(reg.GPVirtual)
	lanes := g.Load(g.Param("lanes"), g.GP64()).(reg.GPVirtual)
	if r.roundX || r.roundQ {
		g.prepare(1, 0x7fff, upper16)
	}
	if r.minimum {
		g.prepare(0, bits15)
	} else {
		g.prepare(bitsM8, bits7)
	}
	g.prepare(mantissaMask, bits1, rangeFirstExponent, 31)
	for _, c := range rangeCoefficients {
		g.prepare(math.Float32bits(c))
	}
	norm := g.new()
	g.VBROADCASTSS(g.param("norm"), norm)
	var table [2]reg.VecVirtual
	if g.wide() {
		table = [2]reg.VecVirtual{g.load(operand.Mem{Base: powers}), g.load(operand.Mem{Base: powers, Disp: 64})}
	}
	g.Label("candidate")
	g.Load(g.Param("w"), w)
	g.Load(g.Param("n"), n)
	p := g.newParams(params)
	if g.wide() {
		p.hold(paramStep)
		p.hold(paramInverse)
		if r.minimum || r.zero {
			p.hold(paramOffset)
		}
	}
	parts := 16 / g.v.lanes
	acc := make([]reg.VecVirtual, parts)
	for i := range acc {
		acc[i] = g.load(operand.Mem{Base: lanes, Disp: 32 * i})
	}
	g.Label("elements")
	for i := range acc {
		x := g.load(operand.Mem{Base: w, Disp: 32 * i})
		_, v := g.intCode(r, g.nearly(r, p, x))
		q := g.decoded(r, p, v)
		e := g.times(norm, g.minus(q, x))
		term := g.rangeTerm(g.times(e, e), table, powers)
		g.VADDPS(term, acc[i], acc[i])
	}
	g.ADDQ(operand.U32(64), w)
	g.SUBQ(operand.U32(16), n)
	g.JNZ(operand.LabelRef("elements"))
	for i := range acc {
		g.VMOVUPS(acc[i], operand.Mem{Base: lanes, Disp: 32 * i})
	}
	g.ADDQ(operand.U32(paramSize), params)
	g.ADDQ(operand.U32(64), lanes)
	g.DECQ(candidates)
	g.JNZ(operand.LabelRef("candidate"))
	g.VZEROUPPER()
	g.RET()
}

// nearly is x of a rule with a product in place of the quotient.
func (g *blockGen) nearly(r encodeRule, p *blockParamRegs, w reg.VecVirtual) reg.VecVirtual {
	if r.minimum {
		w = g.minus(p.at(paramOffset), w)
	}
	x := g.times(p.at(paramInverse), w)
	if r.roundX {
		x = g.roundBF16(x)
	}
	if r.zero {
		x = g.plus(p.at(paramOffset), x)
		if r.roundX {
			x = g.roundBF16(x)
		}
	}
	return x
}

// rangeTerm is the term of y.
func (g *blockGen) rangeTerm(y reg.VecVirtual, table [2]reg.VecVirtual, powers reg.GPVirtual) reg.VecVirtual {
	// Exponents fit 16 bits, whose subtraction can stop at 0.
	at := g.three(g.VPSUBUSW, g.k(rangeFirstExponent), g.right(23, y))
	at = g.three(g.VPMINSD, g.k(31), at)
	m := g.orWith(g.k(bits1), g.andWith(g.k(mantissaMask), y))
	c := func(i int) operand.Op { return g.k(math.Float32bits(rangeCoefficients[i])) }
	sum := g.plus(c(1), g.times(c(0), m))
	sum = g.plus(c(2), g.times(m, sum))
	sum = g.plus(c(3), g.times(m, sum))
	if g.wide() {
		g.VPERMI2PS(table[1], table[0], at) // at is what is found there
		return g.times(at, sum)
	}
	power, all := g.new(), g.new()
	g.VPCMPEQD(all, all, all)
	g.VGATHERDPS(all, operand.Mem{Base: powers, Index: at, Scale: 4}, power)
	return g.times(power, sum)
}
