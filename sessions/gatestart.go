package sessions

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"quantscope/kernels"
)

// Served is the family of a session of gates against servers alone: it has no
// checkpoint and no tensors.
const Served = "served"

// served says whether a session is of served models alone.
func (m *metaJSON) served() bool { return m.Family == Served && m.SourceIdentity == "" }

// Served says whether a session is of served models alone, without a checkpoint.
func (m *Meta) Served() bool { return m.Family == Served && m.SourceIdentity == "" }

// PreparedGates is a session that gates can be run in.
type PreparedGates struct {
	Path string
	Made bool // it was made for this
	Feed Feed // the results arrive through it
	r    GatesRequest
}

// PrepareGates opens everything that a run of gates reads, servers excepted, and
// then the session: that at path, which must be of the same checkpoint, or a new
// one, in the default place where path is "". A run against servers alone has a
// session without tensors. Without an error nothing was asked, with one no session
// was made.
func PrepareGates(ctx context.Context, path string, r GatesRequest) (p *PreparedGates, err error) {
	if r.KernelSet.Name == "" {
		r.KernelSet = kernels.Best()
	}
	exists := false
	if path != "" {
		if info, err := os.Lstat(path); err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
			if ok, err := IsSession(path); err != nil {
				return nil, err
			} else if !ok {
				_, err := readHeader(path)
				return nil, err
			}
			exists = true
		}
	}
	p = &PreparedGates{Path: path, Made: !exists, r: r}
	defer func() {
		if err != nil {
			p, err = nil, errors.Join(err, p.Close())
		}
	}()
	at, identity := r.Checkpoint, ""
	if exists {
		if p.Feed, err = OpenSession(path); err != nil {
			return p, err
		}
		if s, ok := p.Feed.(*savedFeed); ok {
			identity = s.meta.SourceIdentity
			if at, err = r.place(path, &s.meta); err != nil {
				return p, err
			}
		}
		if p.r.held, err = storedHeld(ctx, path); err != nil {
			return p, err
		}
	}
	if p.r.ready, err = p.r.open(ctx, at, identity); err != nil || exists {
		return p, err
	}
	if ref := p.r.ready.ref; ref != nil {
		m := p.r.measured()
		m.Checkpoint = at
		p.Path, err = createMeasured(ctx, path, m, ref)
	} else {
		p.Path, err = createServed(ctx, path, &p.r)
	}
	if err == nil {
		p.Feed, err = OpenSession(p.Path)
	}
	return p, err
}

// Run runs the gates; see Gater.
func (p *PreparedGates) Run(ctx context.Context) error {
	g, ok := p.Feed.(Gater)
	if !ok {
		return fmt.Errorf("sessions: %s: no gates can be run in it", p.Path)
	}
	return g.Gates(ctx, p.r)
}

// Close closes what was opened.
func (p *PreparedGates) Close() error {
	var errs []error
	if p.r.ready != nil {
		errs = append(errs, p.r.ready.close())
	}
	if p.Feed != nil {
		errs = append(errs, p.Feed.Close())
	}
	return errors.Join(errs...)
}

// createServed makes a session of served models, and says where.
func createServed(ctx context.Context, path string, r *GatesRequest) (string, error) {
	_, base := cutServer(r.Servers[0])
	u, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("%w: server %q: %w", ErrServer, base, err)
	}
	const targets = "none: served models"
	job := &Job{
		Meta: Meta{SourcePath: base, Family: Served, Summary: "models behind servers, asked by gates", Targets: targets},
		Name: u.Host, Source: noSource{},
		Settings: map[string]string{
			SettingTargets: targets, SettingConvention: orDefault(""), SettingGlobalScale: "tensor", SettingNumerics: numerics,
		},
	}
	o := Options{Session: path, Program: r.Program, KernelSet: r.KernelSet}.withDefaults(job)
	s, err := openOrCreate(ctx, job, o, nil)
	if err != nil {
		return "", err
	}
	return s.file.path, s.file.close()
}
