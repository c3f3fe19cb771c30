package gates

import (
	"sync"
	"time"
)

// paceWindow is how many answers the rate is of.
const paceWindow = 64

// pace knows how fast answers come, of late.
type pace struct {
	mu     sync.Mutex
	done   int
	of     int
	tokens int64
	times  []time.Time // of the last answers
	start  time.Time
}

func (p *pace) begin(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.of, p.start = done, of, time.Now()
}

func (p *pace) answered(r *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	for i := range r.Answer.Replies {
		p.tokens += int64(max(0, r.Answer.Replies[i].CompletionTokens))
	}
	if p.times = append(p.times, time.Now()); len(p.times) > paceWindow {
		p.times = p.times[1:]
	}
}

// fill adds the figures to a progress.
func (p *pace) fill(out *Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out.Done, out.Of, out.Tokens = p.done, p.of, p.tokens
	if len(p.times) < 2 {
		return
	}
	span := p.times[len(p.times)-1].Sub(p.times[0]).Seconds()
	if span <= 0 {
		return
	}
	out.PerSecond = float64(len(p.times)-1) / span
	out.ETA = time.Duration(float64(p.of-p.done) / out.PerSecond * float64(time.Second))
}

func (r *run) tell(p Progress) {
	if r.o.Progress == nil {
		return
	}
	r.pace.fill(&p)
	r.o.Progress(p)
}
