package demo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"quantscope/kernels"
)

// sample is the first n numbers of a stream.
func sample(s stream, n int) []float64 {
	x := make([]float64, n)
	for p := range n / 2 {
		x[2*p], x[2*p+1] = s.pair(uint64(p))
	}
	return x
}

// sampleSize and bound: a figure that is off by more than five of its
// standard errors happens once in 1.7 million honest samples.
const (
	sampleSize = 1 << 20
	bound      = 5
)

// Moments of a standard normal sample of n have the standard errors 1/√n,
// √(2/n), √(6/n) and √(24/n) (mean, variance, skewness, kurtosis).
func TestGaussianMoments(t *testing.T) {
	for seed := range uint64(4) {
		x := sample(newStream(seed, "w"), sampleSize)
		var m [5]float64 // raw moments
		for _, v := range x {
			for k, p := 1, v; k <= 4; k, p = k+1, p*v {
				m[k] += p / sampleSize
			}
		}
		for _, c := range []struct {
			name             string
			got, want, error float64
		}{
			{"mean", m[1], 0, 1},
			{"variance", m[2], 1, math.Sqrt(2)},
			{"third moment", m[3], 0, math.Sqrt(15)},
			{"kurtosis", m[4] / (m[2] * m[2]), 3, math.Sqrt(24)},
		} {
			if err := c.error / math.Sqrt(sampleSize); math.Abs(c.got-c.want) > bound*err {
				t.Errorf("seed %d: %s is %v, want %v within %v", seed, c.name, c.got, c.want, bound*err)
			}
		}
	}
}

// The distribution function is the normal one: the Kolmogorov statistic D·√n
// is above 1.95 once in a thousand honest samples (asymptotically
// 2·exp(−2·1.95²)).
func TestGaussianDistribution(t *testing.T) {
	x := sample(newStream(1, "w"), sampleSize)
	slices.Sort(x)
	d := 0.0
	for i, v := range x {
		cdf := math.Erfc(-v/math.Sqrt2) / 2
		d = max(d, cdf-float64(i)/sampleSize, float64(i+1)/sampleSize-cdf)
	}
	if k := d * math.Sqrt(sampleSize); k > 1.95 {
		t.Errorf("D·√n is %v, want at most 1.95", k)
	}
	for _, limit := range []float64{3, 4, 4.5} { // tails hold what they should
		want := sampleSize * math.Erfc(limit/math.Sqrt2)
		got := 0
		for _, v := range x {
			if math.Abs(v) > limit {
				got++
			}
		}
		if math.Abs(float64(got)-want) > bound*math.Sqrt(want) {
			t.Errorf("%d numbers beyond %v, want %.0f ± %.0f", got, limit, want, bound*math.Sqrt(want))
		}
	}
}

// Numbers do not depend on their neighbours, and sequences of neighbouring
// seeds and names do not depend on each other.
func TestGaussianIndependence(t *testing.T) {
	x := sample(newStream(1, "model.layers.1.mlp.experts.1.up_proj.weight"), sampleSize)
	for name, y := range map[string][]float64{
		"number before":      append([]float64{0}, x[:sampleSize-1]...),
		"number of the pair": swapPairs(x),
		"64 before":          append(make([]float64, 64), x[:sampleSize-64]...),
		"another seed":       sample(newStream(2, "model.layers.1.mlp.experts.1.up_proj.weight"), sampleSize),
		"another expert":     sample(newStream(1, "model.layers.1.mlp.experts.2.up_proj.weight"), sampleSize),
	} {
		r, r2 := 0.0, 0.0 // correlation of the numbers and of their squares
		for i := range x {
			r += x[i] * y[i] / sampleSize
			r2 += (x[i]*x[i] - 1) * (y[i]*y[i] - 1) / 2 / sampleSize
		}
		limit := bound / math.Sqrt(sampleSize)
		if name == "number of the pair" { // each pair counts twice
			limit *= math.Sqrt2
		}
		if math.Abs(r) > limit || math.Abs(r2) > limit {
			t.Errorf("%s: correlation %v, of squares %v; want both within %v", name, r, r2, limit)
		}
	}
}

func swapPairs(x []float64) []float64 {
	y := slices.Clone(x)
	for i := 0; i < len(y); i += 2 {
		y[i], y[i+1] = y[i+1], y[i]
	}
	return y
}

// The series agree with the mathematical functions. Their first neglected
// terms are below 3e-8 of the value.
func TestPairSeries(t *testing.T) {
	s := newStream(7, "x")
	for p := range uint64(100_000) {
		x, y := s.pair(p)
		r := s.bits(p)
		u := float64(r>>32<<1|1) / (1 << 33)
		radius := math.Sqrt(-2 * math.Log(u))
		a := float64(int32(uint32(r)<<2))/(1<<31)*math.Pi/4 + 2*math.Pi/(1<<33)
		a += float64(uint32(r)>>30) * math.Pi / 2
		if math.Abs(x-radius*math.Cos(a)) > 1e-7*radius || math.Abs(y-radius*math.Sin(a)) > 1e-7*radius {
			t.Fatalf("pair %d is %v, %v; want %v, %v", p, x, y, radius*math.Cos(a), radius*math.Sin(a))
		}
	}
}

// Any part of a tensor is the same as in the whole, whatever its bounds.
func TestStreamParts(t *testing.T) {
	s := newStream(3, "w")
	const n = 101
	whole16, whole32 := make([]byte, 2*n), make([]byte, 4*n)
	s.bf16(whole16, 0, 0.5)
	s.f32(whole32, 0, 0.5)
	x := sample(s, n+1)
	for i := range n {
		if got, want := binary.LittleEndian.Uint16(whole16[2*i:]), kernels.F32ToBF16(float32(x[i]*0.5)); got != want {
			t.Errorf("bf16 %d is %#x, want %#x", i, got, want)
		}
		if got, want := math.Float32frombits(binary.LittleEndian.Uint32(whole32[4*i:])), float32(x[i]*0.5); got != want {
			t.Errorf("f32 %d is %v, want %v", i, got, want)
		}
	}
	for first := 0; first < n; first += 2 {
		for end := first + 1; end <= n; end += 7 {
			part := make([]byte, 2*(end-first))
			s.bf16(part, uint64(first), 0.5)
			if !bytes.Equal(part, whole16[2*first:2*end]) {
				t.Fatalf("bf16 %d to %d differ from the whole", first, end)
			}
			part = make([]byte, 4*(end-first))
			s.f32(part, uint64(first), 0.5)
			if !bytes.Equal(part, whole32[4*first:4*end]) {
				t.Fatalf("f32 %d to %d differ from the whole", first, end)
			}
		}
	}
}

func BenchmarkGaussian(b *testing.B) {
	s := newStream(1, "w")
	for _, n := range []int{64 * 64 * 2, chunkBytes} {
		dst := make([]byte, n)
		b.Run(fmt.Sprintf("bf16/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				s.bf16(dst, 0, synthStd)
			}
		})
	}
}
