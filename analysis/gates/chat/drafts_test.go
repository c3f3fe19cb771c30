package chat

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// noted is an answer of steps, each of drafted and accepted tokens.
func noted(k int, steps ...[2]int) *Drafts {
	d := &Drafts{K: k}
	for _, s := range steps {
		d.Note(s[0], s[1])
	}
	return d
}

// A step is in the stretch where its first token is, and the first token of an answer is
// in no step.
func TestBlocks(t *testing.T) {
	// Tokens: 0 | 1 2 | 3 | 4 5 | 6 | 7 8 | 9, in stretches of four.
	d := noted(1, [2]int{1, 1}, [2]int{1, 0}, [2]int{1, 1}, [2]int{0, 0}, [2]int{1, 1}, [2]int{1, 0})
	if want := []Block{{2, 2, 1}, {2, 2, 2}, {1, 1, 0}}; !slices.Equal(d.Blocks(10, 4), want) || !d.Whole() {
		t.Errorf("%+v, want %+v", d.Blocks(10, 4), want)
	}
	if want := []Block{{5, 5, 3}}; !slices.Equal(d.Blocks(10, 64), want) {
		t.Errorf("in one: %+v", d.Blocks(10, 64))
	}
	// An answer that ends at an accepted draft has no token of its own behind it.
	if got := noted(1, [2]int{1, 1}).Blocks(2, 4); !slices.Equal(got, []Block{{1, 1, 1}}) {
		t.Errorf("ends at a draft: %+v", got)
	}
	for name, d := range map[string]*Drafts{"sums alone": {K: 1, Drafts: 5, Drafted: 5, Accepted: 3}, "steps of fewer tokens": noted(1, [2]int{1, 1}), "of more": noted(1, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1})} {
		if got := d.Blocks(10, 4); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if d.Blocks(0, 4) != nil || d.Blocks(10, 0) != nil {
		t.Error("of nothing")
	}
}

// Stretches have all drafts, whatever their length; counts that cannot be are not whole.
func TestDraftsWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		k := 1 + r.IntN(8)
		d := &Drafts{K: k}
		tokens := 1
		for range 1 + r.IntN(100) {
			n := r.IntN(k + 1)
			a := r.IntN(n + 1)
			d.Note(n, a)
			tokens += 1 + a
		}
		var sum Block
		for _, b := range d.Blocks(tokens, 1+r.IntN(64)) {
			sum.Drafts, sum.Drafted, sum.Accepted = sum.Drafts+b.Drafts, sum.Drafted+b.Drafted, sum.Accepted+b.Accepted
		}
		if sum != (Block{d.Drafts, d.Drafted, d.Accepted}) || !d.Whole() {
			t.Fatalf("%+v of %+v", sum, d)
		}
	}
	for name, d := range map[string]Drafts{
		"more accepted":    {K: 1, Drafts: 1, Drafted: 1, Accepted: 2},
		"more than k":      {K: 1, Drafts: 1, Drafted: 2},
		"fewer than one":   {K: 2, Drafts: 3, Drafted: 2},
		"not told":         {K: 1, Drafts: -1, Drafted: 2, Accepted: 1},
		"a step accepts":   {K: 1, Drafts: 1, Drafted: 1, Accepted: 1, BySteps: []byte{0x12}},
		"steps and sums":   {K: 1, Drafts: 2, Drafted: 2, Accepted: 1, BySteps: []byte{0x11}},
		"steps not drafts": {K: -1, Drafts: 1, Drafted: 2, Accepted: 1, BySteps: []byte{0x11, 0x10}},
	} {
		if d.Whole() {
			t.Errorf("%s is taken for whole", name)
		}
	}
}
