package sessions

import (
	"slices"

	recipes "quantscope/quant/plan"
)

// RecipePrefix begins the name of a variant that follows a recipe: recipe:NAME.
const RecipePrefix = "recipe:"

// SchemeMixed is the scheme of a variant whose tensors are stored in several.
const SchemeMixed = "mixed"

// RecipeRun is a recipe that a variant of the session follows, with its plan: what
// was requested of which matrix. It is not changed once it is here.
type RecipeRun struct {
	Variant int // whose Name is the recipe's
	Plan    *recipes.Plan
	// Schemes are the variants of the groups, and Of the group of each tensor of the
	// session: -1 where the recipe keeps the source's bytes.
	Schemes []string
	Of      []int

	Name   string // of the recipe, without RecipePrefix
	SHA256 string // of Text, in hex
	Text   string // the recipe, as YAML
	// Groups are Schemes with what a pane wants to know of them. Their IDs are the
	// groups'.
	Groups []Variant
}

// Kept is how many tensors of the session keep the source's bytes.
func (r *RecipeRun) Kept() (n int64) {
	for _, g := range r.Of {
		if g < 0 {
			n++
		}
	}
	return n
}

// RecipeOf is the recipe that a variant follows, nil where it follows none.
func (s *State) RecipeOf(variant int) *RecipeRun {
	for _, r := range s.Recipes {
		if r.Variant == variant {
			return r
		}
	}
	return nil
}

// How is the way in which a variant quantizes a tensor: the variant itself, or the
// group of its recipe, under the variant's ID and under a name that says scheme and
// methods. false where the recipe keeps the source's bytes, of which there is no
// record.
func (s *State) How(variant, tensor int) (Variant, bool) {
	v := s.Variants[variant]
	r := s.RecipeOf(variant)
	if r == nil || tensor < 0 || tensor >= len(r.Of) {
		return v, true
	}
	g := r.Of[tensor]
	if g < 0 || g >= len(r.Groups) {
		return Variant{ID: variant, From: v.From}, false
	}
	how := r.Groups[g]
	how.ID, how.From, how.Own = variant, v.From, ""
	return how, true
}

// Kinds are the ways in which a variant quantizes tensors: itself, or the groups of
// its recipe, each scheme and methods once.
func (s *State) Kinds(variant int) []string {
	r := s.RecipeOf(variant)
	if r == nil {
		return []string{s.Variants[variant].Plain()}
	}
	var out []string
	for _, k := range r.Schemes {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// measurements is how many a session of these variants and tensors has to make.
func (s *State) measurements() int64 {
	n := int64(len(s.Variants)) * int64(len(s.Tensors))
	for _, r := range s.Recipes {
		n -= r.Kept()
	}
	return n
}

// recipeByName is what a session holds of a recipe, nil for none.
func (s *State) recipeByName(name string) *RecipeRun {
	i := slices.IndexFunc(s.Recipes, func(r *RecipeRun) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return s.Recipes[i]
}
