package landscape

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// priced are 240 matrices in 20 layers under nvfp4 and the source; factor says
// what the error of an item is multiplied with, noise how it scatters.
func priced(noise float64, factor func(i int, t *Table) float64) *Table {
	rng := rand.New(rand.NewPCG(21, 22))
	errs, bytes := make([][]float64, 2), make([][]int64, 2)
	for range 240 {
		errs[0], bytes[0] = append(errs[0], 0.009*math.Exp(noise*rng.NormFloat64())), append(bytes[0], 148)
		errs[1], bytes[1] = append(errs[1], 0), append(bytes[1], 512)
	}
	t := tableOf([]string{"nvfp4", "source"}, errs, bytes)
	for i := range t.Items {
		t.Arms[0].Samples[i].Rel2 *= factor(i, t)
		t.Items[i].Amax = rng.Float64()
	}
	return t
}

func even(int, *Table) float64 { return 1 }

func price(t *testing.T, tb *Table, o PriceOptions) *Pricing {
	t.Helper()
	p, err := Price(t.Context(), tb, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Pricing) curve(name string) *Curve {
	for i := range p.Curves {
		if p.Curves[i].Name == name {
			return &p.Curves[i]
		}
	}
	return nil
}

func (p *Pricing) against(name string) Comparison {
	return p.Against[slices.IndexFunc(p.Against, func(c Comparison) bool { return c.List == name })]
}

// Four matrices by hand: errors 4, 1, 3, 2 and sizes 10 that become 30.
func TestPriceByHand(t *testing.T) {
	tb := tableOf([]string{"nvfp4", "source"}, [][]float64{{4, 1, 3, 2}, {0, 0, 0, 0}}, [][]int64{{10, 10, 10, 10}, {30, 30, 30, 30}})
	p := price(t, tb, PriceOptions{Base: 0, Protect: 1})
	for name, want := range map[string][]float64{
		"rel2": {10, 6, 3, 1, 0}, "reversed": {10, 9, 7, 4, 0},
		"amax":       {10, 8, 5, 4, 0},    // 3, 2, 1, 0 by position
		"layer":      {10, 0},             // all in one
		"projection": {10, 7, 6, 0},       // down 3; gate 4 and 2 have the mean 3 as well and come second
		"uniform":    {10, 7, 3, 2, 0, 0}, // filled in below
	} {
		c := p.curve(name)
		if name == "uniform" {
			want = []float64{10}
			rest := 10.0
			for _, k := range spread(4) {
				rest -= tb.Arms[0].Samples[k].Rel2
				want = append(want, rest)
			}
		}
		if name == "projection" {
			want = []float64{10, 4, 1, 0} // gate (4 and 2) before down (3), then up
		}
		var got []float64
		for i, pt := range c.Points {
			got = append(got, pt.MeanRel2*4)
			if pt.Bytes != 40+20*int64(pt.Exempted) || pt.BitsPerWeight != 8*float64(pt.Bytes)/1024 {
				t.Errorf("%s, point %d: %d bytes, %v bits", name, i, pt.Bytes, pt.BitsPerWeight)
			}
		}
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if l := p.curve("rel2").Points[1].Last; l != tb.Items[0].Name {
		t.Errorf("the first exemption is called %q", l)
	}
	if l := p.curve("layer").Points[1].Last; l != "L0" {
		t.Errorf("the first layer is called %q", l)
	}
}

// Whatever the table: ends are those of the arms, nothing beats the list that
// knows the errors, nothing is worse than it backwards, at sizes that are equal.
func TestPriceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "items")
		errs, bytes := make([][]float64, 2), make([][]int64, 2)
		for range n {
			errs[0] = append(errs[0], rapid.Float64Range(0, 1).Draw(t, "error"))
			errs[1], bytes[0], bytes[1] = append(errs[1], 0), append(bytes[0], 10), append(bytes[1], 32)
		}
		tb := tableOf([]string{"nvfp4", "source"}, errs, bytes)
		p, err := Price(context.Background(), tb, PriceOptions{Base: 0, Protect: 1, Repeats: 5, Seed: uint64(n)})
		if err != nil {
			t.Fatal(err)
		}
		best, worst := p.curve("rel2"), p.curve("reversed")
		mean := 0.0
		for _, e := range errs[0] {
			mean += e / float64(n)
		}
		for _, c := range p.Curves {
			first, last := c.Points[0], c.Points[len(c.Points)-1]
			if math.Abs(first.MeanRel2-mean) > 1e-12 || first.Bytes != int64(10*n) || last.MeanRel2 != 0 || last.Bytes != int64(32*n) || last.Exempted != n {
				t.Fatalf("%s runs from %+v to %+v", c.Name, first, last)
			}
			if len(c.Points) > curvePoints+1 {
				t.Fatalf("%s has %d points", c.Name, len(c.Points))
			}
			for i, pt := range c.Points {
				if i > 0 && (pt.Bytes <= c.Points[i-1].Bytes && c.Name != "random" || pt.MeanRel2 > c.Points[i-1].MeanRel2+1e-12) {
					t.Fatalf("%s: point %d is %+v after %+v", c.Name, i, pt, c.Points[i-1])
				}
				if pt.Low > pt.MeanRel2+1e-15 && c.Name != "random" || pt.Low > pt.High {
					t.Fatalf("%s: %+v", c.Name, pt)
				}
				lo, hi := errorAt(best, pt.Bytes), errorAt(worst, pt.Bytes)
				if c.Name != "random" && n <= 12 && (pt.MeanRel2 < lo-1e-12 || pt.MeanRel2 > hi+1e-12) {
					t.Fatalf("%s at %d bytes: %v is outside %v … %v", c.Name, pt.Bytes, pt.MeanRel2, lo, hi)
				}
			}
		}
	})
}

// errorAt reads a curve at a size, between two points by proportion.
func errorAt(c *Curve, bytes int64) float64 {
	for i, pt := range c.Points {
		if pt.Bytes == bytes || i == 0 && pt.Bytes > bytes {
			return pt.MeanRel2
		}
		if pt.Bytes > bytes {
			before := c.Points[i-1]
			return before.MeanRel2 + (pt.MeanRel2-before.MeanRel2)*float64(bytes-before.Bytes)/float64(pt.Bytes-before.Bytes)
		}
	}
	return c.Points[len(c.Points)-1].MeanRel2
}

func TestPriceVerdicts(t *testing.T) {
	t.Run("equal errors", func(t *testing.T) {
		p := price(t, priced(0, even), PriceOptions{Base: 0, Protect: 1, Seed: 1})
		for _, c := range p.Against {
			if c.Beats || c.Pays || c.Worse || !strings.Contains(c.Sentence, "never beats") {
				t.Errorf("%+v", c)
			}
		}
	})
	// Errors that scatter by 0.2 %: who knows them gains, and too little to pay.
	t.Run("noise", func(t *testing.T) {
		p := price(t, priced(0.002, even), PriceOptions{Base: 0, Protect: 1, Seed: 1})
		if c := p.against("rel2"); !c.Beats || c.Pays || c.Gain > 0.002 || !strings.Contains(c.Sentence, "too little to pay") {
			t.Errorf("%+v", c)
		}
		for _, name := range []string{"amax", "layer", "projection"} {
			if c := p.against(name); c.Pays {
				t.Errorf("%+v", c)
			}
		}
	})
	// One layer in twenty loses three times as much: 3/22 of the error in 1/20 of
	// the bytes, so its list gains 3/22 − 1/20 = 8.6 % there.
	t.Run("a layer", func(t *testing.T) {
		p := price(t, priced(0, func(i int, tb *Table) float64 {
			if tb.Items[i].Role.Layer == 7 {
				return 3
			}
			return 1
		}), PriceOptions{Base: 0, Protect: 1, Seed: 1})
		for _, name := range []string{"rel2", "layer"} {
			if c := p.against(name); !c.Pays || c.Gain < 0.07 || c.Gain > 0.0864 {
				t.Errorf("%+v", c)
			}
		}
		for _, name := range []string{"amax", "projection"} {
			if c := p.against(name); c.Pays {
				t.Errorf("%+v", c)
			}
		}
		if l := p.curve("layer").Points[1].Last; l != "L7" {
			t.Errorf("the worst layer is %s", l)
		}
	})
	// What loses least takes least to store at the source's precision, so that the
	// reversed list beats the list, and is the control that it is held against.
	t.Run("cheap ones first", func(t *testing.T) {
		tb := priced(0.1, even)
		for i := range tb.Items {
			if tb.Arms[0].Samples[i].Rel2 > 0.009 {
				tb.Items[i].Cols *= 100
				tb.Arms[0].Bytes[i] *= 100
				tb.Arms[1].Bytes[i] *= 100
			}
			tb.Items[i].Amax = 1 / tb.Arms[0].Samples[i].Rel2
		}
		p := price(t, tb, PriceOptions{Base: 0, Protect: 1, Seed: 1})
		if c := p.against("amax"); c.Beats {
			t.Errorf("the reversed list under another name beats it: %+v", c)
		}
	})
	// A selector that looks the wrong way is told to be worse than chance.
	t.Run("backwards", func(t *testing.T) {
		tb := priced(0.2, even)
		for i := range tb.Items {
			tb.Items[i].Amax = 1 / tb.Arms[0].Samples[i].Rel2
		}
		p := price(t, tb, PriceOptions{Base: 0, Protect: 1, Seed: 1})
		if c := p.against("amax"); c.Beats || !c.Worse || c.Gain >= 0 || !strings.Contains(c.Sentence, "at worst") {
			t.Errorf("%+v", c)
		}
	})
}

// Between variants of the same size, equal numbers of weights are compared.
func TestPriceOfEqualSizes(t *testing.T) {
	tb := priced(0.2, even)
	for i := range tb.Arms[1].Bytes {
		tb.Arms[1].Bytes[i] = tb.Arms[0].Bytes[i]
		tb.Arms[1].Samples[i].Rel2 = tb.Arms[0].Samples[i].Rel2 * 0.8
	}
	p := price(t, tb, PriceOptions{Base: 0, Protect: 1})
	first, last := p.curve("rel2").Points[0], p.curve("rel2").Points[len(p.curve("rel2").Points)-1]
	if first.Bytes != last.Bytes || math.Abs(last.MeanRel2/first.MeanRel2-0.8) > 1e-12 {
		t.Errorf("from %+v to %+v", first, last)
	}
	if c := p.against("rel2"); !c.Pays || c.From != c.To {
		t.Errorf("%+v", c)
	}
}

func TestPriceLeavesOut(t *testing.T) {
	tb := priced(0.1, even)
	tb.Arms[0].Samples[3].Rel2 = math.NaN()
	tb.Arms[0].Samples[4].Rel2 = math.Inf(1)
	tb.Arms[0].Samples[5].State = Pending
	tb.Arms[0].Samples[6].State = Failed
	tb.Arms[0].Bytes[7] = -1
	tb.Items[8].Amax = math.NaN()
	p := price(t, tb, PriceOptions{Base: 0, Protect: 1})
	if p.Tensors != 235 || p.LeftOut != 5 || p.NoAmax != 1 {
		t.Errorf("%d tensors, %d left out, %d without amax", p.Tensors, p.LeftOut, p.NoAmax)
	}
	points := p.curve("amax").Points
	if last := points[len(points)-1]; last.Last != tb.Items[8].Name || last.Exempted != 235 {
		t.Errorf("the list by amax ends with %+v", last)
	}
	for _, c := range p.Curves {
		for _, pt := range c.Points {
			if math.IsNaN(pt.MeanRel2) || math.IsNaN(pt.Low) || math.IsNaN(pt.High) {
				t.Fatalf("%s: %+v", c.Name, pt)
			}
		}
	}
}

func TestPriceRefuses(t *testing.T) {
	tb := priced(0.1, even)
	for _, o := range []PriceOptions{{Base: 0, Protect: 2}, {Base: -1, Protect: 1}, {Base: 1, Protect: 1}, {Base: 0, Protect: 1, By: 9}} {
		if _, err := Price(t.Context(), tb, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for i := range tb.Items {
		tb.Arms[0].Samples[i].State = Pending
	}
	if _, err := Price(t.Context(), tb, PriceOptions{Base: 0, Protect: 1}); !errors.Is(err, ErrNoFigures) {
		t.Errorf("nothing measured: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Price(ctx, priced(0.1, even), PriceOptions{Base: 0, Protect: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// The seed is all that is random.
func TestPriceRepeats(t *testing.T) {
	tb := priced(0.1, even)
	a, b := price(t, tb, PriceOptions{Base: 0, Protect: 1, Seed: 5}), price(t, tb, PriceOptions{Base: 0, Protect: 1, Seed: 5})
	c := price(t, tb, PriceOptions{Base: 0, Protect: 1, Seed: 6})
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed gives two pricings")
	}
	if reflect.DeepEqual(a.curve("random"), c.curve("random")) {
		t.Error("two seeds give one random control")
	}
	if !reflect.DeepEqual(a.curve("rel2"), c.curve("rel2")) || !reflect.DeepEqual(a.curve("uniform"), c.curve("uniform")) {
		t.Error("the seed moves what is not random")
	}
}

// Every beginning of the even order leaves no gap wider than three times the
// even one, and the whole is a permutation.
func TestSpread(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 10, 240, 4096} {
		order := spread(n)
		sorted := slices.Sorted(slices.Values(order))
		for i, at := range sorted {
			if at != i {
				t.Fatalf("%d places: not a permutation", n)
			}
		}
		if len(order) != n {
			t.Fatalf("%d places, %d in order", n, len(order))
		}
		for _, k := range []int{n / 20, n / 5, n / 2} {
			if k < 2 {
				continue
			}
			first := slices.Sorted(slices.Values(order[:k]))
			widest := max(first[0], n-first[k-1])
			for i := 1; i < k; i++ {
				widest = max(widest, first[i]-first[i-1])
			}
			if widest > 3*n/k+1 {
				t.Errorf("%d of %d: a gap of %d", k, n, widest)
			}
		}
	}
}

func TestControlsOfAnswers(t *testing.T) {
	tb := priced(0.3, even)
	s, err := NewSolver(tb, nil)
	if err != nil {
		t.Fatal(err)
	}
	least, most := s.Range()
	a, err := s.Solve(least + (most-least)/4)
	if err != nil {
		t.Fatal(err)
	}
	controls := s.Controls(a, 30, 9)
	if !reflect.DeepEqual(controls, s.Controls(a, 30, 9)) {
		t.Error("one seed gives two controls")
	}
	if len(controls) != 3 {
		t.Fatalf("%d controls", len(controls))
	}
	for _, c := range controls {
		p := c.Points[0]
		if p.Bytes != a.Bytes || p.Exempted != a.Counts[1] || p.MeanRel2 <= a.Error {
			t.Errorf("%s: %+v; the answer has %d bytes and %v", c.Name, p, a.Bytes, a.Error)
		}
	}
	random, uniform, reversed := controls[0].Points[0], controls[1].Points[0], controls[2].Points[0]
	if !(random.Low < random.High) || !(reversed.MeanRel2 > random.High) || !(uniform.MeanRel2 < reversed.MeanRel2) {
		t.Errorf("random %+v, uniform %+v, reversed %+v", random, uniform, reversed)
	}
	if sentence, beats := Beats(a, controls); !beats || !strings.Contains(sentence, "beats its controls by more") {
		t.Error(sentence)
	}

	// Where all errors are the same nothing can be gained, and that is said.
	s, err = NewSolver(priced(0, even), nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = s.Solve(least + (most-least)/4); err != nil {
		t.Fatal(err)
	}
	if sentence, beats := Beats(a, s.Controls(a, 0, 9)); beats || !strings.Contains(sentence, "does not beat") {
		t.Error(sentence)
	}
	// So at the ends, where there is but one assignment.
	for _, budget := range []int64{least, most} {
		if a, err = s.Solve(budget); err != nil {
			t.Fatal(err)
		}
		if sentence, beats := Beats(a, s.Controls(a, 0, 9)); beats {
			t.Error(sentence)
		}
	}
}

// Controls of tensors of many sizes stay within the bytes of the answer, and
// close to them.
func TestControlsOfManySizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for n := range 40 {
		tb := instance(rng, 60, n%7)
		s, err := NewSolver(tb, nil)
		if err != nil {
			t.Fatal(err)
		}
		least, most := s.Range()
		a, err := s.Solve(least + rng.Int64N(most-least+1))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Controls(a, 5, uint64(n)) {
			if p := c.Points[0]; p.Bytes > a.Bytes || p.Bytes < a.Bytes-60 || math.IsNaN(p.MeanRel2) || a.Exact && p.MeanRel2 < a.Value-1e-12 {
				t.Errorf("instance %d, %s: %d bytes and %v; the answer has %d and %v", n, c.Name, p.Bytes, p.MeanRel2, a.Bytes, a.Value)
			}
		}
	}
}
