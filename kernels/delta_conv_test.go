package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A convolution against its sum in f64, whole and in pieces, with and without a
// state that forgets rows; the same bits in every set.
func TestConvolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, c := range []Convolution{{1, 1}, {5, 4}, {37, 4}, {64, 2}, {19, 7}} {
		const n = 300
		rows := randomRows(rng, n*c.Channels, 1, 0)
		x, w := rows[0], rows[1][:c.Taps*c.Channels]
		run := func(s Set, from, to int, st *ConvolutionState) []float32 {
			out, intact := guardedFloats((to-from)*c.Channels, 0)
			if err := s.Convolve(c, x[from*c.Channels:to*c.Channels], w, to-from, st, out, 1+rng.IntN(3)); err != nil {
				t.Fatal(err)
			}
			if !intact() {
				t.Fatalf("%s: wrote outside of its results", s.Name)
			}
			return out
		}
		want := run(Reference(), 0, n, nil)
		for i, got := range want {
			var sum, size float64
			for tap := range c.Taps {
				if r := i/c.Channels - c.Taps + 1 + tap; r >= 0 {
					p := float64(x[r*c.Channels+i%c.Channels]) * float64(w[tap*c.Channels+i%c.Channels])
					sum, size = sum+p, size+math.Abs(p)
				}
			}
			if exact := sum / (1 + math.Exp(-sum)); math.Abs(float64(got)-exact) > float64(4+c.Taps)*0x1p-24*(size+math.Abs(exact)) {
				t.Fatalf("%v: row %d channel %d is %v, want %v", c, i/c.Channels, i%c.Channels, got, exact)
			}
		}
		for _, s := range Available() {
			sameAs(t, s.Name+", whole", run(s, 0, n, nil), want)
			var st ConvolutionState
			for at, furthest := 0, 0; at < n; {
				to := min(n, at+1+rng.IntN([]int{2, 20, 200}[rng.IntN(3)]))
				sameAs(t, fmt.Sprintf("%s %v, rows %d to %d", s.Name, c, at, to), run(s, at, to, &st), want[at*c.Channels:to*c.Channels])
				at, furthest = to, max(furthest, to)
				if back := furthest - rng.IntN(convolutionKeeps+1); back > 0 && back <= at && rng.IntN(2) == 0 {
					other := st.Copy(back)
					at = st.Cut(back)
					if at != back || st.Len() != at || other.Len() != at {
						t.Fatalf("cut to %d rows: %d, %d, %d", back, at, st.Len(), other.Len())
					}
					if rng.IntN(2) == 0 {
						st = other
					}
				}
				if held := int64(4 * len(st.rows)); held > c.Bytes() {
					t.Fatalf("%v: a state holds %d bytes, at most %d are said", c, held, c.Bytes())
				}
			}
			if c.Taps > 1 { // a row too few is there
				other := st.Copy(st.Len())
				if kept := other.Cut(n - st.held() + c.Taps - 2); kept != 0 {
					t.Fatalf("%v: kept %d with %d rows", c, kept, other.held())
				}
			}
			if kept := st.Cut(n - convolutionKeeps - convolutionSlack - 1); kept != 0 || st.Len() != 0 {
				t.Fatalf("rows that were dropped: kept %d, has %d", kept, st.Len())
			}
			sameAs(t, s.Name+", from the start again", run(s, 0, 9, &st), want[:9*c.Channels])
		}
	}
}

// A value that is not finite reaches Taps−1 rows behind it, in its channel.
func TestConvolveNotFinite(t *testing.T) {
	c := Convolution{20, 4}
	rows := randomRows(rand.New(rand.NewPCG(12, 2)), 12*c.Channels, 1, 0)
	for _, s := range Available() {
		x := append([]float32(nil), rows[0]...)
		x[5*c.Channels+3] = float32(math.NaN())
		out := make([]float32, len(x))
		if err := s.Convolve(c, x, rows[1][:80], 12, nil, out, 1); err != nil {
			t.Fatal(err)
		}
		for i, y := range out {
			if r := i / c.Channels; (y != y) != (i%c.Channels == 3 && r >= 5 && r < 9) {
				t.Fatalf("%s: row %d channel %d is %v", s.Name, r, i%c.Channels, y)
			}
		}
	}
}

func TestConvolveRefuses(t *testing.T) {
	x, w := make([]float32, 12), make([]float32, 8)
	var st ConvolutionState
	if err := Best().Convolve(Convolution{4, 2}, x, w, 3, &st, make([]float32, 12), 1); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		c   Convolution
		n   int
		out int
		st  *ConvolutionState
	}{{Convolution{4, 3}, 3, 12, nil}, {Convolution{3, 2}, 4, 12, nil}, {Convolution{4, 2}, 3, 11, nil}, {Convolution{4, 0}, 3, 12, nil},
		{Convolution{0, 2}, 0, 0, nil}, {Convolution{4, 2}, -1, 12, nil}, {Convolution{math.MaxInt/2 + 2, 2}, 2, 12, nil}, {Convolution{2, 4}, 6, 12, &st}} {
		if err := Best().Convolve(c.c, x, w, c.n, c.st, make([]float32, c.out), 1); !errors.Is(err, ErrShape) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}
