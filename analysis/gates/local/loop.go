package local

import (
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
