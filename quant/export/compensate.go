package export

import (
	"math"

	"quantscope/kernels"
)

// Compensation is what each E4M3 block scale becomes when the second-level scale
// that multiplies it becomes another: the f32 product with the ratio of the two,
// rounded to E4M3 to nearest, ties to even, and clamped at 448. Codes stay.
type Compensation struct {
	Code        [256]byte // by the stored block scale
	Clamped     [256]bool
	Underflowed [256]bool // 0, and was not
}

// Compensate makes the table for a matrix whose own second-level scale is from
// and which will be decoded with to, both as stored: as divisors where divisor
// says so, else as multipliers.
func Compensate(from, to float32, divisor bool) *Compensation {
	ratio := from / to
	if divisor {
		ratio = to / from
	}
	c := new(Compensation)
	for b := range c.Code {
		scale := kernels.E4M3ToF32(byte(b))
		product := scale * ratio
		c.Code[b] = kernels.F32ToE4M3(product)
		c.Clamped[b] = math.Abs(float64(product)) > kernels.MaxE4M3
		c.Underflowed[b] = c.Code[b]&0x7f == 0 && scale != 0
	}
	return c
}

// Apply maps scales into dst, which has as many.
func (c *Compensation) Apply(dst, scales []byte) {
	for i, b := range scales {
		dst[i] = c.Code[b]
	}
}
