package chat

import (
	"context"
	"time"
)

// Target is a model that can be asked. Its methods may be called from many
// goroutines. What it could not do is an *Error.
type Target interface {
	// Ask asks and waits for the whole answer. each, where it is not nil, is told
	// of pieces as they come, from one goroutine. With an error the reply is what
	// came until then.
	Ask(ctx context.Context, r Request, each func(Delta)) (Reply, error)
	// Identity says who answers. It is asked anew each time.
	Identity(ctx context.Context) (Identity, error)
	// Counters are the target's own, since it began; ErrNoCounters where it has none.
	Counters(ctx context.Context) (Counters, error)
	Close() error
}

// Tokenizing is a Target that tells how it cuts text into tokens.
type Tokenizing interface {
	// Tokenize gives ids of a text without special tokens added; special tokens in
	// the text are taken as such.
	Tokenize(ctx context.Context, text string) ([]int32, error)
}

// Identity says who answers, as far as it is told.
type Identity struct {
	Kind        string            `json:"kind"` // server, process
	At          string            `json:"at"`   // base URL, or path of the checkpoint
	Model       string            `json:"model"`
	Engine      string            `json:"engine"` // vllm, llama.cpp, quantscope, …; "" unknown
	Version     string            `json:"version,omitempty"`
	Spec        string            `json:"spec,omitempty"`        // in process: as package candidate parses it
	Effective   string            `json:"effective,omitempty"`   // what is really presented
	Content     string            `json:"content,omitempty"`     // identity of the weights, where it is known
	Fingerprint string            `json:"fingerprint,omitempty"` // that the server states
	Speculative int               `json:"speculative"`           // tokens drafted a step; 0: none, -1: not told
	MaxTokens   int               `json:"max_tokens"`            // of prompt and answer together; -1: not told
	Settings    map[string]string `json:"settings,omitempty"`    // others that were told
}

// Counters are cumulative counts of a target. Those that it does not have are -1.
type Counters struct {
	At           time.Time `json:"at"`
	Prompt       int64     `json:"prompt"`                // tokens
	Generated    int64     `json:"generated"`             // tokens
	Steps        int64     `json:"steps"`                 // passes of the main model that made tokens
	Drafts       int64     `json:"drafts"`                // times that tokens were drafted
	Drafted      int64     `json:"drafted"`               // tokens
	Accepted     int64     `json:"accepted"`              // tokens
	ByPosition   []int64   `json:"by_position,omitempty"` // accepted, by place in the draft
	CacheQueries int64     `json:"cache_queries"`         // tokens looked up in the prefix cache
	CacheHits    int64     `json:"cache_hits"`
	Seconds      float64   `json:"seconds"`     // that making tokens took, where counted; else -1
	Speculative  int       `json:"speculative"` // tokens a draft; -1: not told
}

// Since is what a target counted between two looks.
func (c Counters) Since(before Counters) Counters {
	d := c
	d.Prompt, d.Generated = less(c.Prompt, before.Prompt), less(c.Generated, before.Generated)
	d.Steps, d.Drafts = less(c.Steps, before.Steps), less(c.Drafts, before.Drafts)
	d.Drafted, d.Accepted = less(c.Drafted, before.Drafted), less(c.Accepted, before.Accepted)
	d.CacheQueries, d.CacheHits = less(c.CacheQueries, before.CacheQueries), less(c.CacheHits, before.CacheHits)
	if d.Seconds = -1; c.Seconds >= 0 && before.Seconds >= 0 {
		d.Seconds = c.Seconds - before.Seconds
	}
	d.ByPosition = nil
	for i, n := range c.ByPosition {
		if i < len(before.ByPosition) {
			n -= before.ByPosition[i]
		}
		d.ByPosition = append(d.ByPosition, n)
	}
	return d
}

func less(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a - b
}

// Acceptance is accepted over drafted tokens, and the mean length of what a draft
// brought, the token of the main model included: 1 + accepted/drafts. NaN where
// nothing was drafted.
func (c Counters) Acceptance() (rate, length float64) {
	return ratio(c.Accepted, c.Drafted), 1 + ratio(c.Accepted, c.Drafts)
}
