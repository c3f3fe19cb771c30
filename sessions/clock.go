package sessions

import "time"

// Clock tells the time and wakes sleepers. Tests and replays bring their own.
type Clock interface {
	Now() time.Time
	// After delivers once, when d has passed. d ≤ 0 delivers at once.
	After(d time.Duration) <-chan time.Time
}

// realClock is the machine's.
type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// clockOr is c, or the machine's clock where c is nil.
func clockOr(c Clock) Clock {
	if c == nil {
		return realClock{}
	}
	return c
}
