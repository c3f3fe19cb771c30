package kernels

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// checkEncodes encodes x, 256 values, as every type: all sets give the same bytes or
// none can store it, all of what is decoded is finite, and the error is at most that
// of the plainest quantizer.
func checkEncodes(t *testing.T, x, importance []float32) {
	t.Helper()
	for _, typ := range encodes() {
		for _, w := range [][]float32{nil, importance} {
			if w != nil && !typ.TakesImportance() {
				continue
			}
			block, size := typ.Block()
			want := make([]byte, 256/block*size)
			err := EncodeGGUF(want, typ, 1, 256, x, w)
			for _, s := range Available()[1:] {
				got := make([]byte, len(want))
				if other := s.EncodeGGUF(got, typ, 1, 256, x, w); (other == nil) != (err == nil) || err == nil && !bytes.Equal(got, want) {
					t.Fatalf("%s: %s differs: %v and %v", s.Name, typ, other, err)
				}
			}
			felt := feltWeights(w, block)
			naive, can := naiveError(typ, x, felt)
			if err != nil {
				if !errors.Is(err, ErrRange) || can {
					t.Fatalf("%s of %v: %v", typ, x, err)
				}
				continue
			}
			q := decodeGGUF(t, typ, want)
			for i, v := range q {
				if v-v != 0 {
					t.Fatalf("%s: element %d, %v, is decoded as %v", typ, i, x[i], v)
				}
			}
			// What f32 rounds in decoding and in the sums is of the order of its last
			// place of the values.
			floor := 0.0
			for i, v := range x {
				e := float64(v) * 0x1p-20
				if felt == nil {
					floor += e * e
				} else {
					floor += float64(felt[i]) * e * e
				}
			}
			// Values that are off by δ, at most four half units each, move an error's norm by ‖δ‖.
			moved := 2 * math.Sqrt(naive*floor) / 4
			if ours := squaredError(x, q, felt); can && !(ours <= naive*(1+1e-5)+moved+floor) {
				t.Errorf("%s, weighted %t: error %v, the plainest quantizer's is %v\n%v", typ, w != nil, ours, naive, x)
			}
		}
	}
}

// feltWeights are weights as the quantizer of blocks has them: no element of a block
// that matters is without one.
func feltWeights(w []float32, block int) []float32 {
	if w == nil {
		return nil
	}
	felt := make([]float32, len(w))
	for from := 0; from < len(w); from += block {
		var sum float64
		for _, v := range w[from:][:block] {
			sum += float64(v)
		}
		for i, v := range w[from:][:block] {
			felt[from+i] = float32(float64(v) + leastWeight*sum/float64(block))
		}
	}
	return felt
}

// columnWeights makes weights, every seventh of which is 0.
func columnWeights(seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(8, seed))
	w := make([]float32, 256)
	for i := range w {
		if i%7 != 0 {
			w[i] = float32(math.Exp(2 * rng.NormFloat64()))
		}
	}
	return w
}

func TestGGUFEncodesAnything(t *testing.T) {
	fill := func(f func(i int) float32) []float32 {
		x := make([]float32, 256)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	rng := rand.New(rand.NewPCG(8, 3))
	cases := map[string][]float32{
		"zeros":            fill(func(int) float32 { return 0 }),
		"negative zeros":   fill(func(int) float32 { return float32(math.Copysign(0, -1)) }),
		"a constant":       fill(func(int) float32 { return 0.37 }),
		"a negative one":   fill(func(int) float32 { return -0.37 }),
		"all positive":     fill(func(i int) float32 { return 3 + float32(i%5)/100 }),
		"all negative":     fill(func(i int) float32 { return -3 - float32(i%5)/100 }),
		"subnormal":        fill(func(i int) float32 { return math.Float32frombits(uint32(i)) }),
		"below f16":        fill(func(i int) float32 { return float32(i-128) * 0x1p-32 }),
		"at f16's last":    fill(func(i int) float32 { return float32(i%3-1) * 0x1p-25 }),
		"f16 subnormal":    fill(func(i int) float32 { return float32(i%16-8) * 0x1p-22 }),
		"one value":        fill(func(i int) float32 { return float32(1 - min(1, i)) }),
		"one in a group":   fill(func(i int) float32 { return float32(i/32+1) * float32(1-min(1, i%32)) }),
		"groups of zeros":  fill(func(i int) float32 { return float32(i/32%2) * float32(rng.NormFloat64()) }),
		"groups far apart": fill(func(i int) float32 { return float32(math.Exp2(float64(3*(i/32)-16)) * rng.NormFloat64()) }),
		"large":            fill(func(i int) float32 { return 6e4 * float32(rng.Float64()*2-1) }),
		"too large":        fill(func(i int) float32 { return 1e9 * float32(rng.Float64()*2-1) }),
		"largest":          fill(func(i int) float32 { return math.MaxFloat32 * float32(i%2*2-1) }),
	}
	for range 80 {
		scale, tail := math.Exp2(float64(rng.IntN(20)-12)), rng.Float64()*3
		cases["random"] = fill(func(int) float32 {
			v := rng.NormFloat64()
			return float32(v * math.Pow(math.Abs(v), tail) * scale)
		})
		checkEncodes(t, cases["random"], columnWeights(rng.Uint64()))
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) { checkEncodes(t, x, columnWeights(1)) })
	}
}

func FuzzGGUFEncodes(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add([]byte{0, 1, 2, 3, 4, 5}, uint64(1))
	f.Add([]byte{1, 200, 100, 50, 25, 3, 9}, uint64(2))
	f.Add([]byte{2, 128, 64, 32, 16, 8, 7}, uint64(3))
	f.Add([]byte{3, 9, 8, 7, 6, 5, 4, 3, 2}, uint64(4))
	f.Fuzz(func(t *testing.T, raw []byte, seed uint64) { checkEncodes(t, floatsOf(raw, 256), columnWeights(seed)) })
}

// Importance counts by its ratios: times a power of two the bytes are the same, and
// without any of it a block is the plain one.
func TestGGUFImportanceIsRelative(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 4))
	x := make([]float32, 512)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) / 30
	}
	w := append(columnWeights(5), make([]float32, 256)...)
	for _, typ := range encodes() {
		if !typ.TakesImportance() {
			continue
		}
		want, plain := encodeGGUF(t, Best(), typ, 1, 512, x, w), encodeGGUF(t, Best(), typ, 1, 512, x, nil)
		if half := len(want) / 2; !bytes.Equal(want[half:], plain[half:]) {
			t.Errorf("%s: blocks of no importance are not the plain ones", typ)
		} else if bytes.Equal(want[:half], plain[:half]) {
			t.Errorf("%s: importance changes nothing", typ)
		}
		for _, by := range []float32{0x1p-60, 0x1p60} {
			scaled := make([]float32, len(w))
			for i := range w {
				scaled[i] = w[i] * by
			}
			if !bytes.Equal(encodeGGUF(t, Best(), typ, 1, 512, x, scaled), want) {
				t.Errorf("%s: importance times %g makes other bytes", typ, by)
			}
		}
	}
}
