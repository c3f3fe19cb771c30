package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DecodeFloats decodes the little-endian elements in src into dst, one for one.
func DecodeFloats(dst []float32, e Element, src []byte) error {
	if err := checkElements(len(dst), e, len(src)); err != nil {
		return err
	}
	switch e {
	case BF16:
		for i := range dst {
			dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
	return nil
}

// EncodeFloats encodes src as little-endian elements into dst, one for one.
func EncodeFloats(dst []byte, e Element, src []float32) error {
	if err := checkElements(len(src), e, len(dst)); err != nil {
		return err
	}
	for i, x := range src {
		switch e {
		case BF16:
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(x))
		case F16:
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(x))
		default:
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	}
	return nil
}

// RoundBF16 rounds every element of x to bfloat16, in place.
func RoundBF16(x []float32) {
	for i, v := range x {
		x[i] = roundBF16(v)
	}
}

func checkElements(floats int, e Element, byteLen int) error {
	size := e.Size()
	if size == 0 {
		return fmt.Errorf("%v: %w (known: bf16, f16, f32)", e, ErrUnsupported)
	}
	if want, ok := product(floats, size); !ok || want != byteLen {
		return fmt.Errorf("%d bytes for %d elements of %v: %w", byteLen, floats, e, ErrShape)
	}
	return nil
}
