package bias

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// naive are the figures of a part by their definitions, over all positions at once.
func naive(x, y [][]float64) Flow {
	var f Flow
	var d, sumX, absX, dx, x2, d2 float64
	var mean []float64
	var null [draws][]float64
	for p := range x {
		ok := true
		for c := range x[p] {
			v := x[p][c] + y[p][c]
			ok = ok && v-v == 0
		}
		if !ok {
			f.NonFinite++
			continue
		}
		f.Positions++
		if mean == nil {
			mean = make([]float64, len(x[p]))
			for k := range null {
				null[k] = make([]float64, len(x[p]))
			}
		}
		for c, v := range x[p] {
			e := y[p][c] - v
			d, sumX, absX, dx, x2, d2 = d+e, sumX+v, absX+math.Abs(v), dx+e*v, x2+v*v, d2+e*e
			mean[c] += e
			for k := range null {
				if signsOf(uint64(p))>>k&1 == 1 {
					e = -math.Abs(e) * math.Copysign(1, y[p][c]-v)
				} else {
					e = y[p][c] - v
				}
				null[k][c] += e
			}
		}
	}
	norm := func(v []float64) (s float64) {
		for _, a := range v {
			s += a * a
		}
		return s
	}
	n := float64(f.Positions)
	f.Rel, f.Bias, f.Gain, f.Ref, f.Shift = math.Sqrt(d2/x2), d/absX, dx/x2, sumX/absX, norm(mean)/n/d2
	for k := range null {
		v := norm(null[k]) / n / d2
		f.Null += v / draws
		f.NullMax = max(f.NullMax, v)
	}
	return f
}

// TestFlowIsItsDefinition: the figures are those of a plain loop, in any pieces and by
// any number of threads the same bits.
func TestFlowIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n, h := rapid.IntRange(1, 40).Draw(t, "positions"), rapid.SampledFrom([]int{1, 3, 127, 128, 300}).Draw(t, "channels")
		x, y := make([]float32, n*h), make([]float32, n*h)
		wide, wideY := make([][]float64, n), make([][]float64, n)
		for p := range n {
			wide[p], wideY[p] = make([]float64, h), make([]float64, h)
			for c := range h {
				i := p*h + c
				x[i] = float32(rng.NormFloat64())
				y[i] = x[i] + float32(0.1*rng.NormFloat64()+0.01)
			}
			switch rng.IntN(8) {
			case 0:
				y[p*h+rng.IntN(h)] = float32(math.NaN())
			case 1:
				x[p*h+rng.IntN(h)] = float32(math.Inf(1 - 2*rng.IntN(2)))
			case 2:
				y[p*h+rng.IntN(h)] = float32(math.Inf(1 - 2*rng.IntN(2)))
			}
			for c := range h {
				wide[p][c], wideY[p][c] = float64(x[p*h+c]), float64(y[p*h+c])
			}
		}
		whole := newFlow(h)
		whole.add(x, y, n, 1, nil)
		got, want := whole.figures(), naive(wide, wideY)
		if got.Positions != want.Positions || got.NonFinite != want.NonFinite {
			t.Fatalf("%d positions and %d that are not finite, want %d and %d", got.Positions, got.NonFinite, want.Positions, want.NonFinite)
		}
		for _, c := range [][2]float64{{got.Rel, want.Rel}, {got.Bias, want.Bias}, {got.Gain, want.Gain}, {got.Ref, want.Ref}, {got.Shift, want.Shift}, {got.Null, want.Null}, {got.NullMax, want.NullMax}} {
			if want.Positions > 0 && !(math.Abs(c[0]-c[1]) <= 1e-9*(1+math.Abs(c[1]))) {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
		for _, threads := range []int{1, 2, 5} {
			pieces := newFlow(h)
			var rows []rowSums
			for from := 0; from < n; {
				some := 1 + rng.IntN(n-from)
				rows = pieces.add(x[from*h:(from+some)*h], y[from*h:(from+some)*h], some, threads, rows)
				from += some
			}
			if now := pieces.figures(); !sameFlow(now, got) {
				t.Fatalf("in pieces by %d threads %+v, at once %+v", threads, now, got)
			}
		}
	})
}

// TestFlowGolden: figures of a small part as numpy has them; testdata/flow.py is the
// script.
func TestFlowGolden(t *testing.T) {
	const n, h = 10, 5
	x, y := make([]float32, n*h), make([]float32, n*h)
	for i := range x {
		x[i] = float32(i*7%11-5) / 4
		y[i] = x[i] + float32(i*5%13-4)/32
	}
	f := newFlow(h)
	f.add(x, y, n, 2, nil)
	got := f.figures()
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"rel", got.Rel, 0.16812639953461336}, {"bias", got.Bias, 0.09148550724637682}, {"gain", got.Gain, -0.00812007874015748}, {"ref", got.Ref, -0.014492753623188406},
		{"shift", got.Shift, 0.25408052230685535}, {"null", got.Null, 0.08607181719260065}, {"largest null", got.NullMax, 0.17225244831338413},
	} {
		near(t, c.what, c.got, c.want, 1e-12)
	}
}

// TestNullIsOneInPositions: signs that are drawn leave a share of 1/n of the squared
// error, whatever the errors are, those with a sign among them.
func TestNullIsOneInPositions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for _, n := range []int{16, 400} {
		for name, draw := range map[string]func(c int) float64{
			"of all signs": func(int) float64 { return rng.NormFloat64() },
			"of one sign":  func(c int) float64 { return 1 + 0.1*rng.NormFloat64() + float64(c) },
		} {
			const h, times = 24, 60
			var sum float64
			for range times {
				f := newFlow(h)
				f.next = int64(rng.IntN(1 << 30)) // other signs
				x, y := make([]float32, n*h), make([]float32, n*h)
				for i := range y {
					x[i] = 1
					y[i] = float32(1 + draw(i%h))
				}
				f.add(x, y, n, 1, nil)
				sum += f.figures().Null / times
			}
			near(t, fmt.Sprintf("the null of %d errors %s", n, name), sum*float64(n), 1, 0.12)
		}
	}
}

// TestFlowKnowsShift: an error that is the same at every position has a shift of 1, one
// of alternating sign has none, and their sum lies in between as their energies do.
func TestFlowKnowsShift(t *testing.T) {
	const n, h = 64, 20
	x, y := make([]float32, n*h), make([]float32, n*h)
	for _, c := range []struct{ same, other, want float64 }{{0.5, 0, 1}, {0, 0.5, 0}, {0.5, 0.25, 0.8}} {
		for i := range x {
			x[i] = float32(1 + i%3)
			sign := float64(1 - 2*(i/h%2))
			y[i] = x[i] + float32(c.same) + float32(c.other*sign)
		}
		f := newFlow(h)
		f.add(x, y, n, 1, nil)
		if got := f.figures().Shift; math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%g everywhere and ±%g: shift %g, want %g", c.same, c.other, got, c.want)
		}
	}
}

// TestRestOfFading: what fades as a whole has a bias, and none beside it; what is added
// at every place has.
func TestRestOfFading(t *testing.T) {
	const n, h = 32, 24
	x, y := make([]float32, n*h), make([]float32, n*h)
	for _, c := range []struct{ gain, add, rest float64 }{{-0.25, 0, 0}, {0, 0.125, 0.125}} {
		var abs float64
		for i := range x {
			x[i] = float32(1 + i%5)
			if c.add != 0 && i%2 == 1 {
				x[i] = -x[i-1] // without a lean, so that what is added is no gain
			}
			y[i] = float32(float64(x[i])*(1+c.gain) + c.add)
			abs += math.Abs(float64(x[i]))
		}
		f := newFlow(h)
		f.add(x, y, n, 1, nil)
		got := f.figures()
		if want := c.rest * n * h / abs; math.Abs(got.Rest()-want) > 1e-12 || math.Abs(got.Gain-c.gain) > 1e-12 || got.Bias == 0 {
			t.Errorf("gain %g and %g added: %+v, a rest of %g, want %g", c.gain, c.add, got, got.Rest(), want)
		}
	}
}
