package sessions

import (
	"context"
	"errors"
	"os"
	"strings"

	"quantscope/analysis/bias"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/demo"
)

// biasParties are all that a look at biases reads, opened.
type biasParties struct {
	*parties
	look  bias.Options
	setup *bias.Setup
}

// tierParties are all that a run of a hot tier reads, opened.
type tierParties struct {
	*parties
	routed   *candidate.Candidate
	workload []string
	texts    map[string][]*corpus.Corpus // by name in workload
	run      tier.Options
	setup    *tier.Setup // of a workload that needs no forward pass; nil else
	trace    *tier.Trace
}

func (p *tierParties) load(name string) ([]*corpus.Corpus, error) { return p.texts[name], nil }

// measured is the request as one of a measurement, whose candidates are opened the same
// way.
func (r *BiasRequest) measured() *MeasureRequest {
	m := &MeasureRequest{
		Layout: r.Layout, Targets: r.Targets, Calib: r.Calib, Codes: r.Codes, Cache: r.Cache, Chunk: r.Chunk, Chunks: r.Chunks,
		Threads: r.Threads, MemBytes: r.MemBytes, Program: r.Program, KernelSet: r.KernelSet, Pause: r.Pause, Warn: r.Warn, held: r.held,
	}
	if m.Chunks == 0 {
		m.Chunks = biasChunks
	}
	if r.Progress != nil {
		m.Progress = func(at yardstick.Progress) { r.Progress(bias.Progress{Stage: at.Stage, Candidate: -1, Layer: -1}) }
	}
	return m
}

// biasChunks is how many chunks of each corpus are looked at where nobody says.
const biasChunks = 4

// open opens the checkpoint at path and all else that the request names. Nothing is
// computed but the codes of calibrated variants that were not made before. identity is
// that which the checkpoint must have; "" for any.
func (r *BiasRequest) open(ctx context.Context, path, identity string) (p *biasParties, err error) {
	p = &biasParties{parties: &parties{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if r.KernelSet.Name == "" {
		r.KernelSet = kernels.Best()
	}
	m := r.measured()
	if m.Progress != nil {
		m.Progress(yardstick.Progress{Stage: "opening", Party: -1})
	}
	o := p.candidateOptions(m)
	if err := p.openReference(ctx, path, identity, o); err != nil {
		return p, err
	}
	if len(r.Candidates) == 0 {
		return p, errors.New("no candidate is named")
	}
	if p.corpora, err = p.texts(ctx, r.Corpora, m, false); err != nil {
		return p, err
	}
	if len(r.Calib) > 0 {
		if p.options.Calib, err = p.texts(ctx, r.Calib, m, true); err == nil {
			err = p.disjoint(p.options.Calib)
		}
		if err != nil {
			return p, err
		}
	}
	for _, spec := range r.Candidates {
		c, err := p.parse(ctx, spec, o)
		if err == nil {
			err = p.add(c)
		}
		if err != nil {
			return p, err
		}
	}
	p.look = bias.Options{Set: r.KernelSet, Threads: r.Threads, Mem: r.MemBytes, BF16: r.BF16, NoFloor: r.NoFloor, Program: r.Program}
	p.setup, err = bias.NewSetup(p.ref, p.candidates, p.corpora, p.look)
	return p, err
}

// measured is the request as one of a measurement.
func (r *TierRequest) measured() *MeasureRequest {
	m := &MeasureRequest{
		Layout: r.Layout, Cache: r.Cache, Chunk: r.Chunk, Chunks: r.Chunks, CalibMost: r.Chunks,
		Threads: r.Threads, MemBytes: r.MemBytes, Program: r.Program, KernelSet: r.KernelSet, Pause: r.Pause, Warn: r.Warn, held: r.held,
	}
	if r.Progress != nil {
		m.Progress = func(at yardstick.Progress) { r.Progress(tier.Progress{Stage: at.Stage, Budget: -1}) }
	}
	return m
}

// open opens the checkpoint at path and all else that the request names, and checks
// what is asked for. A workload is not recorded yet.
func (r *TierRequest) open(ctx context.Context, path, identity string) (p *tierParties, err error) {
	p = &tierParties{parties: &parties{}, workload: r.Workload, texts: map[string][]*corpus.Corpus{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if r.KernelSet.Name == "" {
		r.KernelSet = kernels.Best()
	}
	m := r.measured()
	if m.Progress != nil {
		m.Progress(yardstick.Progress{Stage: "opening", Party: -1})
	}
	if r.Record != "" {
		if err := refuseExisting(r.Record); err != nil {
			return p, err
		}
	}
	o := p.candidateOptions(m)
	if err := p.openReference(ctx, path, identity, o); err != nil {
		return p, err
	}
	if p.routed = p.ref; r.Routed != "" {
		if p.routed, err = p.parse(ctx, r.Routed, o); err != nil {
			return p, err
		}
	}
	p.run = r.Options
	p.run.Set, p.run.Threads, p.run.Mem, p.run.Program = r.KernelSet, r.Threads, r.MemBytes, r.Program
	p.run.Progress, p.run.Pause, p.run.Pace = nil, nil, nil
	if p.run.Policy == (tier.Policy{}) {
		p.run.Policy = tier.DefaultPolicy()
	}
	if p.run.Trace == 0 {
		p.run.Trace = tier.TraceWindows
	}
	if len(p.workload) == 0 {
		p.workload = []string{demo.Calibration}
	}
	ref := p.ref.TierModel()
	if madeUp(p.workload) {
		p.setup, p.trace, err = tier.Prepare(ctx, ref, ref, p.workload, p.load, p.run)
		return p, err
	}
	// All but the workload is checked on one that costs nothing, before a pass is made.
	if _, _, err := tier.Prepare(ctx, ref, ref, []string{tier.Zipf + ":1:tokens=1"}, p.load, p.run); err != nil {
		return p, err
	}
	for _, name := range p.workload {
		if p.texts[name], err = p.parties.texts(ctx, []string{name}, m, true); err != nil {
			return p, err
		}
	}
	return p, nil
}

// madeUp says whether a workload is there without a forward pass.
func madeUp(workload []string) bool {
	for _, name := range workload {
		if name == tier.Zipf || strings.HasPrefix(name, tier.Zipf+":") || strings.HasSuffix(name, tier.RoutesSuffix) {
			return true
		}
	}
	return false
}

// openLook opens the session at path, where there is one, for something that is
// recorded in it: its feed, its checkpoint's identity, and what it holds. made says
// that it is still to be made.
func openLook(ctx context.Context, path string) (feed Feed, identity string, has holdings, made bool, err error) {
	if path == "" {
		return nil, "", has, true, nil
	}
	info, err := os.Lstat(path)
	if err != nil || info.Size() == 0 && info.Mode().IsRegular() {
		return nil, "", has, true, nil
	}
	ok, err := IsSession(path)
	if err == nil && !ok {
		_, err = readHeader(path)
	}
	if err != nil {
		return nil, "", has, false, err
	}
	if feed, err = OpenSession(path); err != nil {
		return nil, "", has, false, err
	}
	if s, ok := feed.(*savedFeed); ok {
		if identity = s.meta.SourceIdentity; s.meta.served() {
			return nil, "", has, false, errors.Join(errServed(path), feed.Close())
		}
	}
	if has, err = storedHeld(ctx, path); err != nil {
		return nil, "", has, false, errors.Join(err, feed.Close())
	}
	return feed, identity, has, false, nil
}

// makeLook makes a session of a reference and opens it.
func makeLook(ctx context.Context, path, checkpoint string, m *MeasureRequest, ref *candidate.Candidate) (string, Feed, error) {
	m.Checkpoint = checkpoint
	path, err := createMeasured(ctx, path, m, ref)
	if err != nil {
		return "", nil, err
	}
	feed, err := OpenSession(path)
	return path, feed, err
}
