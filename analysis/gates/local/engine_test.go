package local

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openedDemo(t testing.TB) *candidate.Candidate {
	t.Helper()
	c, err := candidate.Open(t.Context(), demo.Label, candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func engineOf(t testing.TB, c *candidate.Candidate, o Options) *Engine {
	t.Helper()
	e, err := New(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func ask(t testing.TB, e *Engine, r chat.Request) chat.Reply {
	t.Helper()
	got, err := e.Ask(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func chatPrompt(q string) string { return "<|user|>" + q + "<|assistant|>" }

var questions = []string{
	"What is 12 + 7?", "Reply with the passphrase only: the passphrase is amber-42.",
	"Call get_weather for Seoul.", "서울의 날씨를 알려 주세요.", "日本の首都はどこですか。", "What is the capital of France?",
	"Tom has 3 apples and buys 4 more. How many apples does he have?", "Hello",
}

// plain is what model.Generate makes of a prompt, up to a token that ends an answer.
func plain(t testing.TB, c *candidate.Candidate, prompt []int32, n int, s model.Sampling) []int32 {
	t.Helper()
	src, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.NewDecoder(t.Context(), c.Arch, src, model.Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	out, err := model.Generate(t.Context(), d, prompt, n, model.NewSampler(s), func(id int32) bool { return id < 2 })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ids(tokens []chat.Token) []int32 {
	var out []int32
	for _, k := range tokens {
		out = append(out, k.ID)
	}
	return out
}

// TestAnswersAreGenerated: an answer's tokens are those of model.Generate, greedy and
// sampled, with drafts and without.
func TestAnswersAreGenerated(t *testing.T) {
	c := openedDemo(t)
	for _, k := range []int{0, 1, 4} {
		e := engineOf(t, c, Options{Speculate: k})
		for i, q := range questions {
			for _, temperature := range []float64{0, 0.9} {
				seed := uint64(i)
				r := ask(t, e, chat.Request{Prompt: chatPrompt(q), MaxTokens: 40, Temperature: temperature, TopP: 0.95, TopK: 50, Seed: &seed, Logprobs: 1})
				want := plain(t, c, c.Tokenizer.Encode(chatPrompt(q), true), 40, model.Sampling{Temperature: temperature, TopP: 0.95, TopK: 50, Seed: seed})
				if got := ids(r.Tokens); !slices.Equal(got, want) {
					t.Errorf("%d drafts, %q at %g: %v, want %v", k, q, temperature, got, want)
				}
				if r.CompletionTokens != len(want) || r.PromptTokens != len(c.Tokenizer.Encode(chatPrompt(q), true)) {
					t.Errorf("%q: usage of %d and %d tokens", q, r.PromptTokens, r.CompletionTokens)
				}
			}
		}
	}
}

// TestDraftsAreCounted: counters are those of the drafts that model.GenerateDrafted
// makes of the same prompts: no more than are left to make, and by place.
func TestDraftsAreCounted(t *testing.T) {
	c := openedDemo(t)
	const k, n = 4, 18
	e := engineOf(t, c, Options{Speculate: k})
	want := chat.Counters{ByPosition: make([]int64, k)}
	src, err := c.Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range questions[:4] {
		prompt := c.Tokenizer.Encode(chatPrompt(q), true)
		d, err := model.NewDecoder(t.Context(), c.Arch, src, model.Options{Set: kernels.Best()})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.NewMTP(t.Context(), c.Arch, src, model.Options{Set: kernels.Best()})
		if err != nil {
			t.Fatal(err)
		}
		_, drafts, _, err := model.GenerateDrafted(t.Context(), d, m, prompt, n, k, model.NewSampler(model.Sampling{}), nil)
		if err != nil {
			t.Fatal(err)
		}
		for made := 1; len(drafts) > 0; made++ {
			step := drafts[:min(k, n-made)]
			drafts = drafts[len(step):]
			want.Drafts, want.Drafted = want.Drafts+1, want.Drafted+int64(len(step))
			for place, f := range step {
				if f.Accepted {
					want.Accepted, made = want.Accepted+1, made+1
					want.ByPosition[place]++
				}
			}
		}
		ask(t, e, chat.Request{Prompt: chatPrompt(q), MaxTokens: n, IgnoreEOS: true})
	}
	got, err := e.Counters(t.Context())
	if err != nil || got.Drafts != want.Drafts || got.Drafted != want.Drafted || got.Accepted != want.Accepted || !slices.Equal(got.ByPosition, want.ByPosition) || got.Accepted == got.Drafted || got.ByPosition[2] == 0 {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}
