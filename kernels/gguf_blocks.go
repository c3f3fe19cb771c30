package kernels

import "encoding/binary"

// Blocks of 32: the low nibbles are the first sixteen elements, the high ones
// the others.

func decodeQ4_0(dst []float32, src []byte) {
	d := half(src)
	for j, b := range src[2:18] {
		dst[j] = d * float32(int(b&15)-8)
		dst[j+16] = d * float32(int(b>>4)-8)
	}
}

func decodeQ4_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for j, b := range src[4:20] {
		dst[j] = float32(d*float32(b&15)) + m
		dst[j+16] = float32(d*float32(b>>4)) + m
	}
}

// fifth are the fifth bits of elements j and j+16.
func fifth(high uint32, j int) (low, up int) {
	return int(high>>j&1) << 4, int(high>>(j+16)&1) << 4
}

func decodeQ5_0(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint32(src[2:])
	for j, b := range src[6:22] {
		low, up := fifth(high, j)
		dst[j] = d * float32(int(b&15)+low-16)
		dst[j+16] = d * float32(int(b>>4)+up-16)
	}
}

func decodeQ5_1(dst []float32, src []byte) {
	d, m, high := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for j, b := range src[8:24] {
		low, up := fifth(high, j)
		dst[j] = float32(d*float32(int(b&15)+low)) + m
		dst[j+16] = float32(d*float32(int(b>>4)+up)) + m
	}
}

func decodeQ8_0(dst []float32, src []byte) {
	d := half(src)
	for j, b := range src[2:34] {
		dst[j] = d * float32(int8(b))
	}
}

// iq4Values are the sixteen values of IQ4_NL and IQ4_XS (ggml's kvalues_iq4nl).
var iq4Values = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4NL(dst []float32, src []byte) {
	d := half(src)
	for j, b := range src[2:18] {
		dst[j], dst[j+16] = d*iq4Values[b&15], d*iq4Values[b>>4]
	}
}

func decodeIQ4XS(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint16(src[2:])
	low, qs := src[4:8], src[8:]
	for ib := range 8 {
		scale := int(low[ib/2]>>(4*(ib%2))&15) | int(high>>(2*ib)&3)<<4
		dl := d * float32(scale-32)
		for j, b := range qs[16*ib : 16*ib+16] {
			dst[32*ib+j], dst[32*ib+j+16] = dl*iq4Values[b&15], dl*iq4Values[b>>4]
		}
	}
}

// ggufE2M1 are the values of E2M1 codes in a GGUF file, where code 8 is 0 without
// a sign, since the tables there hold integers.
var ggufE2M1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

func decodeGGUFMXFP4(dst []float32, src []byte) {
	d := E8M0ToF32(src[0])
	for j, b := range src[1:17] {
		dst[j], dst[j+16] = d*ggufE2M1[b&15], d*ggufE2M1[b>>4]
	}
}

// ggufUE4M3 is a scale of NVFP4 blocks: E4M3 whose sign bit does not count, and
// whose NaN is 0, but not that with the bit set (ggml_ue4m3_to_fp32).
func ggufUE4M3(c byte) float32 {
	switch c {
	case 0x7f:
		return 0
	case 0xff:
		return 480
	}
	return E4M3ToF32(c & 127)
}

// decodeGGUFNVFP4 has four scales and then the codes of four blocks of 16, as those
// of blocks of 32 in halves. The tensor's own factor is a tensor of its own and not
// in here.
func decodeGGUFNVFP4(dst []float32, src []byte) {
	for s := range 4 {
		d := ggufUE4M3(src[s])
		for j, b := range src[4+8*s : 12+8*s] {
			dst[16*s+j], dst[16*s+j+8] = d*ggufE2M1[b&15], d*ggufE2M1[b>>4]
		}
	}
}
