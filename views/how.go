package views

import "quantscope/sessions"

// how is the way in which a variant quantizes the tensor under the cursor: of a
// recipe its group, whose scales, codes and choices have axes of their own, under the
// recipe's name.
func (s *Scene) how(variant int) *sessions.Variant {
	v := &s.State.Variants[variant]
	if s.State.RecipeOf(variant) == nil {
		return v
	}
	how, ok := s.State.How(variant, s.Cursor)
	if !ok {
		return v
	}
	how.Effective, how.Name = how.Name, v.Name
	return &how
}

// storedAs says how the chosen variant stores the tensor under the cursor, where that
// is a recipe; "" where the variant says it.
func (s *Scene) storedAs() string {
	if s.Variant < 0 || s.Variant >= len(s.State.Variants) || s.State.RecipeOf(s.Variant) == nil {
		return ""
	}
	how, ok := s.State.How(s.Variant, s.Cursor)
	if !ok {
		return "  kept"
	}
	return "  as " + Clean(how.Name)
}

// keeps says whether a variant leaves the tensor under the cursor as the source has
// it, so that nothing is measured.
func (s *Scene) keeps(variant int) bool {
	if s.State.RecipeOf(variant) == nil {
		return false
	}
	_, quantized := s.State.How(variant, s.Cursor)
	return !quantized
}
