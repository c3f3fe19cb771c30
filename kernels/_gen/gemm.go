package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["gemm"] = gemm }

// gemmDepth is package kernels' constant of the same name: the floats from one
// packed row of A to the next.
const gemmDepth = 256

// vectors is one width of vector registers.
type vectors struct {
	suffix string
	lanes  int
	reg    func(*build.Context) reg.VecVirtual
	rows   []int // of C in a tile, each count a function of its own; a tile is two vectors wide
}

var (
	ymm = vectors{suffix: "AVX2", lanes: 8, reg: (*build.Context).YMM, rows: []int{1, 2, 4, 6}}
	zmm = vectors{suffix: "AVX512", lanes: 16, reg: (*build.Context).ZMM, rows: []int{1, 2, 4, 8, 14}}
)

func gemm(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		for _, rows := range v.rows {
			gemmTile(ctx, v, rows)
		}
		copyPanel(ctx, v)
		transposeF32(ctx, v)
		transposeBF16(ctx, v)
	}
}

// gemmTile holds a tile of C in registers: each step of k broadcasts rows
// elements of A and multiplies them into two vectors of B.
func gemmTile(ctx *build.Context, v vectors, rows int) {
	name := fmt.Sprintf("gemmTile%dx%d%s", rows, 2*v.lanes, v.suffix)
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + " is gemmTileRef of that many rows; depth is at least 1.")
	ctx.SignatureExpr("func(depth int, a, b, c *float32, stride int, alpha float32, accumulate bool)")
	depth := ctx.Load(ctx.Param("depth"), ctx.GP64())
	a := ctx.Load(ctx.Param("a"), ctx.GP64()).(reg.GPVirtual)
	b := ctx.Load(ctx.Param("b"), ctx.GP64()).(reg.GPVirtual)
	c := ctx.Load(ctx.Param("c"), ctx.GP64()).(reg.GPVirtual)
	stride := ctx.Load(ctx.Param("stride"), ctx.GP64()).(reg.GPVirtual)
	ctx.SHLQ(operand.U8(2), stride)
	width := 4 * v.lanes

	// C is wanted at the end: ask for it now.
	row := ctx.GP64()
	ctx.MOVQ(c, row)
	for r := range rows {
		for at := 0; at < 2*width; at += 64 {
			ctx.PREFETCHT0(operand.Mem{Base: row, Disp: at})
		}
		if r < rows-1 {
			ctx.ADDQ(stride, row)
		}
	}
	acc := make([][2]reg.VecVirtual, rows)
	for r := range acc {
		for h := range acc[r] {
			acc[r][h] = v.reg(ctx)
			ctx.VXORPS(acc[r][h], acc[r][h], acc[r][h])
		}
	}
	b0, b1, x := v.reg(ctx), v.reg(ctx), v.reg(ctx)
	step := func(k int) {
		ctx.VMOVUPS(operand.Mem{Base: b, Disp: 2 * width * k}, b0)
		ctx.VMOVUPS(operand.Mem{Base: b, Disp: 2*width*k + width}, b1)
		for r := range acc {
			ctx.VBROADCASTSS(operand.Mem{Base: a, Disp: 4*gemmDepth*r + 4*k}, x)
			ctx.VFMADD231PS(b0, x, acc[r][0])
			ctx.VFMADD231PS(b1, x, acc[r][1])
		}
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
	ctx.ADDQ(operand.U8(4*unroll), a)
	ctx.ADDQ(operand.U32(2*width*unroll), b)
	ctx.DECQ(many)
	ctx.JNZ(operand.LabelRef("loop"))
	ctx.Label("few")
	ctx.ANDQ(operand.U8(unroll-1), depth)
	ctx.JZ(operand.LabelRef("store"))
	ctx.Label("last")
	step(0)
	ctx.ADDQ(operand.U8(4), a)
	ctx.ADDQ(operand.U32(2*width), b)
	ctx.DECQ(depth)
	ctx.JNZ(operand.LabelRef("last"))

	ctx.Label("store")
	alpha, _ := ctx.Param("alpha").Resolve()
	ctx.VBROADCASTSS(alpha.Addr, b0)
	accumulate := ctx.Load(ctx.Param("accumulate"), ctx.GP8())
	ctx.TESTB(accumulate, accumulate)
	ctx.JZ(operand.LabelRef("overwrite"))
	for r := range acc {
		for h := range acc[r] {
			at := operand.Mem{Base: c, Disp: width * h}
			ctx.VFMADD213PS(at, b0, acc[r][h])
			ctx.VMOVUPS(acc[r][h], at)
		}
		if r < rows-1 {
			ctx.ADDQ(stride, c)
		}
	}
	ctx.VZEROUPPER()
	ctx.RET()
	ctx.Label("overwrite")
	ctx.VXORPS(b1, b1, b1)
	for r := range acc {
		for h := range acc[r] {
			ctx.VFMADD213PS(b1, b0, acc[r][h])
			ctx.VMOVUPS(acc[r][h], operand.Mem{Base: c, Disp: width * h})
		}
		if r < rows-1 {
			ctx.ADDQ(stride, c)
		}
	}
	ctx.VZEROUPPER()
	ctx.RET()
}

// copyPanel copies two vectors of each row. Rows are pages apart, where the
// CPU does not look ahead by itself.
func copyPanel(ctx *build.Context, v vectors) {
	const ahead = 8 // rows
	name := "copyPanel" + v.suffix
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(fmt.Sprintf("%s is copyPanelRef of %d columns; lds is in bytes, rows is at least 1.", name, 2*v.lanes))
	ctx.SignatureExpr("func(dst, src *float32, lds, rows int)")
	load := func(p string) reg.GPVirtual { return ctx.Load(ctx.Param(p), ctx.GP64()).(reg.GPVirtual) }
	dst, src, lds, rows := load("dst"), load("src"), load("lds"), load("rows")
	width := 4 * v.lanes
	ctx.Label("loop")
	ctx.PREFETCHT0(operand.Mem{Base: src, Index: lds, Scale: ahead})
	if width == 64 {
		ctx.PREFETCHT0(operand.Mem{Base: src, Disp: width, Index: lds, Scale: ahead})
	}
	x, y := v.reg(ctx), v.reg(ctx)
	ctx.VMOVUPS(operand.Mem{Base: src}, x)
	ctx.VMOVUPS(operand.Mem{Base: src, Disp: width}, y)
	ctx.VMOVUPS(x, operand.Mem{Base: dst})
	ctx.VMOVUPS(y, operand.Mem{Base: dst, Disp: width})
	ctx.ADDQ(lds, src)
	ctx.ADDQ(operand.U32(2*width), dst)
	ctx.DECQ(rows)
	ctx.JNZ(operand.LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}

// gather loads 16 bytes of each row, those of rows r, r+4, … into the lanes of
// 128 bits of register r: once the 4×4 words in every lane are transposed,
// register k holds word k of all rows in order.
func gather(ctx *build.Context, v vectors, src reg.GPVirtual, lds, lds3 reg.GPVirtual) [4]reg.VecVirtual {
	// Row 4q+r is at quad[q] + r·lds.
	var rows [4]reg.VecVirtual
	quads := make([]reg.GPVirtual, v.lanes/4)
	quads[0] = src
	for q := 1; q < len(quads); q++ {
		quads[q] = ctx.GP64()
		ctx.LEAQ(operand.Mem{Base: quads[q-1], Index: lds, Scale: 4}, quads[q])
	}
	at := func(q, r int) operand.Mem {
		switch r {
		case 0:
			return operand.Mem{Base: quads[q]}
		case 3:
			return operand.Mem{Base: quads[q], Index: lds3, Scale: 1}
		default:
			return operand.Mem{Base: quads[q], Index: lds, Scale: uint8(r)}
		}
	}
	for r := range rows {
		rows[r] = v.reg(ctx)
		ctx.VMOVUPS(at(0, r), rows[r].AsX())
		for q := 1; q < len(quads); q++ {
			if v.lanes == 8 {
				ctx.VINSERTF128(operand.U8(q), at(q, r), rows[r], rows[r])
			} else {
				ctx.VINSERTF32X4(operand.U8(q), at(q, r), rows[r], rows[r])
			}
		}
	}
	return rows
}

// transpose4 transposes the 4×4 words in every 128-bit lane.
func transpose4(ctx *build.Context, v vectors, rows [4]reg.VecVirtual) [4]reg.VecVirtual {
	var t, out [4]reg.VecVirtual
	for i := range t {
		t[i], out[i] = v.reg(ctx), v.reg(ctx)
	}
	ctx.VUNPCKLPS(rows[1], rows[0], t[0])
	ctx.VUNPCKHPS(rows[1], rows[0], t[1])
	ctx.VUNPCKLPS(rows[3], rows[2], t[2])
	ctx.VUNPCKHPS(rows[3], rows[2], t[3])
	ctx.VUNPCKLPD(t[2], t[0], out[0])
	ctx.VUNPCKHPD(t[2], t[0], out[1])
	ctx.VUNPCKLPD(t[3], t[1], out[2])
	ctx.VUNPCKHPD(t[3], t[1], out[3])
	return out
}

// strips is the frame of a transposing function: body transposes 16 bytes of
// each row and is called until quads of them are done.
func strips(ctx *build.Context, name, element, doc string, body func(dst, ldd, src, lds, lds3 reg.GPVirtual)) {
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(doc)
	ctx.SignatureExpr("func(dst *float32, ldd int, src *" + element + ", lds, quads int)")
	load := func(p string) reg.GPVirtual { return ctx.Load(ctx.Param(p), ctx.GP64()).(reg.GPVirtual) }
	dst, ldd, src, lds, quads := load("dst"), load("ldd"), load("src"), load("lds"), load("quads")
	lds3 := ctx.GP64()
	ctx.LEAQ(operand.Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	ctx.Label("loop")
	body(dst, ldd, src, lds, lds3)
	ctx.ADDQ(operand.U8(16), src)
	ctx.DECQ(quads)
	ctx.JNZ(operand.LabelRef("loop"))
	ctx.VZEROUPPER()
	ctx.RET()
}

func transposeF32(ctx *build.Context, v vectors) {
	name := "transposeF32" + v.suffix
	strips(ctx, name, "float32", fmt.Sprintf("%s is transposeRef of %d rows of 4·quads floats; lds and ldd are bytes, quads is at least 1.", name, v.lanes),
		func(dst, ldd, src, lds, lds3 reg.GPVirtual) {
			for _, x := range transpose4(ctx, v, gather(ctx, v, src, lds, lds3)) {
				ctx.VMOVUPS(x, operand.Mem{Base: dst})
				ctx.ADDQ(ldd, dst)
			}
		})
}

func transposeBF16(ctx *build.Context, v vectors) {
	name := "transposeBF16" + v.suffix
	strips(ctx, name, "byte", fmt.Sprintf("%s is transposeBF16Ref of %d rows of 8·quads bf16; lds and ldd are bytes, quads is at least 1.", name, v.lanes),
		func(dst, ldd, src, lds, lds3 reg.GPVirtual) {
			// A word holds the bf16 of an even column below that of the odd one.
			for _, x := range transpose4(ctx, v, gather(ctx, v, src, lds, lds3)) {
				even, odd := v.reg(ctx), v.reg(ctx)
				ctx.VPSLLD(operand.U8(16), x, even)
				ctx.VPSRLD(operand.U8(16), x, odd)
				ctx.VPSLLD(operand.U8(16), odd, odd)
				ctx.VMOVUPS(even, operand.Mem{Base: dst})
				ctx.ADDQ(ldd, dst)
				ctx.VMOVUPS(odd, operand.Mem{Base: dst})
				ctx.ADDQ(ldd, dst)
			}
		})
}
