package kernels

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
)

// The IQ types choose groups of eight or four values from a grid, a list of the
// points that they may be. The grids are data of the format (ggml's iq2xxs_grid and
// so on), packed as in gguf-py 0.19 by testdata/make/gguf_grids.py: a point is 16
// bits, of two or four an element, lowest first.
//
//go:embed gguf_grids.bin
var ggufGrids string

// Where each grid starts, in points, and what its bits stand for.
const (
	gridIQ2XXS = 0
	gridIQ2XS  = gridIQ2XXS + 256
	gridIQ2S   = gridIQ2XS + 512
	gridIQ1    = gridIQ2S + 1024
	gridIQ3XXS = gridIQ1 + 2048
	gridIQ3S   = gridIQ3XXS + 256
)

var (
	iq2Values    = [4]float32{8, 25, 43, 43} // the last is in no grid
	iq1Values    = [4]float32{-1, 0, 1, 1}   // the last is in no grid
	iq3XXSValues = [8]float32{4, 12, 20, 28, 36, 44, 52, 62}
	iq3SValues   = [8]float32{1, 3, 5, 7, 9, 11, 13, 15}
)

// gridPoint is a point of the grid that starts at base.
func gridPoint(base, index int) uint16 {
	at := 2 * (base + index)
	return uint16(ggufGrids[at]) | uint16(ggufGrids[at+1])<<8
}

// signed is x, negated where bit k of signs is set.
func signed(x float32, signs byte, k int) float32 {
	if signs>>k&1 != 0 {
		return -x
	}
	return x
}

// seventh completes seven signs by the eighth, which makes their number even.
func seventh(s byte) byte { return s | byte(bits.OnesCount8(s)&1)<<7 }

// eight writes eight values of a grid of two bits.
func eight(dst []float32, db float32, point uint16, signs byte) {
	for k := range 8 {
		dst[k] = signed(db*iq2Values[point>>(2*k)&3], signs, k)
	}
}

func decodeIQ2XXS(dst []float32, src []byte) {
	d := half(src)
	for ib := range 8 {
		q := src[2+8*ib:]
		word := binary.LittleEndian.Uint32(q[4:])
		db := float32(d*(0.5+float32(word>>28))) * 0.25
		for l := range 4 {
			eight(dst[32*ib+8*l:], db, gridPoint(gridIQ2XXS, int(q[l])), seventh(byte(word>>(7*l)&127)))
		}
	}
}

// quarterScale is scale i of the nibbles at p, in quarters of d and a half more.
func quarterScale(d float32, p []byte, i int) float32 {
	return float32(d*(0.5+float32(p[i/2]>>(4*(i%2))&15))) * 0.25
}

func decodeIQ2XS(dst []float32, src []byte) {
	d, scales := half(src), src[66:]
	for g := range 32 {
		q := binary.LittleEndian.Uint16(src[2+2*g:])
		eight(dst[8*g:], quarterScale(d, scales, g/2), gridPoint(gridIQ2XS, int(q&511)), seventh(byte(q>>9)))
	}
}

func decodeIQ2S(dst []float32, src []byte) {
	d, qs, signs, qh, scales := half(src), src[2:34], src[34:66], src[66:74], src[74:]
	for g := range 32 {
		index := int(qs[g]) | int(qh[g/4]>>(2*(g%4))&3)<<8
		eight(dst[8*g:], quarterScale(d, scales, g/2), gridPoint(gridIQ2S, index), signs[g])
	}
}

func decodeIQ3XXS(dst []float32, src []byte) {
	d, qs := half(src), src[2:66]
	for ib := range 8 {
		word := binary.LittleEndian.Uint32(src[66+4*ib:])
		db := float32(d*(0.5+float32(word>>28))) * 0.5
		for l := range 8 {
			point, signs := gridPoint(gridIQ3XXS, int(qs[8*ib+l])), seventh(byte(word>>(7*(l/2))&127))
			for k := range 4 {
				dst[32*ib+4*l+k] = signed(db*iq3XXSValues[point>>(4*k)&7], signs, 4*(l%2)+k)
			}
		}
	}
}

func decodeIQ3S(dst []float32, src []byte) {
	d, qs, qh, signs, scales := half(src), src[2:66], src[66:74], src[74:106], src[106:]
	for l := range 64 {
		s := scales[l/16] >> (4 * (l / 8 % 2)) & 15
		db := d * float32(1+2*int(s))
		point := gridPoint(gridIQ3S, int(qs[l])|int(qh[l/8]>>(l%8)&1)<<8)
		for k := range 4 {
			dst[4*l+k] = signed(db*iq3SValues[point>>(4*k)&7], signs[l/2], 4*(l%2)+k)
		}
	}
}

// iq1Delta moves all values of a group of IQ1_S and IQ1_M up, or down.
const iq1Delta = 0.125

// ternary writes eight values of IQ1's grid, moved.
func ternary(dst []float32, dl float32, point uint16, down bool) {
	delta := float32(iq1Delta)
	if down {
		delta = -delta
	}
	for k := range 8 {
		dst[k] = dl * (iq1Values[point>>(2*k)&3] + delta)
	}
}

func decodeIQ1S(dst []float32, src []byte) {
	d, qs := half(src), src[2:34]
	for ib := range 8 {
		qh := binary.LittleEndian.Uint16(src[34+2*ib:])
		dl := d * float32(2*(qh>>12&7)+1)
		for l := range 4 {
			index := int(qs[4*ib+l]) | int(qh>>(3*l)&7)<<8
			ternary(dst[32*ib+8*l:], dl, gridPoint(gridIQ1, index), qh>>15 != 0)
		}
	}
}

// decodeIQ1M finds d in the upper nibbles of the four words that hold the scales.
func decodeIQ1M(dst []float32, src []byte) {
	qs, qh := src[:32], src[32:48]
	var words [4]uint16
	var d16 uint16
	for i := range words {
		words[i] = binary.LittleEndian.Uint16(src[48+2*i:])
		d16 |= words[i] >> 12 << (4 * i)
	}
	d := F16ToF32(d16)
	for g := range 32 {
		s := words[g/8] >> (3 * (g / 2 % 4)) & 7
		high := qh[g/2] >> (4 * (g % 2))
		ternary(dst[8*g:], d*float32(2*s+1), gridPoint(gridIQ1, int(qs[g])|int(high&7)<<8), high&8 != 0)
	}
}
