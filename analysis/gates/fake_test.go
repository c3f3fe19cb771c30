package gates

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
)

// fake is a target that answers what it is told to.
type fake struct {
	id       chat.Identity
	answer   func(r chat.Request) chat.Reply // what it answers; counts are filled in
	fail     func(n int, r chat.Request) error
	logprob  func(id int32, before []int32) float64 // of a token after others; nil: none are told
	counts   bool
	closed   func()
	shiftGen bool                        // log probabilities of what it makes are of the token before
	madeUp   func(i int) float64         // they are these
	rank     int                         // of every token of a prompt
	top      func(chat.Token) []chat.Alt // the likeliest at a token; nil: itself
	drafts   int                         // tokens a step
	spoil    func(*chat.Counters)        // before they are told

	mu       sync.Mutex
	asked    int
	open     int // requests at this moment
	most     int
	requests []chat.Request
	counters chat.Counters
}

func (f *fake) Identity(context.Context) (chat.Identity, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id, nil
}

func (f *fake) Counters(context.Context) (chat.Counters, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.counts {
		return chat.Counters{}, chat.ErrNoCounters
	}
	c := f.counters
	c.ByPosition = slices.Clone(c.ByPosition)
	c.At = time.Now()
	if f.spoil != nil {
		f.spoil(&c)
	}
	return c, nil
}

func (f *fake) Close() error {
	if f.closed != nil {
		f.closed()
	}
	return nil
}

func (f *fake) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	f.mu.Lock()
	n := f.asked
	f.asked++
	f.open++
	f.most = max(f.most, f.open)
	f.requests = append(f.requests, r)
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.open--; f.mu.Unlock() }()
	if f.fail != nil {
		if err := f.fail(n, r); err != nil {
			return chat.Reply{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return chat.Reply{}, err
	}
	prompt := textOf(r)
	reply := chat.Reply{Finish: chat.FinishStop, PromptTokens: len(idsOf(prompt)), CompletionTokens: -1, CachedTokens: -1,
		First: time.Millisecond, Total: 2 * time.Millisecond, Model: f.id.Model}
	if r.MaxTokens > 0 {
		got := f.answer(r)
		if got.Text != "" || got.Finish != "" {
			reply.Text, reply.ToolCalls = got.Text, got.ToolCalls
		}
		if got.Finish != "" {
			reply.Finish = got.Finish
		}
		if got.Model != "" {
			reply.Model = got.Model
		}
		reply.Fingerprint = got.Fingerprint
		if got.First != 0 {
			reply.First = max(0, got.First) // below 0: not told
		}
		if got.CachedTokens != 0 {
			reply.CachedTokens = got.CachedTokens
		}
		if reply.CompletionTokens = got.CompletionTokens; got.CompletionTokens == 0 {
			reply.CompletionTokens = utf8.RuneCountInString(reply.Text)
		}
	}
	if r.MaxTokens == 0 {
		reply.CompletionTokens = 0
	}
	if f.logprob != nil {
		if r.PromptLogprobs > 0 {
			reply.Prompt = f.tokens(nil, idsOf(prompt), r.PromptLogprobs, 0)
			reply.Prompt[0].Known = false
		}
		if r.Logprobs > 0 {
			shift := 0
			if f.shiftGen {
				shift = 1
			}
			reply.Tokens = f.tokens(idsOf(prompt), idsOf(reply.Text), r.Logprobs, shift)
			for i := range reply.Tokens {
				if f.madeUp != nil {
					reply.Tokens[i].Logprob = f.madeUp(i)
				}
			}
		}
	} else if r.PromptLogprobs > 0 {
		return reply, &chat.Error{At: "fake", Kind: chat.Refused, Reason: "prompt log probabilities", Err: chat.ErrUnsupported}
	}
	f.mu.Lock()
	f.counters.Generated += int64(max(0, reply.CompletionTokens))
	f.counters.Prompt += int64(reply.PromptTokens)
	f.draft()
	f.mu.Unlock()
	return reply, nil
}

// draft counts a step of drafts, of which half is accepted. It is called under mu.
func (f *fake) draft() {
	k, c := int64(f.drafts), &f.counters
	c.Speculative = f.drafts
	if k <= 0 {
		return
	}
	if c.Drafts < 0 {
		c.Drafts, c.Drafted, c.Accepted, c.ByPosition = 0, 0, 0, make([]int64, k)
	}
	c.Drafts += 2
	c.Drafted += 2 * k
	c.Accepted += k
	for i := range c.ByPosition {
		c.ByPosition[i]++
	}
}

// tokens are those of ids after others, each with its log probability, or that of the
// token shift places before.
func (f *fake) tokens(before, ids []int32, top, shift int) []chat.Token {
	all := append(append([]int32{}, before...), ids...)
	out := make([]chat.Token, 0, len(ids))
	for i := range ids {
		at := len(before) + i - shift
		t := chat.Token{ID: ids[i], Text: string(rune(ids[i])), Known: true}
		if at >= 0 {
			t.Logprob = f.logprob(all[at], all[:at])
			t.Rank = 1 + int(-t.Logprob*3)
		}
		if f.rank > 0 {
			t.Rank = f.rank
		}
		t.Top = []chat.Alt{{ID: t.ID, Text: t.Text, Logprob: t.Logprob}}
		if f.top != nil {
			t.Top = f.top(t)
		}
		out = append(out, t)
	}
	return out
}

// textOf is what a fake takes a request for: its messages or its prompt.
func textOf(r chat.Request) string {
	var b strings.Builder
	for _, m := range r.Messages {
		fmt.Fprintf(&b, "<%s>%s", m.Role, m.Content)
	}
	b.WriteString(r.Prompt)
	for _, id := range r.Tokens {
		b.WriteRune(rune(id))
	}
	return b.String()
}

func idsOf(text string) []int32 {
	var out []int32
	for _, c := range text {
		out = append(out, c)
	}
	return out
}

// hashed is a log probability that depends on the token and all before it, with
// seasoning for another model.
func hashed(season string) func(int32, []int32) float64 {
	return func(id int32, before []int32) float64 {
		h := sha256.New()
		h.Write([]byte(season))
		binary.Write(h, binary.LittleEndian, before)
		binary.Write(h, binary.LittleEndian, id)
		u := float64(binary.LittleEndian.Uint32(h.Sum(nil))) / (1 << 32)
		return math.Log(0.05 + 0.95*u)
	}
}

// last is the last question of a request, without a nonce before it.
func last(r chat.Request) string {
	text := r.Prompt
	if n := len(r.Messages); n > 0 {
		text = r.Messages[n-1].Content
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// always grades by the wanted text alone.
func always(_ *suite.Probe, c *suite.Case, a *grade.Answer, base *grade.Answer) grade.Verdict {
	v := grade.Verdict{Reason: "said so"}
	if a.Error != "" {
		return grade.Verdict{Reason: a.Error, Fault: grade.Erred}
	}
	want := ""
	if c.Want != nil {
		want = c.Want.Text
	}
	if base != nil {
		want = base.Replies[0].Text
	}
	for _, r := range a.Replies {
		if strings.TrimSpace(r.Text) == "" && len(r.ToolCalls) == 0 {
			return grade.Verdict{Reason: "empty", Fault: grade.Empty}
		}
		v.Passed = strings.Contains(r.Text, want)
	}
	if !v.Passed {
		v.Fault = grade.WrongAnswer
	}
	return v
}

// asks is a suite of one probe a setting, each with n cases.
func asks(n int, probes ...suite.Probe) *suite.Suite {
	s := &suite.Suite{Name: "test", Path: "test", SHA256: "00"}
	for i, p := range probes {
		if p.ID == "" {
			p.ID = fmt.Sprintf("probe%d", i)
		}
		p.Passes = max(1, p.Passes)
		if p.Need == 0 {
			p.Need = 1
		}
		if p.Set.MaxTokens == 0 {
			p.Set.MaxTokens = 64
		}
		for k := range n {
			q := fmt.Sprintf("question %d of %s", k, p.ID)
			p.Cases = append(p.Cases, suite.Case{ID: fmt.Sprint(k), Turns: []suite.Turn{{User: q}}, Want: &suite.Want{Text: "answer to " + q}})
		}
		s.Probes = append(s.Probes, p)
	}
	return s
}

// arms are those of fakes: the first is the baseline, and again the last.
func arms(placebo bool, fakes ...*fake) []ArmSpec {
	var out []ArmSpec
	for i, f := range fakes {
		role := Candidate
		if i == 0 {
			role = Baseline
		}
		out = append(out, ArmSpec{Label: fmt.Sprintf("arm%d", i), Spec: "fake", Role: role, Open: opened(f)})
	}
	if placebo {
		out = append(out, ArmSpec{Label: "again", Spec: "fake", Role: Placebo, Open: opened(fakes[0])})
	}
	return out
}

func opened(f *fake) func(context.Context) (chat.Target, error) {
	return func(context.Context) (chat.Target, error) { return f, nil }
}

// good answers all questions; those of which wrong says so, wrongly.
func good(model string, wrong func(question string) bool) *fake {
	f := &fake{id: chat.Identity{Kind: "process", At: "fake", Model: model, Speculative: 0, MaxTokens: 4096}, counts: true, logprob: hashed(model)}
	f.counters = chat.Counters{Drafts: -1, Drafted: -1, Accepted: -1, CacheQueries: -1, CacheHits: -1, Seconds: -1, Speculative: 0}
	f.answer = func(r chat.Request) chat.Reply {
		q := last(r)
		if wrong != nil && wrong(q) {
			return chat.Reply{Text: "no idea of " + q}
		}
		return chat.Reply{Text: "answer to " + q}
	}
	return f
}

// runs runs fakes.
func runs(ctx context.Context, s *suite.Suite, specs []ArmSpec, o Options) (*Report, error) {
	r := &run{o: o, setup: NewSetup(s, specs, o), specs: specs, grade: always, ask: through.Ask}
	return r.do(ctx)
}
