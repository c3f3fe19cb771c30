package views

import (
	"math"
	"strings"
	"testing"

	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// The size is that of what is shown, by the schemes of both sides, whatever is
// measured; an unknown variant has none.
func TestCompareSizes(t *testing.T) {
	state := viewstest.Empty(viewstest.Experts(0, 2, 0, 3), "nvfp4", "fp8-channel", "of another program")
	const n = 128 * 128
	nvfp4 := int64(n/2 + n/16 + 4) // codes, a scale per block of 16, the second-level scale
	channel := int64(n + 4*128)    // codes, an f32 scale a row
	var p pairs
	p.rebuild(state, 0, 1, Metrics()[0])
	f, err := NewFilter("experts.1", state.Tensors)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f          Filter
		projection string
		tensors    int64
	}{{Filter{Count: 18}, "", 18}, {Filter{Count: 18}, "up", 6}, {f, "", 6}, {f, "up", 2}} {
		p.compute(c.f, c.projection, 1)
		if o := &p.outcome; o.bytesA != c.tensors*nvfp4 || o.bytesB != c.tensors*channel {
			t.Errorf("%q, %q: %d and %d bytes, want %d times %d and %d", c.f.Text, c.projection, o.bytesA, o.bytesB, c.tensors, nvfp4, channel)
		}
	}
	p.rebuild(state, 0, 2, Metrics()[0])
	p.compute(Filter{Count: 18}, "", 1)
	if o := &p.outcome; o.bytesA != -1 || o.sizeWords() != "–" {
		t.Errorf("a size of what is not known: %d, %q", o.bytesA, o.sizeWords())
	}
	// A variant of another session is what its plain name says.
	state.Variants[2] = sessions.Variant{ID: 2, Name: "nvfp4 @ other", From: "other", Own: "nvfp4"}
	p.rebuild(state, 0, 2, Metrics()[0])
	if p.compute(Filter{Count: 18}, "", 1); p.outcome.bytesB != 18*nvfp4 {
		t.Errorf("a joined variant has %d bytes", p.outcome.bytesB)
	}
}

// The interval of four pairs, worked out by hand: A is 1, 2, 3, 4 and B is half
// of that plus 0.1, −0.1, −0.1, 0.1, so that the ratio is 0.5 and the residuals
// are those: √(0.04/12)/2.5 times the t of three degrees of freedom, 3.182446.
func TestCompareInterval(t *testing.T) {
	tensors := viewstest.Experts(0, 1, 0, 2)[:4]
	state := viewstest.Empty(tensors, "nvfp4", "nvfp4+mse")
	for i, d := range []float64{0.1, -0.1, -0.1, 0.1} {
		viewstest.Measure(state, 0, i)
		viewstest.Measure(state, 1, i)
		state.Records[0][i].Rel2, state.Records[1][i].Rel2 = float64(i+1), float64(i+1)/2+d
	}
	var p pairs
	p.rebuild(state, 0, 1, Metrics()[0])
	p.compute(Filter{Count: 4}, "", 1)
	if got, want := p.outcome.rel2Reach, 3.182446305284263*math.Sqrt(0.04/12)/2.5; math.Abs(got-want) > 1e-12 {
		t.Errorf("± %v, want %v", got, want)
	}
	if got := relativeWithin(p.outcome.rel2.Change(), p.outcome.rel2Reach); got != "−50.0 ± 7.3 %" {
		t.Errorf("%q", got)
	}
	one, err := NewFilter("experts.0.gate", tensors)
	if err != nil {
		t.Fatal(err)
	}
	if p.compute(one, "", 1); !math.IsNaN(p.outcome.rel2Reach) {
		t.Errorf("an interval of one pair: %v", p.outcome.rel2Reach)
	}
}

// Where spread and places share a place, o and O go from one to the other.
func TestCompareSharesAPlace(t *testing.T) {
	p := newCompare(sceneOf(t, varied()))
	p.SetSize(118, 35)
	for _, c := range []struct{ key, want, not string }{{"", "spread", "where"}, {"o", "where", "spread"}, {"O", "spread", "where"}} {
		if c.key != "" && !hit(p, c.key) {
			t.Fatalf("%s does nothing", c.key)
		}
		if view := p.View(); !strings.Contains(view, c.want) || strings.Contains(view, c.not) {
			t.Errorf("after %q there is no %s, or there is %s:\n%s", c.key, c.want, c.not, view)
		}
	}
	p.SetSize(198, 55)
	if hit(p, "o") {
		t.Error("o does something where everything is on the screen")
	}
	if view := p.View(); !strings.Contains(view, "spread") || !strings.Contains(view, "where") {
		t.Errorf("not everything is on the screen:\n%s", view)
	}
}
