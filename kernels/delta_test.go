package kernels

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// deltaInput is what Delta is given of a text.
type deltaInput struct {
	shape            DeltaShape
	n                int
	q, k, v, g, beta []float32
}

// randomDelta is a text as a layer would give it: keys and queries of length 1
// and KeyDim^−½, decays of every strength.
func randomDelta(rng *rand.Rand, d DeltaShape, n int) deltaInput {
	in := deltaInput{shape: d, n: n}
	normal := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	in.q, in.k, in.v = normal(n*d.KeyHeads*d.KeyDim), normal(n*d.KeyHeads*d.KeyDim), normal(n*d.ValueHeads*d.ValueDim)
	Reference().L2Norm(in.q, d.KeyDim, 1e-6, 1/math.Sqrt(float64(d.KeyDim)))
	Reference().L2Norm(in.k, d.KeyDim, 1e-6, 1)
	in.g, in.beta = normal(n*d.ValueHeads), normal(n*d.ValueHeads)
	for i := range in.g {
		in.g[i] = -float32(math.Exp(float64(in.g[i])*2 - 2))
		in.beta[i] = Sigmoid(in.beta[i])
	}
	return in
}

// part are tokens from … to−1.
func (in deltaInput) part(from, to int) deltaInput {
	d := in.shape
	cut := func(x []float32, width int) []float32 { return x[from*width : to*width] }
	return deltaInput{d, to - from, cut(in.q, d.KeyHeads*d.KeyDim), cut(in.k, d.KeyHeads*d.KeyDim), cut(in.v, d.ValueHeads*d.ValueDim),
		cut(in.g, d.ValueHeads), cut(in.beta, d.ValueHeads)}
}

func (in deltaInput) run(t testing.TB, s Set, st *DeltaState, threads int) []float32 {
	t.Helper()
	out, intact := guardedFloats(in.n*in.shape.ValueHeads*in.shape.ValueDim, 0)
	if err := s.Delta(in.shape, in.q, in.k, in.v, in.g, in.beta, in.n, st, out, threads); err != nil {
		t.Fatal(err)
	}
	if !intact() {
		t.Fatalf("%s: wrote outside of its results", s.Name)
	}
	return out
}

// recurrent is the rule itself, token by token in f64; what has a precision gives
// that of its type. state[j] is S of value head j after the last token, sizes are
// Σ|terms| of every result.
func recurrent[T float32 | float64](in deltaInput) (out, sizes []float64, state [][]float64) {
	d := in.shape
	group := d.ValueHeads / d.KeyHeads
	for j := range d.ValueHeads {
		s := make([]T, d.KeyDim*d.ValueDim)
		out = append(out, make([]float64, in.n*d.ValueDim)...)
		sizes = append(sizes, make([]float64, in.n*d.ValueDim)...)
		for t := range in.n {
			k := in.k[(t*d.KeyHeads+j/group)*d.KeyDim:][:d.KeyDim]
			q := in.q[(t*d.KeyHeads+j/group)*d.KeyDim:][:d.KeyDim]
			v := in.v[(t*d.ValueHeads+j)*d.ValueDim:][:d.ValueDim]
			decay, beta := T(math.Exp(float64(in.g[t*d.ValueHeads+j]))), T(in.beta[t*d.ValueHeads+j])
			for i := range s {
				s[i] *= decay
			}
			for c := range d.ValueDim {
				var seen T
				for r, x := range k {
					seen += T(x) * s[r*d.ValueDim+c]
				}
				delta := beta * (T(v[c]) - seen)
				var sum T
				var size float64
				for r, x := range k {
					s[r*d.ValueDim+c] += T(x) * delta
					sum += T(q[r]) * s[r*d.ValueDim+c]
					size += math.Abs(float64(q[r]) * float64(s[r*d.ValueDim+c]))
				}
				out[j*in.n*d.ValueDim+t*d.ValueDim+c], sizes[j*in.n*d.ValueDim+t*d.ValueDim+c] = float64(sum), size
			}
		}
		last := make([]float64, len(s))
		for i, x := range s {
			last[i] = float64(x)
		}
		state = append(state, last)
	}
	return byToken(d, in.n, out), byToken(d, in.n, sizes), state
}

// byToken turns [heads, n, dim] into [n, heads, dim].
func byToken(d DeltaShape, n int, x []float64) []float64 {
	out := make([]float64, len(x))
	for j := range d.ValueHeads {
		for t := range n {
			copy(out[(t*d.ValueHeads+j)*d.ValueDim:][:d.ValueDim], x[(j*n+t)*d.ValueDim:])
		}
	}
	return out
}

// matrix is S of value head j after the last token, [KeyDim, ValueDim].
func (st *DeltaState) matrix(j int) []float64 {
	d, w := st.shape, st.width
	panels := ceilDiv(d.ValueDim, w)
	job := &deltaJob{shape: d, width: w, panels: panels}
	key := j / (d.ValueHeads / d.KeyHeads)
	m := st.open.part(job, key, j, 1).of(job, 0)
	rows := st.n % deltaChunk
	s := make([]float64, d.KeyDim*d.ValueDim)
	for r := range d.KeyDim {
		for c := range d.ValueDim {
			x := float64(m.s[(c/w*d.KeyDim+r)*w+c%w])
			if rows > 0 {
				x *= math.Exp(m.sums[rows-1])
			}
			for t := range rows {
				x += math.Exp(m.sums[rows-1]-m.sums[t]) * float64(m.k[(t/w*d.KeyDim+r)*w+t%w]) * float64(m.d[(c/w*deltaChunk+t)*w+c%w])
			}
			s[r*d.ValueDim+c] = x
		}
	}
	return s
}

var deltaShapes = []DeltaShape{{2, 4, 16, 16}, {1, 3, 33, 40}, {3, 3, 5, 1}, {1, 2, 128, 128}, {1, 1, PanelDepth + 9, 20}}

// The chunked form against the rule token by token in f64, results and states;
// the rule in f32 says what rounding does anyway.
func TestDeltaIsTheRecurrence(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for _, shape := range deltaShapes {
		in := randomDelta(rng, shape, 150)
		want, sizes, states := recurrent[float64](in)
		plain, _, _ := recurrent[float32](in)
		for _, s := range Available() {
			var st DeltaState
			got := in.run(t, s, &st, 2)
			var worst, worstPlain, most float64
			for i, x := range got {
				worst = max(worst, math.Abs(float64(x)-want[i])/(sizes[i]+1e-3))
				worstPlain = max(worstPlain, math.Abs(plain[i]-want[i])/(sizes[i]+1e-3))
			}
			for j := range shape.ValueHeads {
				for i, x := range st.matrix(j) {
					most = max(most, math.Abs(x-states[j][i]))
				}
			}
			if !(worst < 4*worstPlain+2e-6) || !(most < 1e-5) {
				t.Errorf("%s %v: results are off by %.2g of their terms (the recurrence in f32: %.2g), states by %.2g", s.Name, shape, worst, worstPlain, most)
			}
		}
	}
}

// sameAs compares results bit by bit.
func sameAs(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if !alike(got[i], want[i]) {
			t.Fatalf("%s: value %d is %x (%v), want %x (%v)", what, i, math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
		}
	}
}

// checkDelta runs a text in every set, for several numbers of threads, whole and
// in pieces that rng draws, without a state and with one, and forgets some of it
// on the way.
func checkDelta(t *testing.T, rng *rand.Rand, in deltaInput) {
	t.Helper()
	want := in.run(t, Reference(), nil, 1)
	row := in.shape.ValueHeads * in.shape.ValueDim
	for _, s := range Available() {
		sameAs(t, s.Name+", whole", in.run(t, s, nil, 1+rng.IntN(4)), want)
		var st DeltaState
		for at := 0; at < in.n; {
			n := min(in.n-at, 1+rng.IntN([]int{2, 20, 90}[rng.IntN(3)]))
			got := in.part(at, at+n).run(t, s, &st, 1+rng.IntN(4))
			sameAs(t, fmt.Sprintf("%s, tokens %d to %d", s.Name, at, at+n), got, want[at*row:(at+n)*row])
			at += n
			if st.Len() != at {
				t.Fatalf("%s: a state of %d tokens says %d", s.Name, at, st.Len())
			}
			if rng.IntN(3) == 0 {
				back := rng.IntN(deltaChunk + 1)
				short := at - min(back, at)
				switch rng.IntN(3) {
				case 0:
					keep := st.Copy(at)
					in.part(short, at).run(t, s, &st, 1) // goes elsewhere
					st = keep
				case 1:
					st = st.Copy(short)
					at = st.Len()
				default:
					at = st.Cut(short)
				}
				if st.Len() != at {
					t.Fatalf("%s: cut to %d tokens, has %d", s.Name, at, st.Len())
				}
			}
		}
	}
}

func TestDeltaInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 2))
	for _, shape := range []DeltaShape{{2, 4, 16, 16}, {1, 3, 33, 40}, {3, 3, 5, 1}, {1, 1, PanelDepth + 9, 20}} {
		for _, n := range []int{1, 15, 63, 64, 65, 140} {
			checkDelta(t, rng, randomDelta(rng, shape, n))
		}
	}
}

func FuzzDelta(f *testing.F) {
	for i := range uint64(8) {
		f.Add(i, uint8(20*i), uint8(i), uint8(i*31))
	}
	f.Add(uint64(5), uint8(47), uint8(2), uint8(93)) // follows a task of as many values in other heads
	f.Fuzz(func(t *testing.T, seed uint64, n, heads, dims uint8) {
		rng := rand.New(rand.NewPCG(seed, 11))
		keys := 1 + int(heads%2)
		in := randomDelta(rng, DeltaShape{keys, keys * (1 + int(heads/2%2)), 1 + int(dims%13), 1 + int(dims/7)}, 1+int(n)%150)
		for range rng.IntN(4) { // zeros, decays without bounds, numbers that overflow
			for _, x := range [][]float32{in.q, in.k, in.v, in.g, in.beta} {
				if rng.IntN(3) == 0 {
					x[rng.IntN(len(x))] = oddFloats[rng.IntN(len(oddFloats))]
				}
			}
		}
		checkDelta(t, rng, in)
	})
}

// Up to 64 tokens are forgotten exactly, wherever a text stands; of what is not
// known any more, nothing is kept.
func TestDeltaCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	shape := DeltaShape{1, 2, 8, 8}
	in := randomDelta(rng, shape, 260)
	want := in.run(t, Best(), nil, 1)
	row := shape.ValueHeads * shape.ValueDim
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 191, 192, 200} {
		var full DeltaState
		in.part(0, n).run(t, Best(), &full, 1)
		for keep := -1; keep <= n+1; keep++ {
			st := full.Copy(n)
			got, oldest := st.Cut(keep), max(n/deltaChunk-1, 0)*deltaChunk
			switch {
			case keep > n && got != n, keep <= n && keep >= n-64 && got != max(keep, 0), keep > 0 && keep < oldest && got != 0:
				t.Fatalf("of %d tokens, %d to be kept: kept %d", n, keep, got)
			case got != st.Len():
				t.Fatalf("kept %d, has %d", got, st.Len())
			}
			sameAs(t, fmt.Sprintf("after %d of %d tokens", got, n), in.part(got, got+60).run(t, Best(), &st, 1), want[got*row:(got+60)*row])
		}
		// Back in the chunk before, what was before that is not known any more.
		if start := n / deltaChunk * deltaChunk; start > deltaChunk {
			st := full.Copy(start - 1)
			if got := st.Cut(start - deltaChunk - 1); got != 0 || st.Len() != 0 {
				t.Fatalf("of %d tokens, cut to %d and then to %d: kept %d", n, start-1, start-deltaChunk-1, got)
			}
		}
		if c := full.Copy(n - 65); n == 200 && c.Len() != 135 || full.Len() != n {
			t.Fatalf("a copy of %d tokens is of %d", n-65, c.Len())
		}
	}
	var none DeltaState
	if none.Cut(5) != 0 || none.Cut(-1) != 0 || none.Len() != 0 {
		t.Error("no text, cut")
	}
	if c := none.Copy(3); c.Len() != 0 {
		t.Error("no text, copied")
	}
}

// A value that is not finite stays with its own and later tokens of its head; a
// decay to nothing is one.
func TestDeltaNotFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	shape := DeltaShape{2, 4, 20, 24}
	clean := randomDelta(rng, shape, 150)
	want := clean.run(t, Best(), nil, 1)
	row := shape.ValueHeads * shape.ValueDim
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	for _, bad := range []float32{nan, infinite, -infinite} {
		for _, at := range []int{0, 1, 17, 63, 64, 100} {
			for which := range 5 {
				in := randomDelta(rng, shape, 0)
				in.n, in.q, in.k, in.v = clean.n, append(in.q, clean.q...), append(in.k, clean.k...), append(in.v, clean.v...)
				in.g, in.beta = append(in.g, clean.g...), append(in.beta, clean.beta...)
				heads, width := shape.ValueHeads, shape.ValueDim
				if which < 2 {
					heads, width = shape.KeyHeads, shape.KeyDim
				} else if which > 2 {
					width = 1
				}
				[][]float32{in.q, in.k, in.v, in.g, in.beta}[which][(at*heads+heads-1)*width] = bad
				got := in.run(t, Best(), nil, 1)
				touched := shape.ValueHeads - shape.ValueHeads/heads // the first head that may be touched
				finite := true
				for i, x := range got {
					if i/row < at || i%row/shape.ValueDim < touched {
						if !alike(x, want[i]) {
							t.Fatalf("%v in input %d of token %d changes token %d, head %d", bad, which, at, i/row, i%row/shape.ValueDim)
						}
					}
					finite = finite && x-x == 0
				}
				if gone := which == 3 && math.IsInf(float64(bad), -1); finite != gone {
					t.Fatalf("%v in input %d of token %d: all finite is %v", bad, which, at, finite)
				}
			}
		}
	}
}

// A decay of nothing left is the same whatever it is called, and what follows it is
// not blurred by it: from −1000 down all are one.
func TestDeltaForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 6))
	in := randomDelta(rng, DeltaShape{1, 1, 16, 16}, 80)
	var want []float32
	for _, g := range []float32{-1000, -1001, -math.MaxFloat32, float32(math.Inf(-1))} {
		in.g[20] = g
		got := in.run(t, Best(), nil, 1)
		if want == nil {
			want = got
			after, _, _ := recurrent[float64](in.part(20, 80)) // as a text of its own
			for i, x := range got[20*16:] {
				if math.Abs(float64(x)-after[i]) > 1e-6 {
					t.Fatalf("value %d behind the decay is %v, want %v", i, x, after[i])
				}
			}
		}
		sameAs(t, fmt.Sprint(g), got, want)
	}
}

// Memory that is used again is of the layer that uses it.
func TestDeltaUsesMemoryAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 7))
	for _, s := range Available() {
		w := s.gemm.tileCols
		for _, shape := range []DeltaShape{{1, 1, 4, 2 * w}, {1, 2, 4, w}, {1, 1, 4, 2 * w}, {1, 2, 4, w}} { // as many values each
			in := randomDelta(rng, shape, 70)
			var st DeltaState // has memory of its own
			sameAs(t, fmt.Sprint(s.Name, shape), in.run(t, s, nil, 1), in.run(t, s, &st, 1))
		}
	}
}

func TestDeltaRefuses(t *testing.T) {
	in := randomDelta(rand.New(rand.NewPCG(11, 5)), DeltaShape{1, 2, 4, 4}, 3)
	out := make([]float32, 24)
	call := func(d DeltaShape, n int, out []float32, st *DeltaState) error {
		return Best().Delta(d, in.q, in.k, in.v, in.g, in.beta, n, st, out, 1)
	}
	var st DeltaState
	if err := call(in.shape, 3, out, &st); err != nil {
		t.Fatal(err)
	}
	for i, err := range []error{
		call(in.shape, 2, out, nil), call(in.shape, -3, out, nil), call(in.shape, 3, out[1:], nil), call(DeltaShape{1, 2, 4, 5}, 3, out, nil),
		call(DeltaShape{2, 3, 2, 4}, 3, out, nil), call(DeltaShape{0, 2, 4, 4}, 3, out, nil), call(DeltaShape{1, 2, math.MaxInt/2 + 1, 4}, 0, nil, nil),
		call(DeltaShape{1, 2, 4, math.MaxInt - 9}, 0, nil, nil), call(DeltaShape{1, 1, 4, 8}, 3, out, &st),
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("case %d: %v", i, err)
		}
	}
	st.width++
	if err := call(in.shape, 3, out, &st); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a state in other panels: %v", err)
	}
	if err := Best().Delta(in.shape, nil, nil, nil, nil, nil, 0, &st, nil, 1); err != nil || st.Len() != 3 {
		t.Errorf("no tokens: %v, %d", err, st.Len())
	}
}
