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
	last   []came // the last answers
}

// came is when an answer came, and how many tokens it had.
type came struct {
	at     time.Time
	tokens int64
}

func (p *pace) begin(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.of = done, of
}

func (p *pace) answered(r *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	var tokens int64
	for i := range r.Answer.Replies {
		tokens += int64(max(0, r.Answer.Replies[i].CompletionTokens))
	}
	p.tokens += tokens
	if p.last = append(p.last, came{time.Now(), tokens}); len(p.last) > paceWindow {
		p.last = p.last[1:]
	}
}

// fill adds the figures to a progress.
func (p *pace) fill(out *Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out.Done, out.Of, out.Tokens = p.done, p.of, p.tokens
	if len(p.last) < 2 {
		return
	}
	span := p.last[len(p.last)-1].at.Sub(p.last[0].at).Seconds()
	if span <= 0 {
		return
	}
	var tokens int64
	for _, c := range p.last[1:] {
		tokens += c.tokens
	}
	out.PerSecond = float64(tokens) / span
	out.ETA = time.Duration(float64(p.of-p.done) * span / float64(len(p.last)-1) * float64(time.Second))
}

func (r *run) tell(p Progress) {
	if r.o.Progress == nil {
		return
	}
	r.pace.fill(&p)
	r.o.Progress(p)
}
