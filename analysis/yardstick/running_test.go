package yardstick

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A running mean is what a report of the same chunks says, and so is its error
// once every corpus has two chunks.
func TestRunningAsReported(t *testing.T) {
	s, chunks := made(rand.New(rand.NewPCG(3, 5)), 3, 4, 9, 2)
	chunks[1].Rows[1][2].KL = math.NaN()
	chunks[2].Rows[1][0].KL = math.Inf(1)
	var r Running
	for i, c := range chunks {
		r.Add(c.Corpus, c.Rows[1])
		single := i%4 == 0 // a corpus has just begun
		if got := math.IsNaN(r.StdErr()); got != single {
			t.Errorf("after %d chunks: standard error is NaN %v, want %v", i+1, got, single)
		}
		if single {
			continue
		}
		all := analyze(t, s, chunks[:i+1]).Results[1].All
		if math.Abs(r.Mean()-all.KL) > 1e-15 || math.Abs(r.StdErr()-all.KLErr) > 1e-15 {
			t.Errorf("after %d chunks: %v ± %v, the report says %v ± %v", i+1, r.Mean(), r.StdErr(), all.KL, all.KLErr)
		}
	}
	var none Running
	none.Add(0, []Row{{KL: math.NaN()}})
	if !math.IsNaN(none.Mean()) || !math.IsNaN(none.StdErr()) {
		t.Errorf("nothing finite: %v ± %v", none.Mean(), none.StdErr())
	}
}
