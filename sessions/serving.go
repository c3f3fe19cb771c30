package sessions

import (
	"context"
	"errors"

	"quantscope/analysis/candidate"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/layout"
)

// CandidateRequest says what candidate is wanted, for something else than a
// measurement or gates.
type CandidateRequest struct {
	Spec      string   // as package candidate parses it
	Reference string   // checkpoint that variants, recipes and codes are made from; "": Spec has weights of its own
	Targets   string   // of variants
	Calib     []string // what calibrated variants are calibrated on; none: the demo's, for its tokenizer
	Codes     string   // folder that keeps the codes of calibrated variants
	Cache     string   // folder that remembers contents of files that were read; "": none
	Layout    layout.Options
	Threads   int
	MemBytes  int64 // for weights while they are made; 0: the default
	Program   string
	KernelSet kernels.Set

	Progress func(stage string) // may be nil
	Warn     func(string)       // may be nil
}

// OpenedCandidate is a candidate with what it is made from.
type OpenedCandidate struct {
	*candidate.Candidate
	parties *parties
}

// Close closes the candidate and what it is made from.
func (o *OpenedCandidate) Close() error { return o.parties.close() }

// OpenCandidate opens a candidate. Nothing is computed but the codes of a calibrated
// variant that were not made before. A variant without a reference is
// candidate.ErrReference.
func OpenCandidate(ctx context.Context, r CandidateRequest) (opened *OpenedCandidate, err error) {
	p := &parties{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	m := &MeasureRequest{
		Targets: r.Targets, Calib: r.Calib, Codes: r.Codes, Cache: r.Cache, Layout: r.Layout, Threads: r.Threads, MemBytes: r.MemBytes,
		Program: r.Program, KernelSet: r.KernelSet, Warn: r.Warn,
	}
	if r.Progress != nil {
		m.Progress = func(at yardstick.Progress) { r.Progress(at.Stage) }
	}
	o := p.candidateOptions(m)
	if r.Reference == "" {
		c, err := candidate.ParseAlone(ctx, r.Spec, o)
		if err != nil {
			return nil, err
		}
		p.opened = append(p.opened, c)
		return &OpenedCandidate{c, p}, nil
	}
	if err := p.openReference(ctx, r.Reference, "", o); err != nil {
		return nil, err
	}
	if len(r.Calib) > 0 {
		if p.options.Calib, err = p.texts(ctx, r.Calib, m, true); err != nil {
			return nil, err
		}
	}
	c, err := p.parse(ctx, r.Spec, o)
	if err != nil {
		return nil, err
	}
	return &OpenedCandidate{c, p}, nil
}
