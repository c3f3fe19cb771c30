package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

// encodeReciprocals is how far behind the steps their reciprocals are.
//
// With y = 1/step rounded, the quotient x = w/step rounded comes without a
// division: q = w·y, r = w − q·step, x = q + r·y, each rounded once (P. Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor",
// 1990; N. Brisebarre, J.-M. Muller, S. K. Raina, "Accelerating correctly rounded
// floating-point division when the divisor is known in advance", 2004). It is so
// where q is normal and r is exact, which it is for w from 2⁻¹⁰⁰ up, since its
// last place is no less than w·2⁻⁴⁸. Of steps from 2⁻⁸⁹ up:
//
//   - Where w < 2⁻¹⁰⁰, w/step < 2⁻¹¹, and r is off by at most 2⁻¹⁵⁰, which is
//     2⁻⁶¹ of a step: x may be another number, but it is below 1/16 as the quotient is, where
//     code and error bin are 0. So it is where q is subnormal.
//   - Where the quotient is infinite, or nearly so, x may be NaN. Minima take the
//     other operand then, 6 for the value and 1 for the error, as they do for
//     infinity.
//
// That x is 0 says nothing of w: what is 0 must be told from w and step.
const encodeReciprocals = 4 * 128

// encodeMagic is a table of n numbers, by the whole steps ⌊x⌋ of a quotient x
// below 7, and by 7 for a ⌊x⌋ that came out as -1. Added to x, a number rounds it to the nearest value of E2M1, ties to
// the even code, and taken away again leaves that value: its last place is what E2M1
// values are apart there, 1/2 below 2, 1 below 4, else 2. The last bits of the sum are the magnitude of
// the code: to 2²², 2²³ and 2²⁴ the table adds 0, 2 and 4 last places. At 2 and
// at 4 either side's number does, so that ⌊x⌋ may be that of something near.
func encodeMagic(ctx *build.Context, name string, n int) operand.Mem {
	m := ctx.StaticGlobal(name)
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range n {
		bits := uint32(0x4b800004)
		switch i {
		case 0, 1, 7:
			bits = 0x4a800000
		case 2, 3:
			bits = 0x4b000002
		}
		ctx.AddDatum(4*i, operand.U32(bits))
	}
	return m
}
