package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() {
	files["nvfp4_encode_avx2"] = func(ctx *build.Context) {
		for _, element := range []string{"BF16", "F16", "F32"} {
			for _, kind := range encodeKinds {
				(&encode256{Context: ctx, element: element, encodeKind: kind}).function()
			}
		}
	}
}

// encode256 is nvfp4Encode with 256-bit vectors: what encode512 does, a block at
// a time. There are too few registers to keep the sums, so that elements of
// four blocks go through memory to where they are summed.
type encode256 struct {
	*build.Context
	element string
	encodeKind
	src, scales, steps reg.GPVirtual
	buf                operand.Mem // by block: even and odd elements, then their decoded values
}

// constant is a vector of eight times the same bits, in memory.
func (g *encode256) constant(name string, bits uint32) operand.Mem {
	m := g.StaticGlobal("nvfp4Encode" + g.encodeKind.name + g.element + name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		g.AddDatum(4*i, operand.U32(bits))
	}
	return m
}

func (g *encode256) function() {
	name := "nvfp4Encode" + g.encodeKind.name + g.element + "AVX2"
	high := g.constant("HighAVX2", 0xffff0000)
	magnitudes := g.constant("MagnitudesAVX2", 0x7fff7fff)
	signs := g.constant("SignsAVX2", 0x00080008)
	codes3 := g.constant("CodesAVX2", 0x00070007)
	binBits := g.constant("BinsAVX2", 0x00f000f0)
	outer := g.constant("OuterAVX2", 0xf0f00f0f)
	down := g.constant("DownAVX2", 0x0000f0f0)
	up := g.constant("UpAVX2", 0x0f0f0000)
	k := elementConstants{
		one: g.constant("OneAVX2", 0x3f800000), six: g.constant("SixAVX2", 0x40c00000), abs: g.constant("AbsAVX2", 0x7fffffff),
		whole: g.constant("WholeAVX2", 0x4affffff), magic: encodeMagic(g.Context, name+"Magic", 8), fine: g.constant("FineAVX2", 0x43800000),
	}
	if g.element == "F32" {
		k.up126, k.down24 = g.constant("Up126AVX2", 0x7e800000), g.constant("Down24AVX2", 0x33800000)
	}
	bytes := g.StaticGlobal(name + "Bytes") // in each 128 bits: codes of either block, bins of either
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 32 {
		g.AddDatum(i, operand.U8(i%4*4+i%16/4))
	}
	dwords := g.StaticGlobal(name + "Dwords")
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, d := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		g.AddDatum(4*i, operand.U32(d))
	}

	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(g.doc(name)...)
	g.SignatureExpr("func(fours int, src, scales *byte, steps *float32, codes, bins *byte, lanes *float64)")
	pointer := func(name string) reg.GPVirtual { return g.Load(g.Param(name), g.GP64()).(reg.GPVirtual) }
	fours := pointer("fours")
	g.src, g.scales, g.steps = pointer("src"), pointer("scales"), pointer("steps")
	codes, bins, lanes := pointer("codes"), pointer("bins"), pointer("lanes")
	buf := g.GP64()
	g.LEAQ(g.AllocLocal(4*128+32), buf)
	g.ADDQ(operand.U8(31), buf)
	g.ANDQ(operand.I8(-32), buf)
	g.buf = operand.Mem{Base: buf}

	g.Label("four")
	for at := 0; at < 4*g.stride(); at += 64 { // of the next run, which lies behind this one
		g.PREFETCHT0(operand.Mem{Base: g.src, Disp: encodeChunk*g.stride() + at})
	}
	for pair := range 2 {
		var z reg.VecVirtual
		for b := range 2 {
			f := g.block(2*pair+b, k, high, magnitudes, signs, codes3, binBits, lanes)
			if b == 0 {
				z = f
				continue
			}
			g.VPSLLD(operand.U8(8), f, f)
			g.VPOR(f, z, z)
		}
		// As in encode512: codes to the lower halves of dwords, bins to the upper.
		lower, upper := g.YMM(), g.YMM()
		g.VPSRLD(operand.U8(12), z, lower)
		g.VPSLLD(operand.U8(12), z, upper)
		g.VPAND(down, lower, lower)
		g.VPAND(up, upper, upper)
		g.VPAND(outer, z, z)
		g.VPOR(lower, upper, upper)
		g.VPOR(upper, z, z)
		g.VPSHUFB(bytes, z, z)
		order := g.YMM()
		g.VMOVDQU(dwords, order)
		g.VPERMD(z, order, z)
		g.VMOVDQU(z.AsX(), operand.Mem{Base: codes, Disp: 16 * pair})
		g.VEXTRACTI128(operand.U8(1), z, operand.Mem{Base: bins, Disp: 16 * pair})
	}
	for half := range 2 {
		g.sum(half, lanes, k.abs)
	}
	g.ADDQ(operand.U32(4*g.stride()), g.src)
	g.ADDQ(operand.U8(4), g.scales)
	g.ADDQ(operand.U8(32), codes)
	g.ADDQ(operand.U8(32), bins)
	g.DECQ(fours)
	g.JNE(operand.LabelRef("four"))
	g.VZEROUPPER()
	g.RET()
}

// stride is the bytes of a block.
func (g *encode256) stride() int {
	if g.element == "F32" {
		return 64
	}
	return 32
}

type elementConstants struct{ one, six, abs, whole, magic, fine, up126, down24 operand.Mem }

// block does one block and returns in each 16-bit half of a dword, even element
// first, the code in bits 0 to 3 and the error bin in 4 to 7.
func (g *encode256) block(b int, k elementConstants, high, magnitudes, signBits, codes3, binBits operand.Mem, lanes reg.GPVirtual) reg.VecVirtual {
	w := [2]reg.VecVirtual{g.YMM(), g.YMM()}
	signs := g.YMM()
	at := operand.Mem{Base: g.src, Disp: b * g.stride()}
	switch g.element {
	case "BF16":
		raw, zero := g.YMM(), g.YMM()
		g.VMOVDQU(at, raw)
		g.VPSRLW(operand.U8(12), raw, signs)
		g.VPAND(magnitudes, raw, raw)
		g.VPXOR(zero, zero, zero)
		g.VPCMPEQW(zero, raw, zero)
		g.VPANDN(signs, zero, signs) // a zero has no sign
		g.VPSLLD(operand.U8(16), raw, w[0])
		g.VPAND(high, raw, w[1])
	default:
		first, second := g.YMM(), g.YMM()
		if g.element == "F16" {
			g.VCVTPH2PS(at, first)
			g.VCVTPH2PS(at.Offset(16), second)
		} else {
			g.VMOVUPS(at, first)
			g.VMOVUPS(at.Offset(32), second)
		}
		g.VSHUFPS(operand.U8(0x88), second, first, w[0])
		g.VSHUFPS(operand.U8(0xdd), second, first, w[1])
		for i := range w {
			g.VPERMPD(operand.U8(0xd8), w[i], w[i])
		}
	}
	code, step, reciprocal := g.GP64(), g.YMM(), g.YMM()
	g.MOVBQZX(operand.Mem{Base: g.scales, Disp: b}, code)
	g.VBROADCASTSS(operand.Mem{Base: g.steps, Index: code, Scale: 4}, step)
	g.VBROADCASTSS(operand.Mem{Base: g.steps, Index: code, Scale: 4, Disp: encodeReciprocals}, reciprocal)
	var t, d [2]reg.VecVirtual
	for i := range w {
		var sign reg.VecVirtual
		if g.element != "BF16" {
			sign = g.signs(w[i], step, k)
		}
		t[i], d[i] = g.elements(w[i], step, reciprocal, k, g.buf.Offset(128*b+32*i))
		if sign == nil {
			continue
		}
		if i == 0 {
			signs = sign
		} else {
			g.VPSLLD(operand.U8(16), sign, sign)
			g.VPOR(sign, signs, signs)
		}
	}
	g.VPSLLD(operand.U8(16), d[1], d[1])
	g.VPOR(d[0], d[1], d[1])
	far, total := g.YMM(), operand.Mem{Base: lanes, Disp: 5 * 64}
	if g.tame {
		g.VPOR(total, d[1], far)
	} else {
		g.VPSRLW(operand.U8(8), d[1], far)
		g.VPADDW(total, far, far)
	}
	g.VMOVDQU(far, total)
	g.VPAND(binBits, d[1], d[1])
	g.VPSLLD(operand.U8(16), t[1], t[1])
	g.VPBLENDW(operand.U8(0xaa), t[1], t[0], t[0])
	g.VPAND(codes3, t[0], t[0])
	g.VPAND(signBits, signs, signs)
	g.VPOR(signs, t[0], t[0])
	g.VPOR(d[1], t[0], t[0])
	return t[0]
}

// signs is that of encode512.
func (g *encode256) signs(w, step reg.VecVirtual, k elementConstants) reg.VecVirtual {
	signs, zero := g.YMM(), g.YMM()
	g.VPSRLD(operand.U8(28), w, signs)
	g.VPAND(k.abs, w, w)
	if g.element == "F32" {
		least := g.YMM()
		g.VMULPS(k.up126, w, zero)
		g.VMULPS(k.down24, step, least)
		g.VCMPPS(lessEqual, least, zero, zero)
	} else {
		g.VPXOR(zero, zero, zero)
		g.VPCMPEQD(zero, w, zero)
	}
	g.VPANDN(signs, zero, signs)
	return signs
}

// elements rounds the magnitudes of 8 elements of a block and stores them and, two
// vectors further, what they decode to. The magnitude of a code is in bits 0 to 2
// of t, what is above is anything; d is the error in units of 2⁻⁸, at most 2⁸. See
// encode512.
func (g *encode256) elements(w, step, reciprocal reg.VecVirtual, k elementConstants, out operand.Mem) (t, d reg.VecVirtual) {
	x, octave := g.YMM(), g.YMM()
	g.VMOVAPS(w, out)
	g.VMULPS(reciprocal, w, x)
	if g.tame {
		// 2²³−½ and a product are rounded to a whole number, about ⌊x⌋, but to
		// halves below 2²³, whose last bits are ones.
		g.VADDPS(k.whole, x, octave)
	}
	g.VFNMADD231PS(step, x, w)
	g.VFMADD231PS(reciprocal, w, x)
	clamped := x
	if !g.tame {
		clamped = g.YMM()
		g.VMINPS(k.six, x, clamped)
		g.VADDPS(k.whole, clamped, octave)
	}
	magic := g.YMM()
	g.VMOVUPS(k.magic, magic)
	g.VPERMPS(magic, octave, octave)
	t, d = g.YMM(), g.YMM()
	g.VADDPS(octave, clamped, t)
	v := g.YMM()
	g.VSUBPS(octave, t, v)
	g.VSUBPS(v, x, d)
	g.VANDPS(k.abs, d, d)
	if !g.tame {
		g.VMINPS(k.one, d, d)
	}
	g.VMULPS(k.fine, d, d)
	g.VCVTTPS2DQ(d, d)
	g.VMULPS(step, v, v)
	g.VMOVAPS(v, out.Offset(64))
	return t, d
}

// sum adds the lower or upper lanes of four blocks to the record.
func (g *encode256) sum(half int, lanes reg.GPVirtual, abs operand.Mem) {
	var sums [5]reg.VecVirtual
	at := func(i int) operand.Mem { return operand.Mem{Base: lanes, Disp: 64*i + 32*half} }
	for i := range sums {
		sums[i] = g.YMM()
		g.VMOVUPD(at(i), sums[i])
	}
	mask := g.YMM()
	g.VPCMPEQD(mask, mask, mask)
	g.VPSRLQ(operand.U8(1), mask, mask)
	for b := range 4 {
		for i := range 2 {
			w, q, e := g.YMM(), g.YMM(), g.YMM()
			g.VCVTPS2PD(g.buf.Offset(128*b+32*i+16*half), w)
			g.VCVTPS2PD(g.buf.Offset(128*b+64+32*i+16*half), q)
			g.VSUBPD(q, w, e)
			g.VFMADD231PD(w, w, sums[0])
			g.VFMADD231PD(q, q, sums[1])
			g.VFMADD231PD(q, w, sums[2])
			g.VFMADD231PD(e, e, sums[3])
			if !g.calm {
				g.VANDPD(mask, e, e)
				g.VMAXPD(e, sums[4], sums[4])
			}
		}
	}
	for i := range sums {
		g.VMOVUPD(sums[i], at(i))
	}
}
