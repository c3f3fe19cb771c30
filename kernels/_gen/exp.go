package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exp32Constants are package kernels' of exp32, by the index that rowExp knows.
var exp32Constants = f32s(
	0x1.715476p0, 0x1.8p23, 0x1.62e430p-1, -0x1.05c610p-29,
	0x1.6a244cp-10, 0x1.1239d4p-7, 0x1.5558f2p-5, 0x1.555492p-3, 0x1.fffffcp-2, 1,
	-87.33654, 88.72283, 89, float32(math.Inf(1)),
)

const (
	expLog2E = iota
	expShifter
	expHigh
	expLow
	expP4
	expP3
	expP2
	expP1
	expP0
	expOne
	expBottom
	expTop
	expClamp
	expInf
)

// rowExp computes exp32. Its constants are in registers where there are 32, and
// in memory elsewhere.
type rowExp struct {
	*rowGen
	c [expInf + 1]operand.Op
}

func (g *rowGen) exp(d *rowData) *rowExp {
	e := &rowExp{rowGen: g}
	mem := d.words("exp32Constants", exp32Constants...)
	for i := range e.c {
		e.c[i] = mem.Offset(4 * rowStep * i)
		if g.wide() {
			r := g.new()
			g.VMOVUPS(e.c[i], r)
			e.c[i] = r
		}
	}
	return e
}

// inRegister is a constant in a register.
func (e *rowExp) inRegister(i int) reg.VecVirtual {
	if r, ok := e.c[i].(reg.VecVirtual); ok {
		return r
	}
	r := e.new()
	e.VMOVUPS(e.c[i], r)
	return r
}

// of is e^x.
func (e *rowExp) of(x reg.VecVirtual) reg.VecVirtual {
	// The second source is what stays where one is a NaN.
	within, t, n, r := e.new(), e.new(), e.new(), e.new()
	e.VMINPS(x, e.inRegister(expClamp), within)
	e.VMOVAPS(within, t)
	e.VFMADD213PS(e.c[expShifter], e.inRegister(expLog2E), t)
	e.VSUBPS(e.c[expShifter], t, n)
	e.VMOVAPS(within, r)
	e.VFNMADD231PS(e.c[expHigh], n, r)
	e.VFNMADD231PS(e.c[expLow], n, r)
	p := e.new()
	e.VMOVAPS(e.c[expP4], p)
	for _, c := range []int{expP3, expP2, expP1, expP0, expOne, expOne} {
		e.VFMADD213PS(e.c[c], r, p)
	}
	const notLess, greater, unordered = 5, 30, 3
	if e.wide() {
		// Scaling overflows by itself; p·2ⁿ is exact elsewhere.
		k := e.K()
		e.VCMPPS(operand.U8(notLess), e.c[expBottom], x, k)
		y := e.new()
		e.VSCALEFPS_Z(n, p, k, y)
		return y
	}
	y, there := e.new(), e.new()
	e.VPSLLD(operand.U8(23), t, y)
	e.VPADDD(p, y, y)
	e.VCMPPS(operand.U8(greater), e.c[expTop], x, there)
	e.VBLENDVPS(there, e.c[expInf], y, y)
	e.VCMPPS(operand.U8(notLess), e.c[expBottom], x, there)
	e.VANDPS(there, y, y)
	e.VCMPPS(operand.U8(unordered), x, x, there)
	e.VBLENDVPS(there, x, y, y)
	return y
}
