package candidate

import (
	"errors"
	"math"
	"testing"

	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// TestFusedScale: up, k and v are what they are times the first scale over their
// own, by the convention of each layout, and nothing else changes; what is made on the fly
// with the fault is what an export has with a scale for each matrix.
func TestFusedScale(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	const targets = "re:model.layers.[01].(mlp|self_attn)"
	for _, lay := range []string{export.ModelOpt, export.CompressedTensors} {
		t.Run(lay, func(t *testing.T) {
			clean := open(t, exportedWith(t, x.ck, x.top, targets, lay, "nvfp4", export.PerTensor))
			wrong, err := FusedScale(t.Context(), clean)
			if err != nil {
				t.Fatal(err)
			}
			if wrong.Effective == clean.Effective || wrong.Identity == clean.Identity || wrong.Identity == "" || clean.close == nil || wrong.close != nil {
				t.Errorf("%q beside %q", wrong.Effective, clean.Effective)
			}
			a, b, modules := source(t, clean), source(t, wrong), stored(t, clean).modules
			changed := 0
			for at, part := range modules {
				want := 1.0
				if first, ok := firstOf(at); ok {
					g, err := modules[first].m.Global(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					own, err := part.m.Global(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					want = float64(g) / float64(own)
					if lay == export.CompressedTensors { // which divides by it
						want = 1 / want
					}
				}
				was, is := values(t, a, at), values(t, b, at)
				if want == 1 {
					sameBits(t, at.String(), is, was)
					continue
				}
				changed++
				for i, v := range was {
					if d := float64(v) * want; math.Abs(float64(is[i])-d) > 1e-6*math.Abs(d) {
						t.Fatalf("%s: value %d is %g, want %g·%g", at, i, is[i], v, want)
					}
				}
			}
			if changed < 2*(16+1+2)/2 {
				t.Errorf("%d matrices are changed", changed)
			}
			for at := range modules {
				if first, ok := firstOf(at); ok && (first.Kind == topology.Attention) != (at.Projection == "k" || at.Projection == "v") {
					t.Errorf("%s is fused with %s", at, first)
				}
			}
			if lay == export.ModelOpt {
				made, err := FusedScale(t.Context(), mustParse(t, ref, "nvfp4@"+targets, Options{}))
				if err != nil {
					t.Fatal(err)
				}
				compareAll(t, made, wrong)
			}
		})
	}
}

// TestFusedScaleOfNone: candidates whose scales are shared, or that have none above
// their blocks', are refused by name.
func TestFusedScaleOfNone(t *testing.T) {
	ref := open(t, "demo")
	x := stored(t, ref)
	for name, c := range map[string]*Candidate{
		"bf16": ref, "int4": mustParse(t, ref, "int4-g128", Options{}), "mxfp4": mustParse(t, ref, "mxfp4", Options{}),
		"shared": open(t, exported(t, x.ck, x.top, "re:model.layers.1.mlp", export.ModelOpt, "nvfp4")),
		"fp8":    open(t, exported(t, x.ck, x.top, "re:model.layers.1.mlp", export.CompressedTensors, "fp8")),
		"down":   mustParse(t, ref, "nvfp4@*.down_proj.weight", Options{}),
	} {
		if _, err := FusedScale(t.Context(), c); !errors.Is(err, ErrNoPairs) {
			t.Errorf("%s: %v, want ErrNoPairs", name, err)
		}
	}
}
