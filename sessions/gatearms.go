package sessions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/openai"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
)

// gateParties are all that a run of gates reads, opened; servers are reached when
// their turn comes.
type gateParties struct {
	*parties
	suite    *suite.Suite
	arms     []gates.ArmSpec
	said     *gates.Texts // what log probabilities are asked for; nil for none
	settings map[string]string
	drafts   bool // for the suite, by arms that can
}

// ErrNoArm is wrapped where gates have nobody to ask, ErrProbe where the probes that
// are named are none of the suite.
var (
	ErrNoArm = errors.New("nobody is named to be asked")
	ErrProbe = errors.New("no probe of the suite")
)

// Settings of a run of gates that are in GateRun.Settings.
const (
	GateModel       = "model"        // that servers are asked for
	GateTargets     = "targets"      // of variants
	GateActivations = "activations"  // of arms in process
	GateSpeculate   = "speculate"    // tokens drafted a step in process
	GatePrefixCache = "prefix cache" // of arms in process
	GateFault       = "fault"        // on purpose, of arms in process
)

// gateSettings are those that decide answers and that the setup does not have.
// What is as usual is left out.
func (r *GatesRequest) gateSettings() map[string]string {
	s := map[string]string{GateModel: r.Model, GateTargets: r.Targets, GateFault: string(r.Local.Fault)}
	if r.Local.Speculate > 0 {
		s[GateSpeculate] = fmt.Sprint(r.Local.Speculate)
	}
	if r.Local.BF16 {
		s[GateActivations] = "bf16"
	}
	if r.Local.PrefixCache {
		s[GatePrefixCache] = "on"
	}
	maps.DeleteFunc(s, func(_, v string) bool { return v == "" })
	if len(s) == 0 {
		return nil // as it is read back
	}
	return s
}

// options are what a run is asked with.
func (p *gateParties) options(r GatesRequest) gates.Options {
	o := gates.Options{Texts: p.said, Timeout: r.Timeout, Program: r.Program, Set: r.KernelSet, Progress: r.Progress, Warn: r.Warn}
	if p.ref != nil && p.ref.Tokenizer != nil {
		o.Words = func(ids []int32) string { return p.ref.Tokenizer.Decode(ids, false) }
	}
	return o
}

// open opens the checkpoint at path, where there is one, and all else that the request
// names. identity is that which the checkpoint must have; "" for any.
func (r *GatesRequest) open(ctx context.Context, path, identity string) (p *gateParties, err error) {
	p = &gateParties{parties: &parties{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if r.KernelSet.Name == "" {
		r.KernelSet = kernels.Best()
	}
	if r.Progress != nil {
		r.Progress(gates.Progress{Stage: "opening", Arm: -1, Probe: -1})
	}
	if path == "" && len(r.Servers) == 0 {
		return p, fmt.Errorf("%w: neither a checkpoint nor a server", ErrNoArm)
	}
	m := r.measured()
	o := p.candidateOptions(m)
	switch needed := !r.NoBaseline || len(r.Candidates) > 0; {
	case path != "":
		if err = p.openReference(ctx, path, identity, o); err != nil && needed {
			return p, err
		}
	case len(r.Candidates) > 0:
		return p, fmt.Errorf("%w: candidate %s is made of a checkpoint, and none is named", ErrNoArm, r.Candidates[0])
	}
	if err := p.loadTexts(ctx, r, m); err != nil {
		return p, err
	}
	if p.ref != nil {
		for _, spec := range r.Candidates {
			c, err := p.parse(ctx, spec, o)
			if err == nil {
				err = p.add(c)
			}
			if err != nil {
				return p, err
			}
		}
	}
	if p.suite, err = r.openSuite(p.ref); err != nil {
		return p, err
	}
	asked := *r
	asked.Local.Speculate, p.drafts = p.speculate(r)
	p.settings = asked.gateSettings()
	if r.NoDrafts && p.measures() && p.settings[GateSpeculate] == "" {
		if p.settings == nil {
			p.settings = map[string]string{}
		}
		p.settings[GateSpeculate] = "0" // where one a step is as usual
	}
	return p, p.line(&asked)
}

// speculate is how many tokens arms in process draft a step: where nothing is said of
// it and the suite measures acceptance, one where the model has a layer for it, and own
// says that an arm without one drafts nothing.
func (p *gateParties) speculate(r *GatesRequest) (k int, own bool) {
	if r.Local.Speculate > 0 || r.NoDrafts || !p.measures() || p.ref == nil || !canDraft(p.ref) {
		return r.Local.Speculate, false
	}
	return 1, true
}

// measures says whether any probe measures acceptance.
func (p *gateParties) measures() bool {
	return slices.ContainsFunc(p.suite.Probes, func(q suite.Probe) bool { return q.Measure })
}

// canDraft says whether a candidate has a layer that drafts.
func canDraft(c *candidate.Candidate) bool { return c.Arch != nil && len(c.Arch.MTP) > 0 }

// measured is the request as one of a measurement, whose candidates are opened the
// same way.
func (r *GatesRequest) measured() *MeasureRequest {
	m := &MeasureRequest{
		Layout: r.Layout, Targets: r.Targets, Calib: r.Calib, Codes: r.Codes, Cache: r.Cache, Chunks: cmp.Or(r.TextChunks, 8),
		Threads: r.Threads, MemBytes: r.MemBytes, Program: r.Program, KernelSet: r.KernelSet, Pause: r.Pause, Warn: r.Warn, held: r.held,
	}
	if r.Progress != nil {
		m.Progress = func(at yardstick.Progress) { r.Progress(gates.Progress{Stage: at.Stage, Arm: -1, Probe: -1}) }
	}
	return m
}

// openSuite reads the suite, and leaves of it what is asked for.
func (r *GatesRequest) openSuite(ref *candidate.Candidate) (*suite.Suite, error) {
	name := r.Suite
	if name == "" {
		name = "default"
		if demo, err := corpus.DemoTokenizer(); err == nil && ref != nil && ref.Tokenizer != nil && ref.Tokenizer.Identity() == demo.Identity() {
			name = "demo"
		}
	}
	whole, err := suite.Open(name)
	if err != nil {
		return nil, err
	}
	s := *whole
	if s.Probes, err = chosenProbes(&s, r.Probes); err != nil {
		return nil, err
	}
	if r.Passes < 0 || r.Passes > maxAnswers {
		return nil, fmt.Errorf("sessions: %d passes of each probe", r.Passes)
	}
	if r.Passes > 0 {
		for i := range s.Probes {
			if !s.Probes[i].Measure { // a greedy text is the same again
				s.Probes[i].Passes = r.Passes
			}
		}
	}
	return &s, nil
}

// CheckProbes is an error where patterns name no probe of a suite, as --probe reads
// them.
func CheckProbes(s *suite.Suite, patterns string) error {
	_, err := chosenProbes(s, patterns)
	return err
}

// chosenProbes are those of a suite that patterns name: GLOB or re:REGEXP, by
// commas; "" names all. A star stands for a / too, so that sums* has sums and
// sums/sampled. A pattern that names none is an error.
func chosenProbes(s *suite.Suite, patterns string) ([]suite.Probe, error) {
	all := slices.Clone(s.Probes)
	if strings.TrimSpace(patterns) == "" {
		return all, nil
	}
	chosen := make([]bool, len(all))
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	for _, p := range splitPatterns(patterns) {
		is := func(id string) bool { ok, _ := path.Match(flat(p), flat(id)); return ok }
		if expr, ok := strings.CutPrefix(p, "re:"); ok {
			re, err := regexp.Compile(expr)
			if err != nil {
				return nil, fmt.Errorf("%w %s: %s: %w", ErrProbe, s.Name, p, err)
			}
			is = re.MatchString
		} else if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("%w %s: %s: %w", ErrProbe, s.Name, p, err)
		}
		any := false
		for i := range all {
			if is(all[i].ID) {
				chosen[i], any = true, true
			}
		}
		if !any {
			return nil, fmt.Errorf("%w %s is called %s (known: %s)", ErrProbe, s.Name, p, probeIDs(all))
		}
	}
	var out []suite.Probe
	for i := range all {
		if chosen[i] {
			out = append(out, all[i])
		}
	}
	return out, nil
}

// splitPatterns splits at commas; one expression may hold them, so what follows
// re: is one pattern.
func splitPatterns(s string) []string {
	var out []string
	for s != "" {
		if strings.HasPrefix(strings.TrimSpace(s), "re:") {
			return append(out, strings.TrimSpace(s))
		}
		var p string
		p, s, _ = strings.Cut(s, ",")
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func probeIDs(ps []suite.Probe) string {
	var ids []string
	for i := range ps {
		ids = append(ids, ps[i].ID)
	}
	return strings.Join(ids, ", ")
}

// loadTexts loads what log probabilities are asked for, and what candidates were
// calibrated on, which must not be the same.
func (p *gateParties) loadTexts(ctx context.Context, r *GatesRequest, m *MeasureRequest) (err error) {
	if len(r.Calib) > 0 && p.ref != nil {
		if p.parties.options.Calib, err = p.texts(ctx, r.Calib, m, true); err != nil {
			return err
		}
	}
	if r.Texts == "" {
		return nil
	}
	if p.ref == nil {
		p.ref = &candidate.Candidate{TokenizerErr: errors.New("a served model's is not to be had: name its checkpoint, or a file of ids")}
		defer func() { p.ref = nil }()
	}
	list, err := p.texts(ctx, []string{r.Texts}, m, false)
	if err != nil {
		return err
	}
	t := &gates.Texts{Name: list[0].Name, Top: cmp.Or(r.Top, 20)}
	var sums []byte
	for _, c := range list {
		t.IDs = append(t.IDs, c.Chunks...)
		sums = append(sums, c.SHA256[:]...)
	}
	t.SHA256 = hex.EncodeToString(list[0].SHA256[:])
	if len(list) > 1 {
		all := sha256.Sum256(sums)
		t.Name, t.SHA256 = r.Texts, hex.EncodeToString(all[:])
	}
	p.said, p.corpora = t, list
	return p.disjoint(p.parties.options.Calib)
}

// line puts the arms in order: the baseline, candidates, servers, and the baseline
// again.
func (p *gateParties) line(r *GatesRequest) error {
	if p.ref != nil && !r.NoBaseline {
		p.arms = append(p.arms, p.inProcess(p.ref, p.ref.Label, p.ref.Path, r))
	}
	for _, c := range p.candidates {
		p.arms = append(p.arms, p.inProcess(c, c.Label, c.Spec, r))
	}
	for _, s := range r.Servers {
		arm, err := server(s, r)
		if err != nil {
			return err
		}
		p.arms = append(p.arms, arm)
	}
	if len(p.arms) == 0 {
		return fmt.Errorf("%w: the checkpoint is no baseline, and neither candidate nor server is named", ErrNoArm)
	}
	p.arms[0].Role = gates.Baseline
	if !r.NoPlacebo {
		again := p.arms[0]
		again.Label, again.Role = again.Label+" again", gates.Placebo
		p.arms = append(p.arms, again)
	}
	seen := map[string]bool{}
	for _, a := range p.arms {
		if seen[a.Label] {
			return fmt.Errorf("%w %q; LABEL=%s gives one another name", ErrLabel, a.Label, a.Spec)
		}
		seen[a.Label] = true
	}
	if len(p.arms) > maxArms {
		return fmt.Errorf("sessions: %d arms: gates are of up to %d", len(p.arms), maxArms)
	}
	return nil
}

// inProcess is an arm that answers in this process. Its candidate is open already;
// the engine is made when its turn comes.
func (p *gateParties) inProcess(c *candidate.Candidate, label, spec string, r *GatesRequest) gates.ArmSpec {
	o := r.Local
	if o.Set.Name == "" {
		o.Set = r.KernelSet
	}
	o.Threads = cmp.Or(o.Threads, r.Threads)
	if p.drafts && !canDraft(c) {
		o.Speculate = 0
	}
	return gates.ArmSpec{Label: label, Spec: spec, Role: gates.Candidate, Open: func(ctx context.Context) (chat.Target, error) {
		return local.New(ctx, c, o)
	}}
}

// server is an arm behind a URL: LABEL=URL or URL.
func server(spec string, r *GatesRequest) (gates.ArmSpec, error) {
	label, base := cutServer(spec)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return gates.ArmSpec{}, fmt.Errorf("%w: server %q is no URL such as http://127.0.0.1:8000", ErrServer, spec)
	}
	if u.User != nil {
		return gates.ArmSpec{}, fmt.Errorf("%w: server %s://%s: a key stands in the environment, not in a URL", ErrServer, u.Scheme, u.Host)
	}
	base = strings.TrimRight(base, "/")
	if label == "" {
		label = strings.TrimSuffix(u.Host+strings.TrimRight(u.Path, "/"), "/v1")
	}
	return gates.ArmSpec{Label: label, Spec: base, Role: gates.Candidate, Open: func(ctx context.Context) (chat.Target, error) {
		return openai.Open(ctx, base, openai.Options{Model: r.Model, KeyEnv: r.KeyEnv, Timeout: r.Timeout})
	}}, nil
}

// ErrServer is wrapped where what is named is no server's address.
var ErrServer = errors.New("gates")

// cutServer takes LABEL= off a server. A URL may hold an = of its own.
func cutServer(spec string) (label, base string) {
	label, base, ok := strings.Cut(spec, "=")
	if !ok || strings.Contains(label, "://") {
		return "", spec
	}
	return strings.TrimSpace(label), strings.TrimSpace(base)
}
