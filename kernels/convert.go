package kernels

import (
	"fmt"
	"sync"
)

// DecodeFloats decodes the little-endian elements in src into dst, one for
// one. A NaN keeps its sign and payload.
func (s Set) DecodeFloats(dst []float32, e Element, src []byte) error {
	if err := checkElements(len(dst), e, len(src)); err != nil {
		return err
	}
	switch e {
	case BF16:
		s.convert.decodeBF16(dst, src)
	case F16:
		s.convert.decodeF16(dst, src)
	default:
		s.convert.decodeF32(dst, src)
	}
	return nil
}

// EncodeFloats encodes src as little-endian elements into dst, one for one, as
// F32ToBF16 and F32ToF16 do.
func (s Set) EncodeFloats(dst []byte, e Element, src []float32) error {
	if err := checkElements(len(src), e, len(dst)); err != nil {
		return err
	}
	switch e {
	case BF16:
		s.convert.encodeBF16(dst, src)
	case F16:
		s.convert.encodeF16(dst, src)
	default:
		s.convert.encodeF32(dst, src)
	}
	return nil
}

// RoundBF16 rounds every element of x to bfloat16, in place.
func (s Set) RoundBF16(x []float32) { s.convert.roundBF16(x) }

// DecodeE4M3 decodes src into dst, one for one, as E4M3ToF32 does.
func (s Set) DecodeE4M3(dst []float32, src []byte) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%d bytes for %d elements of e4m3: %w", len(src), len(dst), ErrShape)
	}
	s.convert.decodeE4M3(dst, src)
	return nil
}

// EncodeE4M3 encodes src into dst, one for one, as F32ToE4M3 does: values
// beyond ±448 saturate.
func (s Set) EncodeE4M3(dst []byte, src []float32) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%d bytes for %d elements of e4m3: %w", len(dst), len(src), ErrShape)
	}
	s.convert.encodeE4M3(dst, src)
	return nil
}

// DecodeE2M1 decodes len(dst) codes, two in a byte of packed, as E2M1ToF32
// does. The element with an even index is in the low nibble; the high nibble
// of an odd count's last byte is not read.
func (s Set) DecodeE2M1(dst []float32, packed []byte) error {
	if err := checkNibbles(len(dst), len(packed)); err != nil {
		return err
	}
	s.convert.decodeE2M1(dst, packed)
	return nil
}

// EncodeE2M1 encodes src as F32ToE2M1 does and packs two codes in a byte, the
// even index in the low nibble. The last high nibble of an odd count is 0.
func (s Set) EncodeE2M1(packed []byte, src []float32) error {
	if err := checkNibbles(len(src), len(packed)); err != nil {
		return err
	}
	s.convert.encodeE2M1(packed, src)
	return nil
}

// PackNibbles packs the low four bits of each byte of codes, two in a byte, the
// even index in the low nibble. The last high nibble of an odd count is 0.
func (s Set) PackNibbles(packed, codes []byte) error {
	if err := checkNibbles(len(codes), len(packed)); err != nil {
		return err
	}
	s.convert.packNibbles(packed, codes)
	return nil
}

// UnpackNibbles writes len(codes) nibbles of packed, each into the low four
// bits of a byte; it undoes PackNibbles.
func (s Set) UnpackNibbles(codes, packed []byte) error {
	if err := checkNibbles(len(codes), len(packed)); err != nil {
		return err
	}
	s.convert.unpackNibbles(codes, packed)
	return nil
}

// best saves the functions below from assembling the sets at every call.
var best = sync.OnceValue(Best)

// DecodeFloats is Best's method of that name.
func DecodeFloats(dst []float32, e Element, src []byte) error {
	return best().DecodeFloats(dst, e, src)
}

// EncodeFloats is Best's method of that name.
func EncodeFloats(dst []byte, e Element, src []float32) error {
	return best().EncodeFloats(dst, e, src)
}

// RoundBF16 is Best's method of that name.
func RoundBF16(x []float32) { best().RoundBF16(x) }

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

func checkNibbles(codes, byteLen int) error {
	if byteLen != ceilDiv(codes, 2) {
		return fmt.Errorf("%d bytes for %d codes of four bits: %w", byteLen, codes, ErrShape)
	}
	return nil
}
