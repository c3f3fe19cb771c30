package sessions

import (
	"errors"
	"io/fs"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/kernels"
)

// A candidate is opened alone or beside what it is made from, and closed with it.
func TestOpenCandidate(t *testing.T) {
	for _, c := range []struct {
		spec, reference string
		label           string
		kind            candidate.Kind
	}{
		{"demo", "", "demo", candidate.Checkpoint},
		{"q=nvfp4", "demo", "q", candidate.Variant},
		{"ref", "demo", "ref", candidate.Checkpoint},
	} {
		o, err := OpenCandidate(t.Context(), CandidateRequest{Spec: c.spec, Reference: c.reference, KernelSet: kernels.Best(), Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		if o.Label != c.label || o.Kind != c.kind || o.Content == "" {
			t.Errorf("%s: a %s called %s, content %q", c.spec, o.Kind, o.Label, o.Content)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
	for spec, want := range map[string]error{"nvfp4": candidate.ErrReference, "nvfp5": candidate.ErrSpec, "./absent": fs.ErrNotExist} {
		if _, err := OpenCandidate(t.Context(), CandidateRequest{Spec: spec, KernelSet: kernels.Best()}); !errors.Is(err, want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := OpenCandidate(t.Context(), CandidateRequest{Spec: "nvfp4", Reference: "./absent", KernelSet: kernels.Best()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reference that is not there: %v", err)
	}
}
