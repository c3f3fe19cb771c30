package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["peak"] = peak }

// fmaChains is how many independent chains hide the latency of a multiply-add
// (4 or 5 cycles) on two units.
const fmaChains = 12

func peak(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		name := "fmaLoop" + v.suffix
		ctx.Function(name)
		ctx.Attributes(build.NOSPLIT)
		ctx.Doc(name + " does 48 multiply-adds of vectors a round; rounds is at least 1.")
		ctx.SignatureExpr("func(rounds int)")
		rounds := ctx.Load(ctx.Param("rounds"), ctx.GP64())
		var acc [fmaChains]reg.VecVirtual
		for i := range acc {
			acc[i] = v.reg(ctx)
			ctx.VXORPS(acc[i], acc[i], acc[i])
		}
		x := v.reg(ctx)
		ctx.VXORPS(x, x, x)
		ctx.Label("loop")
		for range 4 {
			for _, a := range acc {
				ctx.VFMADD231PS(x, x, a)
			}
		}
		ctx.DECQ(rounds)
		ctx.JNZ(operand.LabelRef("loop"))
		ctx.VZEROUPPER()
		ctx.RET()
	}
}
