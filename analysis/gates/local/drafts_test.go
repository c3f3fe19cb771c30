package local

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantscope/analysis/gates/chat"
)

// On the prompts on which transformers' generate(use_mtp=True) was watched, one draft a
// step, each step of each answer has the draft that it had there, accepted or not.
func TestDraftsAreThePeers(t *testing.T) {
	data, err := os.ReadFile("../../model/testdata/demo_mtp.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		New     int `json:"new_tokens"`
		Totals  []struct{ K, Drafted, Accepted int64 }
		Prompts []struct {
			Prompt, New []int32
			Gap         float64
			Accepted    string
		}
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	e := engineOf(t, openedDemo(t), Options{Speculate: 1})
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum, doubtful := chat.Drafts{}, 0
	for i := range g.Prompts {
		p := &g.Prompts[i]
		wg.Go(func() {
			r, err := e.Ask(t.Context(), chat.Request{Tokens: p.Prompt, MaxTokens: g.New, Logprobs: 1, IgnoreEOS: len(p.New) == g.New}, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("prompt %d: %v", i, err)
				return
			}
			if !slices.Equal(ids(r.Tokens), p.New) {
				if p.Gap >= 2e-4 {
					t.Errorf("prompt %d: another text", i)
				}
				doubtful++
				return
			}
			d := r.Drafts
			if !d.Whole() || d.K != 1 {
				t.Errorf("prompt %d: %+v", i, d)
			}
			var was strings.Builder
			for _, b := range d.BySteps {
				if b>>4 != 1 {
					t.Errorf("prompt %d: a step of %d drafts", i, b>>4)
				}
				was.WriteByte('0' + b&15)
			}
			if was.String() != p.Accepted {
				t.Errorf("prompt %d: accepted %s, the peer %s", i, was.String(), p.Accepted)
			}
			sum.Drafted, sum.Accepted = sum.Drafted+d.Drafted, sum.Accepted+d.Accepted
		})
	}
	wg.Wait()
	total := g.Totals[0]
	t.Logf("%d of %d drafts accepted, the peer %d of %d; %d prompts too close to call", sum.Accepted, sum.Drafted, total.Accepted, total.Drafted, doubtful)
	if doubtful > 2 || doubtful == 0 && (sum.Accepted != total.Accepted || sum.Drafted != total.Drafted) {
		t.Errorf("%d of %d, %d doubtful", sum.Accepted, sum.Drafted, doubtful)
	}
}

// An answer past its end has as many tokens as it may, its stretches have all that it
// drafted, its steps are the engine's own count, and it is the same among others.
func TestDraftsOfAnAnswer(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{Speculate: 2})
	before, err := e.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := ask(t, e, chat.Request{Prompt: chatPrompt("What is 12 + 7?"), MaxTokens: 200, IgnoreEOS: true})
	after, err := e.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := after.Since(before)
	d := r.Drafts
	if r.CompletionTokens != 200 || d == nil || d.K != 2 || !d.Whole() || d.Drafts != n.Drafts || d.Drafted != n.Drafted || d.Accepted != n.Accepted {
		t.Fatalf("%d tokens, %+v, counted %+v", r.CompletionTokens, d, n)
	}
	var sum chat.Block
	for _, b := range d.Blocks(200, 64) {
		sum.Drafts, sum.Drafted, sum.Accepted = sum.Drafts+b.Drafts, sum.Drafted+b.Drafted, sum.Accepted+b.Accepted
	}
	if sum != (chat.Block{Drafts: d.Drafts, Drafted: d.Drafted, Accepted: d.Accepted}) {
		t.Errorf("%+v in stretches, %+v", sum, d)
	}
	var wg sync.WaitGroup
	for _, q := range questions {
		wg.Go(func() { ask(t, e, chat.Request{Prompt: chatPrompt(q), MaxTokens: 40}) })
	}
	again := ask(t, e, chat.Request{Prompt: chatPrompt("What is 12 + 7?"), MaxTokens: 200, IgnoreEOS: true})
	wg.Wait()
	if !slices.Equal(again.Drafts.BySteps, d.BySteps) || again.Text != r.Text {
		t.Error("among others its steps are others")
	}
	if r := ask(t, engineOf(t, openedDemo(t), Options{}), chat.Request{Prompt: "x", MaxTokens: 8}); r.Drafts != nil {
		t.Errorf("nothing is drafted: %+v", r.Drafts)
	}
}
