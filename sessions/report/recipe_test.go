package report

import (
	"strings"
	"testing"

	"quantscope/sessions"
)

// TestReceiptOfARecipe: the receipt names the recipe, its text's sum, and how many
// matrices are stored in which way.
func TestReceiptOfARecipe(t *testing.T) {
	st := fixture(1, 2, "nvfp4", "recipe:mix")
	run := &sessions.RecipeRun{Variant: 1, Name: "mix", SHA256: strings.Repeat("ab", 32), Schemes: []string{"nvfp4"}, Groups: []sessions.Variant{{Name: "nvfp4", Scheme: "nvfp4"}}}
	for i := range st.Tensors {
		run.Of = append(run.Of, -min(i%3, 1))
	}
	st.Recipes = []*sessions.RecipeRun{run}
	page := write(t, build(t, st, Options{}))
	for _, want := range []string{"recipe mix", "sha256 " + run.SHA256, "nvfp4: 2 matrices, the source&#39;s bytes: 4 matrices"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}
