package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["moments"] = moments }

// momentLanes is how many running sums a row has.
const momentLanes = 16

func moments(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		for _, element := range []string{"BF16", "F16", "F32"} {
			g := &momentGen{lanesOf{ctx, v}}
			g.rows(element)
		}
	}
}

// momentGen writes the functions for sums of powers.
type momentGen struct{ lanesOf }

// narrow is a register of half the width: so many f32 fill a vector of f64.
func (g *momentGen) narrow() reg.VecVirtual {
	if g.wide() {
		return g.YMM()
	}
	return g.XMM()
}

// rows writes the function for one kind of element.
func (g *momentGen) rows(element string) {
	name := "moments" + element + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is momentsRef for rows rows of cols elements, both positive, cols a multiple of 16. Where an element is not finite, nor is the last sum of its row.")
	g.SignatureExpr("func(src *byte, rows, cols int, sums *float64)")
	src := g.Load(g.Param("src"), g.GP64()).(reg.GPVirtual)
	rows := g.Load(g.Param("rows"), g.GP64()).(reg.GPVirtual)
	sums := g.Load(g.Param("sums"), g.GP64()).(reg.GPVirtual)
	left := g.GP64()
	size := 2
	if element == "F32" {
		size = 4
	}
	atOnce := g.v.lanes / 2 // f64 in a vector
	parts := momentLanes / atOnce
	var acc [3][]reg.VecVirtual
	for i := range acc {
		for range parts {
			acc[i] = append(acc[i], g.new())
		}
	}

	g.Label("row")
	for i := range acc {
		for _, a := range acc[i] {
			if g.wide() {
				g.VPXORD(a, a, a)
			} else {
				g.VXORPD(a, a, a)
			}
		}
	}
	g.Load(g.Param("cols"), left)
	g.Label("elements")
	for p := range parts {
		x, at := g.new(), operand.Mem{Base: src, Disp: p * atOnce * size}
		switch half := g.narrow(); element {
		case "BF16":
			g.VPMOVZXWD(at, half)
			g.VPSLLD(operand.U8(16), half, half)
			g.VCVTPS2PD(half, x)
		case "F16":
			g.VCVTPH2PS(at, half)
			g.VCVTPS2PD(half, x)
		default:
			g.VCVTPS2PD(at, x)
		}
		square := g.new()
		g.VMULPD(x, x, square)
		g.VADDPD(x, acc[0][p], acc[0][p])
		g.VFMADD231PD(x, square, acc[1][p])
		g.VFMADD231PD(square, square, acc[2][p])
	}
	g.ADDQ(operand.U32(momentLanes*size), src)
	g.SUBQ(operand.U32(momentLanes), left)
	g.JNZ(operand.LabelRef("elements"))

	for i := range acc {
		g.VMOVSD(g.tree(acc[i]), operand.Mem{Base: sums, Disp: 8 * i})
	}
	g.ADDQ(operand.U32(8*len(acc)), sums)
	g.DECQ(rows)
	g.JNZ(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}

// tree adds the lanes as laneTree does. The sum is in the lowest lane.
func (g *momentGen) tree(lanes []reg.VecVirtual) reg.Register {
	for half := len(lanes) / 2; half > 0; half /= 2 {
		for i := range half {
			g.VADDPD(lanes[i+half], lanes[i], lanes[i])
		}
	}
	sum := lanes[0].AsY()
	if g.wide() {
		high := g.YMM()
		g.VEXTRACTF64X4(operand.U8(1), lanes[0], high)
		g.VADDPD(high, sum, sum)
	}
	low, high := sum.(reg.VecVirtual).AsX(), g.XMM()
	g.VEXTRACTF128(operand.U8(1), sum, high)
	g.VADDPD(high, low, low)
	g.VPERMILPD(operand.U8(1), low, high)
	g.VADDSD(high, low, low)
	return low
}
