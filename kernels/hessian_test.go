package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// withSpectrum is a symmetric matrix with these eigenvalues, rounded to f32, in the
// basis that reflections make.
func withSpectrum(rng *rand.Rand, values []float64) Dense {
	n := len(values)
	a := make([]float64, n*n)
	for i, v := range values {
		a[i*n+i] = v
	}
	for range 3 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		scaleTo1(v)
		// A ← (I − 2vvᵀ)·A·(I − 2vvᵀ)
		av := make([]float64, n)
		for i := range n {
			av[i] = dot64(a[i*n:(i+1)*n], v)
		}
		vav := dot64(v, av)
		for i := range n {
			for j := range n {
				a[i*n+j] += 4*vav*v[i]*v[j] - 2*(av[i]*v[j]+v[i]*av[j])
			}
		}
	}
	h, _ := NewDense(n, n)
	for i := range a {
		h.Data[i] = float32(a[i])
	}
	return h
}

// unfactored is M·D·Mᵀ of a factor, element by element.
func unfactored(f *Factor) []float64 {
	n := f.n
	m := func(i, k int) float64 {
		switch {
		case i == k:
			return 1
		case i > k:
			return 0
		}
		return float64(f.panels[k/factorBlock][i*factorBlock+k%factorBlock])
	}
	a := make([]float64, n*n)
	for i := range n {
		for j := range n {
			for k := max(i, j); k < n; k++ {
				a[i*n+j] += m(i, k) * f.d[k] * m(j, k)
			}
		}
	}
	return a
}

// M·D·Mᵀ is the damped Hessian, its columns in the order that was asked for, at
// sizes around blocks and steps, and only the lower triangle is read.
func TestFactorizeIsTheDampedHessian(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, n := range []int{1, 2, 31, 32, 33, 127, 128, 129, 160, 300} {
		c := correlated(rng, 1, n, 3*n/2+1)
		dead := -1
		if n > 4 {
			dead = rng.IntN(n)
			c.h.Data[dead*n+dead] = 0 // and what is beside it counts for nothing
		}
		for i := range n {
			for j := i + 1; j < n; j++ {
				c.h.Data[i*n+j] = float32(math.NaN())
			}
		}
		for _, order := range [][]int{nil, rng.Perm(n)} {
			f, err := Best().Factorize(c.h, FactorOptions{Order: order, Damp: 0.02, Threads: 3})
			if err != nil {
				t.Fatal(err)
			}
			want := damped64(c.h, order, f.Lambda())
			mean, live := 0.0, 0
			for i := range n {
				for j := range n {
					x, y := i, j
					if order != nil {
						x, y = order[i], order[j]
					}
					if (x == dead || y == dead) && i != j {
						want[i*n+j] = 0
					}
				}
				if i != dead {
					mean, live = mean+float64(c.h.Data[i*n+i]), live+1
				}
			}
			mean /= float64(live)
			if l := f.Lambda(); f.Raised() != 0 || math.Abs(l-0.02*mean) > 1e-12*mean || f.Columns() != n {
				t.Fatalf("n %d: lambda %v raised %d times, mean %v", n, l, f.Raised(), mean)
			}
			for i, x := range unfactored(f) {
				if math.Abs(x-want[i]) > 1e-5*mean {
					t.Fatalf("n %d, order %v: (%d, %d) is %v, want %v", n, order != nil, i/n, i%n, x, want[i])
				}
			}
		}
	}
}

// Every set and any number of threads give the bits of the reference.
func TestFactorizeBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{5, 32, 150, 421} {
		c := correlated(rng, 1, n, n/2+3)
		order := rng.Perm(n)
		want, err := Reference().Factorize(c.h, FactorOptions{Order: order, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range Available() {
			for threads := 1; threads <= 4; threads++ {
				f, err := s.Factorize(c.h, FactorOptions{Order: order, Threads: threads})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(f.d, want.d) || !slices.EqualFunc(f.panels, want.panels, slices.Equal) {
					t.Fatalf("%s, %d threads, n %d: other bits", s.Name, threads, n)
				}
			}
		}
	}
}

// The first entry that is not finite, in the order of rows, is named before
// anything is factored; so is a negative diagonal.
func TestHessianErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, x := range []struct {
		row, col int
		value    float32
		also     int // an entry after it
		says     string
	}{
		{3, 2, nan, 5, "hessian: NaN at row 3, column 2"},
		{4, 4, -1, 5, "hessian: -1 on its diagonal, at column 4"},
		{0, 0, inf, 4, "hessian: +Inf at row 0, column 0"},
		{5, 0, -inf, 5, "hessian: -Inf at row 5, column 0"},
	} {
		h := identityHessian(6, 1)
		h.Data[x.row*6+x.col] = x.value
		if x.also > x.row {
			h.Data[x.also*6+1] = nan
		}
		_, err := Best().Factorize(h, FactorOptions{})
		_, also := Best().Diagnose(h, FactorOptions{})
		w := DenseOperand(Dense{Rows: 1, Cols: 6, Stride: 6, Data: make([]float32, 6)})
		_, _, third := Best().OutputError(h, w, w, nil, 1)
		for _, err := range []error{err, also, third} {
			var e *HessianError
			if !errors.As(err, &e) || e.Row != x.row || e.Col != x.col || err.Error() != x.says {
				t.Errorf("%v, want %s", err, x.says)
			}
		}
	}
	h := identityHessian(6, 1)
	for _, o := range []FactorOptions{{Damp: -1}, {Damp: math.NaN()}, {Damp: math.Inf(1)}, {Order: []int{0, 1, 2, 3, 4, 4}}, {Order: []int{0, 1, 2, 3, 4, 6}}, {Order: []int{1, 0}}} {
		if _, err := Best().Factorize(h, o); !errors.Is(err, ErrRange) && !errors.Is(err, ErrShape) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
		if _, err := Best().Diagnose(h, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	for _, h := range []Dense{{Rows: 2, Cols: 3, Stride: 3, Data: make([]float32, 6)}, {Rows: 3, Cols: 3, Stride: 3, Data: make([]float32, 8)}} {
		if _, err := Best().Factorize(h, FactorOptions{}); !errors.Is(err, ErrShape) {
			t.Errorf("%d×%d: %v", h.Rows, h.Cols, err)
		}
	}
	for _, n := range []int{0, 3} {
		h, _ := NewDense(n, n)
		if _, err := Best().Factorize(h, FactorOptions{}); err != ErrNoData {
			t.Errorf("zeros of %d: %v", n, err)
		}
	}
}

// A Hessian that is not semidefinite by more than its damping is damped ten times
// as much until it is, and says so; one that no damping helps is an error.
func TestDampingIsRaised(t *testing.T) {
	h := identityHessian(3, 1)
	h.Data[3], h.Data[1] = 1.05, 1.05 // eigenvalues 2.05, −0.05 and 1
	f, err := Best().Factorize(h, FactorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(f.Lambda()-0.1) > 1e-12 || f.Raised() != 1 {
		t.Errorf("lambda %v, raised %d times; want 0.1, once", f.Lambda(), f.Raised())
	}
	d, err := Best().Diagnose(h, FactorOptions{})
	if err != nil || d.Lambda != f.Lambda() {
		t.Errorf("diagnosed under %v, %v", d.Lambda, err)
	}
	// Positive definite under its damping, but with a pivot of 0.0048 < λ/2.
	h.Data[3], h.Data[1] = 1.0076, 1.0076
	if f, err := Best().Factorize(h, FactorOptions{}); err != nil || f.Raised() != 1 {
		t.Errorf("a pivot below half of the damping: %v, or not raised once", err)
	}
	h.Data[3], h.Data[1] = 3e38, 3e38
	if _, err := Best().Factorize(h, FactorOptions{}); !errors.Is(err, ErrRange) {
		t.Errorf("%v, want ErrRange", err)
	}
}

// The extremes of f32 are no extremes in f64: the same H in other units has the same
// factor.
func TestFactorizeAtTheEndsOfTheRange(t *testing.T) {
	c := correlated(rand.New(rand.NewPCG(5, 5)), 1, 40, 90)
	want, err := Best().Factorize(c.h, FactorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []int{-90, 110} {
		h, _ := NewDense(40, 40)
		for i, x := range c.h.Data {
			h.Data[i] = float32(math.Ldexp(float64(x), e))
		}
		f, err := Best().Factorize(h, FactorOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(f.panels, want.panels, slices.Equal) || f.Lambda() != math.Ldexp(want.Lambda(), e) {
			t.Errorf("2^%d: another factor", e)
		}
	}
}

// Rank, condition and the share of the damping of matrices whose eigenvalues are
// known.
func TestDiagnose(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, x := range []struct {
		n, rank int
		decades float64 // from the largest eigenvalue to the least of the rank
		damp    float64
	}{
		{1, 1, 0, 0.01}, {8, 8, 1, 0.01}, {40, 13, 2, 0.01}, {200, 200, 2, 0.01}, {200, 200, 2, 1e-4}, {300, 17, 1, 0.01}, {600, 450, 2, 0.01}, {700, 700, 1, 0.001},
	} {
		values := make([]float64, x.n)
		sum := 0.0
		for i := range x.rank {
			values[i] = math.Pow(10, -x.decades*float64(i)/float64(max(x.rank-1, 1)))
			sum += values[i]
		}
		lambda := x.damp * sum / float64(x.n)
		share := 0.0
		for _, v := range values {
			share += lambda / (v + lambda) / float64(x.n)
		}
		cond := (values[0] + lambda) / (values[x.n-1] + lambda)
		h := withSpectrum(rng, values)
		for i := range x.n { // what rounding made of a zero
			h.Data[i*x.n+i] = max(h.Data[i*x.n+i], 0)
		}
		d, err := Best().Diagnose(h, FactorOptions{Damp: x.damp, Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		slack := 1e-3
		if x.n > exactTrace {
			slack = 4 * math.Sqrt(share/(16*float64(x.n)))
		}
		if d.N != x.n || d.Rank != x.rank || d.Dead != 0 || math.Abs(d.Cond/cond-1) > 0.1 || math.Abs(d.DampShare-share) > slack || math.Abs(d.Lambda/lambda-1) > 1e-4 {
			t.Errorf("%+v: %+v, want condition %v, share %v of damping %v", x, d, cond, share, lambda)
		}
		again, err := Reference().Diagnose(h, FactorOptions{Damp: x.damp, Threads: 1})
		if err != nil || again != d {
			t.Errorf("%+v: on the reference %+v, %v, want %+v", x, again, err, d)
		}
	}
}

// A factor that comes with a diagnosis is the same factor, and the order makes no
// difference to what is said.
func TestFactorizeDiagnosed(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	c := correlated(rng, 1, 190, 120)
	o := FactorOptions{Order: rng.Perm(190)}
	want, err := Best().Factorize(c.h, o)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := Best().Diagnose(c.h, FactorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, d, err := Best().FactorizeDiagnosed(c.h, o)
	if err != nil || !slices.Equal(f.d, want.d) || !slices.EqualFunc(f.panels, want.panels, slices.Equal) || f.Lambda() != want.Lambda() {
		t.Fatalf("%v, or another factor", err)
	}
	if math.Abs(d.Cond/alone.Cond-1) > 0.05 || math.Abs(d.DampShare-alone.DampShare) > 1e-12 {
		t.Errorf("%+v, without the order %+v", d, alone)
	}
	d.Cond, d.DampShare = alone.Cond, alone.DampShare
	if d != alone {
		t.Errorf("%+v, without the order %+v", d, alone)
	}
}

// Inputs of T tokens have the rank T, whatever the scales of their channels.
func TestRankIsTheTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, shape := range [][2]int{{1, 20}, {6, 16}, {50, 96}, {96, 96}, {200, 96}, {90, 400}} {
		tokens, n := shape[0], shape[1]
		x := gaussian(t, tokens, n, uint64(n))
		for c := range n {
			scale := float32(math.Pow(10, 6*rng.Float64()-3))
			for r := range tokens {
				x.Data[r*n+c] *= scale
			}
		}
		clear(x.Data[:0])
		for r := range tokens {
			x.Data[r*n+n/2] = 0
		}
		h, _ := NewDense(n, n)
		if err := Best().SYRK(h, DenseOperand(x), GEMMOptions{}); err != nil {
			t.Fatal(err)
		}
		d, err := Best().Diagnose(h, FactorOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(tokens, n-1); d.Rank != want || d.Dead != 1 {
			t.Errorf("%d tokens of %d channels, one dead: rank %d, %d dead", tokens, n, d.Rank, d.Dead)
		}
		if share := d.DampShare; share < float64(n-min(tokens, n))/float64(n) || share > 1 {
			t.Errorf("%d tokens of %d channels: share of the damping %v", tokens, n, share)
		}
	}
}
