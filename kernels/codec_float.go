package kernels

import "math"

// The 16-bit float codecs. Rounding is to nearest, ties to even; subnormals are
// kept; overflow gives an infinity. A NaN stays a NaN, its payload is free.

const (
	signF32 = 0x80000000
	infF32  = 0x7f800000 // bits of +Inf; larger magnitudes are NaN
)

// BF16ToF32 decodes a bfloat16.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 encodes a bfloat16.
func F32ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&^signF32 > infF32 {
		return uint16(b>>16)&0x8000 | 0x7fc0
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// roundBF16 is x rounded to bfloat16 and back.
func roundBF16(x float32) float32 { return BF16ToF32(F32ToBF16(x)) }

// F16ToF32 decodes an IEEE 754 binary16.
func F16ToF32(h uint16) float32 {
	sign, mag := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case mag < 0x0400: // zero and subnormals: units of 2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(mag)*0x1p-24))
	case mag < 0x7c00:
		return math.Float32frombits(sign | (mag<<13 + (127-15)<<23))
	default: // Inf and NaN
		return math.Float32frombits(sign | infF32 | mag<<13)
	}
}

// F32ToF16 encodes an IEEE 754 binary16.
func F32ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign, mag := uint16(b>>16)&0x8000, b&^signF32
	switch {
	case mag > infF32:
		return sign | 0x7e00
	case mag >= 0x477ff000: // 65520, halfway to what would be the next value, and beyond
		return sign | 0x7c00
	case mag < 0x38800000: // below 2⁻¹⁴: units of 2⁻²⁴, which 0.5 has as its own last place
		return sign | uint16(math.Float32bits(math.Float32frombits(mag)+0.5)-math.Float32bits(0.5))
	default:
		return sign | uint16((mag+0xfff+mag>>13&1)>>13-(127-15)<<10)
	}
}
