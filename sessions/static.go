package sessions

import (
	"context"
	"fmt"
	"time"

	"quantscope/kernels"
)

// staticFeed is a state that never changes.
type staticFeed struct {
	st     *State
	closed bool
}

// NewStatic is a feed over a state that is only in memory, as a finished
// session would be. It has no files behind it, so Detail and RowErrors are
// errors.
func NewStatic(st *State) Feed { return &staticFeed{st: st} }

func (f *staticFeed) Mode() Mode       { return Saved }
func (f *staticFeed) Snapshot() *State { return f.st.Clone() }
func (f *staticFeed) Close() error     { return nil }

func (f *staticFeed) Next(ctx context.Context, _ time.Duration) (Batch, error) {
	if !f.closed {
		f.closed = true
		return Batch{Progress: f.st.Progress, LastSeq: f.st.LastSeq, LastUS: f.st.LastUS, Closed: true}, nil
	}
	<-ctx.Done()
	return Batch{}, ctx.Err()
}

func (f *staticFeed) Detail(context.Context, int, int) (kernels.Tap, error) {
	return kernels.Tap{}, fmt.Errorf("sessions: a session in memory keeps no tap records")
}

func (f *staticFeed) RowErrors(context.Context, int, int) ([]float64, error) {
	return nil, fmt.Errorf("sessions: a session in memory has no checkpoint")
}
