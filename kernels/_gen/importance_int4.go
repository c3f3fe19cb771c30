package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["importance_int4"] = importanceInt4 }

func importanceInt4(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		for _, r := range encodeRules {
			if !r.float() {
				g := &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
				g.weighedError(r)
			}
		}
	}
}

// weighedError writes the function of one rule.
func (g *blockGen) weighedError(r encodeRule) {
	name := "weighedError" + r.name + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is weighedErrorRef by rule" + r.name + " of n finite elements, a positive multiple of 16, and as many factors, under one candidate or more.")
	g.SignatureExpr("func(w, f *float32, n int, params *float32, candidates int, norm float32, lanes *float32)")
	w, f, n := g.GP64(), g.GP64(), g.GP64()
	params := g.Load(g.Param("params"), g.GP64()).(reg.GPVirtual)
	candidates := g.Load(g.Param("candidates"), g.GP64()).(reg.GPVirtual)
	lanes := g.Load(g.Param("lanes"), g.GP64()).(reg.GPVirtual)
	if r.roundX || r.roundQ {
		g.prepare(1, 0x7fff, upper16)
	}
	if r.minimum {
		g.prepare(0, bits15)
	} else {
		g.prepare(bitsM8, bits7)
	}
	norm := g.new()
	g.VBROADCASTSS(g.param("norm"), norm)
	g.Label("candidate")
	g.Load(g.Param("w"), w)
	g.Load(g.Param("f"), f)
	g.Load(g.Param("n"), n)
	p := g.newParams(params)
	if g.wide() {
		p.hold(paramStep)
		p.hold(paramInverse)
		if r.minimum || r.zero {
			p.hold(paramOffset)
		}
	}
	acc := make([]reg.VecVirtual, 16/g.v.lanes)
	for i := range acc {
		acc[i] = g.load(operand.Mem{Base: lanes, Disp: 32 * i})
	}
	g.Label("elements")
	for i := range acc {
		x := g.load(operand.Mem{Base: w, Disp: 32 * i})
		_, v := g.intCode(r, g.nearly(r, p, x))
		e := g.times(norm, g.minus(g.decoded(r, p, v), x))
		term := g.times(operand.Mem{Base: f, Disp: 32 * i}, g.times(e, e))
		g.VADDPS(term, acc[i], acc[i])
	}
	g.ADDQ(operand.U32(64), w)
	g.ADDQ(operand.U32(64), f)
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
