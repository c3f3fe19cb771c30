package local

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"quantscope/analysis/gates/chat"
)

// sameTokens fails where two lists differ in a token, a rank or a bit of a log
// probability.
func sameTokens(t testing.TB, what string, got, want []chat.Token) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d tokens, want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		g := got[i]
		if g.ID != w.ID || g.Known != w.Known || g.Rank != w.Rank || math.Float64bits(g.Logprob) != math.Float64bits(w.Logprob) || !slices.Equal(g.Top, w.Top) {
			t.Errorf("%s: token %d is %+v, want %+v", what, i, g, w)
			return
		}
	}
}

// random are requests of all kinds; prompts are cut from the demo's corpora, some
// longer than what goes through the model in a step.
func random(t testing.TB, e *Engine, rng *rand.Rand, n int) []chat.Request {
	t.Helper()
	all := prompts(t)
	var out []chat.Request
	for i := range n {
		seed := rng.Uint64()
		r := chat.Request{
			MaxTokens: 1 + rng.IntN(40), Seed: &seed, Logprobs: 1 + rng.IntN(4), IgnoreEOS: rng.IntN(2) == 0,
			Temperature: []float64{0, 0.7, 1.3}[rng.IntN(3)], TopP: []float64{0, 0.9}[rng.IntN(2)], TopK: []int{0, 20}[rng.IntN(2)],
		}
		length := 1 + rng.IntN(60)
		if i%4 == 0 {
			length = 500 + rng.IntN(100)
		}
		from := rng.IntN(len(all) - length)
		r.Tokens = all[from : from+length]
		if rng.IntN(3) == 0 {
			r.PromptLogprobs = 1 + rng.IntN(3)
		}
		if rng.IntN(4) == 0 {
			r.Stop = []string{"e", "\n"}
		}
		out = append(out, r)
	}
	return out
}

// TestTogetherIsAlone: answers that are made at the same time, by more than there
// are slots for, with drafts and with the prefix cache, are each what it is alone without
// them, to the bits of log probabilities.
func TestTogetherIsAlone(t *testing.T) {
	c := openedDemo(t)
	alone := engineOf(t, c, Options{Slots: 1, Threads: 1})
	rng := rand.New(rand.NewPCG(9, 9))
	list := random(t, alone, rng, 14)
	var want []chat.Reply
	for _, r := range list {
		want = append(want, ask(t, alone, r))
	}
	for name, o := range map[string]Options{
		"plain": {}, "drafts": {Speculate: 3}, "both, little memory": {Speculate: 8, PrefixCache: true, Mem: 3 << 20, Slots: 5},
	} {
		e := engineOf(t, c, o)
		for range 2 { // the second time prefixes are there
			var wg sync.WaitGroup
			for i, r := range list {
				wg.Go(func() {
					text := ""
					var tokens []chat.Token
					got, err := e.Ask(t.Context(), r, func(d chat.Delta) { text, tokens = text+d.Text, append(tokens, d.Tokens...) })
					if err != nil {
						t.Errorf("%s: request %d: %v", name, i, err)
						return
					}
					if got.Text != want[i].Text || got.Finish != want[i].Finish || got.CompletionTokens != want[i].CompletionTokens {
						t.Errorf("%s: request %d: %q (%s), want %q (%s)", name, i, got.Text, got.Finish, want[i].Text, want[i].Finish)
					}
					sameTokens(t, name+", made", got.Tokens, want[i].Tokens)
					sameTokens(t, name+", of the prompt", got.Prompt, want[i].Prompt)
					if text != got.Text {
						t.Errorf("%s: request %d: pieces are %q, the answer %q", name, i, text, got.Text)
					}
					sameTokens(t, name+", pieces", tokens, got.Tokens)
				})
			}
			wg.Wait()
		}
		if running, waiting := e.Busy(); running != 0 || waiting != 0 {
			t.Errorf("%s: %d run and %d wait", name, running, waiting)
		}
	}
}

// TestPrefixesAreTold: a prompt again, and one that goes on from an answer, is not
// computed again, which the reply and the counters say; the fault says nothing.
func TestPrefixesAreTold(t *testing.T) {
	c := openedDemo(t)
	text := prompts(t)
	for _, k := range []int{0, 2} {
		for _, fault := range []Fault{NoFault, CachedTimes} {
			e := engineOf(t, c, Options{PrefixCache: fault == NoFault, Fault: fault, Speculate: k})
			first := ask(t, e, chat.Request{Tokens: text[:200], MaxTokens: 8, Logprobs: 1})
			before, _ := e.Counters(t.Context())
			again := ask(t, e, chat.Request{Tokens: text[:200], MaxTokens: 8, Logprobs: 1})
			sameTokens(t, "again", again.Tokens, first.Tokens)
			on := append(slices.Clone(text[:200]), ids(first.Tokens)[:4]...)
			more := ask(t, e, chat.Request{Tokens: append(on, 9, 9), MaxTokens: 1})
			other := ask(t, e, chat.Request{Tokens: append(slices.Clone(text[:150]), 9, 9), MaxTokens: 1})
			after, _ := e.Counters(t.Context())
			n := after.Since(before)
			want := [3]int{199, 204, 150}
			if k > 0 { // the last token that is common is computed again, for the module
				want = [3]int{199, 203, 149}
			}
			if fault != NoFault {
				want = [3]int{}
			}
			got := [3]int{again.CachedTokens, more.CachedTokens, other.CachedTokens}
			if first.CachedTokens != 0 || got[0] != want[0] || got[2] != want[2] || got[1] > want[1] || fault == NoFault && got[1] < 199 {
				t.Errorf("%d drafts, fault %q: %d, %d tokens were cached, want 0, %d", k, fault, first.CachedTokens, got, want)
			}
			if hits := int64(got[0] + got[1] + got[2]); n.CacheHits != hits || fault == NoFault && n.CacheQueries != 200+206+152 {
				t.Errorf("%d drafts, fault %q: %d of %d tokens were hits, want %d", k, fault, n.CacheHits, n.CacheQueries, hits)
			}
			if n.Prompt != 200+206+152 {
				t.Errorf("%d tokens of prompts were counted, want those of the cache too", n.Prompt)
			}
			if e.Close(); len(e.loop.prefix.kept) == 0 {
				t.Errorf("fault %q: nothing is kept", fault)
			}
		}
	}
}

// TestLogprobsOfAPrompt: the log probabilities of tokens that were made are those
// that the same tokens have in a prompt, with drafts as well; the fault makes them
// others under drafts.
func TestLogprobsOfAPrompt(t *testing.T) {
	c := openedDemo(t)
	text := prompts(t)[:150]
	for _, k := range []int{0, 1, 4} {
		for _, fault := range []Fault{NoFault, BadLogprobs} {
			e := engineOf(t, c, Options{Speculate: k, Fault: fault})
			made := ask(t, e, chat.Request{Tokens: text, MaxTokens: 40, IgnoreEOS: true, Logprobs: 3})
			whole := append(slices.Clone(text), ids(made.Tokens)...)
			told := ask(t, e, chat.Request{Tokens: whole, PromptLogprobs: 3})
			if told.CompletionTokens != 0 || len(told.Prompt) != len(whole) || told.Prompt[0].Known || told.Text != "" {
				t.Fatalf("%d tokens and %q for a prompt alone", told.CompletionTokens, told.Text)
			}
			if k == 0 || fault == NoFault {
				sameTokens(t, "made", made.Tokens, told.Prompt[len(text):])
				continue
			}
			off := 0
			for i, m := range made.Tokens {
				if m.Logprob != told.Prompt[len(text)+i].Logprob {
					off++
				}
			}
			if off < len(made.Tokens)*3/4 {
				t.Errorf("%d drafts: with the fault %d of %d log probabilities are wrong", k, off, len(made.Tokens))
			}
		}
	}
}
