package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/template"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/tokenizer"
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

// Bounds and defaults of Options.
const (
	MaxSpeculate = 8
	defaultSlots = 8
	maxSlots     = 1024
	defaultMem   = 1 << 30
)

// check fills in what is not said and refuses what cannot be.
func (o *Options) check(c *candidate.Candidate) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("local: %s: %w", c.Label, fmt.Errorf(format, args...))
	}
	if o.Set.Name == "" {
		o.Set = kernels.Best()
	}
	if o.Slots == 0 {
		o.Slots = defaultSlots
	}
	if o.Mem == 0 {
		o.Mem = defaultMem
	}
	most := c.Arch.MaxPositions
	if o.MaxTokens == 0 {
		o.MaxTokens = most
	}
	switch {
	case o.Fault != NoFault && !slices.Contains(Faults(), o.Fault):
		var names []string
		for _, f := range Faults() {
			names = append(names, string(f))
		}
		return refuse("fault %q is not known; known are %s", o.Fault, strings.Join(names, ", "))
	case o.Threads < 0 || o.Slots < 0 || o.Slots > maxSlots || o.Mem < 0:
		return refuse("%d threads, %d slots, %d bytes of caches", o.Threads, o.Slots, o.Mem)
	case o.Speculate < 0 || o.Speculate > MaxSpeculate:
		return refuse("%d tokens drafted a step, want 0 to %d", o.Speculate, MaxSpeculate)
	case o.Speculate > 0 && len(c.Arch.MTP) == 0:
		return refuse("tokens cannot be drafted: %w", model.ErrNoMTP)
	case o.MaxTokens <= 0:
		return refuse("the config says no max_position_embeddings: how many tokens a text may have must be said")
	case most > 0 && o.MaxTokens > most:
		return refuse("texts of %d tokens, and the model has positions for %d", o.MaxTokens, most)
	case c.Tokenizer == nil:
		return fmt.Errorf("local: %s cannot be talked to without a tokenizer: %w", c.Label, c.TokenizerErr)
	}
	return nil
}

// Engine is a candidate that answers. It implements chat.Target and
// chat.Tokenizing, and may be used from many goroutines.
type Engine struct {
	c         *candidate.Candidate
	o         Options
	tok       *tokenizer.Tokenizer
	template  *template.Template
	noChat    error // why there is no template
	style     template.Style
	marks     map[int32]bool // special tokens that content keeps
	ends      map[int32]bool
	batch     *model.Batch
	module    *model.MTP // nil: nothing is drafted
	perToken  int64      // bytes of caches
	perText   int64      // the same of a text of any length
	effective string
	content   string

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ended  chan struct{} // when the loop has
	wake   chan struct{} // capacity 1

	mu      sync.Mutex // of what follows
	queue   []*answer
	running int
	counts  chat.Counters

	loop loop // of its goroutine alone
}

var (
	_ chat.Target     = (*Engine)(nil)
	_ chat.Tokenizing = (*Engine)(nil)
)

// New makes an Engine. The candidate stays the caller's and must outlive it. ctx
// is of the opening alone.
func New(ctx context.Context, c *candidate.Candidate, o Options) (*Engine, error) {
	if c.Arch == nil {
		return nil, fmt.Errorf("local: %s has no forward pass", c.Label)
	}
	if err := o.check(c); err != nil {
		return nil, err
	}
	e := &Engine{c: c, o: o, tok: c.Tokenizer, effective: c.Effective, content: contentOf(c), ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	if err := e.open(ctx); err != nil {
		e.cancel()
		return nil, err
	}
	go e.run()
	return e, nil
}

// open reads what answers need beside the weights of layers.
func (e *Engine) open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.readSide(); err != nil {
		return err
	}
	src, err := e.source(ctx)
	if err != nil {
		return err
	}
	o := model.Options{Set: e.o.Set, Threads: e.o.Threads, BF16: e.o.BF16}
	if e.batch, err = model.NewBatch(ctx, e.c.Arch, src, o); err != nil {
		return fmt.Errorf("local: %s: %w", e.c.Label, err)
	}
	if e.o.Speculate > 0 {
		if err := e.wholeModule(src); err != nil {
			return err
		}
		if e.module, err = model.NewMTP(ctx, e.c.Arch, src, o); err != nil {
			return fmt.Errorf("local: %s: %w", e.c.Label, err)
		}
	}
	e.perToken, e.perText = e.c.Arch.CacheBytes(e.module != nil)
	e.counts = chat.Counters{Speculative: e.o.Speculate, ByPosition: make([]int64, e.o.Speculate)}
	return nil
}

// source is a source of the candidate's weights, with the fault where it is one of
// the weights.
func (e *Engine) source(ctx context.Context) (model.Source, error) {
	if e.o.Fault != FusedScale {
		return e.c.Source()
	}
	f, err := candidate.FusedScale(ctx, e.c)
	if err != nil {
		return nil, fmt.Errorf("local: fault %s: %w", FusedScale, err)
	}
	e.effective, e.content = f.Effective, contentOf(f)
	return f.Source()
}

// contentOf is what tells a candidate's weights from others': its content where that
// is known. Else it is the identity of its files, and with it what is made of them, since
// the identity is the reference's then.
func contentOf(c *candidate.Candidate) string {
	switch {
	case c.Content != "" || c.Identity == "":
		return c.Content
	case c.Kind == candidate.Checkpoint || c.Kind == candidate.GGUF:
		return c.Identity
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q %q", c.Identity, c.Kind, c.Spec, c.Effective))
	return hex.EncodeToString(sum[:])
}

// wholeModule wants all tensors of the MTP layer, which opening a candidate does
// not.
func (e *Engine) wholeModule(src model.Source) error {
	for _, n := range candidate.LayerNeeds(e.c.Arch, &e.c.Arch.MTP[0]) {
		if !src.Has(n.At, n.Param) {
			return fmt.Errorf("local: %s: tokens cannot be drafted: %s %s of the MTP layer: %w", e.c.Label, n.At, n.Param, model.ErrAbsent)
		}
	}
	return nil
}

// Identity implements chat.Target.
func (e *Engine) Identity(context.Context) (chat.Identity, error) {
	id := chat.Identity{
		Kind: "process", At: e.c.Path, Model: e.c.Label, Engine: "quantscope", Spec: e.c.Spec, Effective: e.effective,
		Content: e.content, Speculative: e.o.Speculate, MaxTokens: e.o.MaxTokens,
		Settings: map[string]string{
			"kernel_set": e.o.Set.Name, "threads": fmt.Sprint(e.o.Threads), "slots": fmt.Sprint(e.o.Slots), "prefix_cache": "off", "activations": "f32",
		},
	}
	if e.o.PrefixCache {
		id.Settings["prefix_cache"] = "on"
	}
	if e.o.BF16 {
		id.Settings["activations"] = "bf16"
	}
	if e.o.Fault != NoFault {
		id.Settings["fault"] = string(e.o.Fault)
	}
	return id, nil
}

// Counters implements chat.Target. Tokens of prompts are all of them, those that the
// prefix cache had among them, as vLLM counts. Steps are counted for each answer: of texts that
// go through the model together each has one. Seconds are those of steps that made
// tokens, not of those that only took in prompts.
func (e *Engine) Counters(context.Context) (chat.Counters, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.counts
	c.ByPosition = slices.Clone(c.ByPosition)
	c.At = time.Now()
	return c, nil
}

// Tokenize implements chat.Tokenizing.
func (e *Engine) Tokenize(_ context.Context, text string) ([]int32, error) {
	return e.tok.Encode(text, false), nil
}

// Detokenize is the text of ids, special tokens included.
func (e *Engine) Detokenize(ids []int32) string { return e.tok.Decode(ids, false) }

// Render is the prompt that messages become.
func (e *Engine) Render(messages []chat.Message, tools []chat.Tool, args map[string]any) (string, error) {
	if e.template == nil {
		return "", fmt.Errorf("%s has no chat template: %w", e.c.Label, e.noChat)
	}
	return e.template.Render(messages, tools, args)
}

// Busy is how many answers are being made, and how many wait.
func (e *Engine) Busy() (running, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running, len(e.queue)
}

// Close implements chat.Target. Answers that are being made end with an error.
func (e *Engine) Close() error {
	e.cancel()
	<-e.ended
	return nil
}
