package tui

import (
	"slices"
	"testing"

	"quantscope/quant/method"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views"
	"quantscope/views/viewstest"
)

// TestAnswerOverARecipe: where an answer takes tensors from a variant that follows a
// recipe, the file says scheme and methods of each tensor's group, and keeps what the
// recipe keeps.
func TestAnswerOverARecipe(t *testing.T) {
	st := viewstest.Empty(viewstest.Experts(1, 1, 0, 2), "nvfp4", "recipe:mix")
	run := &sessions.RecipeRun{Variant: 1, Name: "mix", Schemes: []string{"int4-g128+range", "nvfp4"}}
	for g, name := range run.Schemes {
		v, err := method.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		run.Groups = append(run.Groups, sessions.Variant{ID: g, Name: name, Scheme: v.Scheme})
	}
	want := make([]string, len(st.Tensors))
	a := &views.LandscapeAnswer{Arms: []string{"nvfp4", "recipe:mix", sessions.SourceArm}}
	for i := range st.Tensors {
		run.Of = append(run.Of, i%3-1)
		arm := 1
		if i == len(st.Tensors)-1 {
			arm = 0
		}
		a.Assignment.Arm = append(a.Assignment.Arm, arm)
		want[i] = []string{"", "int4-g128+range", "nvfp4"}[i%3]
		if arm == 0 {
			want[i] = "nvfp4"
		}
	}
	st.Recipes = []*sessions.RecipeRun{run}
	f, err := recipeOf(st, a)
	if err != nil {
		t.Fatal(err)
	}
	var matrices []topology.Matrix
	for i := range st.Tensors {
		x := &st.Tensors[i]
		matrices = append(matrices, topology.Matrix{Name: x.Name, Tensor: x.Source, Role: x.Role, Rows: x.Rows, Cols: x.Cols})
	}
	r, err := f.Resolve(matrices)
	if err != nil || r.Err() != nil {
		t.Fatalf("%v %v", err, r.Err())
	}
	got := make([]string, len(matrices))
	for i, g := range r.Group {
		if g >= 0 {
			v, err := method.Parse(f.Groups[g].Variant())
			if err != nil {
				t.Fatal(err)
			}
			got[i] = v.Name
		}
	}
	if !slices.Equal(got, want) || len(f.Groups) != 2 {
		t.Errorf("%q\nwant %q", got, want)
	}
}
