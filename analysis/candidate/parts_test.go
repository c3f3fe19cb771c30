package candidate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

func TestParts(t *testing.T) {
	ctx := context.Background()
	ref, err := Open(ctx, "demo", Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	parse := func(spec string) *Candidate {
		c, err := Parse(ctx, ref, spec, Options{Set: kernels.Best()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	names := func(c *Candidate) string {
		groups, err := Parts(ref, c)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, g := range groups {
			out = append(out, g.Name)
		}
		return strings.Join(out, ", ")
	}
	linear := parse("fp8@linear")
	if got := names(linear); got != "experts, shared experts, mlp, attention" {
		t.Errorf("all linear maps: %s", got)
	}
	experts := parse("fp8@*.mlp.experts.*")
	if got := names(experts); got != "experts down, experts gate, experts up" {
		t.Errorf("experts alone: %s", got)
	}
	if got := names(parse("ref")); got != "" {
		t.Errorf("the reference itself: %s", got)
	}
	only, err := Only(ref, linear, "attention")
	if err != nil {
		t.Fatal(err)
	}
	src, err := only.Source()
	if err != nil {
		t.Fatal(err)
	}
	own, err := ref.Source()
	if err != nil {
		t.Fatal(err)
	}
	origin := func(s model.Source, p model.Place) any { return s.(model.Origins).WeightOrigin(p) }
	for _, p := range []model.Place{
		{Kind: topology.Attention, Layer: 1, Expert: -1, Projection: "q"}, {Kind: topology.Expert, Layer: 1, Expert: 3, Projection: "up"},
	} {
		if same := origin(src, p) == origin(own, p); same == (p.Kind == topology.Attention) {
			t.Errorf("%s is the reference's: %t", p, same)
		}
	}
	if _, err := Only(ref, linear, "routers"); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "experts, shared experts") {
		t.Error(err)
	}
}
