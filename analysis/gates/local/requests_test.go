package local

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/model"
	"quantscope/kernels"
)

// TestRefused: what cannot be answered is refused with its reason, before anything
// is computed.
func TestRefused(t *testing.T) {
	c := openedDemo(t)
	e := engineOf(t, c, Options{Mem: 500 * perToken(c, false)})
	long := prompts(t)[:1100]
	for _, x := range []struct {
		r    chat.Request
		want string
	}{
		{chat.Request{Tokens: long[:1024], MaxTokens: 1}, "maximum context length is 1024 tokens, of prompt and answer, and the prompt has 1024"},
		{chat.Request{Tokens: long[:1000], MaxTokens: 25}, "maximum context length is 1024 tokens, the prompt has 1000, and an answer of 25 is asked for"},
		{chat.Request{Tokens: long[:10], MaxTokens: math.MaxInt}, "maximum context length is 1024"},
		{chat.Request{Tokens: long[:490], MaxTokens: 11}, "keys and values of 501 tokens need 1282560 bytes of cache, and 1280000 are allowed"},
		{chat.Request{Tokens: []int32{1, 1024}, MaxTokens: 1}, "token 1024 at position 1 is outside the vocabulary of 1024"},
		{chat.Request{Tokens: []int32{-1}, MaxTokens: 1}, "token -1 at position 0"},
		{chat.Request{Tokens: []int32{}, MaxTokens: 1}, "the prompt has no tokens"},
		{chat.Request{MaxTokens: 1}, "the prompt has no tokens"},
		{chat.Request{Prompt: "a", Tokens: []int32{1}, MaxTokens: 1}, "one is wanted, not 2"},
		{chat.Request{Prompt: "a"}, "max_tokens is 0"},
		{chat.Request{Prompt: "a", MaxTokens: -1}, "max_tokens is -1"},
		{chat.Request{Prompt: "a", MaxTokens: 1, Temperature: math.NaN()}, "temperature is NaN"},
		{chat.Request{Prompt: "a", MaxTokens: 1, Temperature: -1}, "temperature is -1"},
		{chat.Request{Prompt: "a", MaxTokens: 1, TopP: 1.5}, "top_p is 1.5"},
		{chat.Request{Prompt: "a", MaxTokens: 1, TopK: -1}, "top_k is -1"},
		{chat.Request{Prompt: "a", MaxTokens: 1, Logprobs: -1}, "-1 log probabilities"},
		{chat.Request{Prompt: "a", MaxTokens: 1, Stop: []string{""}}, "an empty stop string"},
	} {
		_, err := e.Ask(t.Context(), x.r, nil)
		var got *chat.Error
		if !errors.As(err, &got) || got.Kind != chat.Refused || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	if n, _ := e.Counters(t.Context()); n.Prompt != 0 {
		t.Errorf("%d tokens of prompts were computed", n.Prompt)
	}
	// What just fits is answered, and what does not fit beside it waits.
	if r := ask(t, e, chat.Request{Tokens: long[:490], MaxTokens: 10, IgnoreEOS: true}); r.CompletionTokens != 10 || r.Finish != chat.FinishLength {
		t.Errorf("%d tokens, %s", r.CompletionTokens, r.Finish)
	}
}

// TestOptions that cannot be are refused, and say what is known.
func TestOptions(t *testing.T) {
	c := openedDemo(t)
	noMTP, err := candidate.Open(t.Context(), "../../model/testdata/llama_tied", candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	defer noMTP.Close()
	for _, x := range []struct {
		c    *candidate.Candidate
		o    Options
		want string
	}{
		{c, Options{Fault: "fusedscale"}, "known are fused-scale, logprobs, prefix-cache, empty"},
		{c, Options{Speculate: 9}, "want 0 to 8"},
		{c, Options{Speculate: -1}, "want 0 to 8"},
		{c, Options{MaxTokens: 1025}, "positions for 1024"},
		{c, Options{Slots: -1}, "-1 slots"},
		{c, Options{Fault: FusedScale}, "no fused matrices with second-level scales that differ"},
		{noMTP, Options{Speculate: 1}, "stores no multi-token-prediction layer"},
		{noMTP, Options{}, "cannot be talked to without a tokenizer"},
	} {
		e, err := New(t.Context(), x.c, x.o)
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", x.o, err, x.want)
		}
	}
	if _, err := New(t.Context(), noMTP, Options{Speculate: 1}); !errors.Is(err, model.ErrNoMTP) {
		t.Errorf("%v is not ErrNoMTP", err)
	}
	if _, err := New(t.Context(), c, Options{Fault: FusedScale}); !errors.Is(err, candidate.ErrNoPairs) {
		t.Errorf("%v is not ErrNoPairs", err)
	}
}

// TestGoneFreesItsSlot: with one slot, an answer that nobody waits for any more
// makes room for the next one, and one that waits itself is forgotten.
func TestGoneFreesItsSlot(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{Slots: 1})
	long := chat.Request{Prompt: "In the beginning", MaxTokens: 1000, IgnoreEOS: true}
	ctx, cancel := context.WithCancel(t.Context())
	got := ""
	r, err := e.Ask(ctx, long, func(d chat.Delta) {
		got += d.Text
		if len(got) > 20 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || r.Text != got || len(got) < 20 || r.Total == 0 {
		t.Errorf("%q, want the %d bytes that came, and context.Canceled: %v", r.Text, len(got), err)
	}
	if r := ask(t, e, chat.Request{Prompt: chatPrompt("한국의 수도는 어디입니까?"), MaxTokens: 40}); r.Text != "한국의 수도는 서울입니다." {
		t.Errorf("the next answer is %q", r.Text)
	}
	if n, _ := e.Counters(t.Context()); n.Generated > 500 {
		t.Errorf("%d tokens were made: the answer that nobody waits for went on", n.Generated)
	}
	// One runs, one waits and its time is over.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan bool, 1)
	first := make(chan error, 1)
	go func() {
		_, err := e.Ask(ctx, long, func(chat.Delta) {
			select {
			case begun <- true:
			default:
			}
		})
		first <- err
	}()
	<-begun
	short, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	_, err = e.Ask(short, long, nil)
	var said *chat.Error
	if !errors.As(err, &said) || said.Kind != chat.Timeout {
		t.Errorf("%v, want a timeout", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ask(t, e, chat.Request{Prompt: "a", MaxTokens: 1})
	if running, waiting := e.Busy(); running != 0 || waiting != 0 {
		t.Errorf("%d run, %d wait", running, waiting)
	}
}

// TestCloseEndsAnswers: all that are made or wait end with an error, and later ones
// are not taken.
func TestCloseEndsAnswers(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{Slots: 2})
	const n = 5
	errs, begun := make(chan error, n), make(chan bool, 1)
	for range n {
		go func() {
			_, err := e.Ask(t.Context(), chat.Request{Prompt: "In the beginning", MaxTokens: 1000, IgnoreEOS: true}, func(chat.Delta) {
				select {
				case begun <- true:
				default:
				}
			})
			errs <- err
		}()
	}
	<-begun
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-errs; !errors.Is(err, errClosed) {
			t.Errorf("%v, want that the engine was closed", err)
		}
	}
	if _, err := e.Ask(t.Context(), chat.Request{Prompt: "a", MaxTokens: 1}, nil); !errors.Is(err, errClosed) {
		t.Errorf("after closing: %v", err)
	}
}

// TestEnds: the tokens that end an answer are those of generation_config.json, else
// of config.json; they are no text, and with IgnoreEOS they end nothing.
func TestEnds(t *testing.T) {
	for text, want := range map[string]int{
		`{"eos_token_id": 7}`: 1, `{"eos_token_id": [7, 8]}`: 2, `{"eos_token_id": null}`: 0, `{}`: 0,
		`{"text_config": {"eos_token_id": 3}}`: 1, `{"eos_token_id": [1], "text_config": {"eos_token_id": [2, 3]}}`: 1,
		`{"eos_token_id": "x"}`: -1, `{`: -1, `{"eos_token_id": 1.5}`: -1,
	} {
		got, err := endIDs([]byte(text))
		if want < 0 != (err != nil) || want >= 0 && len(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	e := engineOf(t, openedDemo(t), Options{})
	r := chat.Request{Prompt: chatPrompt("What is 12+7?"), MaxTokens: 40, Logprobs: 1}
	short := ask(t, e, r)
	if last := short.Tokens[len(short.Tokens)-1].ID; short.Finish != chat.FinishStop || last > 1 || strings.Contains(short.Text, "<|") {
		t.Errorf("%q ends with token %d (%s)", short.Text, last, short.Finish)
	}
	r.IgnoreEOS = true
	if long := ask(t, e, r); long.CompletionTokens != 40 || long.Finish != chat.FinishLength || !strings.HasPrefix(long.Text, short.Text) {
		t.Errorf("with IgnoreEOS %q, %d tokens (%s)", long.Text, long.CompletionTokens, long.Finish)
	}
}

// TestSeeds: the same seed is the same answer, and without one answers differ.
func TestSeeds(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{})
	r := chat.Request{Prompt: "And ", MaxTokens: 60, Temperature: 1.5, IgnoreEOS: true}
	if a, b := ask(t, e, r), ask(t, e, r); a.Text == b.Text {
		t.Errorf("two answers without a seed are %q", a.Text)
	}
	seed := uint64(7)
	r.Seed = &seed
	if a, b := ask(t, e, r), ask(t, e, r); a.Text != b.Text {
		t.Errorf("%q and %q by one seed", a.Text, b.Text)
	}
}

// TestEmptyFault: every answer is empty and says stop.
func TestEmptyFault(t *testing.T) {
	e := engineOf(t, openedDemo(t), Options{Fault: CountEmpty, Speculate: 2})
	r := ask(t, e, chat.Request{Prompt: chatPrompt("What is 12+7?"), MaxTokens: 40})
	if r.Text != "" || r.Finish != chat.FinishStop || r.CompletionTokens != 1 {
		t.Errorf("%q, %s, %d tokens", r.Text, r.Finish, r.CompletionTokens)
	}
}

// TestIdentity says what answers, its fault by name.
func TestIdentity(t *testing.T) {
	c := openedDemo(t)
	v, err := candidate.Parse(t.Context(), c, "four=nvfp4@linear", candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	clean, wrong := engineOf(t, v, Options{Speculate: 2, BF16: true}), engineOf(t, v, Options{Fault: FusedScale, MaxTokens: 500, PrefixCache: true})
	a, _ := clean.Identity(t.Context())
	b, _ := wrong.Identity(t.Context())
	if a.Kind != "process" || a.Engine != "quantscope" || a.Model != "four" || a.Spec != "nvfp4@linear" || a.Effective != "nvfp4@linear" || a.Speculative != 2 || a.MaxTokens != 1024 {
		t.Errorf("%+v", a)
	}
	if a.Settings["kernel_set"] != kernels.Best().Name || a.Settings["fault"] != "" || a.Settings["activations"] != "bf16" || a.Settings["prefix_cache"] != "off" {
		t.Errorf("%v", a.Settings)
	}
	plain, _ := engineOf(t, c, Options{}).Identity(t.Context())
	if a.Content == "" || a.Content == b.Content || a.Content == plain.Content || b.Content == plain.Content {
		t.Errorf("contents %q, %q with a fault, %q of the reference", a.Content, b.Content, plain.Content)
	}
	if b.Settings["fault"] != "fused-scale" || b.MaxTokens != 500 || b.Settings["prefix_cache"] != "on" || b.Effective == a.Effective {
		t.Errorf("%+v", b)
	}
}
