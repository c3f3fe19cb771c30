package calibrate

import (
	"reflect"
	"strings"
	"testing"
)

// TestSaved: moments that were measured before serve a run without a walk. Those of
// the first layer are those of a run layer by layer; what they do not hold falls
// back, with the file's name in the reason.
func TestSaved(t *testing.T) {
	ref := demoReference(t)
	text := demoText(t, ref, 4)
	const targets = `re:model\.layers\.[12]\.mlp\.experts\.[0-3]\.`
	saved := measureFile(t, ref, text, true)
	s := setup(t, ref, "int4-g128+gptq", targets, 4)
	first := map[string]Result{}
	calibrated(t, s, Sink{Matrix: func(r Result) error { first[r.Codes.Name] = r; return nil }})

	s.Corpus, s.Saved = nil, saved
	dir := t.TempDir()
	differ := 0
	counts := 0
	out := into(t, s, dir, Sink{
		Counts: func(Counts) { counts++ },
		Matrix: func(r Result) error {
			w := first[r.Codes.Name]
			same := sameCodes(&w.Codes, &r.Codes)
			if s.Matrices[r.Matrix].Role.Layer == 1 {
				if !same || w.Trade != r.Trade {
					t.Errorf("%s: %+v, layer by layer %+v", r.Codes.Name, r.Trade, w.Trade)
				}
			} else if !same {
				differ++
			}
			return nil
		},
	})
	if err := out.Gate(); err != nil || differ == 0 || counts != 2 || out.Rank.Tokens != text.Tokens() {
		t.Errorf("%v, %d of layer 2 differ, counts of %d layers, %+v", err, differ, counts, out.Rank)
	}
	s.Codes = dir
	j, err := Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if m := j.Manifest(); m.Inputs != saved.Identity() || m.Corpus != saved.Header.Corpus || m.Corpus.SHA256 == "" {
		t.Errorf("%+v", m)
	}
	// The text stays beside the codes, so that evaluation text in it can be told.
	if ids, err := out.Store.Chunks(); err != nil || !reflect.DeepEqual(ids, text.Chunks) {
		t.Errorf("%d chunks, %v", len(ids), err)
	}

	moments := measureFile(t, ref, text, false)
	s.Codes, s.Saved = "", moments
	out = calibrated(t, s, Sink{})
	if len(out.Fallbacks) != len(s.Matrices) || out.Gate() == nil {
		t.Errorf("moments without Hessians serve gptq: %+v", out)
	}
	for _, f := range out.Fallbacks {
		if !strings.Contains(f.Reason, moments.Path()) || !strings.Contains(f.Reason, "no Hessian, which int4-g128+gptq needs") {
			t.Errorf("%s", f.Reason)
		}
	}
	s.Variant = setup(t, ref, "int4-g128+imatrix", targets, 1).Variant
	if out = calibrated(t, s, Sink{}); len(out.Fallbacks) != 0 || out.Gate() != nil {
		t.Errorf("moments do not serve imatrix: %v, %+v", out.Gate(), out.Fallbacks)
	}
}
