package tui

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"quantscope/kernels"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// demoState is a finished session of the built-in checkpoint's shape, in a file.
func demoState() *sessions.State {
	st := viewstest.Demo()
	st.Meta.Path = "/tmp/demo-1129-1702.qscope"
	st.Log = []sessions.Event{
		{Seq: 1, AtUS: 0, Kind: sessions.EventCreated, Variant: -1, Tensor: -1, Message: "demo, default targets"},
		{Seq: 2, AtUS: 1000, Kind: sessions.EventStarted, Variant: -1, Tensor: -1, Message: "measuring 3 variants"},
		{Seq: st.LastSeq + 1, AtUS: st.LastUS + 1000, Kind: sessions.EventFinished, Variant: -1, Tensor: -1, Message: "all measured"},
	}
	st.LastSeq, st.LastUS = st.LastSeq+1, st.LastUS+1000
	return st
}

// emptied is the state before anything was measured.
func emptied(st *sessions.State) *sessions.State {
	c := st.Clone()
	for v := range c.Records {
		clear(c.Records[v])
	}
	c.Log = c.Log[:2]
	c.Progress = sessions.Progress{State: sessions.RunRunning, Variant: -1, Total: st.Progress.Total}
	c.LastSeq, c.LastUS = 2, 1000
	return c
}

// fakeFeed is a feed without files: what a test gives it comes out of Next.
type fakeFeed struct {
	mode  sessions.Mode
	whole *sessions.State // all records there will be

	mu      sync.Mutex
	start   *sessions.State
	pending []sessions.Batch
	wake    chan struct{}
	closed  bool
	details int
	rows    int
	rowErr  error
}

func newFakeFeed(mode sessions.Mode, whole, start *sessions.State) *fakeFeed {
	return &fakeFeed{mode: mode, whole: whole, start: start, wake: make(chan struct{}, 1)}
}

func (f *fakeFeed) Mode() sessions.Mode       { return f.mode }
func (f *fakeFeed) Snapshot() *sessions.State { return f.start.Clone() }

func (f *fakeFeed) give(b sessions.Batch) {
	f.mu.Lock()
	f.pending = append(f.pending, b)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take is Next without waiting.
func (f *fakeFeed) take() (sessions.Batch, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) == 0 {
		return sessions.Batch{}, false
	}
	b := f.pending[0]
	f.pending = f.pending[1:]
	return b, true
}

func (f *fakeFeed) Next(ctx context.Context, _ time.Duration) (sessions.Batch, error) {
	for {
		if b, ok := f.take(); ok {
			return b, nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return sessions.Batch{}, ctx.Err()
		}
	}
}

func (f *fakeFeed) Detail(_ context.Context, variant, tensor int) (kernels.Tap, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.details++
	return *viewstest.Tap(f.whole, variant, tensor), nil
}

func (f *fakeFeed) RowErrors(_ context.Context, variant, tensor int) ([]float64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows++
	if f.rowErr != nil {
		return nil, f.rowErr
	}
	out := make([]float64, 128)
	for i := range out {
		out[i] = 0.09 + 0.01*math.Sin(float64(i+variant)/9)
	}
	return out, nil
}

func (f *fakeFeed) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("closed twice")
	}
	f.closed = true
	return nil
}

// fakeRun is a live run that a test drives.
type fakeRun struct {
	*fakeFeed
	calls []string
	added []string
	state sessions.Progress
	at    int // records given, over all variants in order
	err   error
}

func newFakeRun(whole *sessions.State) *fakeRun {
	start := emptied(whole)
	return &fakeRun{fakeFeed: newFakeFeed(sessions.Live, whole, start), state: start.Progress}
}

// measure lets the run finish n more measurements.
func (r *fakeRun) measure(n int) {
	b := sessions.Batch{}
	tensors := len(r.whole.Tensors)
	for ; n > 0 && r.at < tensors*len(r.whole.Variants); n-- {
		rec := r.whole.Records[r.at/tensors][r.at%tensors]
		b.Records = append(b.Records, rec)
		b.LastSeq, b.LastUS = rec.Seq, rec.AtUS
		r.state.Variant = rec.Variant
		r.at++
	}
	r.state.Done = int64(r.at)
	r.state.BytesPerSec, r.state.WeightsPerSec, r.state.ETASeconds = 1.21e9, 6e8, 7
	if r.state.Done == r.state.Total {
		r.state.State = sessions.RunFinished
		r.state.BytesPerSec, r.state.WeightsPerSec, r.state.ETASeconds = 0, 0, 0
		b.Events = append(b.Events, r.whole.Log[2:]...)
	}
	b.Progress = r.state
	r.give(b)
}

// become reports another state of the run, as the engine does.
func (r *fakeRun) become(s sessions.RunState, kind sessions.EventKind, message string) {
	r.state.State = s
	r.give(sessions.Batch{Progress: r.state, Events: []sessions.Event{
		{Seq: int64(1_000_000 + len(r.calls)), Kind: kind, Variant: -1, Tensor: -1, Message: message},
	}})
}

func (r *fakeRun) Pause() {
	r.calls = append(r.calls, "pause")
	r.become(sessions.RunPaused, sessions.EventPaused, "paused")
}

func (r *fakeRun) Resume() {
	r.calls = append(r.calls, "resume")
	r.become(sessions.RunRunning, sessions.EventResumed, "resumed")
}

func (r *fakeRun) Cancel() {
	r.calls = append(r.calls, "cancel")
	r.become(sessions.RunCancelled, sessions.EventCancelled, "cancelled")
}

func (r *fakeRun) Add(variants ...string) error {
	r.calls = append(r.calls, "add")
	if r.err != nil {
		return r.err
	}
	for _, name := range variants {
		id := len(r.whole.Variants) + len(r.added)
		r.added = append(r.added, name)
		r.give(sessions.Batch{Progress: r.state, Variants: []sessions.Variant{{ID: id, Name: name, Effective: name, Scheme: "nvfp4", BitsPerWeight: 4.5}}})
	}
	return nil
}

// fakePlay is a replay whose clock a test moves. One microsecond of it is one
// microsecond of the session.
type fakePlay struct {
	*fakeFeed
	pos  sessions.Position
	all  []sessions.Record
	seen int // of all

	seeks int
}

func newFakePlay(whole *sessions.State) *fakePlay {
	start := emptied(whole)
	start.Progress.State = sessions.RunRunning
	p := &fakePlay{fakeFeed: newFakeFeed(sessions.Replay, whole, start)}
	for _, rs := range whole.Records {
		p.all = append(p.all, rs...)
	}
	slices.SortFunc(p.all, func(a, b sessions.Record) int { return int(a.AtUS - b.AtUS) })
	p.pos = sessions.Position{EndUS: whole.LastUS, Speed: 1, Playing: true}
	return p
}

func (p *fakePlay) Position() sessions.Position { return p.pos }
func (p *fakePlay) Play()                       { p.pos.Playing = true }
func (p *fakePlay) Pause()                      { p.pos.Playing = false }
func (p *fakePlay) SetSpeed(x float64)          { p.pos.Speed = x }

func (p *fakePlay) Step(events int) {
	p.pos.Playing = false
	p.showFirst(max(min(p.seen+events, len(p.all)), 0))
	if p.seen > 0 {
		p.pos.AtUS = p.all[p.seen-1].AtUS
	}
}

func (p *fakePlay) SeekTo(us int64) {
	n := 0
	for n < len(p.all) && p.all[n].AtUS <= us {
		n++
	}
	p.pos.AtUS = us
	p.seeks++
	p.showFirst(n)
}

// showFirst makes the first n records known.
func (p *fakePlay) showFirst(n int) {
	b := sessions.Batch{Progress: sessions.Progress{State: sessions.RunRunning, Done: int64(n), Total: p.whole.Progress.Total}}
	if n < p.seen {
		b.Reset = emptied(p.whole)
		p.seen = 0
	}
	b.Records = slices.Clone(p.all[p.seen:n])
	p.seen = n
	if n == len(p.all) {
		b.Progress.State = sessions.RunFinished
	}
	p.give(b)
}
