package bias

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// TestReferenceAgainstItself: zeros everywhere, and the floor is not.
func TestReferenceAgainstItself(t *testing.T) {
	ref := reference(t)
	f := looked(t, ref, variants(t, ref, "ref"), texts(t, 2, 32), Options{Threads: 2})
	r := f.report()
	if len(f.setup.Candidates) != 2 || !f.setup.Candidates[1].Floor {
		t.Fatalf("candidates %+v, want the reference and the floor", f.setup.Candidates)
	}
	if w := r.Total(0); w == nil || w.Tensors != 0 || w.RelL2 != 0 || w.Bias != 0 {
		t.Errorf("weights %+v, want none that differ", w)
	}
	for _, row := range f.rows {
		switch {
		case row.Candidate == 0 && (row.Rel != 0 || row.Bias != 0 || row.Gain != 0 || !math.IsNaN(row.Shift) || row.Positions != 128):
			t.Errorf("%+v, want zeros of 128 positions", row)
		case row.Candidate == 1 && row.Layer >= 0 && !(row.Rel > 1e-4 && row.Rel < 0.1):
			t.Errorf("the floor is %+v", row)
		}
	}
	if d := r.DivergenceOf(0); d.KL != 0 || d.Top1 != 1 || d.Positions != 124 {
		t.Errorf("divergence %+v, want none over 124 positions", d)
	}
	if d := r.DivergenceOf(1); !(d.KL > 0 && d.KL < 0.01) {
		t.Errorf("the floor's divergence is %+v", d)
	}
}

// TestGainInClosedForm: weights that are larger by an eighth are off by an eighth, with
// a bias of Σw/Σ|w| times that, and a block whose last map they are has that gain.
func TestGainInClosedForm(t *testing.T) {
	ref := reference(t)
	const e = 0.125
	o := model.Place{Kind: topology.Attention, Layer: 2, Expert: -1, Projection: "o"}
	var sum, abs float64
	c := changed(ref, "larger", func(s model.Source) model.Source {
		return edited{Source: s, weight: func(p model.Place, w []float32, cols int) {
			if p != o {
				return
			}
			sum, abs = 0, 0
			for i, v := range w {
				sum, abs = sum+float64(v), abs+math.Abs(float64(v))
				w[i] = v * (1 + e)
			}
		}}
	})
	f := looked(t, ref, []*candidate.Candidate{c}, texts(t, 2, 48), Options{Threads: 2, NoFloor: true})
	r := f.report()
	for _, w := range []*Weights{r.Total(0), r.WeightsOf(0, 2)} {
		if w == nil || w.Tensors != 1 {
			t.Fatalf("weights %+v, want those of one matrix", w)
		}
		near(t, "weight error", w.RelL2, e, 1e-12)
		near(t, "bias of weights", w.Bias, e*sum/abs, 1e-9)
		near(t, "mean |bias|", w.AbsBias, e*math.Abs(sum)/abs, 1e-9)
	}
	if list := r.Total(0).Tensor; len(list) != 1 || list[0].Layer != 2 || list[0].Expert != -1 || !strings.Contains(list[0].Name, "o_proj") {
		t.Errorf("matrices %+v", list)
	}
	at := r.Row(0, 2, Attention)
	near(t, "gain of the attention", at.Gain, e, 1e-5)
	near(t, "error of the attention", at.Rel, e, 1e-5)
	for _, row := range f.rows {
		if row.Layer < 2 && row.Rel != 0 {
			t.Errorf("%+v before the layer that differs", row)
		}
	}
	if row := r.Row(0, 2, MLP); !(row.Rel > 0) {
		t.Errorf("what comes after it has %+v", row)
	}
}

// TestPlantedShift: what is added to the outputs of one map at every position is a
// shift of 1 there, and is carried on.
func TestPlantedShift(t *testing.T) {
	ref := reference(t)
	down := model.Place{Kind: topology.MLP, Layer: 0, Expert: -1, Projection: "down"}
	add := make([]float32, ref.Arch.Hidden)
	var sum float64
	for i := range add {
		add[i] = float32(i%7) / 64
		sum += float64(add[i])
	}
	c := changed(ref, "shifted", func(s model.Source) model.Source {
		return edited{Source: s, bias: func(p model.Place) []float32 {
			if p == down {
				return add
			}
			return nil
		}}
	})
	f := looked(t, ref, []*candidate.Candidate{c}, texts(t, 3, 64), Options{Threads: 2, NoFloor: true})
	r := f.report()
	for _, part := range []string{MLP, Residual} {
		row := r.Row(0, 0, part)
		near(t, "shift of the "+part, row.Shift, 1, 1e-4)
		near(t, "its null", row.Null*float64(row.Positions), 1, 1)
		if !(row.Bias > 0) {
			t.Errorf("the %s has a bias of %g, and only positive values were added", part, row.Bias)
		}
	}
	if a := r.Row(0, 0, Attention); a.Rel != 0 {
		t.Errorf("the attention before it has %+v", a)
	}
	for l := 1; l < f.setup.Layers; l++ {
		if row := r.Row(0, l, Residual); !(row.Shift > 10*row.NullMax) {
			t.Errorf("layer %d: a shift of %g is not carried on, by chance it is %g", l, row.Shift, row.NullMax)
		}
	}
	if w := r.Total(0); w.Tensors != 0 {
		t.Errorf("%d matrices differ, and none was changed", w.Tensors)
	}
}

// TestMirrorImages: a codebook and its mirror image on a matrix and on its negative
// have opposite biases and equal errors, and the books are counted.
func TestMirrorImages(t *testing.T) {
	ref := reference(t)
	book := []float32{-0.1, -0.02, 0.01, 0.05}
	nearest := func(v float32) float32 {
		best := book[0]
		for _, b := range book {
			if math.Abs(float64(v-b)) < math.Abs(float64(v-best)) {
				best = b
			}
		}
		return best
	}
	r := &running{set: kernels.Best(), threads: 2}
	var of [2]*sums
	for k, sign := range []float32{1, -1} {
		src, err := ref.Source()
		must(t, err)
		at := model.Place{Kind: topology.Attention, Layer: 1, Expert: -1, Projection: "q"}
		plain := edited{Source: src, weight: func(_ model.Place, w []float32, _ int) {
			for i := range w {
				w[i] *= sign
			}
		}}
		coded := edited{Source: src, weight: func(_ model.Place, w []float32, _ int) {
			for i := range w {
				w[i] = sign * nearest(w[i])
			}
		}}
		w, err := plain.Weight(t.Context(), at)
		must(t, err)
		q, err := coded.Weight(t.Context(), at)
		must(t, err)
		of[k], err = r.difference(t.Context(), w, q)
		must(t, err)
	}
	a, b := of[0], of[1]
	if a.Value() == 0 || a.Value() != -b.Value() || a.e2 != b.e2 || a.RowRMS() != b.RowRMS() || a.RowMax != b.RowMax {
		t.Errorf("%+v, and of the mirror image %+v", a, b)
	}
	if a.Positive+b.Positive != a.Rows {
		t.Errorf("%d and %d of %d rows are positive", a.Positive, b.Positive, a.Rows)
	}
	f := looked(t, ref, variants(t, ref, "code2", "code2+sym"), texts(t, 1, 16), Options{NoFloor: true})
	for c := range 2 {
		w := f.report().Total(c)
		n := 0
		for _, k := range w.Books {
			n += k.Tensors
			if len(k.Values) != 4 || !slices.IsSorted(k.Values) || c == 1 && (k.Values[0] != -k.Values[3] || k.Values[1] != -k.Values[2]) {
				t.Errorf("%s has codebook %v", f.setup.Candidates[c].Label, k.Values)
			}
		}
		if n != w.Tensors || n != len(w.Tensor) || n == 0 {
			t.Errorf("codebooks of %d matrices, %d differ, %d are listed", n, w.Tensors, len(w.Tensor))
		}
	}
}

// TestWeightsArePlainSums: the figures of a layer and of all are those of plain loops
// over its matrices.
func TestWeightsArePlainSums(t *testing.T) {
	ref := reference(t)
	cands := variants(t, ref, "int4-g128")
	f := looked(t, ref, cands, texts(t, 1, 8), Options{Threads: 2, NoFloor: true})
	a, err := ref.Source()
	must(t, err)
	b, err := cands[0].Source()
	must(t, err)
	type plain struct{ e, absW, e2, w2, abs, row2, rows, rowMax, n, absNull, rowNull2 float64 }
	got := map[int]*plain{-1: {}}
	for i := range ref.Topology.Matrices {
		role := ref.Topology.Matrices[i].Role
		at := model.Place{Kind: role.Kind, Layer: role.Layer, Expert: role.Expert, Projection: role.Projection}
		if sameOrigin(a, b, at) {
			continue
		}
		w, err := a.Weight(t.Context(), at)
		must(t, err)
		q, err := b.Weight(t.Context(), at)
		must(t, err)
		x, y := make([]float32, w.Rows*w.Cols), make([]float32, w.Rows*w.Cols)
		must(t, kernels.Best().ExpandRows(x, w.Operand, 0))
		must(t, kernels.Best().ExpandRows(y, q.Operand, 0))
		if got[role.Layer] == nil {
			got[role.Layer] = &plain{}
		}
		for _, p := range []*plain{got[-1], got[role.Layer]} {
			var e, absW, e2 float64
			for r := range w.Rows {
				var re, ra, re2 float64
				for c := range w.Cols {
					v, d := float64(x[r*w.Cols+c]), float64(y[r*w.Cols+c])-float64(x[r*w.Cols+c])
					re, ra, re2 = re+d, ra+math.Abs(v), re2+d*d
					p.e2, p.w2 = p.e2+d*d, p.w2+v*v
				}
				e, absW, e2 = e+re, absW+ra, e2+re2
				if ra > 0 {
					p.rows++
					p.row2 += re / ra * re / ra
					p.rowNull2 += re2 / ra / ra
					p.rowMax = max(p.rowMax, math.Abs(re/ra))
				}
			}
			p.absNull += math.Sqrt(e2) * math.Sqrt(2/math.Pi) / absW
			p.e, p.absW, p.abs, p.n = p.e+e, p.absW+absW, p.abs+math.Abs(e/absW), p.n+1
		}
		a.Release()
		b.Release()
	}
	if len(f.weights) != len(got) {
		t.Errorf("weights of %d, want %d layers and all", len(f.weights), len(got)-1)
	}
	for _, w := range f.weights {
		p := got[w.Layer]
		if p == nil || w.Tensors != int(p.n) {
			t.Fatalf("layer %d: %d matrices", w.Layer, w.Tensors)
		}
		what := fmt.Sprintf("layer %d: ", w.Layer)
		near(t, what+"error", w.RelL2, math.Sqrt(p.e2/p.w2), 1e-9)
		near(t, what+"bias", w.Bias, p.e/p.absW, 1e-9)
		near(t, what+"mean |bias|", w.AbsBias, p.abs/p.n, 1e-9)
		near(t, what+"mean |bias| by chance", w.AbsNull, p.absNull/p.n, 1e-9)
		near(t, what+"rows by chance", w.RowNull, math.Sqrt(p.rowNull2/p.rows), 1e-9)
		near(t, what+"rows", w.RowRMS, math.Sqrt(p.row2/p.rows), 1e-9)
		near(t, what+"largest row", w.RowMax, p.rowMax, 1e-9)
	}
}

// TestLeanAgainstChance: rounding to nearest leans as errors of random signs do, a
// codebook that leans does more.
func TestLeanAgainstChance(t *testing.T) {
	ref := reference(t)
	f := looked(t, ref, variants(t, ref, "nvfp4", "code2+asym"), texts(t, 1, 8), Options{NoFloor: true})
	plain, leaning := f.report().Total(0), f.report().Total(1)
	near(t, "rows of nvfp4 over chance", plain.RowRMS/plain.RowNull, 1, 0.05)
	near(t, "matrices of nvfp4 over chance", plain.AbsBias/plain.AbsNull, 1, 0.2)
	if over := leaning.AbsBias / leaning.AbsNull; !(over > 1.3) || !(leaning.Positive > 0.8) {
		t.Errorf("matrices that lean are %g of chance, %g of them upwards", over, leaning.Positive)
	}
}

// TestSameInAnyMemory: threads, memory and other candidates beside change no bit, nor
// the order in which results come.
func TestSameInAnyMemory(t *testing.T) {
	ref := reference(t)
	corpora := texts(t, 4, 160) // more rows than go through a layer at once
	cands := variants(t, ref, "nvfp4", "code2")
	want := looked(t, ref, cands, corpora, Options{Threads: 1})
	least := leastMemory(t, ref, cands, corpora)
	for name, o := range map[string]Options{"five threads": {Threads: 5}, "little memory": {Threads: 2, Mem: least}, "some memory": {Threads: 2, Mem: least + 300<<10}} {
		got := looked(t, ref, cands, corpora, o)
		if !slices.Equal(got.order, want.order) {
			t.Errorf("%s: results in another order", name)
		}
		same(t, name, got, want, 0)
	}
	alone := looked(t, ref, cands[1:], corpora, Options{Threads: 2})
	same(t, "alone", alone, want, 1)
}

// same compares runs: candidates of got are those of want from the first on.
func same(t *testing.T, name string, got, want *found, first int) {
	t.Helper()
	r := want.report()
	for _, row := range got.rows {
		if other := r.Row(row.Candidate+first, row.Layer, row.Part); other == nil || !sameFlow(row.Flow, other.Flow) {
			t.Fatalf("%s: %+v, want %+v", name, row, other)
		}
	}
	for _, d := range got.kl {
		if other := r.DivergenceOf(d.Candidate + first); d.KL != other.KL || d.StdErr != other.StdErr || d.Top1 != other.Top1 || !slices.Equal(d.Chunks, other.Chunks) {
			t.Errorf("%s: %+v, want %+v", name, d, other)
		}
	}
	for _, w := range got.weights {
		other := *r.WeightsOf(w.Candidate+first, w.Layer)
		other.Candidate = w.Candidate
		if fmt.Sprintf("%+v", *w) != fmt.Sprintf("%+v", other) {
			t.Errorf("%s: %+v, want %+v", name, w, other)
		}
	}
}

// leastMemory is what one chunk needs, which makes as many groups as there are chunks.
func leastMemory(t *testing.T, ref *candidate.Candidate, cands []*candidate.Candidate, corpora []*corpus.Corpus) int64 {
	t.Helper()
	s, err := NewSetup(ref, cands, corpora, Options{})
	must(t, err)
	err = Run(t.Context(), s, ref, cands, corpora, Options{Threads: 2, Mem: 1}, Sink{})
	var small *model.MemoryError
	if !errors.As(err, &small) {
		t.Fatalf("one byte of memory: %v", err)
	}
	of, err := parties(s, ref, cands, Options{})
	must(t, err)
	r := &running{setup: s, parties: of, threads: 2, mem: small.Need}
	r.o.Mem = small.Need
	for i, c := range corpora {
		for _, ids := range c.Chunks {
			r.chunks, r.corpora = append(r.chunks, ids), append(r.corpora, i)
		}
	}
	must(t, r.plan())
	if len(r.groups) != len(r.chunks) {
		t.Fatalf("the least memory makes %d groups of %d chunks", len(r.groups), len(r.chunks))
	}
	return small.Need
}

// TestDivergenceIsTheYardsticks: KL, its error and the first choices are those of a
// measurement of the same candidates.
func TestDivergenceIsTheYardsticks(t *testing.T) {
	ref := reference(t)
	cands, corpora := variants(t, ref, "nvfp4", "code2+sym"), texts(t, 3, 40)
	f := looked(t, ref, cands, corpora, Options{})
	y, err := yardstick.Measure(t.Context(), ref, cands, corpora, yardstick.Options{})
	must(t, err)
	for c := range f.setup.Candidates {
		d, want := f.report().DivergenceOf(c), &y.Results[c].All
		near(t, "KL", d.KL, want.KL, 1e-12)
		near(t, "its error", d.StdErr, want.KLErr, 1e-12)
		near(t, "first choices", d.Top1, want.Top1, 1e-12)
		if d.Positions != want.Positions {
			t.Errorf("%d positions, want %d", d.Positions, want.Positions)
		}
		if len(d.Chunks) != 6 {
			t.Errorf("%d chunks, want 6", len(d.Chunks))
		}
	}
}

// TestNotFinite: positions of a candidate that are not finite are counted and enter
// nothing; of the reference they end the run with where it was.
func TestNotFinite(t *testing.T) {
	ref := reference(t)
	corpora := texts(t, 2, 32)
	down := model.Place{Kind: topology.MLP, Layer: 0, Expert: -1, Projection: "down"}
	bad := changed(ref, "broken", func(s model.Source) model.Source {
		return edited{Source: s, weight: func(p model.Place, w []float32, _ int) {
			if p == down {
				w[3] = float32(math.Inf(1))
			}
		}}
	})
	cands := append(variants(t, ref, "nvfp4"), bad)
	f := looked(t, ref, cands, corpora, Options{Threads: 2, NoFloor: true})
	r := f.report()
	if w := r.Total(1); w.Tensors != 1 || w.NonFinite != 1 || w.RelL2 != 0 {
		t.Errorf("weights %+v, want one matrix with one element that is not finite", w)
	}
	row := r.Last(1)
	if row.NonFinite == 0 || row.NonFinite+row.Positions != 128 {
		t.Errorf("%+v, want positions that are not finite", row)
	}
	if d := r.DivergenceOf(1); d.NonFinite == 0 || d.NonFinite+d.Positions != 124 {
		t.Errorf("divergence %+v, want positions without a figure", d)
	}
	if row := r.Last(0); row.NonFinite != 0 || !(row.Rel > 0) {
		t.Errorf("beside it %+v", row)
	}
	s, err := NewSetup(bad, cands[:1], corpora, Options{})
	must(t, err)
	err = Run(t.Context(), s, bad, cands[:1], corpora, Options{}, Sink{})
	if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "layer 0, corpus prose, chunk 0, position") {
		t.Errorf("a reference that is not finite: %v", err)
	}
}

// TestStops: what a sink, a pause or the context says ends a run, within the weights
// and within the pass; what came stays.
func TestStops(t *testing.T) {
	ref := reference(t)
	cands, corpora := variants(t, ref, "nvfp4"), texts(t, 1, 16)
	s, err := NewSetup(ref, cands, corpora, Options{})
	must(t, err)
	full := errors.New("disk full")
	for _, k := range []Sink{
		{Weights: func(*Weights) error { return full }}, {Row: func(*Row) error { return full }}, {Divergence: func(*Divergence) error { return full }},
	} {
		if err := Run(t.Context(), s, ref, cands, corpora, Options{}, k); !errors.Is(err, full) {
			t.Errorf("a sink that fails: %v", err)
		}
	}
	for _, stage := range []string{"weights", "passing"} {
		ctx, cancel := context.WithCancel(t.Context())
		rows := 0
		o := Options{Progress: func(p Progress) {
			if p.Done < 1 || p.Done > p.Of || p.Seconds < 0 {
				t.Errorf("progress %+v", p)
			}
			if p.Stage == stage && p.Layer >= 1 {
				cancel()
			}
		}}
		err := Run(ctx, s, ref, cands, corpora, o, Sink{Row: func(*Row) error { rows++; return nil }})
		if !errors.Is(err, context.Canceled) || (rows > 0) != (stage == "passing") {
			t.Errorf("cancelled in %s: %v after %d rows", stage, err, rows)
		}
		cancel()
		now := ""
		o = Options{
			Progress: func(p Progress) { now = p.Stage },
			Pause: func(context.Context) error {
				if now == stage {
					return full
				}
				return nil
			},
		}
		if err := Run(t.Context(), s, ref, cands, corpora, o, Sink{}); !errors.Is(err, full) || now != stage {
			t.Errorf("a pause that ends it in %s: %v in %s", stage, err, now)
		}
	}
}

// TestSetupRefuses: what cannot be looked at is refused by name.
func TestSetupRefuses(t *testing.T) {
	ref := reference(t)
	corpora := texts(t, 1, 16)
	if _, err := NewSetup(ref, nil, corpora, Options{}); err == nil {
		t.Error("no candidate is looked at")
	}
	other := *ref.Arch
	other.Layers = other.Layers[:3]
	short := *ref
	short.Label, short.Arch = "short", &other
	if _, err := NewSetup(ref, []*candidate.Candidate{&short}, corpora, Options{}); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), "short") {
		t.Errorf("other layers: %v", err)
	}
	none := *ref
	none.Arch = nil
	if _, err := NewSetup(ref, []*candidate.Candidate{&none}, corpora, Options{}); err == nil {
		t.Error("an architecture that is not known is looked at")
	}
	if _, err := NewSetup(ref, variants(t, ref, "nvfp4"), nil, Options{}); err == nil {
		t.Error("no corpus is looked at")
	}
	s, err := NewSetup(ref, variants(t, ref, "nvfp4"), corpora, Options{})
	must(t, err)
	if s.Positions != 32 || s.Layers != 5 || s.Hidden != 128 || len(s.MoE) != 4 || s.Draws != draws || !slices.Equal(s.Chunks, []int{1, 1}) || !slices.Equal(s.Tokens, []int64{16, 16}) {
		t.Errorf("setup %+v", s)
	}
	if err := Run(t.Context(), s, ref, nil, corpora, Options{}, Sink{}); err == nil {
		t.Error("a setup of other candidates runs")
	}
	s.Seed++
	if err := Run(t.Context(), s, ref, variants(t, ref, "nvfp4"), corpora, Options{}, Sink{}); err == nil {
		t.Error("a setup of other draws runs")
	}
}
