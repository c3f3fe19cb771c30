package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["dequant"] = dequant }

func dequant(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		g := &dequantGen{lanesOf{ctx, v}}
		g.nibbles("nibbleSteps", "values times steps", "", func(x, step, _ reg.VecVirtual) { g.VMULPS(step, x, x) })
		g.nibbles("nibbleZeros", "values less offsets, times steps", ", offsets", func(x, step, offset reg.VecVirtual) {
			g.VSUBPS(offset, x, x)
			g.VMULPS(step, x, x)
		})
		g.nibbles("nibbleMinima", "values times steps plus offsets, rounded once", ", offsets", func(x, step, offset reg.VecVirtual) {
			g.VFMADD213PS(offset, step, x)
		})
	}
}

// dequantGen writes decoders of four-bit codes.
type dequantGen struct{ lanesOf }

// nibbles decodes 32 codes a round, two in a byte, the even one in the low nibble,
// by a table of 16 values; steps and offsets have one number for 16 codes.
func (g *dequantGen) nibbles(name, what, more string, finish func(x, step, offset reg.VecVirtual)) {
	g.Function(name + g.v.suffix)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + g.v.suffix + " decodes 32·rounds codes, two in a byte, by a table of 16 values: " + what + ", of which 16 codes share one; rounds is positive.")
	g.SignatureExpr("func(dst *float32, src *byte, table, steps" + more + " *float32, rounds int)")
	load := func(p string) reg.GPVirtual { return g.Load(g.Param(p), g.GP64()).(reg.GPVirtual) }
	dst, src, steps, rounds := load("dst"), load("src"), load("steps"), load("rounds")
	offsets := steps
	if more != "" {
		offsets = load("offsets")
	}
	table := load("table")
	low := g.new() // of the table; all of it in AVX-512
	high := g.new()
	g.VMOVUPS(operand.Mem{Base: table}, low)
	if !g.wide() {
		g.VMOVUPS(operand.Mem{Base: table, Disp: 32}, high)
	}
	g.Label("loop")
	even, odd, a, b := g.XMM(), g.XMM(), g.XMM(), g.XMM()
	g.VMOVDQU(operand.Mem{Base: src}, even)
	g.VPSRLW(operand.U8(4), even, odd)
	// What stays above a nibble is not looked at below.
	g.VPUNPCKLBW(odd, even, a)
	g.VPUNPCKHBW(odd, even, b)
	for h, codes := range []reg.VecVirtual{a, b} {
		step, offset := g.new(), g.new()
		g.VBROADCASTSS(operand.Mem{Base: steps, Disp: 4 * h}, step)
		if more != "" {
			g.VBROADCASTSS(operand.Mem{Base: offsets, Disp: 4 * h}, offset)
		}
		for part := 0; part < 16; part += g.v.lanes {
			if part > 0 {
				g.VPSRLDQ(operand.U8(8), codes, codes)
			}
			index, x := g.new(), g.new()
			g.VPMOVZXBD(codes, index)
			g.VPERMPS(low, index, x)
			if !g.wide() {
				y := g.new()
				g.VPERMPS(high, index, y)
				g.VPSLLD(operand.U8(28), index, index)
				g.VBLENDVPS(index, y, x, x)
			}
			finish(x, step, offset)
			g.VMOVUPS(x, operand.Mem{Base: dst, Disp: 4 * (16*h + part)})
		}
	}
	g.ADDQ(operand.U32(128), dst)
	g.ADDQ(operand.U8(16), src)
	g.ADDQ(operand.U8(8), steps)
	if more != "" {
		g.ADDQ(operand.U8(8), offsets)
	}
	g.DECQ(rounds)
	g.JNZ(operand.LabelRef("loop"))
	g.VZEROUPPER()
	g.RET()
}
