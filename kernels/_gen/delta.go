package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["delta"] = delta }

func delta(ctx *build.Context) {
	d := &rowData{ctx, map[string]operand.Mem{}}
	for _, v := range []vectors{ymm, zmm} {
		g := newRowGen(ctx, v)
		g.scaleRows(d)
		g.convolve(d)
	}
}

// open begins a function of several rows.
func (g *rowGen) open(name, doc, signature string) func(param string) reg.GPVirtual {
	g.Function(name + g.v.suffix)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + g.v.suffix + " is " + doc)
	g.SignatureExpr(signature)
	return func(param string) reg.GPVirtual { return g.Load(g.Param(param), g.GP64()).(reg.GPVirtual) }
}

// moved is a copy of a pointer that a round may move.
func (g *rowGen) moved(p reg.GPVirtual) reg.GPVirtual {
	m := g.GP64()
	g.MOVQ(p, m)
	return m
}

func (g *rowGen) scaleRows(d *rowData) {
	load := g.open("scaleRows", "scaleRowsRef; ldd and lds are bytes, rows and cols are positive.",
		"func(dst *float32, ldd int, src *float32, lds int, by *float32, rows, cols int)")
	dst, ldd, src, lds, by, rows, cols := load("dst"), load("ldd"), load("src"), load("lds"), load("by"), load("rows"), load("cols")
	g.Label("row")
	to, from, n := g.moved(dst), g.moved(src), g.moved(cols)
	a := g.new()
	g.VBROADCASTSS(operand.Mem{Base: by}, a)
	g.rounds(n, []reg.GPVirtual{to, from}, d.masks(), func(part int, t *tail) {
		x := g.get(g.at(from, part), t)
		g.VMULPS(a, x, x)
		g.put(x, g.at(to, part), t)
	})
	g.ADDQ(ldd, dst)
	g.ADDQ(lds, src)
	g.ADDQ(operand.U8(4), by)
	g.DECQ(rows)
	g.JNZ(operand.LabelRef("row"))
	g.end()
}

// convolve sums a column of x by one of w.
func (g *rowGen) convolve(d *rowData) {
	load := g.open("convolve", "convolveRef; ldx and ldw are bytes, n and taps are positive.",
		"func(y, x *float32, ldx int, w *float32, ldw, taps, n int)")
	y, x, ldx, w, ldw, taps, n := load("y"), load("x"), load("ldx"), load("w"), load("ldw"), load("taps"), load("n")
	at := 0
	g.rounds(n, []reg.GPVirtual{y, x, w}, d.masks(), func(part int, t *tail) {
		sum, from, by, left := g.zero(), g.moved(x), g.moved(w), g.moved(taps)
		label := "tap" + string(rune('A'+at))
		at++
		g.Label(label)
		a := g.get(g.at(from, part), t)
		b := g.get(g.at(by, part), t)
		g.VFMADD231PS(a, b, sum)
		g.ADDQ(ldx, from)
		g.ADDQ(ldw, by)
		g.DECQ(left)
		g.JNZ(operand.LabelRef(label))
		g.put(sum, g.at(y, part), t)
	})
	g.end()
}
