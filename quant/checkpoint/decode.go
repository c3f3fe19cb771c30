package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"

	"quantscope/kernels"
)

// HasF32 reports whether elements of the dtype have a meaning as one float32:
// all but C64.
func (d DType) HasF32() bool { return d.Bits() != 0 && d != C64 }

// DecodeF32 decodes len(dst) elements, which raw must hold exactly. F64 and
// integers above 2^24 are rounded to nearest, ties to even; a BOOL is 0 or 1.
// The other dtypes are exact. NaNs stay NaN.
func DecodeF32(dst []float32, dt DType, raw []byte) error {
	if !dt.HasF32() {
		return fmt.Errorf("checkpoint: dtype %s has no float32 meaning: %w", dt, ErrUnsupported)
	}
	if want := (len(dst)*dt.Bits() + 7) / 8; len(raw) != want {
		return fmt.Errorf("checkpoint: %d elements of %s are %d bytes, not %d", len(dst), dt, want, len(raw))
	}
	switch dt.Bits() {
	case 4:
		decodeF4(dst, raw)
	case 8:
		decode8(dst, dt, raw)
	case 16:
		decode16(dst, dt, raw)
	case 32:
		decode32(dst, dt, raw)
	case 64:
		decode64(dst, dt, raw)
	}
	return nil
}

func decodeF4(dst []float32, raw []byte) {
	for i := range dst {
		dst[i] = kernels.E2M1ToF32(raw[i/2] >> (i % 2 * 4))
	}
}

func decode8(dst []float32, dt DType, raw []byte) {
	var decode func(byte) float32
	switch dt {
	case F8E4M3:
		decode = kernels.E4M3ToF32
	case F8E5M2:
		decode = kernels.E5M2ToF32
	case F8E8M0:
		decode = kernels.E8M0ToF32
	case F8E4M3FNUZ:
		decode = func(c byte) float32 { return fnuz(c, 3) }
	case F8E5M2FNUZ:
		decode = func(c byte) float32 { return fnuz(c, 2) }
	case I8:
		decode = func(c byte) float32 { return float32(int8(c)) }
	case U8:
		decode = func(c byte) float32 { return float32(c) }
	case Bool:
		decode = func(c byte) float32 { return float32(min(c, 1)) }
	}
	var table [256]float32
	for c := range table {
		table[c] = decode(byte(c))
	}
	for i, c := range raw {
		dst[i] = table[c]
	}
}

// fnuz decodes an 8-bit float with the given number of mantissa bits, no
// infinities, one zero and 0x80 as NaN. The bias is one more than IEEE's.
func fnuz(c byte, mantissaBits int) float32 {
	if c == 0x80 {
		return float32(math.NaN())
	}
	bias := 1 << (6 - mantissaBits)
	exp, m := int(c&0x7F)>>mantissaBits, int(c)&(1<<mantissaBits-1)
	if exp == 0 {
		exp = 1
	} else {
		m += 1 << mantissaBits
	}
	v := math.Ldexp(float64(m), exp-bias-mantissaBits)
	if c&0x80 != 0 {
		v = -v
	}
	return float32(v)
}

func decode16(dst []float32, dt DType, raw []byte) {
	raw = raw[:2*len(dst)]
	switch dt {
	case BF16:
		for i := range dst {
			dst[i] = kernels.BF16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = kernels.F16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case I16:
		for i := range dst {
			dst[i] = float32(int16(binary.LittleEndian.Uint16(raw[2*i:])))
		}
	case U16:
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	}
}

func decode32(dst []float32, dt DType, raw []byte) {
	for i := range dst {
		v := binary.LittleEndian.Uint32(raw[4*i:])
		switch dt {
		case F32:
			dst[i] = math.Float32frombits(v)
		case I32:
			dst[i] = float32(int32(v))
		case U32:
			dst[i] = float32(v)
		}
	}
}

func decode64(dst []float32, dt DType, raw []byte) {
	for i := range dst {
		v := binary.LittleEndian.Uint64(raw[8*i:])
		switch dt {
		case F64:
			dst[i] = float32(math.Float64frombits(v))
		case I64:
			dst[i] = float32(int64(v))
		case U64:
			dst[i] = float32(v)
		}
	}
}
