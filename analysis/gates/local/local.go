package local

import (
	"context"
	"errors"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
	"quantscope/kernels"
)

// Fault is something wrong on purpose, for tests of what should find it.
type Fault string

// Faults.
const (
	NoFault     Fault = ""
	FusedScale  Fault = "fused-scale"  // the second-level scale of the first half is used for both of a fused pair
	BadLogprobs Fault = "logprobs"     // under speculation, log probabilities are of the token before
	CachedTimes Fault = "prefix-cache" // the prefix cache is on and is not told of
	CountEmpty  Fault = "empty"        // every answer is empty and says stop
)

// Faults lists them by name.
func Faults() []Fault { return []Fault{FusedScale, BadLogprobs, CachedTimes, CountEmpty} }

// Options of an Engine.
type Options struct {
	Set         kernels.Set
	Threads     int // 0: all processors
	Speculate   int // tokens drafted a step by the MTP layer, 0 to 8; more than 0 without such a layer is an error
	PrefixCache bool
	Slots       int   // answers at the same time; 0: 8. Others wait
	Mem         int64 // bytes of caches of keys and values; 0: 1 GiB
	MaxTokens   int   // of prompt and answer; 0: what the config says
	Fault       Fault
	BF16        bool // activations are rounded as a bf16 run would
}

// Engine is a candidate that answers. It implements chat.Target and
// chat.Tokenizing, and may be used from many goroutines.
type Engine struct{}

var (
	_ chat.Target     = (*Engine)(nil)
	_ chat.Tokenizing = (*Engine)(nil)
)

// New makes an Engine. The candidate stays the caller's and must outlive it.
func New(ctx context.Context, c *candidate.Candidate, o Options) (*Engine, error) {
	return nil, errors.New("local: not there")
}

// Ask implements chat.Target.
func (e *Engine) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	return chat.Reply{}, errors.New("local: not there")
}

// Identity implements chat.Target.
func (e *Engine) Identity(ctx context.Context) (chat.Identity, error) {
	return chat.Identity{}, errors.New("local: not there")
}

// Counters implements chat.Target.
func (e *Engine) Counters(ctx context.Context) (chat.Counters, error) {
	return chat.Counters{}, errors.New("local: not there")
}

// Tokenize implements chat.Tokenizing.
func (e *Engine) Tokenize(ctx context.Context, text string) ([]int32, error) {
	return nil, errors.New("local: not there")
}

// Detokenize is the text of ids, special tokens included.
func (e *Engine) Detokenize(ids []int32) string { return "" }

// Render is the prompt that messages become.
func (e *Engine) Render(messages []chat.Message, tools []chat.Tool, args map[string]any) (string, error) {
	return "", errors.New("local: not there")
}

// Busy is how many answers are being made, and how many wait.
func (e *Engine) Busy() (running, waiting int) { return 0, 0 }

// Close implements chat.Target.
func (e *Engine) Close() error { return nil }
