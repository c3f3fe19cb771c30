package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"quantscope/analysis/gates"
	"quantscope/analysis/yardstick"
)

var _, _ Gater = (*LiveFeed)(nil), (*savedFeed)(nil)

// Gates implements Gater. While a run quantizes, and while it is paused, gates
// wait between answers.
func (l *LiveFeed) Gates(ctx context.Context, r GatesRequest) error {
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
	p, err := r.parties(ctx, l.path, &metaJSON{SourcePath: m.SourcePath, SourceAbs: l.job.Abs, SourceIdentity: m.SourceIdentity, Family: m.Family})
	if err != nil {
		return err
	}
	var waits func(yardstick.Progress)
	if r.Progress != nil {
		waits = func(at yardstick.Progress) { r.Progress(gates.Progress{Stage: at.Stage, Arm: -1, Probe: -1}) }
	}
	err = l.gates.ask(ctx, l.path, r, p, l.rec.post, func(ctx context.Context) error { return l.restWhileRunning(ctx, waits) })
	err = errors.Join(err, p.close())
	if flushed := l.rec.flush(context.WithoutCancel(ctx)); err == nil {
		err = flushed
	}
	if failure := l.eng.failure(); failure != nil { // it is why ctx ended
		return failure
	}
	return err
}

// Gates implements Gater. The session is written to while it goes on: another writer
// is a *BusyError.
func (s *savedFeed) Gates(ctx context.Context, r GatesRequest) error {
	release, err := s.desk.take(s.path)
	if err != nil {
		return err
	}
	defer release()
	if s.meta.Part != nil {
		return errOfPart(s.path)
	}
	return s.writing(ctx, func(ctx context.Context, rec *recorder) error {
		r.Program = cmp.Or(r.Program, s.meta.Program)
		p, err := r.parties(ctx, s.path, &s.meta)
		if err != nil {
			return err
		}
		err = s.gates.ask(ctx, s.path, r, p, rec.post, func(ctx context.Context) error { return ctx.Err() })
		return errors.Join(err, p.close())
	})
}

// Gates of a replay are refused: what it shows is not what the session holds.
func (r *replayFeed) Gates(context.Context, GatesRequest) error {
	return fmt.Errorf("sessions: %s: a replay runs no gates: open the session itself", r.path)
}

// parties opens what the request names against the checkpoint that meta describes,
// unless that is done.
func (r *GatesRequest) parties(ctx context.Context, session string, meta *metaJSON) (p *gateParties, err error) {
	if r.ready != nil {
		return r.ready, nil
	}
	if r.held, err = storedHeld(ctx, session); err != nil {
		return nil, err
	}
	at, err := r.place(session, meta)
	if err == nil {
		p, err = r.open(ctx, at, meta.SourceIdentity)
	}
	if err != nil {
		return nil, fmt.Errorf("sessions: %s: gates: %w", session, err)
	}
	return p, nil
}

// place is where the session's checkpoint is; "" for a session of served models.
func (r *GatesRequest) place(session string, meta *metaJSON) (string, error) {
	if !meta.served() {
		return cmp.Or(r.Checkpoint, meta.place()), nil
	}
	if r.Checkpoint != "" {
		return "", &SettingsError{session, SettingSource, "none: the session is of served models", r.Checkpoint}
	}
	return "", nil
}
