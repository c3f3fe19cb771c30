package sessions

import (
	"fmt"
	"slices"
)

// sameRecipes compares the recipes of a part with the first one's.
func (p *mergePart) sameRecipes(q *mergePart, differs func(what, mine, other string) error) error {
	if a, b := len(p.st.Recipes), len(q.st.Recipes); a != b {
		return differs("number of recipes", fmt.Sprint(a), fmt.Sprint(b))
	}
	for i, r := range p.st.Recipes {
		o := q.st.Recipes[i]
		if r.Name != o.Name || r.Variant != o.Variant {
			return differs("recipe", r.Name, o.Name)
		}
		if r.SHA256 != o.SHA256 {
			return differs("recipe "+r.Name, "sha256 "+r.SHA256, "sha256 "+o.SHA256)
		}
		if !slices.EqualFunc(r.Groups, o.Groups, func(a, b Variant) bool { return a.Name == b.Name && definition(a) == definition(b) }) {
			return differs("groups of recipe "+r.Name, fmt.Sprint(r.Schemes), fmt.Sprint(o.Schemes))
		}
	}
	return nil
}

// quantizer is a variant of the merged session as far as its events ask for it: of a
// recipe with the groups of all parts' tensors.
func (m *merging) quantizer(v Variant) Quantizer {
	q := Quantizer{Variant: v}
	for _, p := range m.parts {
		r := p.st.RecipeOf(v.ID)
		switch {
		case r == nil:
		case q.recipe == nil:
			q.recipe = r.as(v.ID)
			q.recipe.Of = slices.Clone(r.Of)
		default:
			q.recipe.Of = append(q.recipe.Of, r.Of...)
		}
	}
	return q
}
