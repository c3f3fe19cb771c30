package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["logits"] = logits }

// exp64Table and exp64Constants are package kernels'.
var exp64Table = []uint64{
	0x3ff0000000000000, 0x3fefb5586cf9890f, 0x3fef72b83c7d517b, 0x3fef387a6e756238,
	0x3fef06fe0a31b715, 0x3feedea64c123422, 0x3feebfdad5362a27, 0x3feeab07dd485429,
	0x3feea09e667f3bcd, 0x3feea11473eb0187, 0x3feeace5422aa0db, 0x3feec49182a3f090,
	0x3feee89f995ad3ad, 0x3fef199bdd85529c, 0x3fef5818dcfba487, 0x3fefa4afa2a490da,
}

var exp64Constants = []float64{
	0x1.71547652b82fep4, 0x1.8p52, 0x1.62e42fefa39efp-5, 0x1.abc9e3b39803fp-60,
	0x1.6c14c6deef237p-10, 0x1.11123aae4bb8fp-7, 0x1.55555558fcb59p-5, 0x1.555555548f894p-3, 0x1.fffffffffffb9p-2, 1,
	-708,
}

const (
	exp64Scale = iota
	exp64Shifter
	exp64High
	exp64Low
	exp64P4
	exp64P3
	exp64P2
	exp64P1
	exp64P0
	exp64One
	exp64Bottom
)

// logitStep is how many f64 a round takes: one vector of AVX-512, two of AVX2.
const logitStep = 8

func logits(ctx *build.Context) {
	table := ctx.StaticGlobal("exp64Bits")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, w := range exp64Table {
		ctx.AddDatum(8*i, operand.U64(w))
	}
	constants := ctx.StaticGlobal("exp64Constants")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, c := range exp64Constants {
		for l := range logitStep {
			ctx.AddDatum(8*(logitStep*i+l), operand.F64(c))
		}
	}
	fifteen := ctx.StaticGlobal("lowBits")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for l := range logitStep {
		ctx.AddDatum(8*l, operand.U64(15))
	}
	ones := ctx.StaticGlobal("allBits")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for l := range logitStep {
		ctx.AddDatum(8*l, operand.U64(math.MaxUint64))
	}
	for _, v := range []vectors{ymm, zmm} {
		g := &logitGen{rowGen: newRowGen(ctx, v), table: table, constants: constants, fifteen: fifteen, ones: ones}
		g.logSum()
		g.divergence()
		g.find()
	}
}

// logitGen writes functions over rows of logits, in f64.
type logitGen struct {
	*rowGen
	table, constants, fifteen, ones operand.Mem

	c       [exp64Bottom + 1]operand.Op
	entries [2]reg.VecVirtual // of the table, where two registers hold it
	base    reg.GPVirtual     // of the table, elsewhere
}

// load64 loads what exp64 needs.
func (g *logitGen) load64() {
	for i := range g.c {
		mem := g.constants.Offset(8 * logitStep * i)
		g.c[i] = mem
		if g.wide() {
			r := g.new()
			g.VMOVUPD(mem, r)
			g.c[i] = r
		}
	}
	if g.wide() {
		for i := range g.entries {
			g.entries[i] = g.new()
			g.VMOVUPD(g.table.Offset(64*i), g.entries[i])
		}
		return
	}
	g.base = g.GP64()
	g.LEAQ(g.table, g.base)
}

// exp64 is package kernels' of x where that is not below its bound, and where that is.
func (g *logitGen) exp64(x reg.VecVirtual) (e reg.VecVirtual, there reg.Register) {
	t, n, r, p := g.new(), g.new(), g.new(), g.new()
	move := func(from operand.Op, to reg.VecVirtual) { g.VMOVUPD(from, to) }
	move(g.c[exp64Scale], t)
	g.VFMADD213PD(g.c[exp64Shifter], x, t)
	g.VSUBPD(g.c[exp64Shifter], t, n)
	move(x, r)
	g.VFNMADD231PD(g.c[exp64High], n, r)
	g.VFNMADD231PD(g.c[exp64Low], n, r)
	move(g.c[exp64P4], p)
	for _, c := range []int{exp64P3, exp64P2, exp64P1, exp64P0, exp64One} {
		g.VFMADD213PD(g.c[c], r, p)
	}
	g.VMULPD(r, p, p)
	scale := g.new()
	const notBelow = 29 // ordered
	if g.wide() {
		move(t, scale)
		g.VPERMI2PD(g.entries[1], g.entries[0], scale)
		g.VPSLLQ(operand.U8(48), t, t)
		g.VPADDQ(t, scale, scale)
		k := g.K()
		g.VCMPPD(operand.U8(notBelow), g.c[exp64Bottom], x, k)
		g.VFMADD213PD_Z(scale, scale, k, p)
		return p, k
	}
	index, all := g.new(), g.new()
	g.VPAND(g.fifteen, t, index)
	g.VMOVUPD(g.ones, all)
	g.VMOVUPD(g.ones, scale) // overwritten
	g.VGATHERQPD(all, operand.Mem{Base: g.base, Index: index, Scale: 8}, scale)
	g.VPSLLQ(operand.U8(48), t, t)
	g.VPADDQ(t, scale, scale)
	g.VFMADD213PD(scale, scale, p)
	mask := g.new()
	g.VCMPPD(operand.U8(notBelow), g.c[exp64Bottom], x, mask)
	g.VANDPD(mask, p, p)
	return p, mask
}

// parts is how many vectors a round takes.
func (g *logitGen) parts() int { return 2 * logitStep / g.v.lanes }

// sumsAt are the lanes that memory holds.
func (g *logitGen) sumsAt(mem func(part int) operand.Mem) []reg.VecVirtual {
	out := make([]reg.VecVirtual, g.parts())
	for i := range out {
		out[i] = g.new()
		g.VMOVUPD(mem(i), out[i])
	}
	return out
}

// all64 is a number in memory in every lane.
func (g *logitGen) all64(m operand.Mem) reg.VecVirtual {
	r := g.new()
	g.VBROADCASTSD(m, r)
	return r
}

// loop calls body for every part of every round.
func (g *logitGen) loop(n reg.GPVirtual, pointers []reg.GPVirtual, body func(part int)) {
	g.Label("loop")
	for part := range g.parts() {
		body(part)
	}
	for _, p := range pointers {
		g.ADDQ(operand.U8(4*logitStep), p)
	}
	g.SUBQ(operand.U8(logitStep), n)
	g.JNZ(operand.LabelRef("loop"))
}

// half is where a part's f32 are.
func (g *logitGen) half(p reg.GPVirtual, part int) operand.Mem {
	return operand.Mem{Base: p, Disp: 2 * g.v.lanes * part}
}

func (g *logitGen) logSum() {
	name := "logSum" + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " adds to lanes as logSumRef does; n is a positive multiple of 8.")
	g.SignatureExpr("func(x *float32, n int, m float64, lanes *float64)")
	x := g.Load(g.Param("x"), g.GP64()).(reg.GPVirtual)
	n := g.Load(g.Param("n"), g.GP64()).(reg.GPVirtual)
	lanes := g.Load(g.Param("lanes"), g.GP64()).(reg.GPVirtual)
	g.load64()
	m, err := g.Param("m").Resolve()
	if err != nil {
		panic(err)
	}
	most := g.all64(m.Addr)
	at := func(part int) operand.Mem { return operand.Mem{Base: lanes, Disp: 4 * g.v.lanes * part} }
	sums := g.sumsAt(at)
	g.loop(n, []reg.GPVirtual{x}, func(part int) {
		v := g.new()
		g.VCVTPS2PD(g.half(x, part), v)
		g.VSUBPD(most, v, v)
		e, _ := g.exp64(v)
		g.VADDPD(e, sums[part], sums[part])
	})
	for i, s := range sums {
		g.VMOVUPD(s, at(i))
	}
	g.end()
}

func (g *logitGen) divergence() {
	name := "divergence" + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " adds to lanes as divergenceRef does; n is a positive multiple of 8.")
	g.SignatureExpr("func(p, q *float32, n int, by, lanes *float64)")
	load := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	p, q, n, by, lanes := load("p"), load("q"), load("n"), load("by"), load("lanes")
	g.load64()
	var known [5]operand.Op
	field := func(i int) operand.Mem { return operand.Mem{Base: by, Disp: 8 * i} }
	if g.wide() {
		for i := range known {
			known[i] = g.all64(field(i))
		}
	}
	// Few registers: what the rows have in common is spread where it is used.
	less := func(i int, x reg.VecVirtual) {
		c, ok := known[i].(reg.VecVirtual)
		if !ok {
			c = g.all64(field(i))
		}
		g.VSUBPD(c, x, x)
	}
	at := func(sum int) func(part int) operand.Mem {
		return func(part int) operand.Mem { return operand.Mem{Base: lanes, Disp: 64*sum + 4*g.v.lanes*part} }
	}
	kl, reverse, entropy := g.sumsAt(at(0)), g.sumsAt(at(1)), g.sumsAt(at(2))
	g.loop(n, []reg.GPVirtual{p, q}, func(part int) {
		x, y, d := g.new(), g.new(), g.new()
		g.VCVTPS2PD(g.half(p, part), x)
		g.VCVTPS2PD(g.half(q, part), y)
		g.VSUBPD(y, x, d)
		less(4, d)
		less(0, x)
		less(1, x)
		e, there := g.exp64(x)
		g.addWhere(there, e, d, kl[part])
		g.addWhere(there, e, x, entropy[part])
		less(2, y)
		less(3, y)
		e, there = g.exp64(y)
		g.addWhere(there, e, d, reverse[part])
	})
	for i, sums := range [][]reg.VecVirtual{kl, reverse, entropy} {
		for part, s := range sums {
			g.VMOVUPD(s, at(i)(part))
		}
	}
	g.end()
}

// addWhere adds e·x to sum there; e is +0 elsewhere.
func (g *logitGen) addWhere(there reg.Register, e, x, sum reg.VecVirtual) {
	if g.wide() {
		g.VFMADD231PD(x, e, there, sum)
		return
	}
	// 0·0 changes no sum: none is −0.
	only := g.new()
	g.VANDPD(there, x, only)
	g.VFMADD231PD(only, e, sum)
}

// find looks for the first of equals.
func (g *logitGen) find() {
	name := "findValue" + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is the first index of x that holds a value equal to v, −1 where none does; n is a positive multiple of 16.")
	g.SignatureExpr("func(x *float32, n int, v float32) int")
	x := g.Load(g.Param("x"), g.GP64()).(reg.GPVirtual)
	n := g.Load(g.Param("n"), g.GP64()).(reg.GPVirtual)
	v := g.spread("v")
	i, bits := g.GP64(), g.GP64()
	g.XORQ(i, i)
	const equal = 0
	g.Label("loop")
	at := operand.Mem{Base: x, Index: i, Scale: 4}
	if g.wide() {
		k := g.K()
		g.VCMPPS(operand.U8(equal), at, v, k)
		g.KMOVW(k, bits.As32())
	} else {
		a, b, second := g.new(), g.new(), g.GP64()
		g.VCMPPS(operand.U8(equal), at, v, a)
		g.VCMPPS(operand.U8(equal), at.Offset(32), v, b)
		g.VMOVMSKPS(a, bits.As32())
		g.VMOVMSKPS(b, second.As32())
		g.SHLL(operand.U8(8), second.As32())
		g.ORL(second.As32(), bits.As32())
	}
	g.TESTL(bits.As32(), bits.As32())
	g.JNZ(operand.LabelRef("found"))
	g.ADDQ(operand.U8(16), i)
	g.CMPQ(i, n)
	g.JB(operand.LabelRef("loop"))
	g.MOVQ(operand.I32(-1), i)
	g.Store(i, g.ReturnIndex(0))
	g.end()
	g.Label("found")
	g.TZCNTL(bits.As32(), bits.As32())
	g.ADDQ(bits, i)
	g.Store(i, g.ReturnIndex(0))
	g.end()
}
