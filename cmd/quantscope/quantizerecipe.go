package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	recipes "quantscope/quant/plan"
	"quantscope/quant/recipe"
	"quantscope/sessions"
	"quantscope/views"
)

// recipeFlag is --recipe of runs that measure.
type recipeFlag struct {
	recipes []string
	alone   bool // --variant was not given: only the recipes are measured; no flag
}

func (f *recipeFlag) bind(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.recipes, "recipe", nil, "recipe to follow, as one variant: a file, or built in: "+strings.Join(recipe.Builtins(), ", ")+"; with --variant these are measured over the same matrices")
	_ = cmd.RegisterFlagCompletionFunc("recipe", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return recipe.Builtins(), cobra.ShellCompDirectiveDefault
	})
}

// note remembers what else was given.
func (f *recipeFlag) note(cmd *cobra.Command) {
	f.alone = len(f.recipes) > 0 && !cmd.Flags().Changed("variant")
}

// open finds the recipes.
func (f *recipeFlag) open() ([]sessions.RecipeSource, error) {
	var out []sessions.RecipeSource
	for _, spec := range f.recipes {
		r, err := sessions.OpenRecipe(spec)
		switch {
		case errors.Is(err, sessions.ErrRecipe):
			return nil, usage(fmt.Errorf("--recipe: %w", err))
		case err != nil:
			return nil, recipeError(err)
		}
		if i := slices.IndexFunc(out, func(o sessions.RecipeSource) bool { return o.Name == r.Name }); i >= 0 {
			return nil, usage(fmt.Errorf("--recipe: %s and %s are both called %q", f.recipes[i], spec, r.Name))
		}
		out = append(out, r)
	}
	return out, nil
}

// recipeError gives errors of recipes their exit codes: a file that is no recipe, or
// one that does not fit the checkpoint, is bad input.
func recipeError(err error) error {
	var run *sessions.RecipeError
	if err != nil && (errors.Is(err, recipe.ErrFile) || errors.As(err, &run)) {
		return badInput(err)
	}
	return err
}

// recipeDocument is the recipe of a variant in --json.
type recipeDocument struct {
	Name   string          `json:"name"`
	SHA256 string          `json:"sha256"`
	Groups []groupDocument `json:"groups"`
	Kept   int64           `json:"kept"` // tensors of the session that keep the source's bytes
	// Schemes are those of the whole checkpoint.
	Schemes []recipes.Share `json:"schemes"`
}

type groupDocument struct {
	Variant       string  `json:"variant"`
	BitsPerWeight float64 `json:"bits_per_weight"`
	Tensors       int     `json:"tensors"`
	ShareParams   float64 `json:"share_params"` // of the checkpoint's
}

func recipeOf(st *sessions.State, variant int) *recipeDocument {
	r := st.RecipeOf(variant)
	if r == nil {
		return nil
	}
	d := &recipeDocument{Name: r.Name, SHA256: r.SHA256, Kept: r.Kept(), Schemes: r.Plan.SchemeShares}
	for i, g := range r.Groups {
		is := groupDocument{Variant: g.Name, BitsPerWeight: g.BitsPerWeight}
		if i < len(r.Plan.Groups) {
			is.ShareParams = r.Plan.Groups[i].ShareParams
		}
		d.Groups = append(d.Groups, is)
	}
	for _, g := range r.Of {
		if g >= 0 {
			d.Groups[g].Tensors++
		}
	}
	return d
}

// printEffective prints what was requested and what ran, by share of parameters. Of
// variants of which all ran as requested there is nothing to say.
func printEffective(t *textReport, st *sessions.State) {
	var rows [][]string
	for v := range st.Variants {
		shares := st.EffectiveShares(v)
		as := len(shares) == 1 && shares[0].Requested == shares[0].Effective
		if len(shares) == 0 || as && st.RecipeOf(v) == nil {
			continue
		}
		for _, s := range shares {
			rows = append(rows, []string{
				views.Clean(st.Variants[v].Name), views.Clean(s.Requested), views.Clean(s.Effective), fmt.Sprint(s.Tensors),
				percent(sessions.Figure(s.ShareParams)), views.Clean(s.Why),
			})
		}
	}
	if len(rows) == 0 {
		return
	}
	t.table([]string{"variant", "requested", "effective", ">tensors", ">of parameters", "why"}, rows)
	t.line("")
}
