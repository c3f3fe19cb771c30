package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"quantscope/analysis/gates/chat"
)

// fake is an engine whose tokens are characters. It repeats the end of its prompt, or
// does what a word in it says:
//
//	hold    waits for release or its context
//	call    calls the first tool twice
//	flood   makes a megabyte
//	break   panics
//	refuse  is refused
//	fail    breaks off after a piece
type fake struct {
	mu       sync.Mutex
	requests []chat.Request
	held     int // answers that wait
	broken   int // answers whose context ended
	release  chan struct{}
	entered  chan struct{} // told when an answer waits
	counters chat.Counters
	spec     int
	settings map[string]string
}

func newFake() *fake {
	return &fake{
		release: make(chan struct{}), entered: make(chan struct{}, 1024), spec: 2, settings: map[string]string{"kernel_set": "ref", "threads": "2"},
		counters: chat.Counters{Prompt: 10, Generated: 20, Steps: 8, Drafts: 7, Drafted: 14, Accepted: 9, ByPosition: []int64{6, 3}, CacheQueries: 10, CacheHits: 4, Seconds: 1.5, Speculative: 2},
	}
}

// PromptIDs puts a ^ before texts, as a tokenizer that begins them does.
func (f *fake) PromptIDs(r chat.Request) ([]int32, error) {
	text := "^" + r.Prompt
	switch {
	case r.Messages != nil:
		text = ""
		for _, m := range r.Messages {
			if m.Content == "untemplated" {
				return nil, &chat.Error{At: "demo", Kind: chat.Refused, Reason: "the messages have no prompt", Err: errors.New("no such\nrole")}
			}
			text += fmt.Sprintf("<%s>%s", m.Role, m.Content)
		}
	case r.Tokens != nil:
		return r.Tokens, nil
	}
	return f.Tokenize(context.Background(), text)
}

func (f *fake) Fits() int { return 4096 }

func (f *fake) Tokenize(_ context.Context, text string) (ids []int32, err error) {
	for _, r := range text {
		ids = append(ids, r)
	}
	return ids, nil
}

func (f *fake) Detokenize(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteRune(id)
	}
	return b.String()
}

func (f *fake) Identity(context.Context) (chat.Identity, error) {
	return chat.Identity{
		Kind: "process", At: "demo", Model: "fake/model", Engine: "quantscope", Version: "1", Spec: "nvfp4", Effective: "nvfp4+rtn", Content: "c0ffee",
		Speculative: f.spec, MaxTokens: 4096, Settings: f.settings,
	}, nil
}

func (f *fake) Counters(context.Context) (chat.Counters, error) { return f.counters, nil }

func (f *fake) Busy() (running, waiting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held, 0
}

// token is a character with the likeliest beside it.
func token(i int, r rune, top int) chat.Token {
	t := chat.Token{ID: r, Text: string(r), Known: true, Logprob: -0.5 - float64(i)/8, Rank: 2}
	for k := range top {
		t.Top = append(t.Top, chat.Alt{ID: int32('a' + k), Text: string(rune('a' + k)), Logprob: -0.25 - float64(k)})
	}
	return t
}

func (f *fake) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	f.mu.Lock()
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	ids, err := f.PromptIDs(r)
	if err != nil {
		return chat.Reply{}, err
	}
	prompt := f.Detokenize(ids)
	runes := []rune(prompt)
	reply := chat.Reply{PromptTokens: len(runes), CachedTokens: 1, Finish: chat.FinishStop, First: 3 * time.Millisecond}
	if r.PromptLogprobs > 0 {
		for i, c := range runes {
			t := token(i, c, r.PromptLogprobs)
			if i == 0 {
				t = chat.Token{ID: c, Text: string(c)}
			}
			reply.Prompt = append(reply.Prompt, t)
		}
	}
	text := "re:" + string(runes[max(0, len(runes)-5):])
	switch {
	case len(runes)+r.MaxTokens > 4096:
		return reply, &chat.Error{At: "demo", Kind: chat.Refused, Reason: "the model's context is 4096 tokens"}
	case strings.Contains(prompt, "hold"):
		f.hold(ctx)
		if ctx.Err() != nil {
			return reply, ctx.Err()
		}
	case strings.Contains(prompt, "break"):
		panic("as asked")
	case strings.Contains(prompt, "refuse"):
		return reply, &chat.Error{At: "demo", Kind: chat.Refused, Reason: "the answer does not fit", Err: errors.New("1 GiB")}
	case strings.Contains(prompt, "fail"):
		each(chat.Delta{Text: "so"})
		return reply, &chat.Error{At: "demo", Kind: chat.Internal, Reason: "layer 3: not finite"}
	case strings.Contains(prompt, "flood"):
		for range 1024 {
			each(chat.Delta{Text: strings.Repeat("x", 1024)})
		}
		reply.Text = strings.Repeat("x", 1<<20)
		return reply, nil
	case strings.Contains(prompt, "call") && len(r.Tools) > 0:
		text, reply.Finish = "", chat.FinishTools
		for i := range 2 {
			reply.ToolCalls = append(reply.ToolCalls, chat.ToolCall{Name: r.Tools[0].Name, Arguments: fmt.Sprintf(`{"of": "서울 %d"}`, i)})
		}
		each(chat.Delta{ToolCalls: reply.ToolCalls[:1]}) // the second comes with the whole
	}
	for i, c := range []rune(text) {
		if i >= r.MaxTokens {
			reply.Finish = chat.FinishLength
			break
		}
		d := chat.Delta{Text: string(c)}
		if r.Logprobs > 0 {
			reply.Tokens = append(reply.Tokens, token(i, c, r.Logprobs))
			d.Tokens = reply.Tokens[i:]
		}
		reply.Text += d.Text
		reply.CompletionTokens++
		each(d)
	}
	return reply, nil
}

func (f *fake) hold(ctx context.Context) {
	f.mu.Lock()
	f.held++
	f.mu.Unlock()
	f.entered <- struct{}{}
	select {
	case <-f.release:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held--
	if ctx.Err() != nil {
		f.broken++
	}
}

// last is the newest request.
func (f *fake) last() chat.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1]
}

// soon waits until something holds, bounded.
func soon(holds func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if holds() {
			return true
		}
		<-time.After(time.Millisecond)
	}
	return false
}
