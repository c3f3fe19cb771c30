package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// oddFloats are the numbers that rows are tried with: all kinds of special ones.
var oddFloats = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 88.7, 88.72283, 88.72284, -87.33654, -87.33655, -104, 1e-45, -1e-45, 1e-39, math.MaxFloat32, -math.MaxFloat32,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 3e20, -3e20, 7, -7, 0x1p-126, 0.34657359,
}

// alike says that two numbers are the same bits, or both NaN.
func alike[T float32 | float64](a, b T) bool {
	if a != a || b != b {
		return a != a && b != b
	}
	return math.Float64bits(float64(a)) == math.Float64bits(float64(b))
}

// rowKernel is a function over rows under test. It may change the rows; what it
// returns is compared as well.
type rowKernel struct {
	name string
	call func(s Set, a, b, c []float32, by [2]float32) []float64
}

var rowKernelTable = []rowKernel{
	{"SiLU", func(s Set, a, b, _ []float32, _ [2]float32) []float64 { s.SiLU(a, b); return nil }},
	{"GELUTanh", func(s Set, a, b, _ []float32, _ [2]float32) []float64 { s.GELUTanh(a, b); return nil }},
	{"SwiGLU", func(s Set, a, b, _ []float32, by [2]float32) []float64 { s.SwiGLU(a, b, by[0], by[1]); return nil }},
	{"ExpSum", func(s Set, a, _, _ []float32, by [2]float32) []float64 { return []float64{s.ExpSum(a, by[0])} }},
	{"ExpSum of the maximum", func(s Set, a, _, _ []float32, _ [2]float32) []float64 { return []float64{s.ExpSum(a, s.Max(a))} }},
	{"Max", func(s Set, a, _, _ []float32, _ [2]float32) []float64 { return []float64{float64(s.Max(a))} }},
	{"Scale", func(s Set, a, _, _ []float32, by [2]float32) []float64 { s.Scale(a, by[0]); return nil }},
	{"AddScaled", func(s Set, a, b, _ []float32, by [2]float32) []float64 { s.AddScaled(a, b, by[0]); return nil }},
	{"SumSquares", func(s Set, a, _, _ []float32, _ [2]float32) []float64 { return []float64{s.SumSquares(a)} }},
	{"MulScaled", func(s Set, a, b, c []float32, by [2]float32) []float64 {
		s.MulScaled(a, b, c, by[0], false)
		return nil
	}},
	{"MulScaled with plusOne", func(s Set, a, b, c []float32, by [2]float32) []float64 { s.MulScaled(a, b, c, by[0], true); return nil }},
	{"Softmax", func(s Set, a, b, _ []float32, by [2]float32) []float64 {
		s.Softmax(a, len(a)/4, len(a)-len(a)/8, by[0])
		s.Softmax(b, -1, len(b)+1, float32(math.Inf(-1)))
		return nil
	}},
	{"LogSum", func(s Set, a, _, _ []float32, _ [2]float32) []float64 {
		r := s.LogSum(a)
		ok := 0.0
		if r.OK {
			ok = 1
		}
		return []float64{r.Max, r.LogSum, float64(r.Top), ok}
	}},
	{"Divergence", func(s Set, a, b, _ []float32, _ [2]float32) []float64 {
		x, y, z := s.Divergence(a, b, LogitRow{Max: 3, LogSum: 2.5}, LogitRow{Max: 7, LogSum: 0.25})
		return []float64{x, y, z}
	}},
}

// checkRows runs every kernel of every set on the same rows.
func checkRows(t *testing.T, rows [3][]float32, by [2]float32, off int) {
	t.Helper()
	run := func(k rowKernel, s Set) (out [3][]float32, sums []float64, intact bool) {
		var checks [3]func() bool
		for i, r := range rows {
			out[i], checks[i] = guardedFloats(len(r), off)
			copy(out[i], r)
		}
		sums = k.call(s, out[0], out[1], out[2], by)
		return out, sums, checks[0]() && checks[1]() && checks[2]()
	}
	for _, k := range rowKernelTable {
		want, wantSums, _ := run(k, Reference())
		for _, s := range Available()[1:] {
			got, gotSums, intact := run(k, s)
			if !intact {
				t.Fatalf("%s: %s wrote outside of its %d values", s.Name, k.name, len(rows[0]))
			}
			for i := range got {
				for j := range got[i] {
					if !alike(got[i][j], want[i][j]) {
						t.Fatalf("%s: %s row %d value %d of %d is %x (%v), want %x (%v)", s.Name, k.name, i, j, len(got[i]),
							math.Float32bits(got[i][j]), got[i][j], math.Float32bits(want[i][j]), want[i][j])
					}
				}
			}
			if !slices.EqualFunc(gotSums, wantSums, alike[float64]) {
				t.Fatalf("%s: %s of %d values gives %v, want %v", s.Name, k.name, len(rows[0]), gotSums, wantSums)
			}
		}
	}
}

// randomRows are three rows of n values, of spread, some of them odd.
func randomRows(rng *rand.Rand, n int, spread float64, odd float64) (rows [3][]float32) {
	for i := range rows {
		rows[i] = make([]float32, n)
		for j := range rows[i] {
			rows[i][j] = float32(rng.NormFloat64() * spread)
			if rng.Float64() < odd {
				rows[i][j] = oddFloats[rng.IntN(len(oddFloats))]
			}
		}
	}
	return rows
}

func TestRowsOfSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for n := range 70 {
		for _, spread := range []float64{1, 30, 1e-20, 1e20} {
			for _, odd := range []float64{0, 0.02, 0.5} {
				checkRows(t, randomRows(rng, n, spread, odd), [2]float32{float32(rng.NormFloat64()), float32(rng.NormFloat64())}, n%17)
			}
		}
	}
	for _, v := range oddFloats {
		checkRows(t, randomRows(rng, 37, 5, 0.1), [2]float32{v, 1.702}, 3)
	}
}

func FuzzRows(f *testing.F) {
	seed := func(x []float32) (raw []byte) {
		for _, v := range x {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		return raw
	}
	f.Add(seed(oddFloats), float32(1), uint8(0))
	f.Add(seed(slices.Repeat([]float32{1, -2, 0.5}, 40)), float32(7), uint8(5))
	f.Add(seed(slices.Repeat([]float32{float32(math.Inf(-1))}, 30)), float32(math.Inf(-1)), uint8(1))
	f.Add([]byte{}, float32(0), uint8(0))
	rng := rand.New(rand.NewPCG(6, 2))
	for at := range 34 { // each place has its turn at being the largest, or no number
		rows := randomRows(rng, 34, 1, 0)
		rows[0][at] = []float32{1000, float32(math.NaN())}[at%2]
		rows[1][33-at] = rows[0][at]
		f.Add(seed(slices.Concat(rows[:]...)), float32(rng.NormFloat64()), uint8(at))
	}
	f.Fuzz(func(t *testing.T, raw []byte, by float32, off uint8) {
		n := min(len(raw)/4, 300) / 3
		var rows [3][]float32
		for i := range rows {
			for j := range n {
				rows[i] = append(rows[i], math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*n+j):])))
			}
		}
		checkRows(t, rows, [2]float32{by, 1.702}, int(off%17))
	})
}

// Rows of two lengths: as many values as the shorter has.
func TestRowsOfTwoLengths(t *testing.T) {
	for _, s := range Available() {
		a, b := []float32{1, 2, 3}, []float32{4, 5}
		s.AddScaled(a, b, 2)
		s.AddScaled(b, nil, 2)
		s.SiLU(nil, a)
		s.MulScaled(b, a, nil, 1, true)
		if !slices.Equal(a, []float32{9, 12, 3}) || !slices.Equal(b, []float32{4, 5}) {
			t.Errorf("%s: %v %v", s.Name, a, b)
		}
	}
}

// inUlps is how far got is from want, in units of f32's last place at want.
func inUlps(got float32, want float64) float64 {
	_, exp := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exp-24, -149))
}

// Every exponent of f32, both signs: exp32 against math.Exp, whose error is under
// one unit of f64.
func TestExp32(t *testing.T) {
	worst := 0.0
	for _, sign := range []uint32{0, 1 << 31} {
		for b := uint32(0); b < 0x42b20000; b += 7919 {
			x := math.Float32frombits(b | sign)
			want := math.Exp(float64(x))
			if want < 0x1p-126 || want > math.MaxFloat32 {
				continue
			}
			worst = max(worst, inUlps(exp32(x), want))
		}
	}
	if worst > 1 || worst < 0.5 {
		t.Errorf("exp32 is %.3f units off", worst)
	}
	for _, c := range []struct{ x, want float64 }{
		{math.Inf(-1), 0}, {-1e30, 0}, {-87.34, 0}, {math.Inf(1), math.Inf(1)}, {88.73, math.Inf(1)}, {1e30, math.Inf(1)}, {math.NaN(), math.NaN()}, {0, 1}, {math.Copysign(0, -1), 1}, {1e-45, 1},
	} {
		if got := exp32(float32(c.x)); !alike(got, float32(c.want)) {
			t.Errorf("exp32(%v) is %v, want %v", c.x, got, c.want)
		}
	}
	if low, high := exp32(exp32Low), exp32(exp32High); low < 0x1p-126 || low > 0x1.001p-126 || high < 0x1.fffp127 || math.IsInf(float64(high), 0) {
		t.Errorf("at its bounds exp32 is %v and %v", low, high)
	}
}

// The gated activations against f64. An exponential is within a unit of 2⁻²⁴·2,
// and a sum, a quotient and a product round by one each; an argument z that is off
// by 2⁻²⁴·2·|z| changes the exponential by as much.
func TestGatedActivations(t *testing.T) {
	const u = 0x1p-24
	for _, c := range []struct {
		name  string
		call  func(gate, up []float32)
		exact func(g, u float64) (y, slack float64)
	}{
		{"SiLU", Best().SiLU, func(g, up float64) (float64, float64) { return g / (1 + math.Exp(-g)) * up, 0 }},
		{"GELUTanh", Best().GELUTanh, func(g, up float64) (float64, float64) {
			z := 2 * math.Sqrt(2/math.Pi) * (g + 0.044715*g*g*g)
			return g / (1 + math.Exp(-z)) * up, 4 * math.Abs(z)
		}},
		{"SwiGLU", func(g, up []float32) { Best().SwiGLU(g, up, 7, 1.702) }, func(g, up float64) (float64, float64) {
			g, up = min(g, 7), max(min(up, 7), -7)
			return g / (1 + math.Exp(-1.702*g)) * (up + 1), 2*1.702*math.Abs(g) + 1
		}},
	} {
		rng := rand.New(rand.NewPCG(6, 2))
		for range 200 {
			rows := randomRows(rng, 101, 4, 0)
			gate := slices.Clone(rows[0])
			c.call(gate, rows[1])
			for i, got := range gate {
				want, slack := c.exact(float64(rows[0][i]), float64(rows[1][i]))
				if math.Abs(float64(got)-want) > (5+slack)*u*math.Abs(want)+1e-37 {
					t.Fatalf("%s(%v, %v) is %v, want %v", c.name, rows[0][i], rows[1][i], got, want)
				}
			}
		}
	}
}

// Weights add up to one, a sink takes its share, and what is out of range is 0.
func TestSoftmax(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 3))
	for _, s := range Available() {
		for n := 1; n < 90; n += 7 {
			x := randomRows(rng, n, 3, 0)[0]
			from, to, sink := n/5, n-n/9, float32(0.5)
			var sum, whole float64
			for _, v := range x[from:to] {
				whole += math.Exp(float64(v))
			}
			whole += math.Exp(0.5)
			got := slices.Clone(x)
			s.Softmax(got, from, to, sink)
			for i, w := range got {
				want := 0.0
				if i >= from && i < to {
					want = math.Exp(float64(x[i])) / whole
				}
				if math.Abs(float64(w)-want) > 1e-6*want { // a score 10 below the maximum is off by 10·2⁻²⁴
					t.Fatalf("%s: weight %d of %d is %v, want %v", s.Name, i, n, w, want)
				}
				sum += float64(w)
			}
			if share := math.Exp(0.5) / whole; math.Abs(sum+share-1) > 1e-6 {
				t.Errorf("%s: weights add up to %v beside a sink of %v", s.Name, sum, share)
			}
		}
		masked := []float32{float32(math.Inf(-1)), 2, float32(math.Inf(-1))}
		s.Softmax(masked, 0, 3, float32(math.Inf(-1)))
		if !slices.Equal(masked, []float32{0, 1, 0}) {
			t.Errorf("%s: masked scores give %v", s.Name, masked)
		}
	}
}

// The least and the largest of many, wherever it stands.
func TestMaxOfRows(t *testing.T) {
	for _, s := range Available() {
		for n := 1; n < 40; n++ {
			for at := range n {
				x := slices.Repeat([]float32{-3}, n)
				x[at] = -2
				if got := s.Max(x); got != -2 {
					t.Fatalf("%s: the maximum of %v is %v", s.Name, x, got)
				}
				x[at] = float32(math.NaN())
				if got := s.Max(x); got == got {
					t.Fatalf("%s: a NaN at %d of %d is lost", s.Name, at, n)
				}
			}
		}
		if !math.IsInf(float64(s.Max(nil)), -1) || math.Signbit(float64(s.Max([]float32{float32(math.Copysign(0, -1))}))) {
			t.Errorf("%s: no values, or −0", s.Name)
		}
	}
}
