package sessions

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
)

// gateSuite is a suite of two probes, of 3 × 2 and 2 × 1 answers.
func gateSuite() *suite.Suite {
	return &suite.Suite{
		Name: "made up", Path: "suites/made-up.yaml", Text: []byte("suite: made up\n"), SHA256: "abcd",
		Probes: []suite.Probe{
			{ID: "sums", Group: "arithmetic", Grader: "number", Passes: 2, Need: 1, Args: map[string]any{"most": 3, "list": []any{"a", 1.5}},
				Set: suite.Settings{MaxTokens: 8}, Cases: []suite.Case{{ID: "a"}, {ID: "b"}, {ID: "c"}}},
			{ID: "needle/long", Group: "needle", Grader: "needle", Passes: 1, Need: 0.5, Timed: true, Cases: []suite.Case{{ID: "far", Tokens: 4000, Depth: 0.25}, {ID: "near", Tokens: 4000, Depth: 1}}},
		},
	}
}

// gateAnswers is how many answers an arm gives to gateSuite.
const gateAnswers = 8

// fakeTarget is somebody who answers.
type fakeTarget struct{ id chat.Identity }

func (f *fakeTarget) Ask(context.Context, chat.Request, func(chat.Delta)) (chat.Reply, error) {
	return chat.Reply{}, nil
}
func (f *fakeTarget) Identity(context.Context) (chat.Identity, error) { return f.id, nil }
func (f *fakeTarget) Counters(context.Context) (chat.Counters, error) {
	return chat.Counters{}, chat.ErrNoCounters
}
func (f *fakeTarget) Close() error { return nil }

// fakeGates are gates that need neither files nor servers. It answers up to stop
// answers, and then does what then says. It counts what it was asked.
type fakeGates struct {
	suite *suite.Suite
	ids   map[string]chat.Identity // by label
	stop  int
	then  func(ctx context.Context) error
	spoil func(r *gates.Result)

	mu                   sync.Mutex
	calls, prior, asked  int
	priorMeters, metered int
}

func newFakeGates() *fakeGates {
	return &fakeGates{suite: gateSuite(), stop: -1, ids: map[string]chat.Identity{}}
}

// madeUpResult is an answer that is of its key alone.
func madeUpResult(arm, probe, item, pass int) *gates.Result {
	n := arm*1000 + probe*100 + item*10 + pass
	r := &gates.Result{Arm: arm, Probe: probe, Case: item, Pass: pass, Seed: uint64(pass), Answer: grade.Answer{Replies: []chat.Reply{{
		Text: fmt.Sprintf("the answer is %d\xff\xc3 \ufffd \x00 대한민국", n), Finish: chat.FinishStop, PromptTokens: 20, CompletionTokens: 5 + pass, CachedTokens: -1,
		Tokens: []chat.Token{{ID: int32(n), Text: "\xed\x95", Known: true, Logprob: -0.5, Top: []chat.Alt{{ID: 1, Text: "\x80", Logprob: math.Inf(-1)}}}},
		First:  3 * time.Millisecond, Total: 20 * time.Millisecond, Invalid: 2,
	}}}}
	r.Verdict = grade.Verdict{Passed: n%3 != 0, Reason: "says " + fmt.Sprint(n), Figures: map[string]float64{"replacement": 3, "runes": 20}, Marks: []grade.Mark{{At: [2]int{2, 5}, Fault: grade.Replacement}}}
	if !r.Verdict.Passed {
		r.Verdict.Fault = grade.WrongAnswer
	}
	return r
}

// erred is the result of an answer that did not come.
func erred(r *gates.Result, kind chat.Kind) {
	r.Answer = grade.Answer{Error: "http://there: " + string(kind), Kind: kind}
	r.Verdict = grade.Verdict{Fault: grade.Erred, Reason: "no answer came"}
}

func (f *fakeGates) run(ctx context.Context, s *suite.Suite, arms []gates.ArmSpec, o gates.Options) (*gates.Report, error) {
	f.mu.Lock()
	f.calls++
	f.prior, f.priorMeters = len(o.Prior), len(o.Meters)
	f.mu.Unlock()
	setup := gates.NewSetup(s, arms, o)
	if o.Begin != nil {
		o.Begin(setup)
	}
	had := map[gates.Key]bool{}
	for _, r := range o.Prior {
		had[r.Key()] = true
	}
	n := 0
	for a := range arms {
		t, err := arms[a].Open(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arms[a].Label, err)
		}
		id, _ := t.Identity(ctx)
		for p := range s.Probes {
			for pass := range s.Probes[p].Passes {
				for c := range s.Probes[p].Cases {
					r := madeUpResult(a, p, c, pass)
					if had[r.Key()] {
						continue
					}
					if err := o.Pause(ctx); err != nil {
						return nil, err
					}
					if n == f.stop && f.then != nil {
						return nil, f.then(ctx)
					}
					if f.spoil != nil {
						f.spoil(r)
					}
					f.mu.Lock()
					f.asked++
					f.mu.Unlock()
					o.Answered(r)
					n++
				}
			}
		}
		m := &gates.Meter{Arm: a, Identity: id, Seconds: 2, Tokens: 44, Counted: &chat.Counters{At: time.Unix(9, 0).UTC(), Generated: 44, Drafts: 10, Drafted: 20, Accepted: 12, Prompt: -1, Steps: -1, CacheQueries: -1, CacheHits: -1},
			Arm1: &through.Arm{Positions: 10, NLL: 1.5, SE: math.NaN(), PPL: math.Inf(1), MedianRank: 2}, Checks: []gates.Check{{ID: gates.CheckRank, Arm: a, State: gates.CheckFailed, Message: "the median rank is 300", Figures: map[string]float64{"rank": math.NaN()}}}}
		o.Metered(m)
		f.metered++
	}
	return &gates.Report{Setup: setup}, ctx.Err()
}

// on makes a feed run f, and is a request that needs no files.
func (f *fakeGates) on(feed Feed, labels ...string) GatesRequest {
	switch feed := feed.(type) {
	case *savedFeed:
		feed.gates.run = f.run
	case *followFeed:
		feed.gates.run = f.run
	case *LiveFeed:
		feed.gates.run = f.run
	}
	p := &gateParties{parties: &parties{}, suite: f.suite}
	for i, l := range labels {
		role := gates.Candidate
		if i == 0 {
			role = gates.Baseline
		}
		id, ok := f.ids[l]
		if !ok {
			id = chat.Identity{Kind: "server", At: "http://" + l, Model: l, Engine: "vllm", Version: "0.19.1", Speculative: 2, MaxTokens: -1}
		}
		p.arms = append(p.arms, gates.ArmSpec{Label: l, Spec: "http://" + l, Role: role, Open: func(context.Context) (chat.Target, error) {
			return &fakeTarget{id}, nil
		}})
	}
	return GatesRequest{ready: p}
}

func gatesOn(t *testing.T, feed Feed, f *fakeGates, labels ...string) error {
	t.Helper()
	return feed.(Gater).Gates(t.Context(), f.on(feed, labels...))
}

// gateSession is a session of a few tensors with a run of gates.
func gateSession(t *testing.T) string {
	t.Helper()
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	if err := gatesOn(t, openFeed(t, path), newFakeGates(), "bf16", "nvfp4"); err != nil {
		t.Fatal(err)
	}
	return path
}
