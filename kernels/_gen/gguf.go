package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["gguf"] = gguf }

// ggufGen writes decoders of GGUF blocks. Each makes 32 small integers at a time
// in a vector of bytes, converts and scales them; the products are those of the
// definitions in package kernels, in their order.
type ggufGen struct {
	lanesOf
	d *ggufData

	dst, src reg.GPVirtual
	local    operand.Mem // scales and minima of a block of 256, as f32
}

// ggufData is read-only memory.
type ggufData struct {
	*build.Context
	known map[string]operand.Mem
}

// bytes is memory with these bytes, as often as they fit into 32.
func (d *ggufData) bytes(name string, values ...int8) operand.Mem {
	if mem, ok := d.known[name]; ok {
		return mem
	}
	mem := d.StaticGlobal(name)
	d.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 32 {
		d.AddDatum(i, operand.U8(uint8(values[i%len(values)])))
	}
	d.known[name] = mem
	return mem
}

// e8m0 is memory with the 256 values of E8M0.
func (d *ggufData) e8m0() operand.Mem {
	if mem, ok := d.known["e8m0"]; ok {
		return mem
	}
	mem := d.StaticGlobal("e8m0Values")
	d.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 256 {
		bits := uint32(i) << 23
		switch i {
		case 0:
			bits = 1 << 22
		case 255:
			bits = 0x7fc00000
		}
		d.AddDatum(4*i, operand.U32(bits))
	}
	d.known["e8m0"] = mem
	return mem
}

// Values of codes, ggml's kvalues_iq4nl and twice those of E2M1, where code 8 is
// +0.
var (
	iq4Values   = []int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	e2m1Doubled = []int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

func gguf(ctx *build.Context) {
	d := &ggufData{ctx, map[string]operand.Mem{}}
	for _, v := range []vectors{ymm, zmm} {
		g := &ggufGen{lanesOf: lanesOf{ctx, v}, d: d}
		g.small()
		g.large()
	}
}

// blocks is the frame of a decoder: body decodes one block.
func (g *ggufGen) blocks(name string, elements, bytes, local int, constants, body func()) {
	g.Function("decode" + name + g.v.suffix)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc("decode" + name + g.v.suffix + " is decode" + name + " of so many blocks, at least one.")
	g.SignatureExpr("func(dst *float32, src *byte, blocks int)")
	g.dst = g.Load(g.Param("dst"), g.GP64()).(reg.GPVirtual)
	g.src = g.Load(g.Param("src"), g.GP64()).(reg.GPVirtual)
	n := g.Load(g.Param("blocks"), g.GP64()).(reg.GPVirtual)
	if local > 0 {
		g.local = g.AllocLocal(local)
	}
	constants()
	g.Label("loop")
	body()
	g.ADDQ(operand.U32(4*elements), g.dst)
	g.ADDQ(operand.U32(bytes), g.src)
	g.DECQ(n)
	g.JNZ(operand.LabelRef("loop"))
	g.VZEROUPPER()
	g.RET()
}

func (g *ggufGen) at(offset int) operand.Mem { return operand.Mem{Base: g.src, Disp: offset} }

// half is the f16 at an offset in every lane.
func (g *ggufGen) half(offset int) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		y := g.YMM()
		g.VPBROADCASTW(g.at(offset), y)
		g.VCVTPH2PS(y, r)
	} else {
		x := g.XMM()
		g.VPBROADCASTW(g.at(offset), x)
		g.VCVTPH2PS(x, r)
	}
	return r
}

// bytes32 is 32 bytes of memory.
func (g *ggufGen) bytes32(m operand.Mem) reg.VecVirtual {
	y := g.YMM()
	g.VMOVDQU(m, y)
	return y
}

// and is x and the bytes at m.
func (g *ggufGen) and(x reg.VecVirtual, m operand.Op) reg.VecVirtual {
	y := g.YMM()
	g.VPAND(m, x, y)
	return y
}

func (g *ggufGen) or(a, b reg.VecVirtual) reg.VecVirtual {
	y := g.YMM()
	g.VPOR(a, b, y)
	return y
}

// shifted is x with its 16-bit words moved down, or up where by is negative.
func (g *ggufGen) shifted(x reg.VecVirtual, by int) reg.VecVirtual {
	if by == 0 {
		return x
	}
	y := g.YMM()
	if by > 0 {
		g.VPSRLW(operand.U8(by), x, y)
	} else {
		g.VPSLLW(operand.U8(-by), x, y)
	}
	return y
}

func (g *ggufGen) less(x reg.VecVirtual, m operand.Op) reg.VecVirtual {
	y := g.YMM()
	g.VPSUBB(m, x, y)
	return y
}

// values looks codes below 16 up in a table of bytes.
func (g *ggufGen) values(codes, table reg.VecVirtual) reg.VecVirtual {
	y := g.YMM()
	g.VPSHUFB(codes, table, y)
	return y
}

func (g *ggufGen) fifteen() operand.Mem { return g.d.bytes("fifteen", 15) }

// nibbles are the low and then the high nibbles of 16 bytes.
func (g *ggufGen) nibbles(offset int) reg.VecVirtual {
	low, high := g.XMM(), g.XMM()
	g.VMOVDQU(g.at(offset), low)
	g.VPSRLW(operand.U8(4), low, high)
	both := g.YMM()
	g.VINSERTI128(operand.U8(1), high, low.AsY(), both)
	return g.and(both, g.fifteen())
}

// where16 is 16 in the bytes whose bit of mask is set in x, 0 in the others.
func (g *ggufGen) where16(x reg.VecVirtual, mask operand.Op) reg.VecVirtual {
	y := g.and(x, mask)
	g.VPCMPEQB(mask, y, y)
	return g.and(y, g.d.bytes("sixteen", 16))
}

// fifths is where16 of the 32 bits at an offset, one a byte.
func (g *ggufGen) fifths(offset int) reg.VecVirtual {
	x := g.YMM()
	g.VPBROADCASTD(g.at(offset), x)
	order, ok := g.d.known["spread"]
	if !ok {
		order = g.d.StaticGlobal("spreadBytes")
		g.d.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := range 32 {
			g.d.AddDatum(i, operand.U8(i/8))
		}
		g.d.known["spread"] = order
	}
	g.VPSHUFB(order, x, x)
	return g.where16(x, g.d.bytes("bitsOfBytes", 1, 2, 4, 8, 16, 32, 64, -128))
}

// write converts 32 bytes, those of each half with a factor and, where there is
// one, what make does to the product, and writes them from element on.
func (g *ggufGen) write(bytes reg.VecVirtual, element int, factor [2]operand.Op, make func(half int, product reg.VecVirtual)) {
	halves := [2]reg.VecVirtual{bytes.AsX().(reg.VecVirtual), g.XMM()}
	g.VEXTRACTI128(operand.U8(1), bytes, halves[1])
	for h, x := range halves {
		for part := 0; part < 16; part += g.v.lanes {
			if part > 0 {
				y := g.XMM()
				g.VPSRLDQ(operand.U8(8), x, y)
				x = y
			}
			v := g.new()
			g.VPMOVSXBD(x, v)
			g.VCVTDQ2PS(v, v)
			g.VMULPS(factor[h], v, v)
			if make != nil {
				make(h, v)
			}
			g.VMOVUPS(v, operand.Mem{Base: g.dst, Disp: 4 * (element + 16*h + part)})
		}
	}
}

// small are the blocks of 32.
func (g *ggufGen) small() {
	none := func() {}
	var table, half reg.VecVirtual
	load := func(name string, values []int8) func() {
		return func() { table = g.bytes32(g.d.bytes(name, values...)) }
	}
	plus := func(m reg.VecVirtual) func(int, reg.VecVirtual) {
		return func(_ int, v reg.VecVirtual) { g.VADDPS(m, v, v) }
	}
	g.blocks("Q4_0", 32, 18, 0, none, func() {
		d := g.half(0)
		g.write(g.less(g.nibbles(2), g.d.bytes("eight", 8)), 0, [2]operand.Op{d, d}, nil)
	})
	g.blocks("Q4_1", 32, 20, 0, none, func() {
		d, m := g.half(0), g.half(2)
		g.write(g.nibbles(4), 0, [2]operand.Op{d, d}, plus(m))
	})
	g.blocks("Q5_0", 32, 22, 0, none, func() {
		d := g.half(0)
		q := g.or(g.nibbles(6), g.fifths(2))
		g.write(g.less(q, g.d.bytes("sixteen", 16)), 0, [2]operand.Op{d, d}, nil)
	})
	g.blocks("Q5_1", 32, 24, 0, none, func() {
		d, m := g.half(0), g.half(2)
		g.write(g.or(g.nibbles(8), g.fifths(4)), 0, [2]operand.Op{d, d}, plus(m))
	})
	g.blocks("Q8_0", 32, 34, 0, none, func() {
		d := g.half(0)
		g.write(g.bytes32(g.at(2)), 0, [2]operand.Op{d, d}, nil)
	})
	g.blocks("IQ4NL", 32, 18, 0, load("iq4", iq4Values), func() {
		d := g.half(0)
		g.write(g.values(g.nibbles(2), table), 0, [2]operand.Op{d, d}, nil)
	})
	e8m0 := g.GP64()
	g.blocks("GGUFMXFP4", 32, 17, 0, func() {
		load("e2m1", e2m1Doubled)()
		half = g.all(0x3f000000)
		g.LEAQ(g.d.e8m0(), e8m0)
	}, func() {
		code, d := g.GP64(), g.new()
		g.MOVBQZX(g.at(0), code)
		g.VBROADCASTSS(operand.Mem{Base: e8m0, Index: code, Scale: 4}, d)
		g.write(g.values(g.nibbles(1), table), 0, [2]operand.Op{half, half}, func(_ int, v reg.VecVirtual) { g.VMULPS(d, v, v) })
	})
}
