package kernels

import (
	"encoding/binary"
	"math"
)

// Round to nearest as gguf-py 0.19 and ggml's reference quantizers do it: a scale
// from the block's extremes, whose reciprocal is taken in f32 before the scale is
// rounded to f16.

func encodeGGUFF32(dst []byte, x []float32) bool {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(x[0]))
	return true
}

func encodeGGUFF16(dst []byte, x []float32) bool { return putHalf(dst, x[0]) }

func encodeGGUFBF16(dst []byte, x []float32) bool {
	h := F32ToBF16(x[0])
	binary.LittleEndian.PutUint16(dst, h)
	return h&0x7fff < 0x7f80
}

// putHalf stores x as an f16 and says whether it is one.
func putHalf(dst []byte, x float32) bool {
	h := F32ToF16(x)
	binary.LittleEndian.PutUint16(dst, h)
	return h&0x7fff < 0x7c00
}

// inverse is 1/d, and 0 where that is no finite number: such a d is 0 as an f16.
func inverse(d float32) float32 {
	if r := 1 / d; r-r == 0 {
		return r
	}
	return 0
}

// utmost is the first of the elements with the largest magnitude.
func utmost(x []float32) float32 {
	var most, mag float32
	for _, v := range x {
		if a := abs32(v); a > mag {
			most, mag = v, a
		}
	}
	return most
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ signF32) }

// largest is the largest magnitude.
func largest(x []float32) float32 {
	var most uint32
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^signF32)
	}
	return math.Float32frombits(most)
}

// clampTrunc is the whole part of t within 0 and most.
func clampTrunc(t, most float32) byte { return byte(max(0, min(most, t))) }

func encodeQ4_0(dst []byte, x []float32) bool {
	d := utmost(x) / -8
	id := inverse(d)
	for j := range 16 {
		low := clampTrunc(float32(x[j]*id)+8.5, 15)
		high := clampTrunc(float32(x[j+16]*id)+8.5, 15)
		dst[2+j] = low | high<<4
	}
	return putHalf(dst, d)
}

func encodeQ5_0(dst []byte, x []float32) bool {
	d := utmost(x) / -16
	id := inverse(d)
	var codes [32]byte
	for j := range codes {
		codes[j] = clampTrunc(float32(x[j]*id)+16.5, 31)
	}
	packFifths(dst[2:], &codes)
	return putHalf(dst, d)
}

// packFifths stores codes of five bits: the fifth bits, then nibbles.
func packFifths(dst []byte, codes *[32]byte) {
	var high uint32
	for j := range 16 {
		dst[4+j] = codes[j]&15 | codes[j+16]<<4
		high |= uint32(codes[j]>>4)<<j | uint32(codes[j+16]>>4)<<(j+16)
	}
	binary.LittleEndian.PutUint32(dst, high)
}

// bounds are the least and the largest element.
func bounds(x []float32) (low, high float32) {
	low, high = x[0], x[0]
	for _, v := range x[1:] {
		low, high = min(low, v), max(high, v)
	}
	return low, high
}

func encodeQ4_1(dst []byte, x []float32) bool {
	low, high := bounds(x)
	d := (high - low) / 15
	id := inverse(d)
	for j := range 16 {
		a := clampTrunc(float32((x[j]-low)*id)+0.5, 15)
		b := clampTrunc(float32((x[j+16]-low)*id)+0.5, 15)
		dst[4+j] = a | b<<4
	}
	ok := putHalf(dst, d)
	return putHalf(dst[2:], low) && ok
}

func encodeQ5_1(dst []byte, x []float32) bool {
	low, high := bounds(x)
	d := (high - low) / 31
	id := inverse(d)
	var codes [32]byte
	for j := range codes {
		codes[j] = clampTrunc(float32((x[j]-low)*id)+0.5, 31)
	}
	packFifths(dst[4:], &codes)
	ok := putHalf(dst, d)
	return putHalf(dst[2:], low) && ok
}

func encodeQ8_0(dst []byte, x []float32) bool {
	d := largest(x) / 127
	id := inverse(d)
	for j, v := range x {
		dst[2+j] = byte(int8(awayFromZero(v * id)))
	}
	return putHalf(dst, d)
}

// awayFromZero rounds to nearest, halves away from zero.
func awayFromZero(t float32) float32 { return float32(math.Round(float64(t))) }

// ternaryCodes are round(x/amax)+1, and amax.
func ternaryCodes(codes *[256]byte, x []float32) (d float32) {
	d = largest(x)
	id := inverse(d)
	for i, v := range x {
		codes[i] = byte(int8(awayFromZero(v*id)) + 1)
	}
	return d
}

func encodeTQ2(dst []byte, x []float32) bool {
	var codes [256]byte
	d := ternaryCodes(&codes, x)
	for j := range 64 {
		q := codes[128*(j/32)+j%32:]
		dst[j] = q[0] | q[32]<<2 | q[64]<<4 | q[96]<<6
	}
	return putHalf(dst[64:], d)
}

func encodeTQ1(dst []byte, x []float32) bool {
	var codes [256]byte
	d := ternaryCodes(&codes, x)
	// Five digits a byte, the first of the highest value, as a fraction of 3⁵.
	fraction := func(first, step, n int) byte {
		v := 0
		for i := range 5 {
			v *= 3
			if i < n {
				v += int(codes[first+step*i])
			}
		}
		return byte((v*256 + 242) / 243)
	}
	for j := range 32 {
		dst[j] = fraction(j, 32, 5)
	}
	for j := range 16 {
		dst[32+j] = fraction(160+j, 16, 5)
	}
	for j := range 4 {
		dst[48+j] = fraction(240+j, 4, 4)
	}
	return putHalf(dst[52:], d)
}
