package through

import (
	"cmp"
	"flag"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"quantscope/analysis/gates/chat"
)

// Property tests draw the same cases each time, so that none fails by chance
// where nothing changed. docs/contributing.md says how to draw others.
func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}

// distribution draws log probabilities of n tokens, from flat to one that takes
// nearly all.
func distribution(t *rapid.T, n int, label string) []float64 {
	heat := rapid.Float64Range(0, 12).Draw(t, label+" heat")
	l := make([]float64, n)
	for i := range l {
		l[i] = heat * rapid.Float64Range(-1, 1).Draw(t, label)
	}
	m, sum := slices.Max(l), 0.0
	for _, v := range l {
		sum += math.Exp(v - m)
	}
	for i := range l {
		l[i] -= m + math.Log(sum)
	}
	return l
}

func divergence(p, q []float64) float64 {
	kl := 0.0
	for i := range p {
		kl += math.Exp(p[i]) * (p[i] - q[i])
	}
	return kl
}

// tell is what a server tells of a distribution: the k likeliest, and the true token.
func tell(l []float64, k int, true_ int) chat.Token {
	order := make([]int, len(l))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l[b], l[a]) })
	t := chat.Token{ID: int32(true_), Text: string(rune('a' + true_)), Known: true, Logprob: l[true_], Rank: 1 + slices.Index(order, true_)}
	for _, i := range order[:k] {
		t.Top = append(t.Top, chat.Alt{ID: int32(i), Text: string(rune('a' + i)), Logprob: l[i]})
	}
	return t
}

// TestBound holds the bound against the divergence itself: never above it, never
// below zero, never lower where more is told, and equal to it where everything is.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.IntRange(2, 40).Draw(t, "vocabulary")
		p, q := distribution(t, v, "p"), distribution(t, v, "q")
		if rapid.IntRange(0, 4).Draw(t, "alike") == 0 {
			q = p
		}
		next := rapid.IntRange(0, v-1).Draw(t, "next")
		kl := divergence(p, q)
		byText := rapid.Bool().Draw(t, "by text")
		for k := 1; k <= v; k++ {
			b, c := tell(p, k, next), tell(q, k, next)
			if byText {
				forget(&b)
				forget(&c)
			}
			got := position(0, 0, &b, &c).KL
			if got < 0 || got > kl+1e-12 {
				t.Fatalf("top %d of %d: %g, the divergence is %g", k, v, got, kl)
			}
			if k == v && got < kl-slack {
				t.Fatalf("all %d: %g, the divergence is %g", v, got, kl)
			}
		}
	})
}

// TestBoundRounded holds the bound on what servers send: f32, whose probabilities may
// sum to more than one. It stays below the divergence but for that rounding.
func TestBoundRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.IntRange(2, 24).Draw(t, "vocabulary")
		p, q := distribution(t, v, "p"), distribution(t, v, "q")
		k := rapid.IntRange(1, v).Draw(t, "k")
		b, c := tell(p, k, 0), tell(q, k, 0)
		for _, s := range []*chat.Token{&b, &c} {
			s.Logprob = float64(float32(s.Logprob))
			for i := range s.Top {
				s.Top[i].Logprob = float64(float32(s.Top[i].Logprob))
			}
		}
		got, kl := position(0, 0, &b, &c).KL, divergence(p, q)
		if math.IsNaN(got) || got < 0 || got > kl+1e-4 {
			t.Fatalf("top %d of %d: %g, the divergence is %g", k, v, got, kl)
		}
	})
}

func forget(t *chat.Token) {
	t.ID = -1
	for i := range t.Top {
		t.Top[i].ID = -1
	}
}

// TestBoundByHand holds figures that a person can compute.
func TestBoundByHand(t *testing.T) {
	at := func(ps ...float64) map[name]float64 {
		m := map[name]float64{}
		for i, p := range ps {
			if p >= 0 {
				m[name{id: int32(i)}] = p
			}
		}
		return m
	}
	for _, c := range []struct {
		p, q map[name]float64
		want float64
	}{
		{at(0.5), at(0.25), 0.5*math.Log(2) + 0.5*math.Log(0.5/0.75)},
		{at(0.5, 0.25), at(0.25, -1, 0.5), 0.5*math.Log(2) + 0.5*math.Log(0.5/0.75)}, // what one side does not tell is rest
		{at(0.5, 0.5), at(0.25, 0.75), 0.5*math.Log(2) + 0.5*math.Log(0.5/0.75)},     // no rest
		{at(1), at(0.5), math.Log(2)},
		{at(0.5), at(0.5), 0},
		{at(), at(0.5), 0},
		{at(0.5), at(-1, 0.5), 0},
		{at(0.75, 0.5), at(0.5, 0.25), 0.75*math.Log(1.5) + 0.5*math.Log(2)}, // a sum above one: no rest
	} {
		if got := bound(c.p, c.q); math.Abs(got-c.want) > 20*slack { // a rest of 10⁻⁶ that one side may have, as ln(10⁶) nats
			t.Errorf("%v, %v: %g, want %g", c.p, c.q, got, c.want)
		}
	}
	// A rest that is there on one side, and told as none on the other, counts as one
	// of slack there, not as an infinite divergence.
	if got, want := bound(at(0.5, 0.25), at(0.5, 0.5)), 0.25*math.Log(0.5)+0.25*math.Log(0.25/slack); math.Abs(got-want) > 1e-4 {
		t.Errorf("a rest of nothing: %g, want %g", got, want)
	}
	// Texts that stand for several tokens tell none of them apart.
	b := chat.Token{ID: -1, Text: "\uFFFD", Known: true, Logprob: math.Log(0.5), Top: []chat.Alt{{ID: -1, Text: "\uFFFD", Logprob: math.Log(0.5)}, {ID: -1, Text: "", Logprob: math.Log(0.25)}}}
	if m := masses(&b, false); len(m) != 0 {
		t.Errorf("%v", m)
	}
	twice := chat.Token{ID: -1, Text: "b", Known: true, Logprob: -3, Top: []chat.Alt{{ID: -1, Text: "a", Logprob: -1}, {ID: -1, Text: "a", Logprob: -2}}}
	if m := masses(&twice, false); len(m) != 1 {
		t.Errorf("%v", m)
	}
}
