package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["convert"] = convert }

// Constants of package kernels, bits of f32 numbers.
const (
	signF32  = 0x80000000
	infF32   = 0x7f800000
	nanF32   = 0x7fc00000
	bits448  = 0x43e00000
	bits6    = 0x40c00000
	bits1    = 0x3f800000
	bits2pm6 = 0x3c800000
)

func convert(ctx *build.Context) {
	for _, v := range []vectors{ymm, zmm} {
		c := lanesOf{ctx, v}
		decodeFloats(c)
		encode16(c)
		decodeE4M3(c)
		encodeE4M3(c)
		decodeE2M1(c)
		encodeE2M1(c)
		nibbles(c)
	}
}

// vecs are the vectors of a round.
func (c lanesOf) vecs() int { return convertStep / c.v.lanes }

// at is vector i at p, of elements of so many bits.
func (c lanesOf) at(p reg.GPVirtual, i, bits int) operand.Mem {
	return operand.Mem{Base: p, Disp: i * c.v.lanes * bits / 8}
}

func decodeFloats(c lanesOf) {
	conversion(c, "decodeBF16", "decodeBF16Ref", "float32", "byte", func() {}, func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			h := c.new()
			c.VPMOVZXWD(c.at(src, i, 16), h)
			c.VMOVUPS(c.left(16, h), c.at(dst, i, 32))
		}
	}, 128, 64)

	move := func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			c.VMOVUPS(c.load(c.at(src, i, 32)), c.at(dst, i, 32))
		}
	}
	conversion(c, "decodeF32", "decodeF32Ref", "float32", "byte", func() {}, move, 128, 128)
	conversion(c, "encodeF32", "encodeF32Ref", "byte", "float32", func() {}, move, 128, 128)

	// With the magnitude in place, f32's exponent is short by 112; for
	// infinities and NaN by another 112. A subnormal's mantissa is read behind
	// the one of 2⁻¹⁴, which is taken off again. It is not done by the CPU's
	// instruction because that would make signalling NaN quiet.
	var magnitude, exponent, rebias, smallest, zero, sign reg.VecVirtual
	conversion(c, "decodeF16", "decodeF16Ref", "float32", "byte", func() {
		magnitude, exponent, rebias = c.all(0x7fff), c.all(0x0f800000), c.all(112<<23)
		smallest, zero, sign = c.all(113<<23), c.all(0), c.all(0x8000)
	}, func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			h := c.new()
			c.VPMOVZXWD(c.at(src, i, 16), h)
			m := c.left(13, c.and(h, magnitude))
			e := c.and(m, exponent)
			x := c.add(m, rebias)
			x = c.pick(c.equal(e, exponent), c.add(x, rebias), x)
			low := c.add(m, smallest)
			c.VSUBPS(smallest, low, low)
			x = c.pick(c.equal(e, zero), low, x)
			c.VMOVUPS(c.or(x, c.left(16, c.and(h, sign))), c.at(dst, i, 32))
		}
	}, 128, 64)
}

// bf16Rounder rounds to bf16, which is left in the upper halves of the lanes
// with other bits below.
type bf16Rounder struct {
	c                              lanesOf
	half, one, sign, inf, quietNaN reg.VecVirtual
}

func newBF16Rounder(c lanesOf) bf16Rounder {
	return bf16Rounder{c, c.all(0x7fff), c.all(1), c.all(signF32), c.all(infF32), c.all(nanF32)}
}

func (r bf16Rounder) round(x reg.VecVirtual) reg.VecVirtual {
	c := r.c
	up := c.add(c.add(x, r.half), c.and(c.right(16, x), r.one))
	s := c.and(x, r.sign)
	isNaN := c.greater(c.sub(x, s), r.inf)
	return c.pick(isNaN, c.or(s, r.quietNaN), up)
}

// storeWords stores the low halves of all lanes of a round; upper halves are 0.
func (c lanesOf) storeWords(dst reg.GPVirtual, x []reg.VecVirtual) {
	for i := 0; i < len(x); i++ {
		if c.wide() {
			c.VPMOVDW(x[i], c.at(dst, i, 16))
			continue
		}
		p := c.new()
		c.VPACKUSDW(x[i+1], x[i], p)
		c.VPERMQ(operand.U8(0xd8), p, p)
		c.VMOVDQU(p, c.at(dst, i, 16))
		i++
	}
}

func encode16(c lanesOf) {
	var r bf16Rounder
	conversion(c, "encodeBF16", "encodeBF16Ref", "byte", "float32", func() { r = newBF16Rounder(c) }, func(dst, src reg.GPVirtual) {
		var out []reg.VecVirtual
		for i := range c.vecs() {
			out = append(out, c.right(16, r.round(c.load(c.at(src, i, 32)))))
		}
		c.storeWords(dst, out)
	}, 64, 128)

	var upper reg.VecVirtual
	conversion(c, "roundBF16", "roundBF16Ref from src to dst, which may be one place,", "float32", "float32", func() {
		r, upper = newBF16Rounder(c), c.all(0xffff0000)
	}, func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			c.VMOVUPS(c.and(r.round(c.load(c.at(src, i, 32))), upper), c.at(dst, i, 32))
		}
	}, 128, 128)

	// A NaN loses its payload first, which the CPU would keep in part.
	var sign, inf, quietNaN reg.VecVirtual
	conversion(c, "encodeF16", "encodeF16Ref", "byte", "float32", func() {
		sign, inf, quietNaN = c.all(signF32), c.all(infF32), c.all(nanF32)
	}, func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			x := c.load(c.at(src, i, 32))
			s := c.and(x, sign)
			x = c.pick(c.greater(c.sub(x, s), inf), c.or(s, quietNaN), x)
			c.VCVTPS2PH(operand.U8(0), x, c.at(dst, i, 16))
		}
	}, 64, 128)
}

// storeBytes stores the low bytes of all lanes of a round; the rest is 0.
func (c lanesOf) storeBytes(dst reg.GPVirtual, x []reg.VecVirtual, order operand.Mem) {
	if c.wide() {
		for i := range x {
			c.VPMOVDB(x[i], c.at(dst, i, 8))
		}
		return
	}
	p, q := c.new(), c.new()
	c.VPACKUSDW(x[1], x[0], p)
	c.VPACKUSDW(x[3], x[2], q)
	c.VPACKUSWB(q, p, p)
	c.VPERMD(p, c.load(order), p)
	c.VMOVDQU(p, c.at(dst, 0, 8))
}

// Codes below 8 are subnormal and looked up; the others' bits fit f32's.
func decodeE4M3(c lanesOf) {
	var magnitude, rebias, eight, sign, top, quietNaN, subnormals reg.VecVirtual
	conversion(c, "decodeE4M3", "decodeE4M3Ref", "float32", "byte", func() {
		magnitude, rebias, eight, sign = c.all(0x7f), c.all(120<<23), c.all(8), c.all(0x80)
		top, quietNaN = c.all(0x7f), c.all(nanF32)
		// 0 … 7 units of 2⁻⁹.
		words := []uint32{0, 0x3b000000, 0x3b800000, 0x3bc00000, 0x3c000000, 0x3c200000, 0x3c400000, 0x3c600000}
		if c.wide() {
			words = append(words, words...)
		}
		subnormals = c.load(c.table("e4m3Subnormals"+c.v.suffix, words...))
	}, func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			b := c.new()
			c.VPMOVZXBD(c.at(src, i, 8), b)
			m := c.and(b, magnitude)
			x := c.add(c.left(20, m), rebias)
			low := c.new()
			c.VPERMPS(subnormals, m, low)
			x = c.pick(c.greater(eight, m), low, x)
			x = c.or(x, c.left(24, c.and(b, sign)))
			x = c.pick(c.equal(m, top), quietNaN, x)
			c.VMOVUPS(x, c.at(dst, i, 32))
		}
	}, 128, 32)
}

// smallFloat rounds magnitudes to a format of few bits: below the smallest
// normal number they are added to a number whose last place is the format's
// subnormal unit; above, the mantissa is rounded in place.
type smallFloat struct {
	c                               lanesOf
	mantissa                        uint8 // bits
	largest, normal, magic, inPlace reg.VecVirtual
}

// newSmallFloat takes f32 bits of the largest and of the smallest normal
// number, and the exponent bias.
func newSmallFloat(c lanesOf, largest, normal uint32, mantissa uint8, bias uint32) smallFloat {
	// The unit is 2^(1−bias−mantissa); f32 has it as last place 23 binary
	// places further up.
	magic := (1 - bias - uint32(mantissa) + 23 + 127) << 23
	// Half a unit less one bit, and the difference of the exponents' biases.
	inPlace := uint32(1)<<(22-mantissa) - 1 - (127-bias)<<23
	return smallFloat{c: c, mantissa: mantissa, largest: c.all(largest), normal: c.all(normal), magic: c.all(magic), inPlace: c.all(inPlace)}
}

func (f smallFloat) encode(mag reg.VecVirtual) reg.VecVirtual {
	c, shift := f.c, 23-f.mantissa
	m := c.new()
	c.VPMINUD(f.largest, mag, m)
	odd := c.right(31, c.left(31-shift, m))
	x := c.right(shift, c.add(c.add(m, f.inPlace), odd))
	low := c.new()
	c.VADDPS(f.magic, m, low)
	return c.pick(c.greater(f.normal, m), c.sub(low, f.magic), x)
}

// magnitude clears the sign bit, signs moves it to bit n and clears the rest.
func (c lanesOf) magnitude(x reg.VecVirtual) reg.VecVirtual      { return c.right(1, c.left(1, x)) }
func (c lanesOf) signs(n uint8, x reg.VecVirtual) reg.VecVirtual { return c.left(n, c.right(31, x)) }

func encodeE4M3(c lanesOf) {
	var f smallFloat
	var inf, nan reg.VecVirtual
	var order operand.Mem
	conversion(c, "encodeE4M3", "encodeE4M3Ref", "byte", "float32", func() {
		f = newSmallFloat(c, bits448, bits2pm6, 3, 7)
		inf, nan = c.all(infF32), c.all(0x7f)
		if !c.wide() {
			order = c.table("packedOrder", 0, 4, 1, 5, 2, 6, 3, 7)
		}
	}, func(dst, src reg.GPVirtual) {
		var out []reg.VecVirtual
		for i := range c.vecs() {
			x := c.load(c.at(src, i, 32))
			mag := c.magnitude(x)
			code := c.pick(c.greater(mag, inf), nan, f.encode(mag))
			out = append(out, c.or(code, c.signs(7, x)))
		}
		c.storeBytes(dst, out, order)
	}, 32, 128)
}

// Nibbles of a byte are taken apart in a quadword: shifted up by 28, the high
// one is at the bottom of the upper lane.
func decodeE2M1(c lanesOf) {
	var table, sign reg.VecVirtual
	conversion(c, "decodeE2M1", "decodeE2M1Ref", "float32", "byte", func() {
		words := []uint32{0, 0x3f000000, bits1, 0x3fc00000, 0x40000000, 0x40400000, 0x40800000, bits6}
		if c.wide() {
			for i := range 8 {
				words = append(words, words[i]|signF32)
			}
		} else {
			sign = c.all(signF32)
		}
		table = c.load(c.table("e2m1Table"+c.v.suffix, words...))
	}, func(dst, src reg.GPVirtual) {
		for i := range c.vecs() {
			q, high := c.new(), c.new()
			c.VPMOVZXBQ(c.at(src, i, 4), q)
			c.VPSLLQ(operand.U8(28), q, high)
			q = c.or(q, high)
			x := c.new()
			c.VPERMPS(table, q, x)
			if !c.wide() { // the table's index has three bits
				x = c.or(x, c.and(c.left(28, q), sign))
			}
			c.VMOVUPS(x, c.at(dst, i, 32))
		}
	}, 128, 16)
}

func encodeE2M1(c lanesOf) {
	var f smallFloat
	var inf, zero reg.VecVirtual
	var gather [4]operand.Mem
	conversion(c, "encodeE2M1", "encodeE2M1Ref", "byte", "float32", func() {
		f = newSmallFloat(c, bits6, bits1, 1, 1)
		inf, zero = c.all(infF32), c.all(0)
		for i := range gather {
			if c.wide() {
				break
			}
			// Bytes 0 and 8 of each half go to bytes 2i and 2i+1.
			words := [4]uint32{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)}
			pair := uint32(0x0800)
			words[i/2] = pair<<(16*(i%2)) | 0xffff<<(16*(1-i%2))
			gather[i] = c.table("nibbleGather"+string(rune('0'+i)), append(words[:], words[:]...)...)
		}
	}, func(dst, src reg.GPVirtual) {
		var all reg.VecVirtual
		for i := range c.vecs() {
			x := c.load(c.at(src, i, 32))
			mag := c.magnitude(x)
			code := c.or(f.encode(mag), c.signs(3, x))
			code = c.pick(c.greater(mag, inf), zero, code)
			code = c.pick(c.equal(mag, zero), zero, code)
			high := c.new()
			c.VPSRLQ(operand.U8(28), code, high)
			code = c.or(code, high)
			if c.wide() {
				c.VPMOVQB(code, c.at(dst, i, 4))
				continue
			}
			c.VPSHUFB(gather[i], code, code)
			if i == 0 {
				all = code
			} else {
				all = c.or(all, code)
			}
		}
		if !c.wide() {
			upper := c.XMM()
			c.VEXTRACTI128(operand.U8(1), all, upper)
			c.VPUNPCKLWD(upper, all.AsX(), upper)
			c.VMOVDQU(upper, operand.Mem{Base: dst})
		}
	}, 16, 128)
}

func nibbles(c lanesOf) {
	var low, high reg.VecVirtual
	conversion(c, "packNibbles", "packNibblesRef", "byte", "byte", func() {
		low, high = c.all(0x000f000f), c.all(0x00f000f0)
	}, func(dst, src reg.GPVirtual) {
		w, up := c.YMM(), c.YMM()
		c.VMOVDQU(operand.Mem{Base: src}, w)
		c.VPSRLW(operand.U8(4), w, up)
		c.VPAND(asY(low), w, w)
		c.VPAND(asY(high), up, up)
		c.VPOR(up, w, w)
		if c.wide() {
			c.VPMOVWB(w, operand.Mem{Base: dst})
			return
		}
		c.VPACKUSWB(w, w, w)
		c.VPERMQ(operand.U8(0xd8), w, w)
		c.VMOVDQU(w.AsX(), operand.Mem{Base: dst})
	}, 16, 32)

	var mask reg.VecVirtual
	conversion(c, "unpackNibbles", "unpackNibblesRef", "byte", "byte", func() { mask = c.all(0x0f0f0f0f) }, func(dst, src reg.GPVirtual) {
		w, up := c.YMM(), c.YMM()
		c.VPMOVZXBW(operand.Mem{Base: src}, w)
		c.VPSLLW(operand.U8(4), w, up)
		c.VPOR(up, w, w)
		c.VPAND(asY(mask), w, w)
		c.VMOVDQU(w, operand.Mem{Base: dst})
	}, 32, 16)
}

func asY(r reg.VecVirtual) reg.Register { return r.AsY() }
