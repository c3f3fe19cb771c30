package yardstick

import (
	"reflect"
	"testing"

	"quantscope/analysis/candidate"
)

// A measurement that goes on says what one that was not interrupted says, from
// whichever chunk on, and where none is left.
func TestGoingOnSaysTheSame(t *testing.T) {
	ref := reference(t)
	cands := []*candidate.Candidate{variant(t, ref, "nvfp4"), variant(t, ref, "ref")}
	corpora := texts(t, 2, 64, "prose", "chat")
	measure := func(o Options) *Report {
		t.Helper()
		o.Threads, o.Group, o.Probe = 2, 64, true
		r, err := Measure(t.Context(), ref, cands, corpora, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var chunks []*Chunk
	want := measure(Options{Scored: func(c *Chunk) { chunks = append(chunks, c) }})
	for n := 1; n <= len(chunks); n++ {
		got := measure(Options{Prior: chunks[:n]})
		if !reflect.DeepEqual(got.Sane, want.Sane) || !reflect.DeepEqual(got.Gates, want.Gates) || !reflect.DeepEqual(got.Probes, want.Probes) || !sameResults(got.Results, want.Results) {
			t.Errorf("after %d chunks: %+v, not %+v; gates %+v, not %+v", n, got.Sane, want.Sane, got.Gates, want.Gates)
		}
	}
}
