package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"quantscope/analysis/bias"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
)

var (
	_, _ Biaser = (*LiveFeed)(nil), (*savedFeed)(nil)
	_, _ Tierer = (*LiveFeed)(nil), (*savedFeed)(nil)
)

// beside does something that is recorded in the session of a run, when it is its turn:
// one such at a time, measurements and gates among them.
func (l *LiveFeed) beside(ctx context.Context, f func(ctx context.Context, meta *metaJSON) error) error {
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
	m := l.job.Meta
	err = f(ctx, &metaJSON{SourcePath: m.SourcePath, SourceAbs: l.job.Abs, SourceIdentity: m.SourceIdentity, Family: m.Family, Program: l.eng.opts.Program})
	if flushed := l.rec.flush(context.WithoutCancel(ctx)); err == nil {
		err = flushed
	}
	if failure := l.eng.failure(); failure != nil { // it is why ctx ended
		return failure
	}
	return err
}

// beside is LiveFeed.beside of a session that nobody writes: it is written to while f
// goes on.
func (s *savedFeed) beside(ctx context.Context, f func(ctx context.Context, meta *metaJSON, post func(...stored)) error) error {
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
	return s.writing(ctx, func(ctx context.Context, rec *recorder) error { return f(ctx, &s.meta, rec.post) })
}

// Bias implements Biaser. While a run quantizes, and while it is paused, the look waits.
func (l *LiveFeed) Bias(ctx context.Context, r BiasRequest) error {
	return l.beside(ctx, func(ctx context.Context, meta *metaJSON) error {
		hold := func(ctx context.Context) error { return l.restWhileRunning(ctx, r.waits()) }
		return l.looks.ofBias(ctx, l.path, r, meta, l.rec.post, hold)
	})
}

// Bias implements Biaser. Another writer is a *BusyError.
func (s *savedFeed) Bias(ctx context.Context, r BiasRequest) error {
	return s.beside(ctx, func(ctx context.Context, meta *metaJSON, post func(...stored)) error {
		return s.looks.ofBias(ctx, s.path, r, meta, post, func(ctx context.Context) error { return ctx.Err() })
	})
}

// Bias of a replay is refused: what it shows is not what the session holds.
func (r *replayFeed) Bias(context.Context, BiasRequest) error {
	return fmt.Errorf("sessions: %s: a replay looks at no biases: open the session itself", r.path)
}

// Tier implements Tierer. While a run quantizes, and while it is paused, the tier waits.
func (l *LiveFeed) Tier(ctx context.Context, r TierRequest) error {
	return l.beside(ctx, func(ctx context.Context, meta *metaJSON) error {
		hold := func(ctx context.Context) error { return l.restWhileRunning(ctx, r.waits()) }
		return l.looks.ofTier(ctx, l.path, r, meta, l.rec.post, hold)
	})
}

// Tier implements Tierer. Another writer is a *BusyError.
func (s *savedFeed) Tier(ctx context.Context, r TierRequest) error {
	return s.beside(ctx, func(ctx context.Context, meta *metaJSON, post func(...stored)) error {
		return s.looks.ofTier(ctx, s.path, r, meta, post, func(ctx context.Context) error { return ctx.Err() })
	})
}

// Tier of a replay is refused: what it shows is not what the session holds.
func (r *replayFeed) Tier(context.Context, TierRequest) error {
	return fmt.Errorf("sessions: %s: a replay runs no hot tier: open the session itself", r.path)
}

// ofBias opens what a look reads, unless that is done, and looks.
func (d *lookDesk) ofBias(ctx context.Context, session string, r BiasRequest, meta *metaJSON, post func(...stored), hold func(context.Context) error) error {
	r.Program = cmp.Or(r.Program, meta.Program)
	p := r.ready
	if p == nil {
		var err error
		if r.held, err = storedHeld(ctx, session); err != nil {
			return err
		}
		if p, err = r.open(ctx, cmp.Or(r.Checkpoint, meta.place()), meta.SourceIdentity); err != nil {
			return fmt.Errorf("sessions: %s: bias: %w", session, err)
		}
	}
	return errors.Join(d.look(ctx, r, p, post, hold), p.close())
}

// ofTier opens what a hot tier reads, unless that is done, and runs it.
func (d *lookDesk) ofTier(ctx context.Context, session string, r TierRequest, meta *metaJSON, post func(...stored), hold func(context.Context) error) error {
	r.Program = cmp.Or(r.Program, meta.Program)
	p := r.ready
	if p == nil {
		var err error
		if r.held, err = storedHeld(ctx, session); err != nil {
			return err
		}
		if p, err = r.open(ctx, cmp.Or(r.Checkpoint, meta.place()), meta.SourceIdentity); err != nil {
			return fmt.Errorf("sessions: %s: tier: %w", session, err)
		}
	}
	return errors.Join(d.breathe(ctx, r, p, post, hold), p.close())
}

// waits tells that a look waits for a run.
func (r *BiasRequest) waits() func(yardstick.Progress) {
	if r.Progress == nil {
		return nil
	}
	return func(at yardstick.Progress) { r.Progress(bias.Progress{Stage: at.Stage, Candidate: -1, Layer: -1}) }
}

// waits tells that a tier waits for a run.
func (r *TierRequest) waits() func(yardstick.Progress) {
	if r.Progress == nil {
		return nil
	}
	return func(at yardstick.Progress) { r.Progress(tier.Progress{Stage: at.Stage, Budget: -1}) }
}
