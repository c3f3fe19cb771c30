package main

import (
	"math"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowStep is how many f32 a round of a row takes: one vector of AVX-512, two of
// AVX2.
const rowStep = 16

// rowGen writes functions over rows of f32.
type rowGen struct {
	momentGen
	constants map[float32]operand.Op
}

func newRowGen(ctx *build.Context, v vectors) *rowGen {
	return &rowGen{momentGen{lanesOf{ctx, v}}, nil}
}

// Read-only memory is named by what it holds, and written once a file.
type rowData struct {
	*build.Context
	known map[string]operand.Mem
}

// words is memory of 16 times each of these words.
func (d *rowData) words(name string, words ...uint32) operand.Mem {
	if mem, ok := d.known[name]; ok {
		return mem
	}
	mem := d.StaticGlobal(name)
	d.DataAttributes(attr.RODATA | attr.NOPTR)
	at := 0
	for _, w := range words {
		for range rowStep {
			d.AddDatum(at, operand.U32(w))
			at += 4
		}
	}
	d.known[name] = mem
	return mem
}

// tail is the mask of a last round: the lanes that are in the row.
type tail struct{ reg reg.Register }

// rounds is the frame of a function over rows: body is emitted for every vector
// of a round, and once more for the tail. It reads and writes by load and store,
// whose pointers move with it. Lanes beyond the row read as 0.
func (g *rowGen) rounds(n reg.GPVirtual, pointers []reg.GPVirtual, masks operand.Mem, body func(part int, t *tail)) {
	parts := rowStep / g.v.lanes
	g.SUBQ(operand.U8(rowStep), n)
	g.JB(operand.LabelRef("tail"))
	g.Label("loop")
	for part := range parts {
		body(part, nil)
	}
	for _, p := range pointers {
		g.ADDQ(operand.U8(4*rowStep), p)
	}
	g.SUBQ(operand.U8(rowStep), n)
	g.JAE(operand.LabelRef("loop"))
	g.Label("tail")
	g.ADDQ(operand.U8(rowStep), n)
	g.JZ(operand.LabelRef("done"))
	if g.wide() {
		one, k := g.GP64(), g.K()
		g.MOVQ(operand.U32(1), one)
		g.SHLXQ(n, one, one)
		g.DECQ(one)
		g.KMOVW(one.As32(), k)
		body(0, &tail{k})
	} else {
		// 16 words of ones and as many of zeros: the mask starts 16−n before the zeros.
		from := g.GP64()
		g.LEAQ(masks.Offset(4*rowStep), from)
		g.SHLQ(operand.U8(2), n)
		g.SUBQ(n, from)
		for part := range parts {
			m := g.new()
			g.VMOVUPS(operand.Mem{Base: from, Disp: 4 * g.v.lanes * part}, m)
			body(part, &tail{m})
		}
	}
	g.Label("done")
}

// at is where a part of a round begins.
func (g *rowGen) at(p reg.GPVirtual, part int) operand.Mem {
	return operand.Mem{Base: p, Disp: 4 * g.v.lanes * part}
}

func (g *rowGen) get(m operand.Mem, t *tail) reg.VecVirtual {
	r := g.new()
	switch {
	case t == nil:
		g.VMOVUPS(m, r)
	case g.wide():
		g.VMOVUPS_Z(m, t.reg, r)
	default:
		g.VMASKMOVPS(m, t.reg, r)
	}
	return r
}

func (g *rowGen) put(r reg.VecVirtual, m operand.Mem, t *tail) {
	switch {
	case t == nil:
		g.VMOVUPS(r, m)
	case g.wide():
		g.VMOVUPS(r, t.reg, m)
	default:
		g.VMASKMOVPS(r, t.reg, m)
	}
}

// within is x in the row's lanes and +0 beyond.
func (g *rowGen) within(x reg.VecVirtual, t *tail) reg.VecVirtual {
	if t == nil {
		return x
	}
	r := g.new()
	if g.wide() {
		g.VMOVAPS_Z(x, t.reg, r)
	} else {
		g.VANDPS(t.reg, x, r)
	}
	return r
}

// spread is a parameter in every lane.
func (g *rowGen) spread(param string) reg.VecVirtual {
	r := g.new()
	p, err := g.Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	g.VBROADCASTSS(p.Addr, r)
	return r
}

func (g *rowGen) zero() reg.VecVirtual {
	r := g.new()
	if g.wide() {
		g.VPXORD(r, r, r)
	} else {
		g.VXORPS(r, r, r)
	}
	return r
}

// negated is −x.
func (g *rowGen) negated(x reg.VecVirtual, sign operand.Op) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		g.VPXORD(sign, x, r)
	} else {
		g.VXORPS(sign, x, r)
	}
	return r
}

// addF64 adds the f32 of x to sums of f64, the first parts of them.
func (g *rowGen) addF64(x reg.VecVirtual, sums []reg.VecVirtual, with func(x, sum reg.VecVirtual)) {
	var low, high reg.Register
	if g.wide() {
		h := g.YMM()
		g.VEXTRACTF64X4(operand.U8(1), x, h)
		low, high = x.AsY(), h
	} else {
		h := g.XMM()
		g.VEXTRACTF128(operand.U8(1), x, h)
		low, high = x.AsX(), h
	}
	for i, half := range []reg.Register{low, high} {
		d := g.new()
		g.VCVTPS2PD(half, d)
		with(d, sums[i])
	}
}

// f32s are the bits of numbers.
func f32s(x ...float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}
