package yardstick

import (
	"context"
	"testing"

	"quantscope/analysis/candidate"
)

// A baseline is found by what it really is: under any name of its variant, and
// where targets were given for all candidates at once.
func TestBaselines(t *testing.T) {
	ref := reference(t)
	for name, c := range map[string]struct {
		o     candidate.Options
		specs [2]string
		found int
	}{
		"another name":       {candidate.Options{}, [2]string{"a=nvfp4+rtn", "nvfp4+mse"}, 0},
		"targets of all":     {candidate.Options{Targets: "linear"}, [2]string{"a=nvfp4", "b=nvfp4+mse"}, 0},
		"words for defaults": {candidate.Options{}, [2]string{"a=nvfp4@default", "nvfp4+mse"}, 0},
		"other targets":      {candidate.Options{}, [2]string{"a=nvfp4@linear", "nvfp4+mse"}, -1},
		"another scheme":     {candidate.Options{}, [2]string{"mxfp4", "nvfp4+mse"}, -1},
	} {
		var cands []*candidate.Candidate
		for _, spec := range c.specs {
			v, err := candidate.Parse(context.Background(), ref, spec, c.o)
			if err != nil {
				t.Fatal(err)
			}
			cands = append(cands, v)
		}
		s, err := NewSetup(ref, cands, texts(t, 1, 64, "prose"), Options{})
		if err != nil || s.Candidates[1].Baseline != c.found || s.Candidates[0].Baseline != -1 {
			t.Errorf("%s: baselines %d and %d, want %d: %v", name, s.Candidates[0].Baseline, s.Candidates[1].Baseline, c.found, err)
		}
	}
}
