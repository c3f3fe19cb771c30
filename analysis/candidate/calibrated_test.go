package candidate

import "testing"

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
