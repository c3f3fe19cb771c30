package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"math"

	"quantscope/kernels"
)

// stream is a sequence of Gaussian numbers that can be read from any place:
// number i depends on the key and i alone, so parts of a tensor can be made
// in any order and by any number of workers.
//
// Pair p of the sequence comes from 64 random bits, the SplitMix64 mix
// (Steele, Lea and Flood, OOPSLA 2014) of key + (p+1)·golden ratio, by the
// method of Box and Muller: radius √(−2 ln u) from the upper 32 bits, angle
// from the lower. The largest magnitude is √(−2 ln 2⁻³³) = 6.76. Logarithm,
// sine and cosine are the series below, in an order of operations that no
// compiler may change, so that the bits are the same on every machine.
type stream uint64

// newStream is the sequence of a tensor under a seed.
func newStream(seed uint64, tensor string) stream {
	h := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), tensor...))
	return stream(binary.LittleEndian.Uint64(h[:]))
}

// bits are the random bits of pair p.
func (s stream) bits(p uint64) uint64 {
	z := uint64(s) + (p+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// pair is numbers 2p and 2p+1 of the sequence, with mean 0 and deviation 1.
func (s stream) pair(p uint64) (x, y float64) {
	r := s.bits(p)

	// u = v·2⁻³³ lies in (0, 1). v = m·2ᵉ with m in [√½, √2), and
	// ln m = 2·(t + t³/3 + t⁵/5 + …) with t = (m−1)/(m+1), |t| < 0.172.
	v := math.Float64bits(float64(r>>32<<1 | 1))
	const sqrtHalf = 0x3FE6A09E667F3BCD
	e := int64(v-sqrtHalf) >> 52
	m := math.Float64frombits(v - uint64(e)<<52)
	t := (m - 1) / (m + 1)
	q := t * t
	ln := mulAdd(q, mulAdd(q, mulAdd(q, mulAdd(q, 1.0/9, 1.0/7), 1.0/5), 1.0/3), 1)
	ln = mulAdd(float64(e-33), math.Ln2, float64(float64(2*t)*ln))
	radius := math.Sqrt(-2 * ln)

	// The two upper bits of the angle turn by quarters; the others are an
	// angle a within ±π/4.
	a := float64(float64(int32(uint32(r)<<2))+2) * (math.Pi / (1 << 33))
	b := a * a
	sin := a * mulAdd(b, mulAdd(b, mulAdd(b, mulAdd(b, 1.0/362880, -1.0/5040), 1.0/120), -1.0/6), 1)
	cos := mulAdd(b, mulAdd(b, mulAdd(b, mulAdd(b, 1.0/40320, -1.0/720), 1.0/24), -1.0/2), 1)
	quarter := uint32(r) >> 30
	c, d := math.Float64bits(cos), math.Float64bits(sin)
	swap := (c ^ d) & -uint64(quarter&1)
	c ^= swap ^ uint64((quarter+1)>>1&1)<<63
	d ^= swap ^ uint64(quarter>>1)<<63
	return radius * math.Float64frombits(c), radius * math.Float64frombits(d)
}

// mulAdd is x·y + z, rounded twice: the conversion forbids the compiler to
// fuse the two.
func mulAdd(x, y, z float64) float64 { return float64(x*y) + z }

// bf16 fills dst with numbers of the sequence from first on, which is even,
// times std, as little-endian bfloat16.
func (s stream) bf16(dst []byte, first uint64, std float64) {
	for i := 0; i < len(dst); i += 4 {
		x, y := s.pair((first + uint64(i/2)) / 2)
		lo := uint32(kernels.F32ToBF16(float32(x * std)))
		if i+4 > len(dst) { // an odd number of elements
			binary.LittleEndian.PutUint16(dst[i:], uint16(lo))
			return
		}
		binary.LittleEndian.PutUint32(dst[i:], lo|uint32(kernels.F32ToBF16(float32(y*std)))<<16)
	}
}

// f32 is bf16 for little-endian float32.
func (s stream) f32(dst []byte, first uint64, std float64) {
	for i := 0; i < len(dst); i += 4 {
		n := first + uint64(i/4)
		x, y := s.pair(n / 2)
		if n%2 == 1 {
			x = y
		}
		binary.LittleEndian.PutUint32(dst[i:], math.Float32bits(float32(x*std)))
	}
}
