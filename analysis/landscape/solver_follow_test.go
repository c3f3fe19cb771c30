package landscape

import (
	"slices"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

// TestRecipeOfAnArmThatFollowsOne: an answer that takes items of an arm of several
// ways says the way of each, joins it with that of a plain arm, and leaves what the
// arm keeps.
func TestRecipeOfAnArmThatFollowsOne(t *testing.T) {
	table := &Table{}
	for i, p := range []string{"gate", "up", "down", "gate"} {
		table.Items = append(table.Items, Item{ID: i, Name: "model.layers." + string(rune('0'+i)) + ".mlp." + p + "_proj.weight", Role: topology.Role{Kind: topology.MLP, Layer: i, Expert: -1, Projection: p, Param: "weight"}, Rows: 16, Cols: 16})
	}
	table.Arms = []Arm{
		{Name: "recipe:mix", As: []string{"int4-g128+range", "nvfp4", "", "nvfp4"}},
		{Name: "nvfp4"},
		{Name: sourceArm},
	}
	f, err := RecipeOf(table, Assignment{Arm: []int{0, 0, 0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Resolve(matricesOf(table))
	if err != nil || r.Err() != nil {
		t.Fatalf("%v %v", err, r.Err())
	}
	var got []string
	for _, g := range r.Group {
		if g < 0 {
			got = append(got, "")
		} else {
			got = append(got, f.Groups[g].Variant())
		}
	}
	if want := []string{"int4-g128+range", "nvfp4", "", "nvfp4"}; !slices.Equal(got, want) || len(f.Groups) != 2 || len(f.Ignore)+len(f.Exemptions) == 0 {
		t.Errorf("%q of %+v, want %q", got, f, want)
	}
	data, err := f.Encode()
	if err != nil || strings.Contains(string(data), "recipe:") {
		t.Errorf("%v: %s", err, data)
	}
	if n := splits(table, []int{0, 0, 0, 1}, [][]int{{0, 1}, {1, 3}}); n != 1 {
		t.Errorf("%d split groups", n)
	}
}
