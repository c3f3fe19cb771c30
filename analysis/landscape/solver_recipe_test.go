package landscape

import (
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/recipe"
)

// An answer as a recipe, read back and priced, costs and loses what it did.
func TestRecipesOfAnswers(t *testing.T) {
	tb := priced(0.3, even)
	s, err := NewSolver(tb, nil)
	if err != nil {
		t.Fatal(err)
	}
	least, most := s.Range()
	for _, f := range []float64{0, 0.01, 0.3, 0.9} {
		a, err := s.Solve(least + int64(f*float64(most-least)))
		if err != nil {
			t.Fatal(err)
		}
		file, err := RecipeOf(tb, a)
		if err != nil {
			t.Fatal(err)
		}
		text, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := recipe.ParseFile(text, "r.yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := PriceRecipe(tb, read, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(p.Arm, a.Arm) || p.Bytes != a.Bytes || p.MeanRel2 != a.Error || p.Bits != a.Bits || p.Split != a.Split || len(p.Overlaps)+len(p.NoMatch)+p.LeftOut != 0 {
			t.Errorf("at %v: %d bytes and %v, the answer has %d and %v", f, p.Bytes, p.MeanRel2, a.Bytes, a.Error)
		}
	}
}

func TestPriceRecipe(t *testing.T) {
	tb := priced(0, even)
	tb.Arms[0].Samples[0].Rel2 = math.NaN() // L0 e0 gate
	f, err := recipe.ParseFile([]byte(`groups:
  - scheme: nvfp4
    methods: [rtn]
    targets: ["*.layers.0.*", "*.layers.1.*", "*.layers.99.*"]
exemptions: ["*.layers.1.*down_proj"]
`), "r.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PriceRecipe(tb, f, nil); err == nil || !strings.Contains(err.Error(), `"nvfp4+rtn" was not measured (measured: nvfp4, source)`) {
		t.Errorf("an unknown name: %v", err)
	}
	p, err := PriceRecipe(tb, f, func(name string) string { return strings.TrimSuffix(name, "+rtn") })
	if err != nil {
		t.Fatal(err)
	}
	const quantized = 24 - 4
	if p.Bytes != quantized*148+220*512 || p.LeftOut != 1 || math.Abs(p.MeanRel2-0.009*(quantized-1)/239) > 1e-15 || !slices.Equal(p.Counts, []int{quantized, 220}) ||
		p.Untargeted != 216 || p.Exempted != 4 || len(p.Overlaps) != 0 || !slices.Equal(p.NoMatch, []string{"groups[0]: *.layers.99.*"}) || p.Groups[0] != (RecipeGroup{"nvfp4", quantized}) {
		t.Errorf("%+v", p)
	}
	tb.Arms = tb.Arms[:1]
	if _, err := PriceRecipe(tb, f, func(string) string { return "nvfp4" }); err == nil {
		t.Error("what is left alone has no arm, and that is taken")
	}
}

// Between its points a curve is straight, at its ends it is what it is.
func TestCurveAt(t *testing.T) {
	c := Curve{Points: []Point{{Bytes: 100, MeanRel2: 8, Low: 8, High: 8}, {Exempted: 2, Bytes: 200, MeanRel2: 4, Low: 3, High: 5}, {Exempted: 4, Bytes: 500}}}
	for share, want := range map[float64][3]float64{0: {100, 8, 8}, 0.125: {150, 6, 5.5}, 0.25: {200, 4, 3}, 0.625: {350, 2, 1.5}, 1: {500, 0, 0}, 2: {500, 0, 0}, -1: {100, 8, 8}} {
		if p := c.At(share); [3]float64{float64(p.Bytes), p.MeanRel2, p.Low} != want {
			t.Errorf("at %v: %+v, want %v", share, p, want)
		}
	}
	for i := range c.Points {
		c.Points[i].Bytes = 100
	}
	if p := c.At(0.25); p.Exempted != 1 || p.MeanRel2 != 6 {
		t.Errorf("by tensors: %+v", p)
	}
}

// Variants of joined sessions have labels, which make no other scheme of them.
func TestLabelsAreNoSchemes(t *testing.T) {
	tb := tableOf([]string{"nvfp4", "nvfp4+mse @ other", "fp8"}, [][]float64{{1, 2, 1}, {2, 1, 1}, {0, 0, 0}}, [][]int64{{10, 10, 10}, {10, 10, 10}, {20, 20, 20}})
	for _, c := range []struct {
		arms []int
		want int
	}{{[]int{0, 1, 0}, 0}, {[]int{0, 2, 0}, 1}, {[]int{2, 2, 0}, 0}} {
		if n := splits(tb, c.arms, fusedGroups(tb)); n != c.want {
			t.Errorf("%v: %d groups are split, want %d", c.arms, n, c.want)
		}
	}
}
