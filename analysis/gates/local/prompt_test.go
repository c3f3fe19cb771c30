package local

import (
	"errors"
	"slices"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
)

// What a prompt is said to be is what an answer goes on from.
func TestPromptIDs(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{})
	for _, r := range []chat.Request{
		{Messages: []chat.Message{{Role: chat.User, Content: questions[3]}}}, {Prompt: chatPrompt(questions[4])}, {Tokens: []int32{2, 70, 71}},
	} {
		want, err := e.PromptIDs(r)
		if err != nil {
			t.Fatal(err)
		}
		r.PromptLogprobs = 1
		if got := ids(ask(t, e, r).Prompt); !slices.Equal(got, want) {
			t.Errorf("%v, said to be %v", got, want)
		}
	}
	_, err := e.PromptIDs(chat.Request{Tokens: []int32{5, 1024}})
	var refused *chat.Error
	if !errors.As(err, &refused) || refused.Kind != chat.Refused {
		t.Errorf("an id outside the vocabulary: %v", err)
	}
}

// What fits is answered, and one token more is refused.
func TestFits(t *testing.T) {
	c := openedDemo(t)
	if got := engineOf(t, c, Options{}).Fits(); got != 1024 {
		t.Errorf("%d tokens fit, want the config's 1024", got)
	}
	for _, k := range []int{0, 2} {
		e := engineOf(t, c, Options{Mem: 20 * perToken(c, k > 0), Speculate: k})
		n := e.Fits()
		if want := 20 - min(k, 1); n != want {
			t.Errorf("%d drafts: %d tokens fit, want %d", k, n, want)
		}
		r := chat.Request{Tokens: []int32{2, 70, 71}, MaxTokens: n - 3, IgnoreEOS: true}
		if got := ask(t, e, r); got.CompletionTokens != n-3 {
			t.Errorf("%d drafts: %d tokens made, want %d", k, got.CompletionTokens, n-3)
		}
		r.MaxTokens++
		var refused *chat.Error
		if _, err := e.Ask(t.Context(), r, nil); !errors.As(err, &refused) || refused.Kind != chat.Refused {
			t.Errorf("%d drafts: one token more: %v", k, err)
		}
	}
}

// perToken is what a token of a text takes in caches.
func perToken(c *candidate.Candidate, drafts bool) int64 {
	n, _ := c.Arch.CacheBytes(drafts)
	return n
}
