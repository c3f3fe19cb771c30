package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["cholesky"] = cholesky }

func cholesky(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		for _, rows := range v.rows {
			factorTile(ctx, v, rows)
		}
	}
}

// factorTile holds a tile of C in registers, as gemmTile does, in f64.
func factorTile(ctx *build.Context, v vectors, rows int) {
	lanes := v.lanes / 2
	name := fmt.Sprintf("factorTile%dx%d%s", rows, 2*lanes, v.suffix)
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " is factorTileRef of that many rows; depth is at least 1, lda and ldc are in bytes.")
	ctx.SignatureExpr("func(depth int, a *float64, lda int, b, c *float64, ldc int)")
	load := func(p string) reg.GPVirtual { return ctx.Load(ctx.Param(p), ctx.GP64()).(reg.GPVirtual) }
	depth, lda, b, c, ldc := load("depth"), load("lda"), load("b"), load("c"), load("ldc")
	width := 8 * lanes

	// Row 3q+r is at bases[q] + r·lda.
	bases := make([]reg.GPVirtual, (rows+2)/3)
	bases[0] = load("a")
	if len(bases) > 1 {
		lda3 := ctx.GP64()
		ctx.LEAQ(operand.Mem{Base: lda, Index: lda, Scale: 2}, lda3)
		for q := 1; q < len(bases); q++ {
			bases[q] = ctx.GP64()
			ctx.LEAQ(operand.Mem{Base: bases[q-1], Index: lda3, Scale: 1}, bases[q])
		}
	}
	at := func(r, k int) operand.Mem {
		m := operand.Mem{Base: bases[r/3], Disp: 8 * k}
		if r%3 > 0 {
			m.Index, m.Scale = lda, uint8(r%3)
		}
		return m
	}
	acc := make([][2]reg.VecVirtual, rows)
	for r := range acc {
		for h := range acc[r] {
			acc[r][h] = v.reg(ctx)
			ctx.VXORPD(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	b0, b1, x := v.reg(ctx), v.reg(ctx), v.reg(ctx)
	step := func(k int) {
		ctx.VMOVUPD(operand.Mem{Base: b, Disp: 2 * width * k}, b0)
		ctx.VMOVUPD(operand.Mem{Base: b, Disp: 2*width*k + width}, b1)
		for r := range acc {
			ctx.VBROADCASTSD(at(r, k), x)
			ctx.VFMADD231PD(b0, x, acc[r][0])
			ctx.VFMADD231PD(b1, x, acc[r][1])
		}
	}
	advance := func(steps int) {
		for _, p := range bases {
			ctx.ADDQ(operand.U8(8*steps), p)
		}
		ctx.ADDQ(operand.U32(2*width*steps), b)
	}
	const unroll = 4
	many := ctx.GP64()
	ctx.MOVQ(depth, many)
	ctx.SHRQ(operand.U8(2), many)
	ctx.JZ(operand.LabelRef("few"))
	ctx.Label("loop")
	for k := range unroll {
		step(k)
	}
	advance(unroll)
	ctx.DECQ(many)
	ctx.JNZ(operand.LabelRef("loop"))
	ctx.Label("few")
	ctx.ANDQ(operand.U8(unroll-1), depth)
	ctx.JZ(operand.LabelRef("store"))
	ctx.Label("last")
	step(0)
	advance(1)
	ctx.DECQ(depth)
	ctx.JNZ(operand.LabelRef("last"))
	ctx.Label("store")
	for r := range acc {
		for h := range acc[r] {
			mem := operand.Mem{Base: c, Disp: width * h}
			ctx.VMOVUPD(mem, b0)
			ctx.VSUBPD(acc[r][h], b0, b0)
			ctx.VMOVUPD(b0, mem)
		}
		if r < rows-1 {
			ctx.ADDQ(ldc, c)
		}
	}
	ctx.VZEROUPPER()
	ctx.RET()
}
