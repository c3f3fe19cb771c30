package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quantscope/kernels"
)

// LiveFeed is a feed with an engine behind it. It implements Runner.
//
// The feed stays open when a run ends, since Add can start another: the end is
// seen in Progress.State. A Closed batch follows only on Close, on the end of
// Start's context and on an error of the environment.
type LiveFeed struct {
	job   *Job
	st    *State // as it was at first
	box   *Mailbox
	eng   *engine
	rec   *recorder
	path  string
	desk  *yardDesk
	gates *gateDesk
	looks *lookDesk
	ended chan struct{} // closed when the file is closed

	calibMem int64 // that calibrating may take
	text     textless

	closing  sync.Once
	closeErr error
}

var _ Runner = (*LiveFeed)(nil)

// launch starts the goroutines of a run.
func launch(ctx context.Context, job *Job, o Options, s *opened) *LiveFeed {
	l := &LiveFeed{job: job, st: s.st, path: s.file.path, box: NewMailbox(o.Clock), desk: newYardDesk(s.st.Yards), gates: newGateDesk(s.st.Gates), looks: newLookDesk(s.st), ended: make(chan struct{}), calibMem: o.calibMem}
	l.eng = newEngine(ctx, job, s.variants, s.st, o)
	l.eng.opts, l.eng.session, l.eng.prepared = o.env(), s.file.path, s.prepared
	l.rec = newRecorder(s.file, o.Clock, s.created, s.st, l.box, l.eng.stop)
	l.eng.rec = l.rec
	l.rec.tracker.meter = &l.eng.meter
	go l.rec.run()

	for _, e := range s.events {
		l.rec.post(e)
	}
	kind, n := EventStarted, note{}
	if s.resumed {
		kind, n = EventResumed, note{Message: resumeMessage(s.st, len(s.variants)-len(s.st.Variants)), Retry: s.st.Progress.Failed}
	}
	switch {
	case l.eng.begin(kind, n):
		l.st.Progress.State = RunRunning
	case s.resumed && s.st.Progress.State == RunInterrupted:
		// The last run was killed between its last record and its end.
		l.rec.note(EventResumed, -1, -1, n)
		l.rec.note(EventFinished, -1, -1, note{Message: "finished " + count(s.st.Progress.Total, "measurement")})
		l.st.Progress.State = RunFinished
		_ = l.rec.flush(ctx) // its error comes through the engine
	}
	go func() {
		defer close(l.ended)
		l.eng.loop()
		l.eng.closePrepared()
		select { // it hears of the end by itself
		case <-l.desk.idle():
		case <-o.Clock.After(graceAfterCancel):
		}
		var lost error
		if l.eng.failure() == nil { // else it was said
			lost = s.file.present()
		}
		l.closeErr = errors.Join(lost, l.rec.stop())
		l.box.Close()
	}()
	return l
}

// Path is the session file.
func (l *LiveFeed) Path() string { return l.path }

// Mode is Live.
func (l *LiveFeed) Mode() Mode { return Live }

// Snapshot is the session as it was when the run began.
func (l *LiveFeed) Snapshot() *State { return l.st.Clone() }

// Next implements Feed.
func (l *LiveFeed) Next(ctx context.Context, frame time.Duration) (Batch, error) {
	return l.box.Next(ctx, frame)
}

// Export is what the run writes; false where it writes nothing but the session.
func (l *LiveFeed) Export() (Export, bool) {
	if l.job.export == nil {
		return Export{}, false
	}
	return l.job.export.now(), true
}

// MemBytes is the bound of the buffers for weights, and of what calibrating takes
// where something is calibrated.
func (l *LiveFeed) MemBytes() int64 {
	if l.eng.calibrates() {
		return max(l.eng.opts.MemBytes, l.calibMem)
	}
	return l.eng.opts.MemBytes
}

// Pause holds the workers up after the tensors that are being measured.
func (l *LiveFeed) Pause() { l.eng.pause() }

// Resume lets them go on.
func (l *LiveFeed) Resume() { l.eng.resume() }

// Cancel implements Runner.
func (l *LiveFeed) Cancel() { l.eng.cancelRun() }

// Add implements Runner. A variant that the session has already is no error;
// where a run was cancelled, what it left is gone on with.
func (l *LiveFeed) Add(variants ...string) error {
	asked, err := parseVariants(l.job, variants)
	if err != nil {
		return err
	}
	for _, q := range asked {
		if q.Calibrated {
			err = l.eng.makeReady(q)
		}
		if err == nil {
			err = l.eng.add(q)
		}
		if err != nil {
			return fmt.Errorf("sessions: %s: variant %s cannot be added: %w", l.path, q.Variant.Name, err)
		}
	}
	l.eng.begin(EventStarted, note{})
	return nil
}

// Wait returns when nothing runs any more: finished, cancelled or stopped, and
// what was recorded is in the file. The error is the reason of a stop, or ctx's; a
// *CalibrationError where a calibrated variant is at fault.
func (l *LiveFeed) Wait(ctx context.Context) (Progress, error) {
	for {
		running, idle := l.eng.state()
		if !running {
			select {
			case <-idle:
				return *l.rec.progress.Load(), l.eng.stopReason()
			default:
			}
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return *l.rec.progress.Load(), ctx.Err()
		}
	}
}

// Detail implements Feed. A record that was not written yet is written first.
func (l *LiveFeed) Detail(ctx context.Context, variant, tensor int) (kernels.Tap, error) {
	if err := checkPair(l.path, variant, l.eng.variantCount(), tensor, len(l.job.Tensors)); err != nil {
		return kernels.Tap{}, err
	}
	_ = l.rec.flush(ctx) // what could not be written will not be found
	return readDetail(ctx, l.path, variant, tensor)
}

// RowErrors implements Feed.
func (l *LiveFeed) RowErrors(ctx context.Context, variant, tensor int) ([]float64, error) {
	if err := checkPair(l.path, variant, l.eng.variantCount(), tensor, len(l.job.Tensors)); err != nil {
		return nil, err
	}
	q := l.eng.quantizer(variant)
	if q.keeps(tensor) {
		return nil, keptError(l.path, q.Variant.Name, l.job.Tensors[tensor].Name)
	}
	if q = q.at(tensor); q.Calibrated {
		return calibratedRows(ctx, l.job, l.path, l.eng.folderOf(variant), q, tensor, l.eng.digest(tensor))
	}
	return rowErrors(ctx, l.job, q, tensor, l.eng.digest(tensor))
}

// Close ends the run, writes what is pending and closes the file. The error is
// one of closing; the reason of a stop is Wait's.
func (l *LiveFeed) Close() error {
	l.eng.halt(context.Canceled)
	<-l.ended
	l.text.done.Wait()
	l.closing.Do(func() { l.closeErr = errors.Join(l.closeErr, l.job.Source.Close()) })
	return l.closeErr
}
