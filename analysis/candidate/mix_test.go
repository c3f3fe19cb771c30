package candidate

import (
	"errors"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/recipe"
)

var tokens = [][]int32{{5, 9, 200, 31, 7, 7, 90, 14}}

// logits are those of one candidate by itself.
func logits(t testing.TB, c *Candidate) []float32 {
	t.Helper()
	s := source(t, c)
	o := model.Options{Set: kernels.Best(), Threads: 2}
	h, err := model.Run(t.Context(), c.Arch, []model.Source{s}, tokens, o)
	if err != nil {
		t.Fatal(err)
	}
	head, err := model.NewHead(t.Context(), c.Arch, s, o)
	if err != nil {
		t.Fatal(err)
	}
	out, err := head.Logits(nil, h[0].X, h[0].Rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func distanceOf(a, b []float32) float64 {
	e2, w2 := distance(a, b)
	return math.Sqrt(e2 / w2)
}

// must is for what makes a candidate.
func must(t testing.TB) func(c *Candidate, err error) *Candidate {
	return func(c *Candidate, err error) *Candidate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// Tensors that are kept are the reference's, the others the candidate's.
func TestKeep(t *testing.T) {
	ref := open(t, "demo")
	c := mustParse(t, ref, "q=nvfp4", Options{})
	for pattern, kept := range map[string]func(p model.Place) bool{
		"*layers.1.*":                          func(p model.Place) bool { return p.Layer == 1 },
		`re:.*layers\.[34]\..*down_proj`:       func(p model.Place) bool { return p.Layer >= 3 && p.Projection == "down" },
		"*.gate_proj,*layers.2.*up_proj*":      func(p model.Place) bool { return p.Projection == "gate" || p.Layer == 2 && p.Projection == "up" },
		"model.layers.1.mlp.experts.7.*":       func(p model.Place) bool { return p.Layer == 1 && p.Expert == 7 },
		"model.layers.1.mlp.experts.7.up_proj": func(p model.Place) bool { return p.Layer == 1 && p.Expert == 7 && p.Projection == "up" },
	} {
		mix := must(t)(Keep(ref, c, pattern))
		if mix.Label != "q keep "+pattern || mix.Kind != Mixed || mix.Effective != "nvfp4 keep "+pattern {
			t.Errorf("%+v", mix)
		}
		m, s, q := source(t, mix), source(t, ref), source(t, c)
		own, all := int64(0), int64(0)
		for p := range q.(*overlay).m.jobs {
			of := q
			all++
			if kept(p) {
				of = s
			} else {
				own++
			}
			sameBits(t, p.String(), values(t, m, p), values(t, of, p))
			if m.WeightOrigin(p) != of.WeightOrigin(p) {
				t.Errorf("%s: another origin", p)
			}
		}
		if own == all || own == 0 || mix.Schemes[0].Scheme != "nvfp4" && mix.Schemes[1].Scheme != "nvfp4" {
			t.Errorf("%s: %d of %d kept, %v", pattern, all-own, all, mix.Schemes)
		}
		for _, sh := range mix.Schemes {
			if sh.Scheme == "nvfp4" && int64(sh.Tensors) != own {
				t.Errorf("%s: %d nvfp4 matrices, want %d", pattern, sh.Tensors, own)
			}
		}
		for layer := -1; layer < 5; layer++ {
			whole := layer < 1 || pattern == "*layers.1.*" && layer == 1
			if (m.LayerOrigin(layer) == s.LayerOrigin(layer)) != whole {
				t.Errorf("%s: layer %d is the reference's: %v", pattern, layer, !whole)
			}
		}
	}
	everything := must(t)(Keep(ref, c, "*"))
	sameBits(t, "all kept", logits(t, everything), logits(t, ref))
	if everything.Bytes != ref.Bytes {
		t.Errorf("%d bytes", everything.Bytes)
	}
	_, err := Keep(ref, c, "*layers.1.*,nothing.like.it")
	if missing := new(recipe.NoMatchError); !errors.As(err, &missing) || missing.Pattern != "nothing.like.it" || !errors.Is(err, ErrSpec) {
		t.Errorf("%v", err)
	}
	_, err = Keep(ref, c, "layers.0")
	if err == nil || !strings.Contains(err.Error(), "nearest: model.layers.0.") {
		t.Errorf("%v", err)
	}
	if _, err = Keep(ref, c, "re:("); !errors.Is(err, recipe.ErrPattern) {
		t.Errorf("%v", err)
	}
}

// A head and the body below it are exchanged without a rest: body and head of the
// reference are the reference.
func TestHeadAndBody(t *testing.T) {
	for _, path := range []string{"demo", "../model/testdata/llama_tied"} {
		ref := open(t, path)
		c := mustParse(t, ref, "int4-g32@all", Options{})
		head := must(t)(WithHead(c, ref))
		body := must(t)(WithBody(c, ref))
		both := must(t)(WithHead(body, ref))
		want, whole := logits(t, ref), logits(t, c)
		sameBits(t, path, logits(t, both), want)
		other := must(t)(WithBody(ref, c))
		sameBits(t, path, logits(t, other), logits(t, head))
		far, near, least := distanceOf(want, whole), distanceOf(want, logits(t, head)), distanceOf(want, logits(t, body))
		if !(far > near && near > least && least > 0.01) {
			t.Errorf("%s: distances %v of all, %v with the reference's head, %v with its body", path, far, near, least)
		}
		// The head is stored beside the embedding now, whether it was tied or not.
		vocab := int64(ref.Arch.Vocab) * int64(ref.Arch.Hidden)
		sum := func(c *Candidate, scheme string) (n int64) {
			for _, s := range c.Schemes {
				if scheme == "" || s.Scheme == scheme {
					n += s.Params
				}
			}
			return n
		}
		if got, want := sum(head, "int4-g32"), sum(c, "int4-g32"); got != want-map[bool]int64{true: 0, false: vocab}[ref.Arch.Tied] {
			t.Errorf("%s: %d parameters in int4 with another head, %d without", path, got, want)
		}
		if got := sum(body, "int4-g32"); got != vocab {
			t.Errorf("%s: %d parameters in int4 with another body, want %d", path, got, vocab)
		}
		if head.Arch.Tied || !source(t, head).Has(headAt, "weight") {
			t.Errorf("%s: the head is not one of its own", path)
		}
		if source(t, head).WeightOrigin(headAt) != source(t, ref).WeightOrigin(model.HeadPlace(source(t, ref))) {
			t.Errorf("%s: the head comes from elsewhere", path)
		}
		if source(t, body).LayerOrigin(0) != source(t, ref).LayerOrigin(0) || source(t, body).LayerOrigin(-1) != source(t, ref).LayerOrigin(-1) {
			t.Errorf("%s: the body comes from elsewhere", path)
		}
	}
}

// Models of other sizes are not mixed; the error has both numbers.
func TestIncompatible(t *testing.T) {
	ref, other := open(t, "demo"), open(t, "../model/testdata/llama_tied")
	for name, mix := range map[string]func() (*Candidate, error){
		"keep": func() (*Candidate, error) { return Keep(ref, other, "*") },
		"head": func() (*Candidate, error) { return WithHead(ref, other) },
		"body": func() (*Candidate, error) { return WithBody(ref, other) },
		"compare": func() (*Candidate, error) {
			_, err := Compare(t.Context(), ref, other)
			return nil, err
		},
	} {
		if _, err := mix(); err == nil || !strings.Contains(err.Error(), "hidden size is") || !strings.Contains(err.Error(), "128") || !strings.Contains(err.Error(), "64") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A source that does not say where its weights come from can be a reference, too.
func TestOf(t *testing.T) {
	demo := open(t, "demo")
	x := stored(t, demo)
	ref := Of(Candidate{Label: "mine", Topology: x.top, Arch: x.spec}, func() (model.Source, error) { return bare{model.NewStored(x.ck, x.top)}, nil }, nil)
	c := mustParse(t, ref, "nvfp4", Options{})
	compareAll(t, c, mustParse(t, demo, "nvfp4", Options{}))
	if c.Bytes != mustParse(t, demo, "nvfp4", Options{}).Bytes {
		t.Errorf("%d bytes", c.Bytes)
	}
	a, b := source(t, ref), source(t, c)
	if a.LayerOrigin(0) != b.LayerOrigin(0) || a.LayerOrigin(1) == b.LayerOrigin(1) || a.WeightOrigin(headAt) != b.WeightOrigin(headAt) {
		t.Error("origins do not show what is the reference's")
	}
	again := mustParse(t, ref, "ref", Options{})
	if source(t, again).LayerOrigin(1) != a.LayerOrigin(1) {
		t.Error("the reference itself has another origin")
	}
	if err := errors.Join(ref.Close(), again.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

// bare hides what a source knows of its origins.
type bare struct{ model.Source }
