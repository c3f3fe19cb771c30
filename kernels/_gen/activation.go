package main

import (
	"math"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["activation"] = activation }

func activation(ctx *build.Context) {
	d := &rowData{ctx, map[string]operand.Mem{}}
	for _, v := range []vectors{ymm, zmm} {
		g := newRowGen(ctx, v)
		g.gated(d, "silu", "gate, up *float32, n int", func() func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual) {
			sign := d.words("signBits", 1<<31)
			return func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual) {
				return x, g.negated(x, sign), u
			}
		})
		g.gated(d, "geluTanh", "gate, up *float32, n int", func() func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual) {
			linear := d.words("geluLinear", math.Float32bits(-1.5957691216057308))
			cubic := d.words("geluCubic", math.Float32bits(-0.07135481627260025))
			return func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual) {
				z := g.new()
				g.VMULPS(x, x, z)
				c := g.load(cubic)
				g.VFMADD213PS(linear, c, z)
				g.VMULPS(x, z, z)
				return x, z, u
			}
		})
		g.gated(d, "swiGLU", "gate, up *float32, n int, limit, slope float32", func() func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual) {
			sign, one := d.words("signBits", 1<<31), d.words("one", math.Float32bits(1))
			limit, slope := g.spread("limit"), g.spread("slope")
			low, down := g.negated(limit, sign), g.negated(slope, sign)
			return func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual) {
				v, w, z := g.new(), g.new(), g.new()
				g.VMINPS(x, limit, v)
				g.VMINPS(u, limit, w)
				g.VMAXPS(w, low, w)
				g.VADDPS(one, w, w)
				g.VMULPS(v, down, z)
				return v, z, w
			}
		})
		g.expSum(d)
		g.max(d)
		g.scaled(d)
		g.addScaled(d)
		g.sumSquares(d)
		g.mulScaled(d, false)
		g.mulScaled(d, true)
	}
}

// begin opens a function; pointers are its parameters that move with the rounds.
func (g *rowGen) begin(name, of, signature string, pointers ...string) (n reg.GPVirtual, at []reg.GPVirtual) {
	g.Function(name + g.v.suffix)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + g.v.suffix + " is " + of + " of n values, n positive.")
	g.SignatureExpr(signature)
	for _, p := range pointers {
		at = append(at, g.Load(g.Param(p), g.GP64()).(reg.GPVirtual))
	}
	return g.Load(g.Param("n"), g.GP64()).(reg.GPVirtual), at
}

// masks is what rounds wants for tails.
func (d *rowData) masks() operand.Mem { return d.words("rowMasks", 1<<32-1, 0) }

func (g *rowGen) end() {
	g.VZEROUPPER()
	g.RET()
}

// gated writes x/(1+e^z)·u, with x, z and u as terms makes them of both rows.
func (g *rowGen) gated(d *rowData, name, parameters string, prepare func() func(x, u reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual, reg.VecVirtual)) {
	n, at := g.begin(name, name+"Ref", "func("+parameters+")", "gate", "up")
	exp := g.exp(d)
	terms := prepare()
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		x, z, u := terms(g.get(g.at(at[0], part), t), g.get(g.at(at[1], part), t))
		e, y := exp.of(z), g.new()
		g.VADDPS(exp.c[expOne], e, e)
		g.VDIVPS(e, x, y)
		g.VMULPS(u, y, y)
		g.put(y, g.at(at[0], part), t)
	})
	g.end()
}

// sums are the f64 lanes of a row, zeroed.
func (g *rowGen) sums() []reg.VecVirtual {
	out := make([]reg.VecVirtual, rowStep/(g.v.lanes/2))
	for i := range out {
		out[i] = g.zero()
	}
	return out
}

func (g *rowGen) expSum(d *rowData) {
	n, at := g.begin("expSum", "expSumRef", "func(x *float32, n int, m float32) float64", "x")
	exp, m, sums := g.exp(d), g.spread("m"), g.sums()
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		x := g.get(g.at(at[0], part), t)
		g.VSUBPS(m, x, x)
		e := exp.of(x)
		g.put(e, g.at(at[0], part), t)
		g.addF64(g.within(e, t), sums[2*part:], func(x, sum reg.VecVirtual) { g.VADDPD(x, sum, sum) })
	})
	g.Store(g.tree(sums), g.ReturnIndex(0))
	g.end()
}

func (g *rowGen) sumSquares(d *rowData) {
	n, at := g.begin("sumSquares", "sumSquaresRef", "func(x *float32, n int) float64", "x")
	sums := g.sums()
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		g.addF64(g.get(g.at(at[0], part), t), sums[2*part:], func(x, sum reg.VecVirtual) { g.VFMADD231PD(x, x, sum) })
	})
	g.Store(g.tree(sums), g.ReturnIndex(0))
	g.end()
}

// max keeps the largest of each lane and, since a maximum drops a NaN that came
// before, apart from it where one was.
func (g *rowGen) max(d *rowData) {
	n, at := g.begin("max", "maxRef", "func(x *float32, n int) float32", "x")
	lowest := d.words("lowest", math.Float32bits(float32(math.Inf(-1))))
	most := g.load(lowest)
	nan := g.zero()
	const unordered = 3
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		x := g.get(g.at(at[0], part), t)
		if g.wide() {
			if t != nil {
				y := g.load(lowest)
				g.VMOVAPS(x, t.reg, y)
				x = y
			}
			there := g.K()
			g.VCMPPS(operand.U8(unordered), x, x, there)
			g.VMOVAPS(x, there, nan)
		} else {
			if t != nil {
				y := g.load(lowest)
				g.VBLENDVPS(t.reg, x, y, y)
				x = y
			}
			there := g.new()
			g.VCMPPS(operand.U8(unordered), x, x, there)
			g.VORPS(there, nan, nan)
		}
		g.VMAXPS(x, most, most)
	})
	// Fold the lanes; a NaN in nan makes the sum with it one.
	low, lowNaN := g.halves(most, nan)
	for _, order := range []uint8{0x4e, 0xb1} {
		a, b := g.XMM(), g.XMM()
		g.VPERMILPS(operand.U8(order), low, a)
		g.VMAXPS(a, low, low)
		g.VPERMILPS(operand.U8(order), lowNaN, b)
		g.VORPS(b, lowNaN, lowNaN)
	}
	g.VADDSS(lowNaN, low, low) // +0 where there was none, which makes −0 +0
	g.Store(low, g.ReturnIndex(0))
	g.end()
}

// halves folds vectors to four lanes, the first by maximum, the second by or.
func (g *rowGen) halves(most, nan reg.VecVirtual) (reg.VecVirtual, reg.VecVirtual) {
	if g.wide() {
		a, b := g.YMM(), g.YMM()
		g.VEXTRACTF64X4(operand.U8(1), most, a)
		g.VMAXPS(a, most.AsY(), a)
		g.VEXTRACTF64X4(operand.U8(1), nan, b)
		g.VORPS(b, nan.AsY(), b)
		most, nan = a, b
	}
	a, b := g.XMM(), g.XMM()
	g.VEXTRACTF128(operand.U8(1), most.AsY(), a)
	g.VMAXPS(a, most.AsX(), a)
	g.VEXTRACTF128(operand.U8(1), nan.AsY(), b)
	g.VORPS(b, nan.AsX(), b)
	return a, b
}

func (g *rowGen) scaled(d *rowData) {
	n, at := g.begin("scale", "scaleRef", "func(x *float32, n int, a float32)", "x")
	a := g.spread("a")
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		x := g.get(g.at(at[0], part), t)
		g.VMULPS(a, x, x)
		g.put(x, g.at(at[0], part), t)
	})
	g.end()
}

func (g *rowGen) addScaled(d *rowData) {
	n, at := g.begin("addScaled", "addScaledRef", "func(y, x *float32, n int, a float32)", "y", "x")
	a := g.spread("a")
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		y, x := g.get(g.at(at[0], part), t), g.get(g.at(at[1], part), t)
		g.VFMADD231PS(x, a, y)
		g.put(y, g.at(at[0], part), t)
	})
	g.end()
}

func (g *rowGen) mulScaled(d *rowData, plusOne bool) {
	name, of := "mulScaled", "mulScaledRef"
	if plusOne {
		name, of = "mulScaledPlusOne", "mulScaledRef with plusOne"
	}
	n, at := g.begin(name, of, "func(y, x, w *float32, n int, a float32)", "y", "x", "w")
	a := g.spread("a")
	one := d.words("one", math.Float32bits(1))
	g.rounds(n, at, d.masks(), func(part int, t *tail) {
		x, w := g.get(g.at(at[1], part), t), g.get(g.at(at[2], part), t)
		g.VMULPS(a, x, x)
		if plusOne {
			g.VADDPS(one, w, w)
		}
		g.VMULPS(w, x, x)
		g.put(x, g.at(at[0], part), t)
	})
	g.end()
}
