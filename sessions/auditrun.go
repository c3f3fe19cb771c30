package sessions

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

var _, _, _ Auditor = (*LiveFeed)(nil), (*savedFeed)(nil), (*staticFeed)(nil)

// Audit looks at a checkpoint. Where it has pairs to compare, the result is
// recorded in the session.
func (l *LiveFeed) Audit(ctx context.Context, r AuditRequest) (*Audit, error) {
	m := l.job.Meta
	meta := metaJSON{SourcePath: m.SourcePath, SourceAbs: l.job.Abs, SourceIdentity: m.SourceIdentity}
	a, err := audit(ctx, r, l.path, &meta, clockOr(l.rec.clock))
	if err != nil {
		return nil, err
	}
	if a.Census.Pairs > 0 {
		e, err := a.event()
		if err != nil {
			return nil, err
		}
		l.rec.post(e)
	}
	return a, nil
}

// Audit implements Auditor. The session is not written to.
func (s *savedFeed) Audit(ctx context.Context, r AuditRequest) (*Audit, error) {
	if s.meta.served() && r.Dir == "" {
		return nil, fmt.Errorf("sessions: %s: it is of served models, and there is no checkpoint to look at", s.path)
	}
	return audit(ctx, r, s.path, &s.meta, realClock{})
}

// Audit implements Auditor for folders that are named: there is no checkpoint of
// the session's own.
func (f *staticFeed) Audit(ctx context.Context, r AuditRequest) (*Audit, error) {
	return audit(ctx, r, "", nil, realClock{})
}

var errInMemory = errors.New("sessions: a session in memory has no checkpoint")

// audit makes an audit for the session at path, whose own checkpoint meta
// describes; nil where it has none.
func audit(ctx context.Context, r AuditRequest, path string, meta *metaJSON, clock Clock) (*Audit, error) {
	open := func(dir string) (*checkpoint.Checkpoint, error) {
		switch {
		case dir != "":
			return openCheckpoint(dir)
		case meta == nil:
			return nil, errInMemory
		}
		ck, err := findSource(meta)
		if err != nil {
			return nil, fmt.Errorf("sessions: %s: its checkpoint was %s: %w", path, meta.place(), err)
		}
		return ck, nil
	}
	if r.Prove && r.Dir == r.Master {
		return nil, fmt.Errorf("sessions: a checkpoint proves nothing against itself: name another master")
	}
	ck, err := open(r.Dir)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	var from *checkpoint.Checkpoint
	if r.Dir != "" && r.Dir != r.Master {
		// Where the source is gone what is stored is still looked at.
		if from, err = open(r.Master); err == nil {
			defer from.Close()
		}
	}
	a, model, err := lookAt(ctx, ck, from, r.tell)
	if err != nil {
		return nil, err
	}
	if r.Prove && a.Census.Differing > 0 {
		master, err := open(r.Master)
		if err != nil {
			return nil, err
		}
		defer master.Close()
		if err := prove(ctx, a, ck, model, master, r.tell); err != nil {
			return nil, err
		}
	}
	a.AtUnixMS = clock.Now().UnixMilli()
	return a, nil
}

// tell passes on how far an audit is.
func (r *AuditRequest) tell(p AuditProgress) {
	if r.Progress != nil {
		r.Progress(p)
	}
}

// lookAt takes the census of a checkpoint and lints it, against from where it was
// made of that; from may be nil.
func lookAt(ctx context.Context, ck, from *checkpoint.Checkpoint, tell func(AuditProgress)) (*Audit, *topology.Model, error) {
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		return nil, nil, err
	}
	a := &Audit{Path: absolute(ck.Path)}
	tell(AuditProgress{Step: AuditCensus})
	if a.Census, err = census.Run(ctx, ck, model); err != nil {
		return nil, nil, err
	}
	tell(AuditProgress{Step: AuditLint})
	in := lint.Input{Checkpoint: ck, Model: model}
	if from != nil && madeOf(ck, from) {
		if in.FromModel, err = topology.FromCheckpoint(from); err != nil {
			return nil, nil, err
		}
		in.From = from
	}
	r, err := lint.Check(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	a.Findings = r.Findings
	return a, model, nil
}

// madeOf says whether a checkpoint can have been made of another one: it has nine of
// ten of its modules, packed or not. A person may ask about any folder.
func madeOf(ck, from *checkpoint.Checkpoint) bool {
	have := make(map[string]bool, len(ck.Tensors))
	for i := range ck.Tensors {
		module, _ := layout.Split(ck.Tensors[i].Name)
		have[module] = true
	}
	shared := 0
	for i := range from.Tensors {
		if module, _ := layout.Split(from.Tensors[i].Name); have[module] {
			shared++
		}
	}
	return len(from.Tensors) > 0 && 10*shared >= 9*len(from.Tensors)
}

// absolute is a path that means the same from any folder.
func absolute(path string) string {
	if path == demo.Label {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// prove holds what differs against a master.
func prove(ctx context.Context, a *Audit, ck *checkpoint.Checkpoint, model *topology.Model, master *checkpoint.Checkpoint, tell func(AuditProgress)) error {
	of, err := topology.FromCheckpoint(master)
	if err != nil {
		return err
	}
	tell(AuditProgress{Step: AuditProof})
	a.Census, err = census.Prove(ctx, a.Census, ck, model, census.NewMaster(master, of), census.Options{
		Progress: func(p census.Progress) { tell(AuditProgress{AuditProof, p.Done, p.Total}) },
	})
	a.Master = absolute(master.Path)
	return err
}
