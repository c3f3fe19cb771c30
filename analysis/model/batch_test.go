package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// TestBatchIsAlone: texts that go through a model together, in pieces, some
// coming and some leaving, have the bits that each has alone.
func TestBatchIsAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	check := func(t *testing.T, spec *Spec, src Source, o Options) {
		chunks := texts(spec, 21, 60, 3, 41, 17, 1, 75, 30, 9)
		var want [][]float32
		for _, c := range chunks {
			want = append(want, hiddenOf(t, spec, src, [][]int32{c}, o))
		}
		b, err := NewBatch(t.Context(), spec, src, o)
		if err != nil {
			t.Fatal(err)
		}
		type going struct {
			i    int
			text *Text
		}
		var there []going
		next := 0
		for done := 0; done < len(chunks); {
			for next < len(chunks) && (len(there) == 0 || rng.IntN(3) == 0) {
				there, next = append(there, going{next, NewText(spec, len(chunks[next]))}), next+1
			}
			rng.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
			var steps []*Step
			var who []going
			for _, g := range there {
				if rng.IntN(4) == 0 {
					continue
				}
				rest := chunks[g.i][g.text.Len():]
				steps = append(steps, &Step{Text: g.text, Tokens: rest[:min(1+rng.IntN(12), len(rest))]})
				who = append(who, g)
			}
			x, err := b.Feed(t.Context(), steps)
			if err != nil {
				t.Fatal(err)
			}
			for k, s := range steps {
				n := len(s.Tokens) * spec.Width()
				from := (s.Text.Len() - len(s.Tokens)) * spec.Width()
				sameBits(t, fmt.Sprintf("text %d from token %d on", who[k].i, s.Text.Len()-len(s.Tokens)), x[:n], want[who[k].i][from:from+n])
				x = x[n:]
				if rng.IntN(5) == 0 {
					s.Text.Cut(s.Text.Len() - rng.IntN(4))
				}
			}
			there = slices.DeleteFunc(there, func(g going) bool {
				whole := g.text.Len() == len(chunks[g.i])
				if whole {
					done++
				}
				return whole
			})
		}
	}
	for _, name := range plainModels {
		t.Run(name, func(t *testing.T) {
			f := opened(t, name)
			for _, bf16 := range []bool{false, true} {
				check(t, f.spec, f.source(), Options{Set: kernels.Best(), Threads: 2, BF16: bf16})
			}
		})
	}
	t.Run("wide", func(t *testing.T) {
		spec := moeSpec(2, 528, 4, 2, 32, 80, 6, 2, 90)
		check(t, spec, newRandom(spec, 2).keep(), quick())
	})
}

// TestBatchOfOneBrokenText: a text with a value that is not finite is told of, and
// the others have the bits that they have without it.
func TestBatchOfOneBrokenText(t *testing.T) {
	spec := llamaSpec(2, 32, 4, 2, 8, 24, 90)
	sick := &damaged{newRandom(spec, 1), Place{Kind: topology.Embedding, Layer: -1, Expert: -1}, 89, float32(math.NaN())}
	chunks := [][]int32{{1, 2, 3}, {4, 89, 5}, {6, 7}}
	b, err := NewBatch(t.Context(), spec, sick, quick())
	if err != nil {
		t.Fatal(err)
	}
	var steps []*Step
	for _, c := range chunks {
		steps = append(steps, &Step{Text: NewText(spec, 0), Tokens: c})
	}
	x, err := b.Feed(t.Context(), steps)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		if broken := s.Err != nil; broken != (i == 1) {
			t.Errorf("text %d: %v", i, s.Err)
		}
	}
	sameBits(t, "first", x[:3*spec.Width()], hiddenOf(t, spec, newRandom(spec, 1), chunks[:1], quick()))
	sameBits(t, "last", x[6*spec.Width():], hiddenOf(t, spec, newRandom(spec, 1), chunks[2:], quick()))
}

// TestCopyGoesOn: a copy of the first tokens of a text goes on as the text did, and
// what becomes of one does not touch the other.
func TestCopyGoesOn(t *testing.T) {
	for _, name := range []string{"glm4_moe", "deepseek_v3", "gemma3_text", "deepseek_v4"} {
		f := opened(t, name)
		text := texts(f.spec, 5, 40)[0]
		want := hiddenOf(t, f.spec, f.source(), [][]int32{text}, quick())
		b, err := NewBatch(t.Context(), f.spec, f.source(), quick())
		if err != nil {
			t.Fatal(err)
		}
		first := &Step{Text: NewText(f.spec, 0), Tokens: text[:30]}
		if _, err := b.Feed(t.Context(), []*Step{first}); err != nil {
			t.Fatal(err)
		}
		other := &Step{Text: first.Text.Copy(20, 40), Tokens: text[20:]}
		first.Text.Cut(10)
		first.Tokens = text[10:]
		for _, s := range []*Step{first, other} {
			from := s.Text.Len()
			x, err := b.Feed(t.Context(), []*Step{s})
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, fmt.Sprint(name, " from ", from), x, want[from*f.spec.Width():])
		}
	}
}

// TestCacheBytes: what a text holds is what is said of it, and room for no more than
// it may become.
func TestCacheBytes(t *testing.T) {
	for _, name := range []string{"glm4_moe_mtp", "deepseek_v3_mtp"} {
		f := opened(t, name)
		b, err := NewBatch(t.Context(), f.spec, f.source(), quick())
		if err != nil {
			t.Fatal(err)
		}
		const n = 70
		s := &Step{Text: NewText(f.spec, 75)}
		for _, some := range []int{40, 20, 10} {
			s.Tokens = texts(f.spec, 3, some)[0]
			if _, err := b.Feed(t.Context(), []*Step{s}); err != nil {
				t.Fatal(err)
			}
		}
		held, room := 0, 0
		for _, c := range s.Text.caches {
			c := c.(*kvCache)
			held += 4 * (len(c.k) + len(c.v))
			room += 4 * (cap(c.k) + cap(c.v))
		}
		each, fixed := f.spec.CacheBytes(false)
		if fixed != 0 || int64(held) != n*each || int64(room) > 75*each {
			t.Errorf("%s: %d bytes in room for %d, want %d in at most %d", name, held, room, n*each, 75*each)
		}
		if with, _ := f.spec.CacheBytes(true); with != each+f.spec.MTP[0].Attn.perToken() {
			t.Errorf("%s: %d bytes with drafts", name, with)
		}
	}
}
