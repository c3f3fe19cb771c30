package kernels

import "math"

// The 8-bit float codecs: E4M3 in its finite-and-NaN form, E5M2, E8M0.

// Ends of the ranges.
const (
	MaxE4M3 = 448    // the largest E4M3 value
	MinE4M3 = 0x1p-9 // the smallest positive one, a subnormal
	MaxE5M2 = 57344  // the largest finite E5M2 value
)

const nanE4M3 = 0x7f

var (
	e4m3Values = decodeTable(decodeE4M3)
	e5m2Values = decodeTable(decodeE5M2)
)

func decodeTable(decode func(byte) float32) (t [256]float32) {
	for c := range t {
		t[c] = decode(byte(c))
	}
	return t
}

func decodeE4M3(c byte) float32 {
	sign, exp, man := uint32(c&0x80)<<24, uint32(c>>3&15), uint32(c&7)
	var mag float32
	switch {
	case c&0x7f == nanE4M3:
		return float32(math.NaN())
	case exp == 0:
		mag = float32(man) * 0x1p-9
	default:
		mag = math.Float32frombits((exp+127-7)<<23 | man<<20)
	}
	return math.Float32frombits(sign | math.Float32bits(mag))
}

func decodeE5M2(c byte) float32 { return F16ToF32(uint16(c) << 8) }

// E4M3ToF32 decodes an E4M3 code; 0x7F and 0xFF are NaN, there is no infinity.
func E4M3ToF32(c byte) float32 { return e4m3Values[c] }

// E5M2ToF32 decodes an E5M2 code; 0x7C is an infinity.
func E5M2ToF32(c byte) float32 { return e5m2Values[c] }

// E8M0ToF32 decodes an E8M0 code, 2^(c−127). Code 0 is 2⁻¹²⁷, not zero; 255 is
// NaN.
func E8M0ToF32(c byte) float32 {
	switch c {
	case 0:
		return 0x1p-127
	case 255:
		return float32(math.NaN())
	}
	return math.Float32frombits(uint32(c) << 23)
}

// F32ToE4M3 encodes to nearest, ties to even, after clamping to ±448: this is
// what quantizers do. A NaN stays one.
func F32ToE4M3(x float32) byte {
	b := math.Float32bits(x)
	sign, mag := byte(b>>24)&0x80, b&^signF32
	if mag > infF32 {
		return sign | nanE4M3
	}
	return sign | positiveE4M3(mag)
}

// CastE4M3 encodes as torch's cast does: it does not saturate. Up to 464,
// which is a tie, values round to 448; above, and for infinities, they become
// NaN.
func CastE4M3(x float32) byte {
	b := math.Float32bits(x)
	sign, mag := byte(b>>24)&0x80, b&^signF32
	if mag > bits464 {
		return sign | nanE4M3
	}
	return sign | positiveE4M3(mag)
}

const (
	bits448   = 0x43e00000 // f32 bits of 448
	bits464   = 0x43e80000 // f32 bits of 464
	bits2pm6  = 0x3c800000 // f32 bits of 2⁻⁶, the smallest normal E4M3
	bits2pm14 = 0x38800000 // f32 bits of 2⁻¹⁴, the smallest normal E5M2
	bitsMaxE5 = 0x47600000 // f32 bits of 57344
)

// positiveE4M3 encodes the magnitude with these f32 bits, up to +Inf, clamped
// to 448.
func positiveE4M3(mag uint32) byte {
	mag = min(mag, bits448)
	if mag < bits2pm6 { // units of 2⁻⁹, the last place of 2¹⁴
		return byte(math.Float32bits(math.Float32frombits(mag)+0x1p14) - (127+14)<<23)
	}
	return byte((mag+0x7ffff+mag>>20&1)>>20 - (127-7)<<3)
}

// F32ToE5M2 encodes to nearest, ties to even, after clamping to ±57344.
func F32ToE5M2(x float32) byte {
	b := math.Float32bits(x)
	sign, mag := byte(b>>24)&0x80, b&^signF32
	if mag > infF32 {
		return sign | 0x7f
	}
	return sign | positiveE5M2(min(mag, bitsMaxE5))
}

// CastE5M2 encodes as torch's cast does: 61440 and above give infinity.
func CastE5M2(x float32) byte {
	b := math.Float32bits(x)
	sign, mag := byte(b>>24)&0x80, b&^signF32
	if mag > infF32 {
		return sign | 0x7f
	}
	return sign | min(positiveE5M2(min(mag, infF32-1<<23)), 0x7c)
}

// positiveE5M2 encodes a finite magnitude given as f32 bits; what rounds
// beyond the largest value gives a code of 0x7C or more.
func positiveE5M2(mag uint32) byte {
	if mag < bits2pm14 { // units of 2⁻¹⁶, the last place of 2⁷
		return byte(math.Float32bits(math.Float32frombits(mag)+0x1p7) - (127+7)<<23)
	}
	return byte(min((mag+0xfffff+mag>>21&1)>>21-(127-15)<<2, 0x7f))
}

// F32ToE8M0 encodes the nearest power of two of |x|, the larger one at the
// midpoint; up to 2⁻¹²⁷, 0 included, the code is 0, and everything from there
// to 2⁻¹²⁶ rounds up (torch and ml_dtypes agree on that). NaN and infinity give
// NaN (255). Block formats have exponent rules of their own and do not use it.
func F32ToE8M0(x float32) byte {
	mag := math.Float32bits(x) &^ signF32
	if mag >= infF32 {
		return 255
	}
	if mag <= 1<<22 { // 2⁻¹²⁷
		return 0
	}
	return byte(max((mag+1<<22)>>23, 1))
}
