package calibrate

import (
	"context"
	"fmt"

	"quantscope/quant/topology"
)

// Kept are the inputs that a run measures, by unit: those of the matrices that it
// calibrates.
func (j *Job) Kept() ([]KeptUnit, error) {
	src, err := j.s.Reference.Source()
	if err != nil {
		return nil, err
	}
	defer src.Release()
	var out []KeptUnit
	for i := range j.units {
		u := &j.units[i]
		kept := KeptUnit{Name: u.name}
		var readers map[string][]string
		if u.layer != nil {
			readers = map[string][]string{}
			for at, names := range readersOf(j.s.Reference.Arch, u.layer) {
				readers[at.String()] = names
			}
		}
		for _, w := range j.wants(u, HeadInput(j.s.Reference.Arch, src)) {
			k := Kept{w.At, w.N, w.Hessian, []string{topology.Head.String()}}
			if readers != nil {
				k.For = readers[w.At.String()]
			}
			kept.Inputs = append(kept.Inputs, k)
		}
		if len(kept.Inputs) > 0 {
			out = append(out, kept)
		}
	}
	return out, nil
}

// FileHeader is that of a file in which the moments of the run are kept.
func (j *Job) FileHeader() Header {
	return NewHeader(j.s.Reference, j.s.Corpus, j.s.Variant.Name, j.s.Variant.NeedsHessian(), j.s.Program)
}

// RunInto is Run, and keeps the moments of each unit in a file, whose units are
// Kept: a unit's are there before its codes are, so that whoever goes on has both or
// makes both again.
func (j *Job) RunInto(ctx context.Context, w *FileWriter, sink Sink) (*Outcome, error) {
	t := &throughSink{w: w, sink: sink, left: map[string]int{}, unitOf: map[int]string{}}
	for i := range j.units {
		u := &j.units[i]
		t.left[u.name] = len(u.targets)
		for _, k := range u.targets {
			t.unitOf[k] = u.name
		}
	}
	for _, p := range w.plan.Units {
		t.kept = append(t.kept, p.Name)
	}
	own := sink
	own.Counts, own.Moments, own.Matrix, own.Progress = t.counts, t.moments, t.matrix, t.progress
	out, err := j.Run(ctx, own)
	if t.open != nil {
		t.open.Abandon()
	}
	if err != nil {
		return nil, err
	}
	for _, name := range t.kept {
		if !w.Has(name) {
			return out, fmt.Errorf("calibrate: %s has the codes of %s, and %s lacks its moments: remove %s and begin anew", j.s.Codes, name, w.path, w.dir)
		}
	}
	return out, nil
}

// throughSink writes moments as a run tells them.
type throughSink struct {
	w      *FileWriter
	sink   Sink
	kept   []string
	unit   string // that is under way
	open   *UnitWriter
	of     *Counts
	left   map[string]int // matrices of a unit that are still to be told
	unitOf map[int]string // of a matrix
}

func (t *throughSink) progress(p Progress) {
	t.unit = p.Unit
	if t.sink.Progress != nil {
		t.sink.Progress(p)
	}
}

func (t *throughSink) counts(c Counts) {
	t.of = &c
	if t.sink.Counts != nil {
		t.sink.Counts(c)
	}
}

// moments writes an input of the unit under way; a unit that is there from before,
// whose codes were not, is measured again and has the same.
func (t *throughSink) moments(m *Moments) error {
	if t.sink.Moments != nil {
		if err := t.sink.Moments(m); err != nil {
			return err
		}
	}
	if t.w.Has(t.unit) {
		return nil
	}
	if t.open == nil {
		var err error
		if t.open, err = t.w.Begin(t.unit); err != nil {
			return err
		}
	}
	return t.open.Add(m)
}

// matrix ends a unit's moments with its last matrix, before its codes are kept.
func (t *throughSink) matrix(r Result) error {
	if t.sink.Matrix != nil {
		if err := t.sink.Matrix(r); err != nil {
			return err
		}
	}
	name := t.unitOf[r.Matrix]
	if t.left[name]--; t.left[name] > 0 || t.open == nil {
		return nil
	}
	c := t.of
	if c != nil && !t.open.routed(c.Layer) {
		c = nil
	}
	err := t.open.Commit(c)
	t.open, t.of = nil, nil
	return err
}

// routed says whether the unit is that layer.
func (u *UnitWriter) routed(layer int) bool {
	for _, in := range u.inputs {
		if at, err := ParsePlace(in.At); err == nil && at.Layer == layer {
			return true
		}
	}
	return false
}
