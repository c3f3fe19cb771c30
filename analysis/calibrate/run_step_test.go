package calibrate

import "testing"

// A run tells how far it is within its steps, and never fewer tokens than before.
func TestRunTellsSteps(t *testing.T) {
	s := setup(t, demoReference(t), "int4-g128+gptq", `re:model\.layers\.[12]\.mlp\.experts\.0\.`, 8)
	within := map[string]int{}
	var tokens int64
	calibrated(t, s, Sink{Progress: func(p Progress) {
		if p.At < 0 || p.At > p.Of || p.Tokens < tokens {
			t.Errorf("%+v after %d tokens", p, tokens)
		}
		if tokens = p.Tokens; p.At > 0 && p.At < p.Of {
			within[p.Step]++
		}
	}})
	if within["looking"] == 0 || within["passing"] == 0 {
		t.Errorf("told within steps: %v", within)
	}
}
