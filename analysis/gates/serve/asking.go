package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"quantscope/analysis/gates/chat"
)

// event is news of one answer of a request.
type event struct {
	at    int // which answer
	delta chat.Delta
	done  bool // reply and err are there
	reply chat.Reply
	err   error
}

// asking is a request's answers while they are made. Engines hand over pieces and are
// never held up by a client that reads slowly: pieces wait here, bounded by the
// tokens of the answers.
type asking struct {
	mu     sync.Mutex
	events []event
	wake   chan struct{}
	stop   context.CancelFunc
	all    sync.WaitGroup
	left   int
}

// ask begins all answers. ctx ends them; close waits for their ends.
func (s *Server) ask(ctx context.Context, requests []chat.Request) *asking {
	ctx, stop := context.WithCancel(ctx)
	a := &asking{wake: make(chan struct{}, 1), stop: stop, left: len(requests)}
	for i, r := range requests {
		a.all.Add(1)
		go func() {
			defer a.all.Done()
			a.post(s.one(ctx, i, r, a.post))
		}()
	}
	return a
}

// one makes one answer. What breaks in an engine ends that answer alone.
func (s *Server) one(ctx context.Context, i int, r chat.Request, post func(event)) (e event) {
	began := time.Now()
	watch := s.meters.begin(began)
	defer func() {
		if broken := recover(); broken != nil {
			e = event{at: i, done: true, err: fmt.Errorf("the engine broke: %v", broken)}
		}
		watch.end(&e)
	}()
	reply, err := s.engine.Ask(ctx, r, func(d chat.Delta) {
		watch.piece(time.Now())
		d.ToolCalls, d.Tokens = slices.Clone(d.ToolCalls), slices.Clone(d.Tokens)
		post(event{at: i, delta: d})
	})
	if err == nil && ctx.Err() != nil && reply.Finish == "" {
		err = ctx.Err()
	}
	return event{at: i, done: true, reply: reply, err: err}
}

func (a *asking) post(e event) {
	a.mu.Lock()
	a.events = append(a.events, e)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// next waits for news; ok is false when all answers have ended.
func (a *asking) next() (news []event, ok bool) {
	for a.left > 0 {
		a.mu.Lock()
		news, a.events = a.events, nil
		a.mu.Unlock()
		if len(news) > 0 {
			for i := range news {
				if news[i].done {
					a.left--
				}
			}
			return news, true
		}
		<-a.wake
	}
	return nil, false
}

// whole waits for all answers. The first error ends the others.
func (a *asking) whole(n int) ([]chat.Reply, error) {
	replies := make([]chat.Reply, n)
	var first error
	for {
		news, ok := a.next()
		if !ok {
			return replies, first
		}
		for _, e := range news {
			if !e.done {
				continue
			}
			replies[e.at] = e.reply
			if e.err != nil && (first == nil || errors.Is(first, context.Canceled)) {
				first = e.err
				a.stop()
			}
		}
	}
}

// close ends what is left and waits for it.
func (a *asking) close() {
	a.stop()
	a.all.Wait()
}

// room is the prompt of a request, and how many tokens there may be beside it.
func (s *Server) room(r *chat.Request) (ids []int32, room int, e *apiError) {
	ids, err := s.engine.PromptIDs(*r)
	if err != nil {
		return nil, 0, asError(err)
	}
	if len(ids) == 0 {
		return nil, 0, bad("", "the prompt has no tokens")
	}
	return ids, s.engine.Fits() - len(ids), nil
}

// alternatives refuses a request whose log probabilities could fill the memory.
func alternatives(requests []chat.Request, ids func(i int) []int32) *apiError {
	sum := int64(0)
	for i := range requests {
		r := &requests[i]
		sum += int64(r.Logprobs)*int64(r.MaxTokens) + int64(r.PromptLogprobs)*int64(len(ids(i)))
		if sum > maxAlts {
			return bad("logprobs", "log probabilities of more than %d tokens and others likely there could be told: ask for fewer of the likeliest, or for fewer tokens", maxAlts)
		}
	}
	return nil
}

// newID is a name for an answer or a call.
func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// usage is what was read and made.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// add counts a reply; its prompt once for all that answer the same.
func (u *usage) add(r *chat.Reply, first bool) {
	if first {
		u.Prompt += max(r.PromptTokens, 0)
		u.Details.Cached += max(r.CachedTokens, 0)
	}
	u.Completion += max(r.CompletionTokens, 0)
	u.Total = u.Prompt + u.Completion
}

// noteUsage tells the log of answers.
func noteUsage(w http.ResponseWriter, u *usage, finish string) {
	if said, ok := w.(*said); ok {
		said.note = fmt.Sprintf("prompt %d, made %d, %s", u.Prompt, u.Completion, finish)
	}
}
