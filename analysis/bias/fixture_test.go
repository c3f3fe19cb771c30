package bias

import (
	"context"
	"math"
	"slices"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

// reference is the demo, opened.
func reference(t testing.TB) *candidate.Candidate {
	t.Helper()
	ref, err := candidate.Open(context.Background(), demo.Label, candidate.Options{Set: kernels.Best()})
	must(t, err)
	t.Cleanup(func() { _ = ref.Close() })
	return ref
}

// variants are candidates of the demo by their specs.
func variants(t testing.TB, ref *candidate.Candidate, specs ...string) []*candidate.Candidate {
	t.Helper()
	var out []*candidate.Candidate
	for _, spec := range specs {
		c, err := candidate.Parse(context.Background(), ref, spec, candidate.Options{Set: kernels.Best()})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		out = append(out, c)
	}
	return out
}

// texts are the first chunks of two embedded corpora, cut to n tokens.
func texts(t testing.TB, chunks, n int) []*corpus.Corpus {
	t.Helper()
	all, err := corpus.Demo()
	must(t, err)
	var out []*corpus.Corpus
	for _, c := range all[:2] {
		short := *c
		short.Chunks = nil
		for _, ids := range c.Chunks[:chunks] {
			short.Chunks = append(short.Chunks, ids[:n])
		}
		out = append(out, &short)
	}
	return out
}

// changed is the reference with a source around the reference's.
func changed(ref *candidate.Candidate, label string, wrap func(model.Source) model.Source) *candidate.Candidate {
	c := *ref
	c.Label, c.Spec = label, label
	return candidate.Of(c, func() (model.Source, error) {
		src, err := ref.Source()
		if err != nil {
			return nil, err
		}
		return wrap(src), nil
	}, nil)
}

// edited is a source of which some matrices are changed, and biases are added.
type edited struct {
	model.Source
	weight func(p model.Place, w []float32, cols int) // nil: none
	bias   func(p model.Place) []float32              // nil: none; of a place without one too
}

func (e edited) Weight(ctx context.Context, p model.Place) (model.Weight, error) {
	w, err := e.Source.Weight(ctx, p)
	if err != nil || e.weight == nil {
		return w, err
	}
	data := make([]float32, w.Rows*w.Cols)
	if err := kernels.Best().ExpandRows(data, w.Operand, 0); err != nil {
		return w, err
	}
	e.weight(p, data, w.Cols)
	w.Operand = kernels.DenseOperand(kernels.Dense{Rows: w.Rows, Cols: w.Cols, Stride: w.Cols, Data: data})
	return w, nil
}

func (e edited) Has(p model.Place, param string) bool {
	return param == "bias" && e.bias != nil && e.bias(p) != nil || e.Source.Has(p, param)
}

func (e edited) Vector(ctx context.Context, p model.Place, param string) ([]float32, error) {
	if param == "bias" && e.bias != nil && e.bias(p) != nil {
		return e.bias(p), nil
	}
	return e.Source.Vector(ctx, p, param)
}

// found is what a sink was given.
type found struct {
	setup   *Setup
	order   []string
	weights []*Weights
	rows    []*Row
	kl      []*Divergence
}

func (f *found) sink() Sink {
	return Sink{
		Weights: func(w *Weights) error {
			f.weights, f.order = append(f.weights, w), append(f.order, "weights")
			return nil
		},
		Row:        func(r *Row) error { f.rows, f.order = append(f.rows, r), append(f.order, r.Part); return nil },
		Divergence: func(d *Divergence) error { f.kl, f.order = append(f.kl, d), append(f.order, "kl"); return nil },
	}
}

func (f *found) report() *Report { return Analyze(f.setup, f.weights, f.rows, f.kl) }

// looked is what a run finds.
func looked(t testing.TB, ref *candidate.Candidate, cands []*candidate.Candidate, corpora []*corpus.Corpus, o Options) *found {
	t.Helper()
	s, err := NewSetup(ref, cands, corpora, o)
	must(t, err)
	f := &found{setup: s}
	must(t, Run(context.Background(), s, ref, cands, corpora, o, f.sink()))
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// near fails where a figure is not within a share of what it should be.
func near(t testing.TB, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

// sameFlow says whether figures are the same bits.
func sameFlow(a, b Flow) bool {
	bits := func(f Flow) []uint64 {
		var out []uint64
		for _, v := range []float64{f.Rel, f.Bias, f.Gain, f.Ref, f.Shift, f.Null, f.NullMax} {
			if v != v {
				v = math.Inf(-1)
			}
			out = append(out, math.Float64bits(v))
		}
		return out
	}
	return a.Positions == b.Positions && a.NonFinite == b.NonFinite && slices.Equal(bits(a), bits(b))
}
