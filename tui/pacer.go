package tui

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pacer holds what runs outside the loop to a number of steps a second that a person
// can change meanwhile.
type pacer struct {
	mu      sync.Mutex
	rate    float64       // a second; 0: as fast as it goes
	changed chan struct{} // closed when rate changes
}

// paces are the rates, the slowest first; the last one is none.
var paces = []float64{1, 2, 5, 10, 20, 50, 100, 200, 0}

func newPacer(rate float64) *pacer { return &pacer{rate: rate, changed: make(chan struct{})} }

// wait returns when the next step is due, or with the error of ctx.
func (p *pacer) wait(ctx context.Context) error {
	begun := time.Now()
	for {
		p.mu.Lock()
		rate, changed := p.rate, p.changed
		p.mu.Unlock()
		if rate <= 0 {
			return ctx.Err()
		}
		due := time.Duration(float64(time.Second)/rate) - time.Since(begun)
		if due <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(due)
		select {
		case <-t.C:
			return nil
		case <-changed:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// change makes it one step slower or faster and says the new rate.
func (p *pacer) change(by int) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := len(paces) - 1
	for i, r := range paces[:at] {
		if p.rate > 0 && r >= p.rate {
			at = i
			break
		}
	}
	p.rate = paces[min(max(at+by, 0), len(paces)-1)]
	close(p.changed)
	p.changed = make(chan struct{})
	return p.rate
}

// words say the rate.
func (p *pacer) words() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate <= 0 {
		return "full speed"
	}
	return fmt.Sprintf("%g a second", p.rate)
}
