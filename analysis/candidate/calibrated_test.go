package candidate

import (
	"strings"
	"testing"

	"quantscope/quant/codes"
)

// A baseline's spec says in words what a variant cannot: another convention, and
// global scales of its own where the scheme has such and servers would share them.
func TestBaselineInWords(t *testing.T) {
	ref := open(t, "demo")
	for _, c := range []struct {
		k    chosen
		want string
	}{
		{chosen{variant: "int4-g128+gptq", plain: "int4-g128"}, "int4-g128"},
		{chosen{variant: "int4-g128+gptq", plain: "int4-g128", globals: "tensor"}, "int4-g128"},
		{chosen{variant: "nvfp4+gptq", plain: "nvfp4"}, "nvfp4"},
		{chosen{variant: "nvfp4+gptq", plain: "nvfp4", globals: "tensor"}, "nvfp4, a global scale for each matrix"},
		{chosen{variant: "nvfp4+mse_ge1+gptq", plain: "nvfp4+mse_ge1", targets: "*layers.1.*"}, "nvfp4+mse_ge1@*layers.1.*"},
	} {
		if got := mustParse(t, ref, c.k.folder(t, ref), Options{}); got.Baseline != c.want {
			t.Errorf("%s of %q: the baseline is %q, want %q", c.k.variant, c.k.globals, got.Baseline, c.want)
		}
	}
}

// What was left at the baseline by choice is no fallback; a matrix of a projection
// that was to be calibrated, and is at the baseline all the same, is one.
func TestChosenIsNoFallback(t *testing.T) {
	ref := open(t, "demo")
	const fell = "model.layers.1.mlp.experts.3.gate_proj.weight"
	dir := chosen{
		variant: "int4-g128+gptq", plain: "int4-g128", targets: "*layers.1.*experts*",
		change: func(m *codes.Manifest) { m.Only = []string{"gate"} },
		each: func(m *codes.Matrix) {
			if !strings.Contains(m.Name, "gate_proj") {
				m.Effective = "int4-g128"
			} else if m.Name == fell {
				m.Effective, m.Why = "int4-g128", "no token reached it"
			}
		},
	}.folder(t, ref)
	got := mustParse(t, ref, dir, Options{}).Fallbacks
	if len(got) != 1 || got[0].Tensor != fell || got[0].Reason != "no token reached it" {
		t.Errorf("%+v", got)
	}
}
