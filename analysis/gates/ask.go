package gates

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
)

// goneAfter is how many answers in a row find nobody, beside those that were being
// made at that moment, before an arm is taken to be gone.
const goneAfter = 3

// asking asks one arm.
type asking struct {
	*run
	t     chat.Target
	arm   int
	clock clock

	tokens int64     // made; under run.mu
	absent []*Result // of answers in a row that found nobody; under run.mu
	gone   bool      // nobody is there any more; under run.mu
}

// probe asks what is missing of a probe, as many at once as it says. Its error ends
// the run.
func (a *asking) probe(ctx context.Context, probe int) error {
	p := &a.setup.Probes[probe]
	keys := a.missing(a.arm, probe)
	if len(keys) == 0 {
		return nil
	}
	a.tell(Progress{Stage: "asking", Arm: a.arm, Probe: probe})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(max(1, p.Set.Concurrency), len(keys)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(keys) {
					return
				}
				if err := a.one(ctx, keys[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// one asks one case and hands its result over.
func (a *asking) one(ctx context.Context, k Key) error {
	p := &a.setup.Probes[k.Probe]
	c := &p.Cases[k.Case]
	res := &Result{Arm: k.Arm, Probe: k.Probe, Case: k.Case, Pass: k.Pass, Seed: p.Set.Seed + uint64(k.Pass)}
	if err := a.converse(ctx, p, c, res); err != nil {
		return err
	}
	res.Verdict = a.grade(p, c, &res.Answer, a.against(p, res))
	return a.deliver(res, p)
}

// against is the baseline's answer where the probe holds answers against it. The
// baseline's own stands for itself: that it is one at all is what it is graded for.
func (a *asking) against(p *suite.Probe, res *Result) *grade.Answer {
	if !p.Against {
		return nil
	}
	if res.Arm == a.setup.Baseline() {
		return &res.Answer
	}
	k := res.Key()
	k.Arm = a.setup.Baseline()
	a.mu.Lock()
	defer a.mu.Unlock()
	if base := a.results[k]; base != nil && base.Answer.Error == "" {
		return &base.Answer
	}
	return nil
}

// converse asks the turns of a case one after the other. What goes wrong with an
// answer is in the result; an error is of the run.
func (a *asking) converse(ctx context.Context, p *suite.Probe, c *suite.Case, res *Result) error {
	turns := max(1, len(c.Turns))
	var history []chat.Message
	for turn := range turns {
		r := requestOf(p, c, res.Seed)
		if len(c.Turns) > 0 {
			history = append(history, chat.Message{Role: chat.User, Content: c.Turns[turn].User})
			r.Messages = withSystem(p.Set.System, history)
		}
		if p.Timed {
			a.freshen(&r, res)
		}
		ask := a.once
		if p.Measure {
			ask = a.drafting
		}
		reply, err := ask(ctx, r)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var held *heldError
		if errors.As(err, &held) {
			return held.err
		}
		res.Answer.Replies = append(res.Answer.Replies, reply)
		if err != nil {
			res.Answer.Error, res.Answer.Kind = err.Error(), kindOf(err)
			return nil
		}
		history = append(history, chat.Message{Role: chat.Assistant, Content: reply.Text, ToolCalls: reply.ToolCalls})
	}
	return nil
}

// heldError is what the person's pause ended with.
type heldError struct{ err error }

func (e *heldError) Error() string { return e.err.Error() }

// once sends one request within its time.
func (a *asking) once(ctx context.Context, r chat.Request) (chat.Reply, error) {
	if a.o.Pause != nil {
		if err := a.o.Pause(ctx); err != nil {
			return chat.Reply{}, &heldError{err}
		}
	}
	a.clock.enter()
	defer a.clock.leave()
	return within(ctx, a.o.timeout(), a.t, r)
}

// requestOf is the request of a case, but for its turns and its nonce.
func requestOf(p *suite.Probe, c *suite.Case, seed uint64) chat.Request {
	return chat.Request{
		Prompt: c.Prompt, Tools: c.Tools, MaxTokens: p.Set.MaxTokens, Temperature: p.Set.Temperature,
		TopP: p.Set.TopP, TopK: p.Set.TopK, Seed: &seed, Stop: p.Set.Stop,
		Stream: p.Set.Stream || p.Timed, TemplateArgs: p.Set.Template, IgnoreEOS: p.Measure,
	}
}

// withSystem is a conversation to be sent, in memory of its own.
func withSystem(system string, history []chat.Message) []chat.Message {
	var out []chat.Message
	if system != "" {
		out = append(out, chat.Message{Role: chat.System, Content: system})
	}
	return append(out, history...)
}

func kindOf(err error) chat.Kind {
	var e *chat.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return chat.Internal
}

// deliver hands a result over. Answers in a row that found nobody are held back: they
// are results once somebody answers again, and no results where the arm is gone, so
// that a run that goes on asks them.
func (a *asking) deliver(res *Result, p *suite.Probe) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if res.Answer.Kind == chat.Absent {
		if a.gone {
			return nil
		}
		a.absent = append(a.absent, res)
		if n := len(a.absent); n >= goneAfter+max(1, p.Set.Concurrency)-1 {
			// One that was being made may still come: it does not make results of these.
			a.gone, a.absent = true, nil
			return fmt.Errorf("%s: is gone: %w", a.setup.Arms[a.arm].Label, &chat.Error{At: a.setup.Arms[a.arm].Spec, Kind: chat.Absent,
				Reason: fmt.Sprintf("%d answers in a row did not come, the last: %s", n, res.Answer.Error)})
		}
		return nil
	}
	a.flush()
	a.hand(res)
	return nil
}

// settle makes results of what is held back when the arm is through.
func (a *asking) settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
}

func (a *asking) flush() {
	for _, res := range a.absent {
		a.hand(res)
	}
	a.absent = nil
}

// hand is called under mu.
func (a *asking) hand(res *Result) {
	a.results[res.Key()] = res
	for i := range res.Answer.Replies {
		a.tokens += int64(max(0, res.Answer.Replies[i].CompletionTokens))
	}
	if a.o.Answered != nil {
		a.o.Answered(res)
	}
	a.pace.answered(res)
	a.tell(Progress{Stage: "asking", Arm: res.Arm, Probe: res.Probe})
}
