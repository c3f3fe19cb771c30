package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// moments is Set.Moments of a matrix, in chunks of so many rows.
func momentsIn(t testing.TB, s Set, m Matrix, chunk int) Moments {
	t.Helper()
	var sums Moments
	n := m.Cols * m.Element.Size()
	for from := 0; from < m.Rows; from += chunk {
		part := m
		part.Rows = min(chunk, m.Rows-from)
		part.Data = m.Data[from*n:][:part.Rows*n]
		if err := s.Moments(part, &sums); err != nil {
			t.Fatal(err)
		}
	}
	return sums
}

func sameMoments(a, b Moments) bool {
	for _, p := range [][2]float64{{a.SumW, b.SumW}, {a.SumW3, b.SumW3}, {a.SumW4, b.SumW4}} {
		if math.Float64bits(p[0]) != math.Float64bits(p[1]) {
			return false
		}
	}
	return true
}

// encoded is a matrix of these elements.
func encoded(t testing.TB, e Element, rows, cols int, w []float32) Matrix {
	t.Helper()
	m := Matrix{Element: e, Rows: rows, Cols: cols, Data: make([]byte, rows*cols*e.Size())}
	if err := EncodeFloats(m.Data, e, w); err != nil {
		t.Fatal(err)
	}
	return m
}

// FuzzMoments: every set gives the bits of the reference, in any chunking, and
// reads nothing but its argument; the sums are those of exact arithmetic to
// n roundings.
func FuzzMoments(f *testing.F) {
	rng := rand.New(rand.NewPCG(31, 7))
	for cols := range uint16(70) {
		raw := make([]byte, 3*4*(int(cols)+1))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		f.Add(raw, cols, byte(cols), byte(cols/3))
	}
	for _, w := range []float32{0, float32(math.Copysign(0, -1)), 1e-45, math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN())} {
		bits := math.Float32bits(w)
		raw := make([]byte, 4*37)
		for i := range 37 {
			raw[4*i], raw[4*i+1], raw[4*i+2], raw[4*i+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
		}
		f.Add(raw, uint16(36), byte(2), byte(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, cols uint16, kind, chunk byte) {
		m := Matrix{Element: []Element{BF16, F16, F32}[kind%3], Cols: int(cols)%200 + 1}
		m.Rows = len(raw) / (m.Cols * m.Element.Size())
		inner, intact := guarded(m.Rows * m.Cols * m.Element.Size())
		copy(inner, raw)
		m.Data = inner
		want := momentsIn(t, Reference(), m, max(m.Rows, 1))
		checkMoments(t, m, want)
		for _, s := range Available() {
			if got := momentsIn(t, s, m, int(chunk)%5+1); !sameMoments(got, want) {
				t.Errorf("%s: %v of %d×%d %v, the reference %v", s.Name, got, m.Rows, m.Cols, m.Element, want)
			}
		}
		if !intact() {
			t.Error("wrote outside of its argument")
		}
	})
}

// checkMoments compares with sums of exact powers.
func checkMoments(t *testing.T, m Matrix, got Moments) {
	t.Helper()
	var sum, size [3]big.Float
	for i := range sum {
		sum[i].SetPrec(600)
		size[i].SetPrec(600)
	}
	n := 0
	for i := range m.Rows * m.Cols {
		w := float64(loadElement(m.Element, m.Data[i*m.Element.Size():]))
		if math.IsNaN(w) || math.IsInf(w, 0) {
			continue
		}
		n++
		x := new(big.Float).SetPrec(600).SetFloat64(w)
		x2 := new(big.Float).SetPrec(600).Mul(x, x)
		for j, p := range []*big.Float{x, new(big.Float).SetPrec(600).Mul(x2, x), new(big.Float).SetPrec(600).Mul(x2, x2)} {
			sum[j].Add(&sum[j], p)
			size[j].Add(&size[j], new(big.Float).Abs(p))
		}
	}
	for j, g := range []float64{got.SumW, got.SumW3, got.SumW4} {
		want, _ := sum[j].Float64()
		all, _ := size[j].Float64()
		if !(math.Abs(g-want) <= float64(n)*unitF64*all) {
			t.Errorf("power sum %d is %v, exactly %v", []int{1, 3, 4}[j], g, want)
		}
	}
}

// TestMomentsEveryLane puts one odd element into each place of a row: a lane
// that is lost, doubled or taken for another's changes a sum.
func TestMomentsEveryLane(t *testing.T) {
	const cols = 67
	for _, e := range []Element{BF16, F16, F32} {
		for at := range cols {
			w := make([]float32, 2*cols)
			for i := range w {
				w[i] = float32(i%5) - 2
			}
			for _, x := range []float32{100, -100, float32(math.NaN()), float32(math.Inf(1))} {
				w[cols+at] = x
				m := encoded(t, e, 2, cols, w)
				want := momentsIn(t, Reference(), m, 2)
				checkMoments(t, m, want)
				for _, s := range Available() {
					if got := momentsIn(t, s, m, 1); !sameMoments(got, want) {
						t.Fatalf("%s %v: %v at %d: %v, the reference %v", s.Name, e, x, at, got, want)
					}
				}
			}
		}
	}
}

// TestMomentsRound: of f32 weights the third and fourth powers are rounded, once and together
// with the addition, in an order that is stated; other orders give other bits.
func TestMomentsRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 20 {
		const rows, cols = 3, 150
		w := make([]float32, rows*cols)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
		}
		m := encoded(t, F32, rows, cols, w)
		want := momentsIn(t, Reference(), m, rows)
		checkMoments(t, m, want)
		for _, s := range Available() {
			if got := momentsIn(t, s, m, 2); !sameMoments(got, want) {
				t.Fatalf("%s: %v, the reference %v", s.Name, got, want)
			}
		}
	}
}

func TestMomentsRefuse(t *testing.T) {
	var sums Moments
	if err := Best().Moments(Matrix{Element: BF16, Rows: 2, Cols: 16, Data: make([]byte, 63)}, &sums); !errors.Is(err, ErrShape) {
		t.Error(err)
	}
	if err := Best().Moments(Matrix{Element: 9, Rows: 1, Cols: 1, Data: []byte{1}}, &sums); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if err := Best().Moments(Matrix{Element: BF16, Rows: 1 << 40}, &sums); err != nil || sums != (Moments{}) {
		t.Error("rows of nothing:", err, sums)
	}
	if err := (Set{}).Moments(Matrix{Element: BF16, Rows: 1, Cols: 1, Data: []byte{0x80, 0x3f}}, &sums); err != nil || sums != (Moments{1, 1, 1}) {
		t.Error("a set that is none:", err, sums)
	}
}

// tapOf is a record of a matrix, with its moments.
func tapOf(t *testing.T, m Matrix) Tap {
	t.Helper()
	p, err := Best().Begin(Spec{Format: "nvfp4"}, m.Element, m.Rows, m.Cols, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Rows(m.Data, nil); err != nil {
		t.Fatal(err)
	}
	tap, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if !math.IsNaN(tap.Mean()) || !math.IsNaN(tap.Std()) || !math.IsNaN(tap.Kurtosis()) {
		t.Error("a pass knows moments")
	}
	tap.SetMoments(momentsIn(t, Best(), m, m.Rows))
	return tap
}

// centralMoments are mean, deviation and kurtosis in two passes over the
// finite elements, with 200 bits.
func centralMoments(w []float32) (mean, std, kurtosis float64) {
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
	n, sum := 0, float(0)
	for _, x := range w {
		if d := float64(x); !math.IsNaN(d) && !math.IsInf(d, 0) {
			n++
			sum.Add(sum, float(d))
		}
	}
	mu := float(0).Quo(sum, float(float64(n)))
	m2, m4 := float(0), float(0)
	for _, x := range w {
		if d := float64(x); !math.IsNaN(d) && !math.IsInf(d, 0) {
			e := float(0).Sub(float(d), mu)
			e.Mul(e, e)
			m2.Add(m2, e)
			m4.Add(m4, e.Mul(e, e))
		}
	}
	m2.Quo(m2, float(float64(n)))
	m4.Quo(m4, float(float64(n)))
	mean, _ = mu.Float64()
	v, _ := m2.Float64()
	kurtosis, _ = m4.Quo(m4, float(0).Mul(m2, m2)).Float64()
	return mean, math.Sqrt(v), kurtosis
}

// TestTapMoments holds deviation and kurtosis against two passes in long
// arithmetic, within the bounds that their comments state.
func TestTapMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	const rows, cols = 60, 70
	for _, c := range []struct {
		name  string
		shift float64 // of the mean, in deviations
		draw  func() float64
	}{
		{"gaussian", 0, rng.NormFloat64},
		{"uniform", 0, func() float64 { return rng.Float64() - 0.5 }},
		{"laplace", 0, func() float64 { return rng.ExpFloat64() * float64(2*rng.IntN(2)-1) }},
		{"far from 0", 300, rng.NormFloat64},
		{"farther, to the other side", -600, rng.NormFloat64},
		{"with outliers", 0.5, func() float64 { return math.Pow(rng.NormFloat64(), 5) }},
	} {
		w := make([]float32, rows*cols)
		for i := range w {
			w[i] = float32(0.02 * (c.draw() + c.shift))
		}
		w[17] = float32(math.NaN())
		m := encoded(t, F32, rows, cols, w)
		tap := tapOf(t, m)
		mean, std, kurtosis := centralMoments(w)
		n := float64(rows*cols - 1)
		far := math.Pow(mean/std, 2)
		for _, f := range []struct {
			what              string
			got, want, within float64
		}{
			{"mean", tap.Mean(), mean, n * unitF64 * (math.Abs(mean) + std)},
			{"std", tap.Std(), std, std * n * unitF64 * (2 + 4*far)},
			{"kurtosis", tap.Kurtosis(), kurtosis, kurtosis * n * unitF64 * 30 * math.Pow(1+far, 2)},
		} {
			if !(math.Abs(f.got-f.want) <= f.within) {
				t.Errorf("%s: %s %v, want %v within %.2g", c.name, f.what, f.got, f.want, f.within)
			}
		}
	}
}

// TestKurtosisWithoutDigits: so far from 0 that cancellation leaves nothing of
// the fourth moment, it is not known; the deviation still is.
func TestKurtosisWithoutDigits(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	w := make([]float32, 4096)
	for i := range w {
		w[i] = float32(5000 + rng.NormFloat64())
	}
	tap := tapOf(t, encoded(t, F32, 64, 64, w))
	if _, std, _ := centralMoments(w); !math.IsNaN(tap.Kurtosis()) || math.Abs(tap.Std()-std) > 1e-4 {
		t.Errorf("kurtosis %v, deviation %v of %v", tap.Kurtosis(), tap.Std(), std)
	}
}

func TestTapMomentsDegenerate(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name            string
		w               []float32
		mean, std, kurt float64
	}{
		{"constant", []float32{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, float64(float32(0.1)), 0, math.NaN()},
		{"zeros", make([]float32, 5), 0, 0, math.NaN()},
		{"one", []float32{3}, 3, 0, math.NaN()},
		{"two", []float32{-1, 1}, 0, 1, 1},
		{"none that is finite", []float32{nan, nan}, math.NaN(), math.NaN(), math.NaN()},
		{"NaN beside two", []float32{nan, -2, 2}, 0, 2, 1},
		{"infinities beside two", []float32{float32(math.Inf(1)), -2, float32(math.Inf(-1)), 3}, 0.5, 2.5, 1},
	} {
		tap := tapOf(t, encoded(t, F32, 1, len(c.w), c.w))
		for _, f := range [][2]float64{{tap.Mean(), c.mean}, {tap.Std(), c.std}, {tap.Kurtosis(), c.kurt}} {
			if !(math.Abs(f[0]-f[1]) <= 1e-16) && !(math.IsNaN(f[0]) && math.IsNaN(f[1])) {
				t.Errorf("%s: %v, want %v", c.name, f[0], f[1])
			}
		}
	}
}

// TestStdOfConstants: rounding leaves something of Σw²/n − μ², and that is no
// deviation.
func TestStdOfConstants(t *testing.T) {
	for n := 1; n < 200; n += 7 {
		for _, x := range []float32{0.1, -0.7, 1e-20, 3e30, 1.0000001, 1e-45} {
			w := make([]float32, n)
			for i := range w {
				w[i] = x
			}
			if tap := tapOf(t, encoded(t, F32, 1, n, w)); tap.Std() != 0 || !math.IsNaN(tap.Kurtosis()) {
				t.Errorf("%d times %v: deviation %v, kurtosis %v", n, x, tap.Std(), tap.Kurtosis())
			}
		}
	}
}

// BenchmarkMoments takes pieces that a cache holds, as a run has them after
// their digest was taken; "memcpy" is the rate over that of copying memory.
func BenchmarkMoments(b *testing.B) {
	for _, e := range []Element{BF16, F16, F32} {
		for _, cols := range []int{4096, 1000, 64} {
			m := Matrix{Element: e, Rows: (1 << 20) / e.Size() / cols, Cols: cols}
			w := make([]float32, m.Rows*m.Cols)
			for i := range w {
				w[i] = float32(i%255) / 512
			}
			m = encoded(b, e, m.Rows, m.Cols, w)
			for _, s := range Available() {
				b.Run(fmt.Sprintf("%s/%v/%d", s.Name, e, cols), func(b *testing.B) {
					copied := MeasureMemcpy(1<<26, 20*time.Millisecond)
					b.SetBytes(int64(len(m.Data)))
					var sums Moments
					for b.Loop() {
						if err := s.Moments(m, &sums); err != nil {
							b.Fatal(err)
						}
					}
					rate := float64(len(m.Data)) * float64(b.N) / b.Elapsed().Seconds()
					b.ReportMetric(rate/max(copied, MeasureMemcpy(1<<26, 20*time.Millisecond)), "memcpy")
				})
			}
		}
	}
}
