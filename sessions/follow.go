package sessions

import (
	"context"
	"database/sql"
	"time"

	"quantscope/quant/lockfile"
)

// pollEvery is how often a session that another process writes is looked at. A
// writer commits four times a second.
const pollEvery = 200 * time.Millisecond

// pollRows bounds one look, so that a reader that comes late to a long run
// holds no lock for long.
const pollRows = 16384

// followFeed reads along while another process writes. Each look opens the
// file, reads what is new in one query, and closes it again: it takes no lock
// that a writer could wait for.
type followFeed struct {
	*savedFeed
	clock   Clock
	fold    *fold
	seq     int64
	created int64 // microseconds since 1970
	runs    books
	ended   bool
}

func newFollow(s *savedFeed, l *loaded, clock Clock) *followFeed {
	f := &followFeed{savedFeed: s, clock: clockOr(clock), seq: l.st.LastSeq, created: l.meta.CreatedUnixMS * 1000}
	t := newTracker(l.st.Tensors)
	t.resume(l.st)
	f.fold = newFold(t)
	for i := range l.notes {
		e := l.notes[i]
		_ = f.runs.place(&e, len(f.tensors)) // it fitted when it was loaded
	}
	f.fold.batch.LastSeq, f.fold.batch.LastUS = l.st.LastSeq, l.st.LastUS
	return f
}

func (f *followFeed) Mode() Mode { return Follow }

// Next looks every now and then; frame is what it waits at least. When the
// writer is gone, what it left is handed over and the feed is closed.
func (f *followFeed) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	for !f.ended {
		select {
		case <-f.clock.After(max(frame, pollEvery)):
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
		// Whether a writer lives is asked before looking: what it wrote last is
		// then seen.
		_, alive := lockfile.Holder(f.path + lockSuffix)
		n, more, err := f.look(ctx)
		if err != nil {
			return Batch{}, err
		}
		running := f.fold.tracker.p.State == RunRunning
		if alive && n == 0 && !running {
			continue
		}
		b := f.fold.take(f.clock.Now().UnixMicro() - f.created)
		if !alive && !more {
			f.ended, b.Closed = true, true
			if b.Progress.State == RunRunning || b.Progress.State == RunPaused {
				b.Progress = f.fold.tracker.p // no rates
				b.Progress.State = RunInterrupted
			}
		}
		return b, nil
	}
	return f.box.Next(ctx, frame)
}

// look folds in what is new and returns how many events that was, and whether
// there may be more.
func (f *followFeed) look(ctx context.Context) (n int, more bool, err error) {
	r, err := openReader(ctx, f.path)
	if err != nil {
		return 0, false, err
	}
	defer r.Close()
	var events []stored
	err = withConn(ctx, r, func(c *sql.Conn) (err error) {
		events, more, err = readEvents(ctx, c, f.seq, pollRows)
		return err
	})
	if err != nil {
		return 0, false, &FileError{f.path, "read", err}
	}
	for i := range events {
		e := &events[i]
		f.seq = e.Seq
		f.lastSeq.Store(e.Seq)
		if !e.valid(int(f.variants.Load()), len(f.tensors)) || f.runs.place(e, len(f.tensors)) != nil {
			continue
		}
		if e.Kind == EventVariant {
			f.variants.Add(1)
		}
		f.fold.add(e)
	}
	return len(events), more, nil
}

// withConn lends f one connection.
func withConn(ctx context.Context, r *reader, f func(c *sql.Conn) error) error {
	c, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}
