package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Where the fields of blockParams and blockSums are; a test holds them against
// the types.
const (
	paramStep, paramInverse, paramOffset, paramBins, paramSize = 0, 4, 8, 12, 16
	sumsW2, sumsQ2, sumsWQ, sumsE2, sumsWorst                  = 0, 64, 128, 192, 256
)

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
