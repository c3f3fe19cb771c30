package local

import (
	"fmt"
	"slices"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/model"
)

// promptRows is how many tokens of prompts go through the model in a step, so that
// answers that are being made do not wait long for a new one.
const promptRows = 512

// step takes the active answers through the model once: pieces of prompts, or the
// last token and its drafts. It says how many tokens it made.
func (e *Engine) step() (made int, err error) {
	l := &e.loop
	l.steps, l.in = l.steps[:0], l.in[:0]
	left := promptRows
	for _, a := range l.active {
		if rest := a.prompt[a.fed:]; len(rest) > 0 {
			n := min(len(rest), left)
			if n == 0 {
				continue
			}
			left -= n
			a.step.Tokens = append(a.step.Tokens[:0], rest[:n]...)
		} else {
			a.step.Tokens = append(append(a.step.Tokens[:0], a.made[len(a.made)-1]), a.drafting.Drafts...)
		}
		l.steps, l.in = append(l.steps, &a.step), append(l.in, a)
	}
	x, err := e.batch.Feed(e.ctx, l.steps)
	if err != nil {
		return 0, err
	}
	made, err = e.choose(x)
	if err != nil {
		return made, err
	}
	if err := e.draft(x); err != nil {
		return made, err
	}
	e.settle()
	return made, nil
}

// wanted is how many of a step's last rows say what comes next.
func (a *answer) wanted() int {
	switch {
	case a.step.Err != nil || a.fed+len(a.step.Tokens) < len(a.prompt) || a.r.MaxTokens == 0:
		return 0
	case a.fed < len(a.prompt):
		return 1
	}
	return len(a.step.Tokens)
}

// choose makes tokens of the hidden states of a step.
func (e *Engine) choose(x []float32) (made int, err error) {
	l, h, v := &e.loop, e.c.Arch.Width(), e.c.Arch.Vocab
	l.rows = l.rows[:0]
	at, n := 0, 0
	for _, a := range l.in {
		rows := len(a.step.Tokens)
		if a.fed < len(a.prompt) && a.r.PromptLogprobs > 0 && a.step.Err == nil {
			if err := e.promptLogprobs(a, x[at*h:][:rows*h]); err != nil {
				return 0, err
			}
		}
		a.want = a.wanted()
		l.rows = append(l.rows, x[(at+rows-a.want)*h:(at+rows)*h]...)
		at, n = at+rows, n+a.want
	}
	if n > 0 {
		if l.logits, err = e.batch.Logits(l.logits, l.rows, n); err != nil {
			return 0, err
		}
	}
	first := 0
	for _, a := range l.in {
		logits := l.logits[min(first*v, len(l.logits)):]
		first += a.want
		start := a.text.Len() - len(a.step.Tokens)
		decoding := a.fed >= len(a.prompt)
		if !decoding {
			if a.fed += len(a.step.Tokens); a.fed == len(a.prompt) {
				e.count(func(c *chat.Counters) { c.Prompt += int64(len(a.prompt)) })
				if a.step.Err == nil && a.r.MaxTokens == 0 {
					a.finish = chat.FinishLength
				}
			}
		}
		if a.want == 0 {
			continue
		}
		drafts := a.drafting.Drafts
		if !decoding {
			drafts = nil
		}
		before := len(a.made)
		kept := model.Accept(drafts, func(row int) (int32, bool) { return e.take(a, logits[row*v:][:v]) })
		made += len(a.made) - before
		e.count(func(c *chat.Counters) {
			c.Steps++
			c.Generated += int64(len(a.made) - before)
			if len(drafts) > 0 {
				c.Drafts++
				c.Drafted += int64(len(drafts))
				c.Accepted += int64(kept)
				for i := range kept {
					c.ByPosition[i]++
				}
			}
		})
		if decoding {
			a.drafted.Note(len(drafts), kept)
			a.text.Cut(start + 1 + kept)
		}
	}
	return made, nil
}

// draft has the MTP module see what stays of a step, and draft for those that go on.
func (e *Engine) draft(x []float32) error {
	if e.module == nil {
		return nil
	}
	l, h := &e.loop, e.c.Arch.Width()
	l.drafts = l.drafts[:0]
	l.normed = slices.Grow(l.normed[:0], len(x))[:len(x)]
	if err := e.batch.Normed(l.normed, x); err != nil {
		return err
	}
	at := 0
	for _, a := range l.in {
		rows := len(a.step.Tokens)
		from := at
		at += rows
		d := &a.drafting
		d.Drafts, d.Next = d.Drafts[:0], d.Next[:0]
		if a.step.Err != nil || a.finish != "" || a.r.MaxTokens <= 1 {
			continue
		}
		seen := a.text.Seen()
		kept := a.text.Len() - seen // positions that stay and were not seen
		for p := seen; p < a.text.Len(); p++ {
			if p+1 < len(a.prompt) {
				d.Next = append(d.Next, a.prompt[p+1])
			} else {
				d.Next = append(d.Next, a.made[p+1-len(a.prompt)])
			}
		}
		d.Normed = l.normed[from*h:][:kept*h]
		d.K = 0
		if a.fed == len(a.prompt) && len(a.made) > 0 {
			d.K = min(e.o.Speculate, a.r.MaxTokens-len(a.made))
		}
		l.drafts = append(l.drafts, d)
	}
	return e.module.Draft(e.ctx, l.drafts)
}

// settle hands out what is new and takes leave of answers that are done: their slots
// are free before anybody hears of it.
func (e *Engine) settle() {
	l := &e.loop
	l.done = l.done[:0]
	l.active = slices.DeleteFunc(l.active, func(a *answer) bool {
		if a.step.Err == nil && a.finish == "" {
			return false
		}
		l.done = append(l.done, a)
		l.used -= a.bytes
		return true
	})
	e.mu.Lock()
	e.running = len(l.active)
	e.mu.Unlock()
	for _, a := range l.active {
		e.handOut(a)
	}
	for _, a := range l.done {
		if a.step.Err != nil {
			a.out.end(nil, &chat.Error{At: e.c.Path, Kind: chat.Internal, Reason: "the model says nothing", Err: a.step.Err})
			continue
		}
		e.finish(a)
		if e.caches() {
			l.prefix.keep(a, e.perToken, e.perText, e.o.Mem-l.used)
		}
	}
	clear(l.done)
}

// take chooses a token of a row of logits, and says whether the answer goes on.
func (e *Engine) take(a *answer, logits []float32) (id int32, more bool) {
	id = a.sampler.Choose(logits)
	if !finite(logits[id]) {
		a.step.Err = fmt.Errorf("local: the logit of token %d is %g", id, logits[id])
		return id, false
	}
	if a.first == 0 {
		a.first = time.Since(a.begun)
	}
	a.made = append(a.made, id)
	if a.r.Logprobs > 0 {
		e.logprobs(a, id, logits)
	}
	switch {
	case e.o.Fault == CountEmpty:
		a.finish = chat.FinishStop
	case e.ends[id] && !a.r.IgnoreEOS:
		a.finish = chat.FinishStop
	case a.said.add(id):
		a.finish = chat.FinishStop
	case len(a.made) == a.r.MaxTokens:
		a.finish = chat.FinishLength
	}
	return id, a.finish == ""
}
