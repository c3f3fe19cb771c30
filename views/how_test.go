package views

import (
	"slices"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// recipeState is a session whose second variant follows a recipe: tensor t is int4
// where t mod 3 is 0, NVFP4 by a search where it is 1, and kept where it is 2.
func recipeState(t testing.TB) *sessions.State {
	t.Helper()
	st := viewstest.Empty(viewstest.Experts(1, 2, 0, 4), "nvfp4", "recipe:mix")
	st.Variants[1].Scheme, st.Variants[1].Multipliers = sessions.SchemeMixed, nil
	r := &sessions.RecipeRun{Variant: 1, Name: "mix", Schemes: []string{"int4-g128", "nvfp4+mse"}}
	for g, name := range r.Schemes {
		v, err := method.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		r.Groups = append(r.Groups, sessions.Variant{ID: g, Name: name, Effective: name, Scheme: v.Scheme, BitsPerWeight: v.BitsPerWeight, Multipliers: v.Multipliers})
	}
	for i := range st.Tensors {
		g := i % 3
		if g == 2 {
			g = -1
		}
		r.Of = append(r.Of, g)
		viewstest.Measure(st, 0, i)
		if g >= 0 {
			viewstest.Measure(st, 1, i)
		}
	}
	st.Recipes = []*sessions.RecipeRun{r}
	return st
}

// TestPanesKnowTheGroupOfATensor: under a recipe histograms have the axes of the
// tensor's group, the detail says which that is, and sizes are the groups'.
func TestPanesKnowTheGroupOfATensor(t *testing.T) {
	st := recipeState(t)
	sc := sceneFor(t, st, termenv.Ascii)
	sc.Variant = 1
	p := NewDetail(sc)
	p.SetSize(100, 40)
	for i, want := range []struct{ says, code, search string }{{"as int4-g128", int4Axis, ""}, {"as nvfp4+mse", e2m1Axis, multipleAxis}, {"kept", "number", ""}} {
		sc.SetCursor(i)
		if got := p.View(); !strings.Contains(got, want.says) {
			t.Errorf("tensor %d: no %q in\n%s", i, want.says, got)
		}
		how := sc.how(1)
		if codeAxis(how) != want.code || searchAxis(how) != want.search || how.Name != "recipe:mix" {
			t.Errorf("tensor %d: %+v: axes %q and %q", i, how, codeAxis(how), searchAxis(how))
		}
		if sc.keeps(1) != (i == 2) || sc.keeps(0) {
			t.Errorf("tensor %d: kept %v", i, sc.keeps(1))
		}
		if other := sc.how(0); other != &st.Variants[0] {
			t.Errorf("a variant that follows no recipe: %+v", other)
		}
	}
	sc.SetCursor(1)
	sc.Detail = &Detail{Tensor: 1, Taps: []*kernels.Tap{viewstest.Tap(st, 0, 1), viewstest.Tap(st, 1, 1)}, Errs: make([]string, 2)}
	sc.Touch()
	if got := p.View(); !strings.Contains(got, "multipliers") {
		t.Errorf("the choices of a group's search are not drawn:\n%s", got)
	}
	var want []int64
	for i := range st.Tensors {
		x := &st.Tensors[i]
		n := sessions.SourceBytes(x)
		if g := st.Recipes[0].Of[i]; g >= 0 {
			v, err := method.Parse(st.Recipes[0].Schemes[g])
			if err != nil {
				t.Fatal(err)
			}
			n = v.Bytes(x.Rows, x.Cols)
		}
		want = append(want, n)
	}
	if got := sizes(st, 1); !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
}
