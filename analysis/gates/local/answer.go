package local

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/model"
)

// answer is a request on its way. What is in the first group is fixed before it is
// queued; the second belongs to the loop.
type answer struct {
	r      chat.Request
	prompt []int32
	begun  time.Time
	gone   atomic.Bool // nobody waits for it
	out    *mailbox
	bytes  int64 // of caches that it may need

	sampler  *model.Sampler
	text     *model.Text
	fed      int // tokens of the prompt that were taken
	cached   int
	made     []int32
	said     words
	tokens   []chat.Token
	told     int          // of tokens, that were handed out
	asked    []chat.Token // log probabilities of the prompt
	drafting model.Drafting
	drafted  chat.Drafts
	step     model.Step
	want     int // of its last rows that say what comes next
	finish   string
	before   []float32 // the logits before, for a fault
	first    time.Duration
}

// mailbox is what the loop leaves for the goroutine that asked, which takes it at
// its own pace.
type mailbox struct {
	mu     sync.Mutex
	deltas []chat.Delta
	reply  *chat.Reply
	err    error
	wake   chan struct{} // capacity 1
}

func (m *mailbox) put(d chat.Delta) {
	m.mu.Lock()
	m.deltas = append(m.deltas, d)
	m.mu.Unlock()
	m.knock()
}

func (m *mailbox) end(r *chat.Reply, err error) {
	m.mu.Lock()
	m.reply, m.err = r, err
	m.mu.Unlock()
	m.knock()
}

func (m *mailbox) knock() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() ([]chat.Delta, *chat.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.deltas
	m.deltas = nil
	return d, m.reply, m.err
}

// refused is the error of a request that cannot be answered.
func (e *Engine) refused(format string, args ...any) error {
	return &chat.Error{At: e.c.Path, Kind: chat.Refused, Reason: fmt.Sprintf(format, args...)}
}

var errClosed = errors.New("the engine was closed")

// Ask implements chat.Target.
func (e *Engine) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	a, err := e.prepare(r)
	if err != nil {
		return chat.Reply{PromptTokens: -1, CompletionTokens: -1, CachedTokens: -1}, err
	}
	e.mu.Lock()
	closed := e.ctx.Err() != nil
	if !closed {
		e.queue = append(e.queue, a)
	}
	e.mu.Unlock()
	if closed {
		return chat.Reply{}, &chat.Error{At: e.c.Path, Kind: chat.Internal, Reason: "cannot answer", Err: errClosed}
	}
	e.knock()
	part := chat.Reply{PromptTokens: len(a.prompt), CompletionTokens: -1, CachedTokens: -1, Model: e.c.Label}
	for {
		select {
		case <-a.out.wake:
		case <-ctx.Done():
			a.gone.Store(true)
			e.knock()
			part.Total = time.Since(a.begun)
			kind := chat.Cut
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				kind = chat.Timeout
			}
			return part, &chat.Error{At: e.c.Path, Kind: kind, Reason: "the answer was not waited for", Err: ctx.Err()}
		}
		deltas, reply, err := a.out.take()
		for _, d := range deltas {
			part.Text += d.Text
			part.Tokens = append(part.Tokens, d.Tokens...)
			part.ToolCalls = append(part.ToolCalls, d.ToolCalls...)
			if each != nil {
				each(d)
			}
		}
		switch {
		case err != nil:
			part.Total = time.Since(a.begun)
			return part, err
		case reply != nil:
			return *reply, nil
		}
	}
}

// prepare makes an answer of a request, or refuses it.
func (e *Engine) prepare(r chat.Request) (*answer, error) {
	a := &answer{r: r, begun: time.Now(), out: &mailbox{wake: make(chan struct{}, 1)}}
	if err := e.checkRequest(&r); err != nil {
		return nil, err
	}
	var err error
	if a.prompt, err = e.PromptIDs(r); err != nil {
		return nil, err
	}
	n := len(a.prompt)
	switch {
	case n == 0:
		return nil, e.refused("the prompt has no tokens")
	case n >= e.o.MaxTokens && r.MaxTokens > 0 || n > e.o.MaxTokens:
		return nil, e.refused("the maximum context length is %d tokens, of prompt and answer, and the prompt has %d", e.o.MaxTokens, n)
	case r.MaxTokens > e.o.MaxTokens-n:
		return nil, e.refused("the maximum context length is %d tokens, the prompt has %d, and an answer of %d is asked for", e.o.MaxTokens, n, r.MaxTokens)
	}
	a.bytes = int64(e.room(a))*e.perToken + e.perText
	if a.bytes > e.o.Mem {
		return nil, e.refused("keys and values of %d tokens need %d bytes of cache, and %d are allowed", e.room(a), a.bytes, e.o.Mem)
	}
	seed := uint64(0)
	if r.Seed != nil {
		seed = *r.Seed
	} else {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		seed = binary.LittleEndian.Uint64(b[:])
	}
	a.sampler = model.NewSampler(model.Sampling{Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, Seed: seed})
	a.said = e.newWords(a.prompt, &a.r)
	return a, nil
}

// room is how many tokens an answer's caches may come to hold: drafts are taken
// before they are known to stay.
func (e *Engine) room(a *answer) int { return len(a.prompt) + a.r.MaxTokens + min(e.o.Speculate, 1) }

// checkRequest refuses settings that mean nothing.
func (e *Engine) checkRequest(r *chat.Request) error {
	given := 0
	for _, b := range []bool{r.Messages != nil, r.Tokens != nil, r.Prompt != ""} {
		if b {
			given++
		}
	}
	real := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	switch {
	case given > 1:
		return e.refused("of messages, a prompt and tokens one is wanted, not %d", given)
	case r.MaxTokens < 0 || r.MaxTokens == 0 && r.PromptLogprobs == 0:
		return e.refused("max_tokens is %d", r.MaxTokens)
	case !real(r.Temperature) || r.Temperature < 0:
		return e.refused("temperature is %g", r.Temperature)
	case !real(r.TopP) || r.TopP < 0 || r.TopP > 1:
		return e.refused("top_p is %g", r.TopP)
	case r.TopK < 0:
		return e.refused("top_k is %d", r.TopK)
	case r.Logprobs < 0 || r.PromptLogprobs < 0:
		return e.refused("%d log probabilities a token, %d of the prompt", r.Logprobs, r.PromptLogprobs)
	}
	for _, s := range r.Stop {
		if s == "" {
			return e.refused("an empty stop string")
		}
	}
	return nil
}
