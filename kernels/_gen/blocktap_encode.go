package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["blocktap_encode"] = blockEncode }

// encodeRule is a blockRule of package kernels.
type encodeRule struct {
	name     string
	mantissa uint8  // bits of a float code
	lowest   uint32 // f32 bits of the least normal number
	largest  uint32 // f32 bits of the largest number
	down     bool   // ties towards zero, zeros have the sign
	times    bool   // x = w·inverse
	roundX   bool   // to bf16
	roundQ   bool
	minimum  bool // integers with a minimum
	zero     bool // integers with a zero point
}

const (
	bits15  = 0x41700000
	bits7   = 0x40e00000
	bitsM8  = 0xc1000000
	bits16  = 16
	absMask = 0x7fffffff
	upper16 = 0xffff0000
)

var encodeRules = []encodeRule{
	{name: "E2M1", mantissa: 1, lowest: bits1, largest: bits6, times: true},
	{name: "E2M1Down", mantissa: 1, lowest: bits1, largest: bits6, times: true, down: true},
	{name: "E4M3", mantissa: 3, lowest: bits2pm6, largest: bits448},
	{name: "E4M3BF16", mantissa: 3, lowest: bits2pm6, largest: bits448, roundX: true, roundQ: true},
	{name: "E4M3Times", mantissa: 3, lowest: bits2pm6, largest: bits448, times: true},
	{name: "IntMin", minimum: true, roundQ: true},
	{name: "IntSym", roundQ: true},
	{name: "IntZero", zero: true},
	{name: "IntZeroBF16", zero: true, roundX: true, roundQ: true},
}

func blockEncode(ctx *build.Context) {
	tables := map[string]operand.Mem{}
	for _, v := range []vectors{ymm, zmm} {
		for _, r := range encodeRules {
			g := &blockGen{lanesOf: lanesOf{ctx, v}, tables: tables, words: map[uint32]operand.Op{}}
			g.encode(r)
		}
	}
}

// nonZero is x where it is not ±0, else 0.
func (g *blockGen) nonZero(mag, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		k := g.K()
		g.VPTESTMD(mag, mag, k)
		g.VMOVDQA32_Z(x, k, r)
		return r
	}
	isZero := g.new()
	g.VPXOR(isZero, isZero, isZero)
	g.VPCMPEQD(mag, isZero, isZero)
	g.VPANDN(x, isZero, r)
	return r
}

// lowerTies takes a place off the magnitudes that are ties of E2M1 whose even
// neighbour is the larger one.
func (g *blockGen) lowerTies(t reg.VecVirtual) reg.VecVirtual {
	for _, tie := range downTies {
		if g.wide() {
			k, r := g.K(), g.new()
			g.VPCMPEQD(g.k(tie), t, k)
			g.VMOVDQA32(t, r)
			g.VPADDD(g.k(0xffffffff), t, k, r)
			t = r
			continue
		}
		is := g.new()
		g.VPCMPEQD(g.k(tie), t, is) // −1 there
		t = g.add(t, is)
	}
	return t
}

// downTies are 0.75, 1.75 and 3.5.
var downTies = []uint32{0x3f400000, 0x3fe00000, 0x40600000}

// floatCode rounds to a float of few bits. A number whose last place is that
// of the octave's is added and taken off again: what it has become says the
// code, and the difference the value.
func (g *blockGen) floatCode(r encodeRule, x reg.VecVirtual) (code, value reg.VecVirtual) {
	shift := 23 - r.mantissa
	mag := g.andWith(g.k(absMask), x)
	t := g.min(g.k(r.largest), mag)
	if r.down {
		t = g.lowerTies(t)
	}
	octave := g.max(g.k(r.lowest), g.andWith(g.k(infF32), t))
	magic := g.addInts(g.k(r.magic()), octave)
	sum := g.plus(magic, t)
	value = g.minus(magic, sum)
	code = g.add(g.sub(sum, magic), g.right(shift, magic))
	code = g.addInts(g.k(r.codeBase()), code)
	sign := g.andWith(g.k(signF32), x)
	switch {
	case r.down:
		// A zero has the code of −0.
		zero := g.new()
		if g.wide() {
			k := g.K()
			g.VPTESTNMD(mag, mag, k)
			g.VMOVDQA32_Z(g.k(signF32), k, zero)
		} else {
			g.VPXOR(zero, zero, zero)
			g.VPCMPEQD(mag, zero, zero)
			zero = g.andWith(g.k(signF32), zero)
		}
		value = g.or(value, sign)
		sign = g.or(sign, zero)
		return g.or(code, g.right(28, sign)), value
	case r.mantissa == 1:
		sign = g.nonZero(mag, sign)
		return g.or(code, g.right(28, sign)), g.or(value, sign)
	}
	return g.or(code, g.right(24, sign)), g.or(value, sign)
}

// magic turns the bits of an octave into those of the number to add.
func (r encodeRule) magic() uint32 { return uint32(23-r.mantissa)<<23 + 1<<22 }

// codeBase makes the codes of the lowest octave begin at 0.
func (r encodeRule) codeBase() uint32 { return -((r.lowest + r.magic()) >> (23 - r.mantissa)) }

func (r encodeRule) float() bool { return r.mantissa > 0 }

// encode writes the function of one rule.
func (g *blockGen) encode(r encodeRule) {
	name := "blockEncode" + r.name + g.v.suffix
	g.Function(name)
	g.Attributes(build.NOSPLIT)
	g.Pragma("noescape")
	g.Doc(name + " is blockEncodeRef by rule" + r.name + " for finite elements in groups groups of group elements, both positive, group a multiple of 16.")
	g.SignatureExpr("func(w *float32, params *float32, codes, bins *byte, sums *float64, groups, group int)")
	w := g.Load(g.Param("w"), g.GP64()).(reg.GPVirtual)
	params := g.Load(g.Param("params"), g.GP64()).(reg.GPVirtual)
	codes := g.Load(g.Param("codes"), g.GP64()).(reg.GPVirtual)
	bins := g.Load(g.Param("bins"), g.GP64()).(reg.GPVirtual)
	sums := g.Load(g.Param("sums"), g.GP64()).(reg.GPVirtual)
	groups := g.Load(g.Param("groups"), g.GP64()).(reg.GPVirtual)
	left := g.GP64()

	g.prepare(bits16)
	if r.roundX || r.roundQ {
		g.prepare(1, 0x7fff, upper16)
	}
	switch {
	case r.float():
		g.prepare(absMask, r.largest, r.lowest, infF32, r.magic(), r.codeBase(), signF32)
		if r.down {
			g.prepare(downTies...)
			if g.wide() {
				g.prepare(0xffffffff)
			}
		}
	case r.minimum:
		g.prepare(0, bits15)
	default:
		g.prepare(bitsM8, bits7, 8)
	}
	acc := g.newSums(sums)

	g.Label("group")
	p := g.newParams(params)
	if g.wide() {
		for _, f := range r.fields() {
			p.hold(f)
		}
	}
	g.Load(g.Param("group"), left)
	g.Label("elements")
	x := g.load(operand.Mem{Base: w})
	code, q := g.quantized(r, p, x)
	g.storeCodes(r, code, codes)
	g.storeBins(x, q, p, bins)
	acc.add(w, q)
	g.ADDQ(operand.U32(4*g.v.lanes), w)
	g.ADDQ(operand.U32(g.v.lanes), bins)
	size := g.v.lanes
	if r.mantissa != 3 {
		size /= 2
	}
	g.ADDQ(operand.U32(size), codes)
	g.SUBQ(operand.U32(g.v.lanes), left)
	g.JNZ(operand.LabelRef("elements"))
	g.ADDQ(operand.U32(paramSize), params)
	g.DECQ(groups)
	g.JNZ(operand.LabelRef("group"))
	acc.store()
	g.VZEROUPPER()
	g.RET()
}

// quantized is the code of an element, and what that decodes to.
func (g *blockGen) quantized(r encodeRule, p *blockParamRegs, w reg.VecVirtual) (code, q reg.VecVirtual) {
	x := g.scaled(r, p, w)
	var value reg.VecVirtual
	if r.float() {
		code, value = g.floatCode(r, x)
	} else {
		code, value = g.intCode(r, x)
		if !r.minimum {
			code = g.addInts(g.k(8), code)
		}
	}
	return code, g.decoded(r, p, value)
}

// fields are the parameters that a rule looks at.
func (r encodeRule) fields() []int {
	f := []int{paramStep, paramBins}
	if r.times {
		f = append(f, paramInverse)
	}
	if r.minimum || r.zero {
		f = append(f, paramOffset)
	}
	return f
}

// scaled is x of a rule.
func (g *blockGen) scaled(r encodeRule, p *blockParamRegs, w reg.VecVirtual) reg.VecVirtual {
	if r.times {
		return g.times(p.at(paramInverse), w)
	}
	if r.minimum {
		w = g.minus(p.at(paramOffset), w)
	}
	x := g.over(p.at(paramStep), w)
	if r.roundX {
		x = g.roundBF16(x)
	}
	if r.zero {
		x = g.plus(p.at(paramOffset), x)
		if r.roundX {
			x = g.roundBF16(x)
		}
	}
	return x
}

// intCode clamps and rounds.
func (g *blockGen) intCode(r encodeRule, x reg.VecVirtual) (code, value reg.VecVirtual) {
	if r.minimum {
		x = g.max(g.k(0), g.min(g.k(bits15), x))
	} else {
		x = g.max(g.k(bitsM8), g.min(g.k(bits7), x))
	}
	code, value = g.new(), g.new()
	g.VCVTPS2DQ(x, code)
	g.VCVTDQ2PS(code, value)
	return code, value
}

// decoded is q of a rule.
func (g *blockGen) decoded(r encodeRule, p *blockParamRegs, v reg.VecVirtual) reg.VecVirtual {
	if r.zero {
		v = g.minus(p.at(paramOffset), v)
	}
	q := g.times(p.at(paramStep), v)
	if r.minimum {
		q = g.plus(p.at(paramOffset), q)
	}
	if r.roundQ {
		q = g.roundBF16(q)
	}
	return q
}

// storeCodes packs the low bits of the lanes.
func (g *blockGen) storeCodes(r encodeRule, code reg.VecVirtual, dst reg.GPVirtual) {
	if r.mantissa == 3 {
		g.storeLowBytes(code, dst)
		return
	}
	pair, high := g.new(), g.new()
	g.VPSRLQ(operand.U8(28), code, high)
	pair = g.or(high, code)
	if g.wide() {
		g.VPMOVQB(pair, operand.Mem{Base: dst})
		return
	}
	// Bytes 0 and 8 of each half.
	packed, top := g.new(), g.XMM()
	g.VPSHUFB(g.constants("blocksPairs", 0xffff0800, 0xffffffff, 0xffffffff, 0xffffffff, 0xffff0800, 0xffffffff, 0xffffffff, 0xffffffff), pair, packed)
	g.VEXTRACTI128(operand.U8(1), packed, top)
	g.VPUNPCKLWD(top, packed.AsX(), top)
	g.VMOVD(top, operand.Mem{Base: dst})
}

// storeLowBytes stores the low byte of each lane.
func (g *blockGen) storeLowBytes(x reg.VecVirtual, dst reg.GPVirtual) {
	if g.wide() {
		g.VPMOVDB(x, operand.Mem{Base: dst})
		return
	}
	packed, top := g.new(), g.XMM()
	g.VPSHUFB(g.constants("blocksBytes", 0x0c080400, 0xffffffff, 0xffffffff, 0xffffffff, 0x0c080400, 0xffffffff, 0xffffffff, 0xffffffff), x, packed)
	g.VEXTRACTI128(operand.U8(1), packed, top)
	g.VPUNPCKLDQ(top, packed.AsX(), top)
	g.VMOVQ(top, operand.Mem{Base: dst})
}

// storeBins stores the bin of each error. What is beyond int32 comes as its
// least number, whose magnitude is beyond the last bin too.
func (g *blockGen) storeBins(w, q reg.VecVirtual, p *blockParamRegs, dst reg.GPVirtual) {
	e := g.times(p.at(paramBins), g.minus(q, w))
	bin := g.new()
	g.VCVTTPS2DQ(e, bin)
	g.VPABSD(bin, bin)
	g.VPMINUD(g.k(bits16), bin, bin)
	g.storeLowBytes(bin, dst)
}
