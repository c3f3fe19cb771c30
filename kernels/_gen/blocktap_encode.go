package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func init() { files["blocktap_encode"] = blockEncode }

// Where the fields of blockParams and blockSums are; a test holds them against
// the types.
const (
	paramStep, paramInverse, paramOffset, paramBins, paramSize = 0, 4, 8, 12, 16
	sumsW2, sumsQ2, sumsWQ, sumsE2, sumsWorst                  = 0, 64, 128, 192, 256
)

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

// blockGen writes functions on blocks of elements. Constants and what is the
// same for a block are held in registers where there are 32, else in memory.
type blockGen struct {
	lanesOf
	tables map[string]operand.Mem
	words  map[uint32]operand.Op
}

// param is where a parameter stands.
func (g *blockGen) param(name string) operand.Mem {
	p, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// prepare makes constants ready before a loop.
func (g *blockGen) prepare(words ...uint32) {
	for _, w := range words {
		if g.wide() {
			g.words[w] = g.all(w)
			continue
		}
		g.words[w] = g.constants(fmt.Sprintf("blocks%08x", w), w, w, w, w, w, w, w, w)
	}
}

// constants is a table that all functions of a file share.
func (g *blockGen) constants(name string, words ...uint32) operand.Mem {
	mem, ok := g.tables[name]
	if !ok {
		mem = g.table(name, words...)
		g.tables[name] = mem
	}
	return mem
}

// k is a constant that was prepared.
func (g *blockGen) k(word uint32) operand.Op {
	op, ok := g.words[word]
	if !ok {
		panic(fmt.Sprintf("constant %#x", word))
	}
	return op
}

// Operations whose first operand may be memory.

func (g *blockGen) andWith(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		g.VPANDD(k, x, r)
	} else {
		g.VPAND(k, x, r)
	}
	return r
}

func (g *blockGen) orWith(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	if g.wide() {
		g.VPORD(k, x, r)
	} else {
		g.VPOR(k, x, r)
	}
	return r
}

func (g *blockGen) three(op func(...operand.Op), k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	r := g.new()
	op(k, x, r)
	return r
}

func (g *blockGen) addInts(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VPADDD, k, x)
}

func (g *blockGen) min(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VMINPS, k, x)
}

func (g *blockGen) max(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VMAXPS, k, x)
}

func (g *blockGen) plus(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VADDPS, k, x)
}

// minus is x−k.
func (g *blockGen) minus(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VSUBPS, k, x)
}

func (g *blockGen) times(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VMULPS, k, x)
}

// over is x/k.
func (g *blockGen) over(k operand.Op, x reg.VecVirtual) reg.VecVirtual {
	return g.three(g.VDIVPS, k, x)
}

// roundBF16 rounds finite numbers and infinities.
func (g *blockGen) roundBF16(x reg.VecVirtual) reg.VecVirtual {
	odd := g.andWith(g.k(1), g.right(16, x))
	return g.andWith(g.k(upper16), g.add(g.addInts(g.k(0x7fff), x), odd))
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

// blockParamRegs are the parameters of a block in all lanes.
type blockParamRegs struct {
	g    *blockGen
	base reg.GPVirtual
	held map[int]reg.VecVirtual
}

func (g *blockGen) newParams(base reg.GPVirtual) *blockParamRegs {
	return &blockParamRegs{g, base, map[int]reg.VecVirtual{}}
}

func (p *blockParamRegs) hold(field int) { p.held[field] = p.broadcast(field) }

func (p *blockParamRegs) broadcast(field int) reg.VecVirtual {
	r := p.g.new()
	p.g.VBROADCASTSS(operand.Mem{Base: p.base, Disp: field}, r)
	return r
}

func (p *blockParamRegs) at(field int) reg.VecVirtual {
	if r, ok := p.held[field]; ok {
		return r
	}
	return p.broadcast(field)
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

// blockSumRegs are running sums of eight lanes in registers; the largest error
// stays in memory where registers are few.
type blockSumRegs struct {
	g    *blockGen
	base reg.GPVirtual
	regs map[int][]reg.VecVirtual
}

func (g *blockGen) newSums(base reg.GPVirtual) *blockSumRegs {
	s := &blockSumRegs{g, base, map[int][]reg.VecVirtual{}}
	for _, at := range s.kept() {
		for i := range s.parts() {
			r := g.new()
			g.VMOVUPD(s.mem(at, i), r)
			s.regs[at] = append(s.regs[at], r)
		}
	}
	return s
}

func (s *blockSumRegs) kept() []int {
	if s.g.wide() {
		return []int{sumsW2, sumsQ2, sumsWQ, sumsE2, sumsWorst}
	}
	return []int{sumsW2, sumsQ2, sumsWQ, sumsE2}
}

// parts is how many registers hold eight lanes.
func (s *blockSumRegs) parts() int { return 16 / s.g.v.lanes }

func (s *blockSumRegs) mem(at, part int) operand.Mem {
	return operand.Mem{Base: s.base, Disp: at + 32*part}
}

// add adds the elements at w, which decode to q. Products of two f32 are exact
// in f64, so that a fused addition rounds as two instructions do; the square of
// an error is not, and is rounded by itself.
func (s *blockSumRegs) add(w reg.GPVirtual, q reg.VecVirtual) {
	g := s.g
	bytes := 2 * g.v.lanes // half a vector
	for half := range 2 {
		wd, qd := g.new(), g.new()
		g.VCVTPS2PD(operand.Mem{Base: w, Disp: bytes * half}, wd)
		switch {
		case half == 0 && g.wide():
			g.VCVTPS2PD(q.AsY(), qd)
		case half == 0:
			g.VCVTPS2PD(q.AsX(), qd)
		case g.wide():
			y := g.YMM()
			g.VEXTRACTF64X4(operand.U8(1), q, y)
			g.VCVTPS2PD(y, qd)
		default:
			x := g.XMM()
			g.VEXTRACTF128(operand.U8(1), q, x)
			g.VCVTPS2PD(x, qd)
		}
		part := half
		if g.wide() {
			part = 0
		}
		g.VFMADD231PD(wd, wd, s.regs[sumsW2][part])
		g.VFMADD231PD(qd, qd, s.regs[sumsQ2][part])
		g.VFMADD231PD(wd, qd, s.regs[sumsWQ][part])
		e := g.new()
		g.VSUBPD(qd, wd, e)
		if g.wide() {
			worst := s.regs[sumsWorst][0]
			g.VRANGEPD(operand.U8(0x0b), e, worst, worst) // the larger magnitude, without its sign
		} else {
			mag := g.new()
			g.VANDPD(g.constants("blocksAbs64", 0xffffffff, absMask, 0xffffffff, absMask, 0xffffffff, absMask, 0xffffffff, absMask), e, mag)
			g.VMAXPD(s.mem(sumsWorst, part), mag, mag)
			g.VMOVUPD(mag, s.mem(sumsWorst, part))
		}
		g.VMULPD(e, e, e)
		g.VADDPD(e, s.regs[sumsE2][part], s.regs[sumsE2][part])
	}
}

func (s *blockSumRegs) store() {
	for _, at := range s.kept() {
		for i, r := range s.regs[at] {
			s.g.VMOVUPD(r, s.mem(at, i))
		}
	}
}
