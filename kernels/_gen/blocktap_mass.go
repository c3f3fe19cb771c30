package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["blocktap_mass"] = blockMass }

func blockMass(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		g := &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
		g.mass()
	}
}

// mass writes the function for one width.
func (g *blockGen) mass() {
	name := "blockMass" + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is blockMassRef of n finite elements, a positive multiple of 16.")
	g.SignatureExpr("func(w *float32, n int, mid, limit float64, lanes *float64)")
	w := g.Load(g.Param("w"), g.GP64()).(reg.GPVirtual)
	n := g.Load(g.Param("n"), g.GP64()).(reg.GPVirtual)
	lanes := g.Load(g.Param("lanes"), g.GP64()).(reg.GPVirtual)
	mid, limit, magnitude := g.new(), g.new(), g.new()
	g.VBROADCASTSD(g.param("mid"), mid)
	g.VBROADCASTSD(g.param("limit"), limit)
	if g.wide() {
		g.VPTERNLOGD(operand.U8(0xff), magnitude, magnitude, magnitude)
	} else {
		g.VPCMPEQD(magnitude, magnitude, magnitude)
	}
	g.VPSRLQ(operand.U8(1), magnitude, magnitude)
	parts := 16 / g.v.lanes
	acc := make([]reg.VecVirtual, parts)
	for i := range acc {
		acc[i] = g.new()
		g.VMOVUPD(operand.Mem{Base: lanes, Disp: 32 * i}, acc[i])
	}
	half := 2 * g.v.lanes // bytes of the elements that fill a vector
	g.Label("elements")
	for i := range 32 / half {
		x, d := g.new(), g.new()
		g.VCVTPS2PD(operand.Mem{Base: w, Disp: half * i}, x)
		g.VSUBPD(mid, x, d)
		a := acc[i%parts]
		if g.wide() {
			k := g.K()
			g.VPANDQ(magnitude, d, d)
			g.VCMPPD(operand.U8(1), d, limit, k) // limit < d
			g.VFMADD231PD(x, x, k, a)
			continue
		}
		g.VANDPD(magnitude, d, d)
		g.VCMPPD(operand.U8(1), d, limit, d)
		g.VANDPD(d, x, d)
		g.VFMADD231PD(d, d, a)
	}
	g.ADDQ(operand.U32(32), w)
	g.SUBQ(operand.U32(8), n)
	g.JNZ(operand.LabelRef("elements"))
	for i := range acc {
		g.VMOVUPD(acc[i], operand.Mem{Base: lanes, Disp: 32 * i})
	}
	g.VZEROUPPER()
	g.RET()
}
