package local

import (
	"fmt"
	"slices"
	"time"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/model"
)

// loop is what the goroutine of an engine works with: answers that are being made,
// in the order in which they came, and the memory of a step.
type loop struct {
	active []*answer
	used   int64 // bytes that active ones may need
	prefix prefixes

	steps  []*model.Step
	in     []*answer // the step, in this order
	done   []*answer
	rows   []float32 // hidden states whose logits are wanted
	logits []float32
	normed []float32
	drafts []*model.Drafting
}

// promptRows is how many tokens of prompts go through the model in a step, so that
// answers that are being made do not wait long for a new one.
const promptRows = 512

// run makes answers until the engine is closed.
func (e *Engine) run() {
	defer close(e.ended)
	defer e.closeAll()
	for {
		e.drop()
		e.admit()
		if len(e.loop.active) == 0 {
			select {
			case <-e.wake:
				continue
			case <-e.ctx.Done():
				return
			}
		}
		if e.ctx.Err() != nil {
			return
		}
		begun := time.Now()
		made, err := e.step()
		if err != nil {
			e.failAll(err)
			continue
		}
		if made > 0 {
			e.count(func(c *chat.Counters) { c.Seconds += time.Since(begun).Seconds() })
		}
	}
}

func (e *Engine) knock() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *Engine) count(f func(*chat.Counters)) {
	e.mu.Lock()
	f(&e.counts)
	e.mu.Unlock()
}

// closeAll ends what is there with the engine.
func (e *Engine) closeAll() {
	err := &chat.Error{At: e.c.Path, Kind: chat.Internal, Reason: "cannot answer", Err: errClosed}
	e.mu.Lock()
	queue := e.queue
	e.queue, e.running = nil, 0
	e.mu.Unlock()
	for _, a := range append(queue, e.loop.active...) {
		a.out.end(nil, err)
	}
}

// failAll ends the answers that are being made: the pass over them did not come to
// its end, and their caches are not whole.
func (e *Engine) failAll(err error) {
	if e.ctx.Err() != nil {
		return // closeAll says it
	}
	for _, a := range e.loop.active {
		a.out.end(nil, &chat.Error{At: e.c.Path, Kind: chat.Internal, Reason: "cannot answer", Err: err})
	}
	e.loop.active, e.loop.used = nil, 0
	e.mu.Lock()
	e.running = 0
	e.mu.Unlock()
}

// drop forgets answers that nobody waits for any more.
func (e *Engine) drop() {
	l := &e.loop
	l.active = slices.DeleteFunc(l.active, func(a *answer) bool {
		if a.gone.Load() {
			l.used -= a.bytes
			return true
		}
		return false
	})
	e.mu.Lock()
	e.queue = slices.DeleteFunc(e.queue, func(a *answer) bool { return a.gone.Load() })
	e.running = len(l.active)
	e.mu.Unlock()
}

// admit lets those in that wait, in their order, while there are slots and memory:
// one that does not fit is not overtaken.
func (e *Engine) admit() {
	l := &e.loop
	for {
		e.mu.Lock()
		if len(e.queue) == 0 || len(l.active) >= e.o.Slots || l.used+e.queue[0].bytes > e.o.Mem {
			e.running = len(l.active)
			e.mu.Unlock()
			return
		}
		a := e.queue[0]
		e.queue = slices.Delete(e.queue, 0, 1)
		e.mu.Unlock()
		l.used += a.bytes
		l.prefix.shrink(e.o.Mem - l.used)
		e.start(a)
		l.active = append(l.active, a)
	}
}

// start gives an answer its caches, with what is known of its prompt.
func (e *Engine) start(a *answer) {
	a.drafting.K = 0
	if e.caches() && a.r.PromptLogprobs == 0 {
		if a.text = e.loop.prefix.find(a.prompt, e.module != nil, e.room(a)); a.text != nil {
			a.fed, a.cached = a.text.Len(), a.text.Len()
		}
		if e.o.PrefixCache && e.o.Fault != CachedTimes {
			e.count(func(c *chat.Counters) {
				c.CacheQueries += int64(len(a.prompt))
				c.CacheHits += int64(a.cached)
			})
		}
	}
	if a.text == nil {
		a.text = model.NewText(e.c.Arch, e.room(a))
	}
	a.step.Text, a.drafting.Text = a.text, a.text
	if e.o.Fault == CachedTimes {
		a.cached = 0
	}
}

// caches says whether prefixes are kept.
func (e *Engine) caches() bool { return e.o.PrefixCache || e.o.Fault == CachedTimes }

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
	l, h, v := &e.loop, e.c.Arch.Hidden, e.c.Arch.Vocab
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
	l, h := &e.loop, e.c.Arch.Hidden
	l.drafts = l.drafts[:0]
	l.normed = slices.Grow(l.normed[:0], len(x))[:len(x)]
	e.batch.Normed(l.normed, x)
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
			l.prefix.keep(a, e.perToken, e.o.Mem-l.used)
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
