package kernels

import (
	"encoding/binary"
	"math"
)

// convertKernels is what a Set brings to conversions. Lengths fit, as the
// methods of Set say; all results are the same bits in every set.
type convertKernels struct {
	decodeBF16, decodeF16, decodeF32 func(dst []float32, src []byte)
	encodeBF16, encodeF16, encodeF32 func(dst []byte, src []float32)
	roundBF16                        func(x []float32)

	decodeE4M3, decodeE2M1     func(dst []float32, src []byte)
	encodeE4M3, encodeE2M1     func(dst []byte, src []float32)
	packNibbles, unpackNibbles func(dst, src []byte)
}

var convertRef = convertKernels{
	decodeBF16: decodeBF16Ref, decodeF16: decodeF16Ref, decodeF32: decodeF32Ref,
	encodeBF16: encodeBF16Ref, encodeF16: encodeF16Ref, encodeF32: encodeF32Ref, roundBF16: roundBF16Ref,
	decodeE4M3: decodeE4M3Ref, decodeE2M1: decodeE2M1Ref,
	encodeE4M3: encodeE4M3Ref, encodeE2M1: encodeE2M1Ref,
	packNibbles: packNibblesRef, unpackNibbles: unpackNibblesRef,
}

func decodeBF16Ref(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func decodeF16Ref(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func decodeF32Ref(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func encodeBF16Ref(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(x))
	}
}

func encodeF16Ref(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(x))
	}
}

func encodeF32Ref(dst []byte, src []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
}

func roundBF16Ref(x []float32) {
	for i, v := range x {
		x[i] = roundBF16(v)
	}
}

func decodeE4M3Ref(dst []float32, src []byte) {
	for i, c := range src {
		dst[i] = e4m3Values[c]
	}
}

func encodeE4M3Ref(dst []byte, src []float32) {
	for i, x := range src {
		dst[i] = F32ToE4M3(x)
	}
}

func decodeE2M1Ref(dst []float32, packed []byte) {
	for i := range dst {
		dst[i] = e2m1Values[packed[i/2]>>(i%2*4)&15]
	}
}

func encodeE2M1Ref(packed []byte, src []float32) {
	clear(packed)
	for i, x := range src {
		packed[i/2] |= F32ToE2M1(x) << (i % 2 * 4)
	}
}

func packNibblesRef(packed, codes []byte) {
	clear(packed)
	for i, c := range codes {
		packed[i/2] |= c & 15 << (i % 2 * 4)
	}
}

func unpackNibblesRef(codes, packed []byte) {
	for i := range codes {
		codes[i] = packed[i/2] >> (i % 2 * 4) & 15
	}
}
