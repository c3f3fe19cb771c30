package candidate

import (
	"context"
	"math"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
)

// alone hides that a source can fork and where its weights come from.
type alone struct{ model.Source }

// TestForks: candidates that are read ahead, and that share a pass and weights
// with one another, have the bits of each alone.
func TestForks(t *testing.T) {
	ctx := context.Background()
	o := Options{Set: kernels.Best(), Threads: 2}
	ref, err := Open(ctx, "demo", o)
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	all := []*Candidate{ref}
	for _, spec := range []string{"nvfp4+mse", "int4-g128@linear", "fp8@all", "ref"} {
		c, err := Parse(ctx, ref, spec, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	kept, err := Keep(ref, all[1], "*layers.3.*,*layers.4.*")
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, kept)
	chunks := [][]int32{make([]int32, 90), make([]int32, 40)}
	for _, c := range chunks {
		for i := range c {
			c[i] = int32(i * 7 % 1000)
		}
	}
	run := func(sources ...model.Source) []model.Hidden {
		t.Helper()
		out, err := model.Run(ctx, ref.Arch, sources, chunks, model.Options{Set: o.Set, Threads: 2, Wave: 200 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var sources []model.Source
	for _, c := range all {
		src, err := c.Source()
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := src.(model.Forker); !ok || f.Fork() == nil {
			t.Errorf("%s cannot be read ahead", c.Label)
		}
		sources = append(sources, src)
	}
	bits := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	together := run(sources...)
	for i, c := range all {
		src, err := c.Source()
		if err != nil {
			t.Fatal(err)
		}
		if want := run(alone{src})[0].X; !slices.EqualFunc(together[i].X, want, bits) {
			t.Errorf("%s: other bits in a pass with others", c.Label)
		}
	}
	if &together[4].X[0] != &together[0].X[0] {
		t.Error("the reference once more is computed once more")
	}
}
