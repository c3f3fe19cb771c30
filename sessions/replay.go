package sessions

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Speeds of a replay.
const (
	MinSpeed = 0.25
	MaxSpeed = 64
)

// OpenReplay plays a session from its beginning at speed times real time, at
// which it starts when Snapshot is called. Gaps of more than a second in which
// nothing happened take a second. At the end it stops, and Position says so; it
// is never Closed, since it can be wound back.
func OpenReplay(path string, speed float64) (Player, error) {
	return OpenReplayClock(path, speed, nil)
}

// OpenReplayClock is OpenReplay by a clock of the caller's.
func OpenReplayClock(path string, speed float64, clock Clock) (Player, error) {
	if !(speed >= MinSpeed && speed <= MaxSpeed) {
		return nil, fmt.Errorf("sessions: speed %g: from %g to %d", speed, MinSpeed, MaxSpeed)
	}
	t, l, err := loadTimeline(context.Background(), path)
	if err != nil {
		return nil, err
	}
	r := &replayFeed{
		savedFeed: newSaved(path, l), timeline: t, clock: clockOr(clock), end: t.lastProgress(l.st),
		start: State{Meta: l.st.Meta, Tensors: l.st.Tensors, Progress: Progress{State: RunIdle, Variant: -1}},
		speed: speed, playing: true, changed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	r.st = nil
	r.anchor = r.clock.Now()
	r.rewind()
	return r, nil
}

// lastProgress is the progress that a fresh open of the session shows.
func (t *timeline) lastProgress(st *State) Progress {
	tr := newTracker(st.Tensors)
	for _, k := range t.order {
		if k >= 0 {
			if rec := &t.taps[k]; rec.Variant < len(tr.settled) {
				tr.settle(rec.Variant, rec.Tensor, measured)
			}
		} else if e := &t.notes[^k]; e.valid(len(tr.settled), len(st.Tensors)) {
			tr.observe(e)
		}
	}
	end := State{Progress: tr.p}
	end.interrupt()
	return end.Progress
}

// replayFeed plays a session. Next belongs to its reader; the methods of Player
// may be called from any goroutine.
type replayFeed struct {
	*savedFeed
	timeline *timeline
	clock    Clock
	start    State    // before any event
	end      Progress // after the last one
	changed  chan struct{}
	closed   chan struct{}
	once     sync.Once

	mu      sync.Mutex
	speed   float64
	playing bool
	pos     int64     // µs of the replay, at anchor
	anchor  time.Time // of pos
	target  int       // events that should have been seen

	// The reader's own.
	applied int // events that the reader has seen
	fold    *fold
}

// rewind makes the reader start from nothing.
func (r *replayFeed) rewind() {
	r.applied, r.fold = 0, newFold(newTracker(r.start.Tensors))
}

func (r *replayFeed) Mode() Mode { return Replay }

// Snapshot is the session before its first event; the clock starts.
func (r *replayFeed) Snapshot() *State {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.anchor = r.clock.Now()
	return r.start.Clone()
}

// advance brings pos, target and playing to now. mu is held.
func (r *replayFeed) advance() {
	now := r.clock.Now()
	if r.playing {
		end := r.timeline.end()
		step := float64(now.Sub(r.anchor).Microseconds()) * r.speed
		r.pos = min(r.pos+int64(math.Max(step, 0)), end)
		r.target = max(r.target, r.timeline.until(r.pos))
		if r.pos == end {
			r.playing = false
		}
	}
	r.anchor = now
}

// due is how long until the next event, while it plays. mu is held.
func (r *replayFeed) due() (time.Duration, bool) {
	if !r.playing || r.target == len(r.timeline.at) {
		return 0, false
	}
	us := float64(r.timeline.at[r.target]-r.pos) / r.speed
	return time.Duration(math.Ceil(us)) * time.Microsecond, true
}

// Next implements Feed.
func (r *replayFeed) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	for {
		r.mu.Lock()
		r.advance()
		news := r.target != r.applied
		wait, due := r.due()
		r.mu.Unlock()
		if news {
			break
		}
		var tick <-chan time.Time
		if due {
			tick = r.clock.After(wait)
		}
		select {
		case <-tick:
		case <-r.changed:
		case <-r.closed:
			<-ctx.Done()
			return Batch{}, ctx.Err()
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
	if frame > 0 {
		select {
		case <-r.clock.After(frame):
		case <-ctx.Done(): // what is there is handed over
		}
	}
	r.mu.Lock()
	r.advance()
	target, pos := r.target, r.pos
	r.mu.Unlock()
	return r.batch(target, pos), nil
}

// batch brings the reader to where target events have happened.
func (r *replayFeed) batch(target int, pos int64) Batch {
	back := target < r.applied
	if back {
		r.rewind()
	}
	for ; r.applied < target; r.applied++ {
		e := r.timeline.event(r.applied)
		if e.valid(len(r.fold.tracker.settled), len(r.tensors)) {
			r.fold.add(&e)
		}
	}
	b := r.fold.take(r.timeline.sessionUS(target, pos))
	if target == len(r.timeline.at) {
		b.Progress = r.end
	}
	if !back {
		return b
	}
	st := r.start.Clone()
	st.Apply(b)
	return Batch{Reset: st, Progress: st.Progress, LastSeq: st.LastSeq, LastUS: st.LastUS}
}

// change does something to the position and wakes the reader.
func (r *replayFeed) change(f func()) {
	r.mu.Lock()
	r.advance()
	f()
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *replayFeed) Position() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance()
	return Position{AtUS: r.pos, EndUS: r.timeline.end(), Speed: r.speed, Playing: r.playing}
}

// Play goes on, from the beginning where it stands at the end.
func (r *replayFeed) Play() {
	r.change(func() {
		if r.pos == r.timeline.end() && r.target == len(r.timeline.at) {
			r.seek(0)
		}
		r.playing = true
	})
}

func (r *replayFeed) Pause() { r.change(func() { r.playing = false }) }

// SetSpeed changes the speed; what is out of range is brought into it.
func (r *replayFeed) SetSpeed(x float64) {
	if math.IsNaN(x) {
		return
	}
	r.change(func() { r.speed = min(max(x, MinSpeed), MaxSpeed) })
}

func (r *replayFeed) Step(events int) {
	r.change(func() {
		r.playing = false
		n := len(r.timeline.at)
		r.target = min(max(r.target+min(max(events, -n), n), 0), n)
		r.pos = 0
		if r.target > 0 {
			r.pos = r.timeline.at[r.target-1]
		}
	})
}

func (r *replayFeed) SeekTo(us int64) { r.change(func() { r.seek(us) }) }

// seek goes to a moment. mu is held.
func (r *replayFeed) seek(us int64) {
	r.pos = min(max(us, 0), r.timeline.end())
	r.target = r.timeline.until(r.pos)
}

func (r *replayFeed) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}
