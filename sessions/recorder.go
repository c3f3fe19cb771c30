package sessions

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"quantscope/kernels"
)

// A batch is committed when its first event is commitEvery old, when it holds
// commitRecords or when their payloads are commitBytes, whichever comes first: a
// killed process loses at most the first, the second bounds a transaction to some
// 70 ms, and the third the memory that long answers and scores wait in. Events that are not
// about one tensor, such as the start of a run, are committed at once.
const (
	commitEvery   = 250 * time.Millisecond
	commitRecords = 4096
	commitBytes   = 1 << 20
	// statusEvery is how often the rates are brought up to date while no
	// tensor gets finished.
	statusEvery = 500 * time.Millisecond
)

// recorder is the one goroutine that writes a session: it numbers the events,
// hands them to the mailbox and appends them to the file in batches.
//
// What the mailbox shows may be 250 ms ahead of the file. Once a write has
// failed nothing more is written or shown but lifecycle events, and fail has
// been called.
type recorder struct {
	file    *file
	clock   Clock
	created int64 // microseconds since 1970
	box     *Mailbox
	tracker *tracker
	fail    func(error) // called once, from the recorder's goroutine

	in   chan post
	quit chan struct{} // closed by stop: write what is there and end
	done chan struct{} // closed when the file is closed

	seq, lastUS int64
	pending     []stored
	size        int   // of their payloads
	err         error // why writing ended
	closeErr    error
	progress    atomic.Pointer[Progress]
}

// post is what a recorder is sent: events without their numbers, which are
// committed together, or the wish that all before it be committed.
type post struct {
	events []stored
	flush  chan error
}

func newRecorder(f *file, clock Clock, createdUnixMS int64, st *State, box *Mailbox, fail func(error)) *recorder {
	r := &recorder{
		file: f, clock: clock, created: createdUnixMS * 1000, box: box, fail: fail,
		in: make(chan post, commitRecords), quit: make(chan struct{}), done: make(chan struct{}),
		seq: st.LastSeq, lastUS: st.LastUS, tracker: newTracker(st.Tensors),
	}
	r.tracker.resume(st)
	p := r.tracker.progress(st.LastUS)
	r.progress.Store(&p)
	box.SetProgress(p)
	return r
}

// post sends events to be recorded, all or none of them. It blocks only while
// the disk is behind by thousands of records, and never once the recorder has
// ended.
func (r *recorder) post(events ...stored) {
	select {
	case r.in <- post{events: events}:
	case <-r.done:
	}
}

// note posts an event with a JSON payload.
func (r *recorder) note(kind EventKind, variant, tensor int, n note) {
	r.post(newNote(kind, variant, tensor, n))
}

// newNote is an event with a JSON payload, without its numbers.
func newNote(kind EventKind, variant, tensor int, n note) stored {
	payload, err := json.Marshal(n)
	if err != nil { // a note holds nothing that JSON cannot carry
		payload = []byte("{}")
	}
	e := stored{Event: Event{Kind: kind, Variant: variant, Tensor: tensor, Message: n.Message, Effective: n.Effective, Requested: n.Requested, Why: n.Why}, payload: payload, note: n}
	switch kind {
	case EventVariant:
		e.variant = n.Variant.variant(variant)
	case EventFailed:
		e.rec = failedRecord(variant, tensor, n.NaN+n.Inf)
	}
	return e
}

// newTapEvent is the event of a tap record, without its numbers. weights is the
// XXH3 of what was measured.
func newTapEvent(variant, tensor int, t *kernels.Tap, weights uint64) stored {
	e := stored{
		Event:   Event{Kind: EventTap, Variant: variant, Tensor: tensor},
		payload: encodeTap(make([]byte, 0, 384), t, weights),
		rec:     NewRecord(variant, tensor, t),
	}
	e.rec.Weights = weights
	return e
}

// flush returns when all that was posted before is in the file.
func (r *recorder) flush(ctx context.Context) error {
	p := post{flush: make(chan error, 1)}
	select {
	case r.in <- p:
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-p.flush:
		return err
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop writes what was posted, closes the file and waits for that.
func (r *recorder) stop() error {
	close(r.quit)
	<-r.done
	return r.closeErr
}

func (r *recorder) run() {
	defer close(r.done)
	defer func() { r.closeErr = r.file.close() }()
	var commitAt, statusAt <-chan time.Time
	for {
		if commitAt == nil && len(r.pending) > 0 {
			commitAt = r.clock.After(commitEvery)
		}
		if statusAt == nil && r.tracker.p.State == RunRunning {
			statusAt = r.clock.After(statusEvery)
		}
		select {
		case p := <-r.in:
			if r.take(p) {
				commitAt = nil
			}
		case <-commitAt:
			r.commit()
			commitAt = nil
		case <-statusAt:
			r.status()
			statusAt = nil
		case <-r.quit:
			for {
				select {
				case p := <-r.in:
					r.take(p)
				default:
					r.commit()
					return
				}
			}
		}
	}
}

// take handles one post and says whether it led to a commit.
func (r *recorder) take(p post) bool {
	if p.flush != nil {
		r.commit()
		p.flush <- r.err
		return true
	}
	atOnce := false
	for i := range p.events {
		e := &p.events[i]
		if r.err != nil && e.bulk() {
			continue
		}
		r.show(e)
		if r.err == nil {
			r.pending = append(r.pending, *e)
			r.size += len(e.payload)
			atOnce = atOnce || !e.bulk()
		}
	}
	r.status()
	if len(r.pending) < commitRecords && r.size < commitBytes && !atOnce {
		return false
	}
	r.commit()
	return true
}

// show numbers an event and hands it to the mailbox.
func (r *recorder) show(e *stored) {
	r.seq++
	r.lastUS = max(r.lastUS, r.clock.Now().UnixMicro()-r.created) // the machine's clock may be set back
	e.Seq, e.AtUS = r.seq, r.lastUS
	e.rec.Seq, e.rec.AtUS = e.Seq, e.AtUS
	r.tracker.observe(e)
	switch e.Kind {
	case EventTap:
		r.box.Put(e.rec)
		return
	case EventFailed:
		r.box.Put(e.rec)
	case EventVariant:
		r.box.AddVariant(e.variant)
	}
	r.box.post(e)
}

// status publishes the progress as it is now.
func (r *recorder) status() {
	p := r.tracker.progress(max(r.lastUS, r.clock.Now().UnixMicro()-r.created))
	r.progress.Store(&p)
	r.box.SetProgress(p)
}

// commit writes what is pending.
func (r *recorder) commit() {
	if r.err != nil || len(r.pending) == 0 {
		return
	}
	err := r.file.append(context.Background(), r.pending)
	clear(r.pending)
	r.pending, r.size = r.pending[:0], 0
	if err != nil {
		r.err = err
		r.fail(err)
	}
}
