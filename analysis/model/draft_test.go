package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// mtpSpec is a random model of a shape that a test draws, with an MTP layer.
func mtpSpec(layers, hidden, heads, kvHeads, dim, inner, experts, vocab int) *Spec {
	s := moeSpec(layers+1, hidden, heads, kvHeads, dim, inner, experts, min(2, experts), vocab)
	l := s.Layers[layers]
	l.MTP = true
	s.Layers, s.MTP = s.Layers[:layers], []Layer{l}
	return s
}

// TestDraftsChangeNothing: of random models, texts are the same with any number of
// drafts, greedy and sampled, where they end at a token in the middle of a draft, at
// their length, or go on. Drafts that stay are tokens of the text at their places, and
// the module is left with what it saw of the text alone.
func TestDraftsChangeNothing(t *testing.T) {
	stayed := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := mtpSpec(rapid.IntRange(1, 3).Draw(t, "layers"), 16*rapid.IntRange(1, 3).Draw(t, "hidden"), 4, 2, 8, 16, rapid.IntRange(2, 5).Draw(t, "experts"), rapid.IntRange(2, 12).Draw(t, "vocab"))
		src := newRandom(spec, rapid.Uint64().Draw(t, "weights"))
		prompt := texts(spec, rapid.Uint64().Draw(t, "text"), rapid.IntRange(1, 9).Draw(t, "prompt"))[0]
		n := rapid.IntRange(1, 24).Draw(t, "tokens")
		s := Sampling{Temperature: rapid.SampledFrom([]float64{0, 0, 0.3, 1.2}).Draw(t, "temperature"), Seed: rapid.Uint64().Draw(t, "seed"), TopP: rapid.SampledFrom([]float64{0, 0.8}).Draw(t, "top_p"), TopK: rapid.IntRange(0, 4).Draw(t, "top_k")}
		end := int32(rapid.IntRange(-1, spec.Vocab-1).Draw(t, "end"))
		stop := func(id int32) bool { return id == end }
		d, err := NewDecoder(t.Context(), spec, src, quick())
		if err != nil {
			t.Fatal(err)
		}
		want, err := Generate(t.Context(), d, prompt, n, NewSampler(s), stop)
		if err != nil {
			t.Fatal(err)
		}
		k := rapid.IntRange(0, 8).Draw(t, "drafts")
		d.Cut(0)
		m, err := NewMTP(t.Context(), spec, src, quick())
		if err != nil {
			t.Fatal(err)
		}
		got, drafts, passes, err := GenerateDrafted(t.Context(), d, m, prompt, n, k, NewSampler(s), stop)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v with %d drafts, want %v", got, k, want)
		}
		text := append(slices.Clone(prompt), got...)
		accepted := 0
		for _, x := range drafts {
			if x.Accepted {
				accepted++
				if x.Position >= len(text) || text[x.Position] != x.Token {
					t.Fatalf("draft %+v of %v", x, text)
				}
			}
		}
		// Each pass makes its own token and those that were accepted, but that an end
		// at an accepted draft leaves no room for its own.
		if made := passes + accepted; made != len(got) && made != len(got)+1 || passes == 0 {
			t.Fatalf("%d tokens by %d passes and %d drafts", len(got), passes, accepted)
		}
		if m.Len() >= len(text) {
			t.Fatalf("the module saw %d positions of %d tokens", m.Len(), len(text))
		}
		stayed += accepted
	})
	if stayed == 0 {
		t.Error("no draft was accepted: nothing was tested")
	}
}

// TestDraftsTogether: what a module drafts for several texts at once is what it
// drafts for each alone, by its chain of own states.
func TestDraftsTogether(t *testing.T) {
	for _, name := range mtpModels {
		f := opened(t, name)
		src := f.source()
		b, err := NewBatch(t.Context(), f.spec, src, quick())
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewMTP(t.Context(), f.spec, src, quick())
		if err != nil {
			t.Fatal(err)
		}
		h := f.spec.Width()
		rng := rand.New(rand.NewPCG(3, 1))
		var together []*Drafting
		var alone [][]int32
		for i, c := range texts(f.spec, 17, 20, 5, 31, 12) {
			s := &Step{Text: NewText(f.spec, 0), Tokens: c[:len(c)-1]}
			x, err := b.Feed(t.Context(), []*Step{s})
			if err != nil {
				t.Fatal(err)
			}
			normed := make([]float32, len(x))
			b.Normed(normed, x)
			k := []int{4, 0, 8, 1}[i]
			one := &Drafting{Text: s.Text.Copy(s.Text.Len(), 0), Normed: normed, Next: c[1:], K: k}
			if err := m.Draft(t.Context(), []*Drafting{one}); err != nil {
				t.Fatal(err)
			}
			alone = append(alone, slices.Clone(one.Drafts))
			if len(one.Drafts) != k || one.Text.Seen() != len(c)-1 {
				t.Errorf("%s: %d drafts after %d positions, want %d after %d", name, len(one.Drafts), one.Text.Seen(), k, len(c)-1)
			}
			if k > 0 { // the chain by hand: Feed of the module's own states
				byHand := chain(t, f, normed[:len(c[1:])*h], c[1:], k)
				if !slices.Equal(byHand, one.Drafts) {
					t.Errorf("%s: drafts %v, by hand %v", name, one.Drafts, byHand)
				}
			}
			together = append(together, &Drafting{Text: s.Text, Normed: normed, Next: c[1:], K: k})
		}
		rng.Shuffle(len(together), func(i, j int) {
			together[i], together[j] = together[j], together[i]
			alone[i], alone[j] = alone[j], alone[i]
		})
		if err := m.Draft(t.Context(), together); err != nil {
			t.Fatal(err)
		}
		for i, d := range together {
			if !slices.Equal(d.Drafts, alone[i]) {
				t.Errorf("%s: %v together, %v alone", name, d.Drafts, alone[i])
			}
		}
	}
}

// chain drafts with Feed alone: what leaves the layer goes in again, by way of the
// module's norm where that is what it gives on.
func chain(t *testing.T, f *fixture, normed []float32, next []int32, k int) (drafts []int32) {
	var out []float32
	o := quick()
	o.Layer = func(_, _ int, x []float32) { out = slices.Clone(x) }
	m, err := NewMTP(t.Context(), f.spec, f.source(), o)
	if err != nil {
		t.Fatal(err)
	}
	for range k {
		logits, err := m.Feed(t.Context(), normed, next)
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, argmax(logits[len(logits)-f.spec.Vocab:]))
		normed, next = out[len(out)-f.spec.Width():], drafts[len(drafts)-1:]
		if l := &f.spec.MTP[0]; l.Module == SharedModule {
			w, err := f.source().Vector(t.Context(), moduleAt(l, "shared_head.norm"), "weight")
			if err != nil {
				t.Fatal(err)
			}
			l.Norm.apply(o.Set, normed, normed, w)
		}
	}
	return drafts
}

// TestAccept: the row after each token that stays is asked, and no other.
func TestAccept(t *testing.T) {
	for _, c := range []struct {
		drafts, chosen []int32
		end            int32
		kept, asked    int
	}{
		{nil, []int32{7}, -1, 0, 1},
		{[]int32{7}, []int32{7, 8}, -1, 1, 2},
		{[]int32{7}, []int32{6, 8}, -1, 0, 1},
		{[]int32{1, 2, 3}, []int32{1, 2, 4, 9}, -1, 2, 3},
		{[]int32{1, 2, 3}, []int32{1, 2, 3, 9}, -1, 3, 4},
		{[]int32{1, 2, 3}, []int32{1, 2, 3, 9}, 2, 2, 2}, // an end in the middle of what stays
		{[]int32{1, 2, 3}, []int32{5, 2, 3, 9}, 5, 0, 1}, // an end in place of a draft
	} {
		asked := 0
		kept := Accept(c.drafts, func(row int) (int32, bool) {
			if row != asked {
				t.Errorf("%v: row %d is asked after %d", c, row, asked)
			}
			asked++
			return c.chosen[row], c.chosen[row] != c.end
		})
		if kept != c.kept || asked != c.asked {
			t.Errorf("%v: %d kept, %d asked", c, kept, asked)
		}
	}
}
