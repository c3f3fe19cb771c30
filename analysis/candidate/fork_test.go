package candidate

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/export"
)

// alone hides that a source can fork and where its weights come from.
type alone struct{ model.Source }

// TestForks: candidates that are read ahead, and that share a pass and weights
// with one another, have the bits of each alone.
func TestForks(t *testing.T) {
	ctx := context.Background()
	o := Options{Set: kernels.Best(), Threads: 2}
	ref := open(t, "demo")
	all := []*Candidate{ref}
	for _, spec := range []string{"nvfp4+mse", "int4-g128@linear", "fp8@all", "ref"} {
		all = append(all, mustParse(t, ref, spec, o))
	}
	kept, err := Keep(ref, all[1], "*layers.3.*,*layers.4.*")
	if err != nil {
		t.Fatal(err)
	}
	x := stored(t, ref)
	quantized := open(t, exported(t, x.ck, x.top, "model.layers.[1-4].mlp.*", export.ModelOpt, "nvfp4"))
	all = append(all, kept, quantized)
	chunks := [][]int32{make([]int32, 90), make([]int32, 40)}
	for _, c := range chunks {
		for i := range c {
			c[i] = int32(i * 7 % 1000)
		}
	}
	run := func(spec *model.Spec, sources ...model.Source) []model.Hidden {
		t.Helper()
		out, err := model.Run(ctx, spec, sources, chunks, model.Options{Set: o.Set, Threads: 2, Wave: 200 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var sources []model.Source
	for _, c := range all {
		var src model.Source = source(t, c)
		if f, ok := src.(model.Forker); !ok || f.Fork() == nil {
			t.Errorf("%s cannot be read ahead", c.Label)
		}
		sources = append(sources, src)
	}
	bits := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	file := open(t, filepath.Join("testdata", "gguf", "glm4_moe_mtp.gguf"))
	for _, c := range chunks {
		for i := range c {
			c[i] %= int32(file.Arch.Vocab)
		}
	}
	if a, b := run(file.Arch, source(t, file))[0].X, run(file.Arch, alone{source(t, file)})[0].X; !slices.EqualFunc(a, b, bits) {
		t.Error("a GGUF file has other bits where it is read ahead")
	}
	together := run(ref.Arch, sources...)
	for i, c := range all {
		if want := run(ref.Arch, alone{source(t, c)})[0].X; !slices.EqualFunc(together[i].X, want, bits) {
			t.Errorf("%s: other bits in a pass with others", c.Label)
		}
	}
	if &together[4].X[0] != &together[0].X[0] {
		t.Error("the reference once more is computed once more")
	}
}
