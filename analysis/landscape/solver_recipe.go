package landscape

import (
	"fmt"
	"strings"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// matricesOf are the items as a recipe names them.
func matricesOf(t *Table) []topology.Matrix {
	out := make([]topology.Matrix, len(t.Items))
	for i := range t.Items {
		it := &t.Items[i]
		out[i] = topology.Matrix{
			Name: it.Name, Tensor: storedName(it), Role: it.Role, Rows: it.Rows, Cols: it.Cols, RowStride: int64(it.Cols), ColStride: 1,
		}
	}
	return out
}

// RecipeOf is an assignment as a recipe: a group for every way of storing items but
// the source's, whose items no group targets. Its name and comment say what it costs and
// loses; for which checkpoint it is, the caller says in Source.
func RecipeOf(t *Table, a Assignment) (*recipe.File, error) {
	if len(a.Arm) != len(t.Items) {
		return nil, fmt.Errorf("an assignment of %d tensors for a table of %d", len(a.Arm), len(t.Items))
	}
	var groups []recipe.Group
	known := map[string]int{"": -1}
	choice := make([]int, len(a.Arm))
	for i, k := range a.Arm {
		how := t.Arms[k].how(i)
		g, ok := known[how]
		if !ok {
			name := strings.Split(how, "+")
			g = len(groups)
			known[how] = g
			groups = append(groups, recipe.Group{Scheme: name[0], Methods: name[1:]})
		}
		choice[i] = g
	}
	f, err := recipe.FromAssignment(matricesOf(t), choice, groups)
	if err != nil {
		return nil, err
	}
	f.Name = fmt.Sprintf("%.4g bits per weight", a.Bits)
	f.Comment = strings.Join(a.Lines(), "\n")
	return f, nil
}

// Lines say in a few sentences what an answer costs and loses and how good it
// is.
func (a *Assignment) Lines() []string {
	figure := "mean rel2"
	if a.Objective == WeightedError.String() {
		figure = "Σe²/Σw²"
	}
	good := fmt.Sprintf("at most %.2g %% above the bound of %.6g", 100*a.Gap, a.Bound)
	if a.Exact {
		good = fmt.Sprintf("the least that this size allows, to within %.1g", a.Slack)
	}
	out := []string{
		fmt.Sprintf("%d bytes of a budget of %d, %.6g bits per weight", a.Bytes, a.Budget, a.Bits),
		fmt.Sprintf("%s %.6g, %s", figure, a.Value, good),
	}
	return append(out, a.Notes...)
}

// RecipePrice is what a recipe costs and loses by the records of a table.
type RecipePrice struct {
	Arm      []int   `json:"-"` // by item
	Bytes    int64   `json:"bytes"`
	Bits     float64 `json:"bits_per_weight"`
	MeanRel2 float64 `json:"mean_rel2"` // over items with a finite figure; 0 of none
	Weighted float64 `json:"weighted_rel2"`
	LeftOut  int     `json:"left_out"` // items without a finite figure, in Bytes and in no mean
	Counts   []int   `json:"counts"`   // items by arm
	Split    int     `json:"split"`    // groups that servers fuse whose items are stored in different schemes

	Groups     []RecipeGroup `json:"groups"`
	Untargeted int           `json:"untargeted"`
	Ignored    int           `json:"ignored"`
	Exempted   int           `json:"exempted"`
	Overlaps   []string      `json:"overlaps"` // items that two groups match
	NoMatch    []string      `json:"no_match"` // patterns that match nothing
}

// RecipeGroup is a group of a recipe over the items of a table.
type RecipeGroup struct {
	Variant string `json:"variant"`
	Tensors int    `json:"tensors"`
}

// PriceRecipe resolves a recipe over the items of a table and adds up what their
// records say. canonical turns the name of a group's variant into that of an
// arm; it may be nil. A group whose variant is no arm of the table is an error
// that lists those that are; a table without the source's arm cannot price what
// a recipe leaves alone.
func PriceRecipe(t *Table, f *recipe.File, canonical func(string) string) (*RecipePrice, error) {
	r, err := f.Resolve(matricesOf(t))
	if err != nil {
		return nil, err
	}
	arms := make([]int, len(f.Groups))
	out := &RecipePrice{
		Arm: make([]int, len(t.Items)), Counts: make([]int, len(t.Arms)),
		Untargeted: r.Untargeted, Ignored: r.Ignored, Exempted: r.Exempted, Overlaps: []string{}, NoMatch: []string{}, Groups: []RecipeGroup{},
	}
	var known []string
	for k := range t.Arms {
		known = append(known, t.Arms[k].Name)
	}
	for g := range f.Groups {
		name := f.Groups[g].Variant()
		if canonical != nil {
			name = canonical(name)
		}
		if arms[g] = t.Arm(name); arms[g] < 0 {
			return nil, fmt.Errorf("variant %q was not measured (measured: %s)", name, strings.Join(known, ", "))
		}
		out.Groups = append(out.Groups, RecipeGroup{name, r.Matched[g]})
	}
	for _, o := range r.Overlaps {
		out.Overlaps = append(out.Overlaps, o.Matrix)
	}
	for _, n := range r.NoMatch {
		out.NoMatch = append(out.NoMatch, n.Where+": "+n.Pattern)
	}
	source := t.Arm(sourceArm)
	var elements int64
	var rel2, e2 sum
	for i, g := range r.Group {
		k := source
		if g >= 0 {
			k = arms[g]
		}
		if k < 0 || t.Arms[k].Bytes[i] < 0 {
			return nil, fmt.Errorf("tensor %q: its size under the recipe is not known", t.Items[i].Name)
		}
		out.Arm[i] = k
		out.Counts[k]++
		out.Bytes += t.Arms[k].Bytes[i]
		elements += t.Items[i].Elements()
		n := &t.Arms[k].Samples[i]
		if n.State != Measured || !isFinite(n.Rel2) {
			out.LeftOut++
			continue
		}
		rel2.addFinite(n.Rel2)
		e2.addFinite(n.E2)
	}
	out.Bits = bitsPerWeight(out.Bytes, elements)
	if n := len(t.Items) - out.LeftOut; n > 0 {
		out.MeanRel2 = rel2.value() / float64(n)
	}
	if w2 := totalW2(t); w2 > 0 {
		out.Weighted = e2.value() / w2
	}
	out.Split = splits(t, out.Arm, fusedGroups(t))
	return out, nil
}
