package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"quantscope/analysis/yardstick"
)

var _, _ Measurer = (*LiveFeed)(nil), (*savedFeed)(nil)

// Measure implements Measurer. While a run quantizes, and while it is paused, the
// measurement waits between groups of chunks.
func (l *LiveFeed) Measure(ctx context.Context, r MeasureRequest) error {
	release, err := l.desk.take(l.path)
	if err != nil {
		return err
	}
	defer release()
	if l.job.part != nil {
		return errOfPart(l.path)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.eng.ctx, cancel)()
	r.Program = cmp.Or(r.Program, l.eng.opts.Program)
	m := l.job.Meta
	p, err := r.parties(ctx, l.path, &metaJSON{SourcePath: m.SourcePath, SourceAbs: l.job.Abs, SourceIdentity: m.SourceIdentity})
	if err != nil {
		return err
	}
	err = l.desk.run(ctx, r, p, l.rec.post, func(ctx context.Context) error { return l.restWhileRunning(ctx, r.Progress) })
	err = errors.Join(err, p.close())
	if flushed := l.rec.flush(context.WithoutCancel(ctx)); err == nil {
		err = flushed
	}
	if failure := l.eng.failure(); failure != nil { // it is why ctx ended
		return failure
	}
	return err
}

// restWhileRunning waits until nothing is being quantized.
func (l *LiveFeed) restWhileRunning(ctx context.Context, tell func(yardstick.Progress)) error {
	for {
		running, idle := l.eng.state()
		if !running {
			return ctx.Err()
		}
		if tell != nil {
			tell(yardstick.Progress{Stage: StageWaiting, Party: -1})
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// StageWaiting is the stage of a measurement that waits for a run to end.
const StageWaiting = "waiting for the run"

func errOfPart(path string) error {
	return fmt.Errorf("sessions: %s: it is of a part of a checkpoint, and a measurement takes in the whole", path)
}

func errServed(path string) error {
	return fmt.Errorf("sessions: %s: it is of served models, and there is no checkpoint to measure", path)
}

// parties opens what the request names against the checkpoint that meta
// describes, unless that is done.
func (r *MeasureRequest) parties(ctx context.Context, session string, meta *metaJSON) (*parties, error) {
	if r.ready != nil {
		return r.ready, nil
	}
	if r.Progress != nil {
		r.Progress(yardstick.Progress{Stage: "opening", Party: -1})
	}
	var err error
	if r.held, err = storedHeld(ctx, session); err != nil {
		return nil, err
	}
	at := cmp.Or(r.Checkpoint, meta.place())
	p, err := r.open(ctx, at, meta.SourceIdentity)
	if err != nil {
		return nil, fmt.Errorf("sessions: %s: measure: %w", session, err)
	}
	return p, nil
}

// Measure implements Measurer. The session is written to while it goes on: another
// writer is a *BusyError.
func (s *savedFeed) Measure(ctx context.Context, r MeasureRequest) error {
	release, err := s.desk.take(s.path)
	if err != nil {
		return err
	}
	defer release()
	if s.meta.Part != nil {
		return errOfPart(s.path)
	}
	if s.meta.served() {
		return errServed(s.path)
	}
	return s.writing(ctx, func(ctx context.Context, rec *recorder) error {
		r.Program = cmp.Or(r.Program, s.meta.Program)
		p, err := r.parties(ctx, s.path, &s.meta)
		if err != nil {
			return err
		}
		err = s.desk.run(ctx, r, p, rec.post, func(ctx context.Context) error { return ctx.Err() })
		return errors.Join(err, p.close())
	})
}

// writing opens the session for writing while f goes on, and tells of it what f
// posts.
func (s *savedFeed) writing(ctx context.Context, f func(context.Context, *recorder) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	file, l, err := s.reopen(ctx)
	if err != nil {
		return err
	}
	var failure error // of writing
	l.st.interrupt()
	s.desk.know(l.st.Yards)
	s.gates.know(l.st.Gates)
	s.looks.know(l.st)
	if l.st.LastSeq != s.lastSeq.Load() { // another process wrote meanwhile
		s.box.reset(l.st.Clone())
	}
	rec := newRecorder(file, realClock{}, l.meta.CreatedUnixMS, l.st, s.box, func(err error) {
		failure = err
		cancel()
	})
	go rec.run()
	defer func() {
		gone := file.present()
		closed := rec.stop() // after which failure is settled
		s.lastSeq.Store(rec.seq)
		switch {
		case failure != nil:
			err = failure
		case err == nil:
			err = errors.Join(gone, closed)
		}
	}()
	return f(ctx, rec)
}

// reopen opens the session for writing, and reads what it holds now.
func (s *savedFeed) reopen(ctx context.Context) (*file, *loaded, error) {
	if _, err := readHeader(s.path); err != nil {
		return nil, nil, err
	}
	lock, err := lockSession(s.path)
	if err != nil {
		return nil, nil, err
	}
	l, err := loadFile(ctx, s.path)
	if err == nil && l.damage.any() {
		err = &FileError{Path: s.path, Reason: "is damaged and can be looked at, not written to: " + l.damage.String(), Err: ErrDamaged}
	}
	if err != nil {
		return nil, nil, errors.Join(err, lock.Release())
	}
	f, err := open(ctx, s.path, lock)
	return f, l, err
}

// Measure of a replay is refused: what it shows is not what the session holds.
func (r *replayFeed) Measure(context.Context, MeasureRequest) error {
	return fmt.Errorf("sessions: %s: a replay takes no measurement: open the session itself", r.path)
}
