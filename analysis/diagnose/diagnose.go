// Package diagnose asks what holds a calibrated variant back: too little text, or a
// solver that does not get more out of it.
//
// Promises: three arms that differ in nothing else are made and measured: the
// baseline, one whose gate and up projections alone are calibrated, and one with all.
// Figures are on text that none of them was calibrated on; text that is in both is
// refused. What was made before is found again.
package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick"
	"quantscope/quant/codes"
	"quantscope/quant/method"
)

// gateUp are the projections of the arm between the two others: their inputs are
// those of all tokens, however few are routed to an expert.
var gateUp = []string{"gate", "up"}

// Labels of the arms.
const (
	Baseline = "baseline"
	GateUp   = "gate,up"
	Full     = "full"
)

// Request says what is asked.
type Request struct {
	Reference *candidate.Candidate
	Variant   method.Variant // a calibrated one
	Targets   string         // as in specs, behind the @
	Eval      []*corpus.Corpus
	For       calibrate.ForOptions // how codes are made, on what text, and where they are kept
	Measure   yardstick.Options    // how the arms are measured; what belongs to a session is not used
}

// Arm is one of the three.
type Arm struct {
	Label      string
	Effective  string
	Calibrated int // matrices
	Positions  int64
	KL, KLErr  float64 // mean, nats; its standard error over chunks
	Top1       float64
}

// Report is what they say.
type Report struct {
	Variant, Baseline string
	Text              codes.Corpus // that was calibrated on
	Found             calibrate.Diagnostic
	Arms              []Arm          // baseline, gate and up, full
	OfGateUp, OfFull  yardstick.Gain // to the baseline
	Beyond            yardstick.Gain // of full, to gate and up
	Notes             []string       // what is odd about the runs
}

// Run makes and measures the arms.
func Run(ctx context.Context, r Request) (*Report, error) {
	if !r.Variant.Calibrated() {
		return nil, fmt.Errorf("diagnose: %s is not calibrated: there is nothing that more text or another solver would change", r.Variant.Name)
	}
	if len(r.Eval) == 0 {
		return nil, errors.New("diagnose: no text to measure on")
	}
	for _, c := range r.Eval { // before anything is spent
		if r.For.Corpus == nil {
			break
		}
		shared, err := corpus.Overlap(c, r.For.Corpus)
		if err == nil {
			err = shared.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	rep := &Report{Variant: r.Variant.Name, Baseline: r.Variant.Baseline().Name}
	full, err := r.arm(ctx, Full, nil, rep)
	if err != nil {
		return nil, err
	}
	defer full.Close()
	some, err := r.arm(ctx, GateUp, gateUp, rep)
	if err != nil {
		return nil, err
	}
	defer some.Close()
	o := candidate.Options{Set: r.For.Set, Threads: r.For.Threads, Mem: r.For.Mem / 4}
	base, err := candidate.BaselineOf(r.Reference, full.Candidate, o)
	if err != nil {
		return nil, err
	}
	base.Label = Baseline
	rep.Text, rep.Found = full.text, calibrate.NewDiagnostic(full.out)
	if rep.Found.Downs.Matrices == 0 { // no experts: down projections of dense layers, over all tokens
		rep.Found.Downs, rep.Found.Others = calibrate.MeansOf(full.downs), calibrate.MeansOf(full.others)
	}
	if err := rep.measure(ctx, r, []*candidate.Candidate{base, some.Candidate, full.Candidate}); err != nil {
		return nil, err
	}
	rep.Arms[1].Calibrated, rep.Arms[2].Calibrated = some.out.Calibrated, full.out.Calibrated
	rep.Found.Baseline, rep.Found.GateUp, rep.Found.Full = calibrate.Float(rep.Arms[0].KL), calibrate.Float(rep.Arms[1].KL), calibrate.Float(rep.Arms[2].KL)
	return rep, nil
}

// made is an arm with what its run came to.
type made struct {
	*candidate.Candidate
	out           *calibrate.Outcome
	text          codes.Corpus
	downs, others []calibrate.Trade
}

// arm makes one, or finds it.
func (r *Request) arm(ctx context.Context, label string, only []string, rep *Report) (*made, error) {
	var a made
	f := r.For
	f.Only, f.Outcome = only, func(o *calibrate.Outcome) { a.out = o }
	warn := f.Warn
	f.Warn = func(s string) {
		rep.Notes = append(rep.Notes, label+": "+s)
		if warn != nil {
			warn(s)
		}
	}
	o := candidate.Options{Set: f.Set, Threads: f.Threads, Mem: f.Mem / 4}
	o.Calibrate = func(ctx context.Context, ref *candidate.Candidate, v method.Variant, targets string) (*codes.Store, error) {
		store, err := calibrate.ForCandidate(f)(ctx, ref, v, targets)
		if err != nil {
			return nil, err
		}
		a.text = store.Manifest().Corpus
		if err := a.read(ref, store); err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return store, nil
	}
	spec := r.Variant.Name
	if r.Targets != "" {
		spec += "@" + r.Targets
	}
	var err error
	if a.Candidate, err = candidate.Parse(ctx, r.Reference, spec, o); err != nil {
		return nil, err
	}
	a.Label, a.Spec, a.Baseline = label, label, Baseline
	return &a, nil
}

// read takes the figures of all matrices out of the codes.
func (a *made) read(ref *candidate.Candidate, store *codes.Store) error {
	down := map[string]bool{}
	for i := range ref.Topology.Matrices {
		m := &ref.Topology.Matrices[i]
		down[m.Name] = m.Role.Projection == "down"
	}
	for _, unit := range store.Manifest().Units {
		list, _, err := store.Describe(unit)
		if err != nil {
			return err
		}
		for i := range list {
			var t calibrate.Trade
			if err := json.Unmarshal(list[i].Figures, &t); err != nil {
				return fmt.Errorf("diagnose: %s: %s: its figures cannot be read: %w", store.Dir(), list[i].Name, err)
			}
			if down[list[i].Name] {
				a.downs = append(a.downs, t)
			} else {
				a.others = append(a.others, t)
			}
		}
	}
	return nil
}

// measure takes the arms through the evaluation's texts.
func (rep *Report) measure(ctx context.Context, r Request, arms []*candidate.Candidate) error {
	o := r.Measure
	var chunks []*yardstick.Chunk
	o.NoFloor, o.Begin, o.Skip, o.Prior, o.Base, o.BaseOut, o.Derived, o.Probe = true, nil, nil, nil, nil, "", nil, false
	o.Scored = func(c *yardstick.Chunk) { chunks = append(chunks, c) }
	m, err := yardstick.Measure(ctx, r.Reference, arms, r.Eval, o)
	if err != nil {
		return err
	}
	for i := range m.Results {
		s, p := &m.Results[i].All, &m.Setup.Candidates[i]
		rep.Arms = append(rep.Arms, Arm{Label: p.Label, Effective: p.Effective, Positions: s.Positions, KL: s.KL, KLErr: s.KLErr, Top1: s.Top1})
	}
	rep.OfGateUp, _ = m.Gain(1)
	rep.OfFull, _ = m.Gain(2)
	beyond, err := yardstick.ComparePair(ctx, m.Setup, chunks, 1, 2, o.Seed)
	if err != nil {
		return err
	}
	rep.Beyond = m.GainOf(&beyond)
	return nil
}
