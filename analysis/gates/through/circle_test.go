package through_test

import (
	"context"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/openai"
	"quantscope/analysis/gates/serve"
	"quantscope/analysis/gates/through"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

// served is a candidate behind a server of our own, and the client of it.
func served(t *testing.T, c *candidate.Candidate) *openai.Client {
	t.Helper()
	e, err := local.New(t.Context(), c, local.Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := httptest.NewServer(serve.Handler(e, serve.Options{}))
	t.Cleanup(s.Close)
	client, err := openai.Open(t.Context(), s.URL, openai.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestFullCircle measures the demo and a variant of it through servers, and holds
// that against what the yardstick computes from the whole vocabulary in process: the
// same loss, and a divergence that the bound does not exceed, and comes the closer to
// the more tokens are told.
func TestFullCircle(t *testing.T) {
	ctx := context.Background()
	o := candidate.Options{Set: kernels.Best()}
	ref, err := candidate.Open(ctx, demo.Label, o)
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	cand, err := candidate.Parse(ctx, ref, "nvfp4", o)
	if err != nil {
		t.Fatal(err)
	}
	defer cand.Close()
	all, err := corpus.Demo()
	if err != nil {
		t.Fatal(err)
	}
	text := *all[0]
	text.Chunks = nil
	for _, ids := range all[0].Chunks[:3] {
		text.Chunks = append(text.Chunks, ids[:96])
	}
	truth, err := yardstick.Measure(ctx, ref, []*candidate.Candidate{cand}, []*corpus.Corpus{&text}, yardstick.Options{Threads: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := truth.Results[0].All

	base, quantized := served(t, ref), served(t, cand)
	said := func(c *openai.Client, top int) *through.Said {
		s, err := through.Ask(ctx, c, text.Chunks, through.Options{Top: top})
		if err != nil {
			t.Fatal(err)
		}
		if why := through.Examine(s).Reason(); why != "" {
			t.Errorf("top %d: %s", top, why)
		}
		return s
	}
	last := 0.0
	for _, top := range []int{1, 20, 128} {
		b, c := said(base, top), said(quantized, top)
		arm := through.Sum(c)
		if math.Abs(arm.NLL-want.NLL) > 1e-4 || arm.Positions != 3*95 {
			t.Errorf("top %d: loss %.6f on %d positions, the yardstick has %.6f", top, arm.NLL, arm.Positions, want.NLL)
		}
		pair, _, err := through.Compare(b, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("top %d: bound %.6f of %.6f, seen %.4f, loss %.6f", top, pair.KL, want.KL, arm.Seen, arm.NLL)
		if pair.KL > want.KL+1e-6 || pair.KL < last || math.Abs(pair.Top1-want.Top1) > 1e-9 {
			t.Errorf("top %d: bound %.6f after %.6f, the divergence is %.6f; top-1 %.4f, %.4f", top, pair.KL, last, want.KL, pair.Top1, want.Top1)
		}
		last = pair.KL
	}
	if last < 0.95*want.KL {
		t.Errorf("128 of 1024 tell %.6f of %.6f", last, want.KL)
	}
	id, err := quantized.Identity(ctx)
	if err != nil || id.Engine != "quantscope" || id.Fingerprint == "" || id.Speculative != 0 || !strings.HasPrefix(id.Spec, "nvfp4") || id.Content == "" {
		t.Errorf("%+v, %v", id, err)
	}
}

// TestTextCircle asks with text, special tokens in it, and finds the same ids.
func TestTextCircle(t *testing.T) {
	ref, err := candidate.Open(t.Context(), demo.Label, candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	c := served(t, ref)
	prompt := "<|user|>한국의 수도는 어디입니까?<|assistant|>"
	ids, err := c.Tokenize(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	said, err := c.Ask(t.Context(), chat.Request{Prompt: prompt, PromptLogprobs: 3}, nil)
	if err != nil || len(said.Prompt) != len(ids) || said.Text != "" {
		t.Fatalf("%+v, %v", said, err)
	}
	for i, p := range said.Prompt {
		if p.ID != ids[i] || p.Known != (i > 0) {
			t.Errorf("%d: %+v", i, p)
		}
	}
	for _, stream := range []bool{false, true} {
		reply, err := c.Ask(t.Context(), chat.Request{Messages: []chat.Message{{Role: chat.User, Content: "한국의 수도는 어디입니까?"}}, MaxTokens: 48, Logprobs: 3, Stream: stream}, nil)
		if err != nil || len(reply.Tokens) != reply.CompletionTokens || reply.Invalid != 0 || len(reply.Tokens) == 0 {
			t.Fatalf("%+v, %v", reply, err)
		}
		text := ""
		for i, tok := range reply.Tokens {
			text += tok.Text
			if tok.ID < 0 || tok.Rank != 1 || len(tok.Top) != 3 || tok.Top[0].ID != tok.ID {
				t.Errorf("%d: %+v", i, tok)
			}
		}
		if !strings.HasPrefix(text, reply.Text) {
			t.Errorf("tokens say %q, the answer %q", text, reply.Text)
		}
	}
}
