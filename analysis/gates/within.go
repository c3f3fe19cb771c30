package gates

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quantscope/analysis/gates/chat"
)

// within asks, and gives up after a while with a chat.Error of the kind Timeout.
func within(ctx context.Context, limit time.Duration, t chat.Target, r chat.Request) (chat.Reply, error) {
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := t.Ask(timed, r, nil)
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		err = &chat.Error{At: "request", Kind: chat.Timeout, Reason: fmt.Sprintf("no whole answer within %v", limit), Err: nil}
	}
	return reply, err
}

// clock adds up the time in which at least one answer was being made.
type clock struct {
	mu      sync.Mutex
	running int
	since   time.Time
	total   time.Duration
}

func (c *clock) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running++; c.running == 1 {
		c.since = time.Now()
	}
}

func (c *clock) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.running == 0 {
		c.total += time.Since(c.since)
	}
}

func (c *clock) seconds() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total.Seconds()
}
