package model

import (
	"math"
	"slices"
	"testing"
)

// TestBest: the largest first, of equal ones the first, NaN last.
func TestBest(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		values []float32
		want   []int32
	}{
		{[]float32{1, 3, 2}, []int32{1, 2}},
		{[]float32{2, 2, 2}, []int32{0, 1}},
		{[]float32{1, 2, 1, 2}, []int32{1, 3}},
		{[]float32{nan, -1, nan, -2}, []int32{1, 3}},
		{[]float32{nan, nan, 0}, []int32{2, 0}},
		{[]float32{nan, nan}, []int32{0, 1}},
		{[]float32{float32(math.Inf(-1)), nan, 5}, []int32{2, 0}},
	} {
		got := make([]int32, 2)
		best(got, c.values)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
}

// TestChoose by hand: experts of the best groups alone, chosen with the bias and
// weighed without it.
func TestChoose(t *testing.T) {
	m := &MoE{Experts: 6, TopK: 2, Groups: 3, TopGroups: 1, Normalize: true, Scaling: 2}
	score := []float32{0.9, 0.1, 0.6, 0.6, 0.5, 0.2}
	by := slices.Clone(score) // groups have .9+.1, .6+.6, .5+.2
	c := Choice{make([]int32, 2), make([]float32, 2)}
	m.choose(c, score, by)
	if !slices.Equal(c.Experts, []int32{2, 3}) || c.Weights[0] != 1 || c.Weights[1] != 1 {
		t.Errorf("%v, want experts 2 and 3, by 1 each", c)
	}
	by = slices.Clone(score)
	by[5] += 0.6 // the last group has .5+.8 now
	m.choose(c, score, by)
	if !slices.Equal(c.Experts, []int32{5, 4}) || math.Abs(float64(c.Weights[0])-2*0.2/0.7) > 1e-6 {
		t.Errorf("%v, want experts 5 and 4, by their scores", c)
	}
	m.Normalize = false
	if m.choose(c, score, slices.Clone(by)); c.Weights[1] != 1 {
		t.Errorf("%v, want 2·0.5 for expert 4", c)
	}
}
