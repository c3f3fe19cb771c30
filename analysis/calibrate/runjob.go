package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
)

// running is one run of a job.
type running struct {
	*Job
	sink  Sink
	store *codes.Store // nil where nothing is kept
	out   *Outcome
	seen  []outcomeOf // of each matrix, in the order in which they are done

	src  *overlay     // what the text goes through, but for the layer that was just made
	raw  model.Source // weights that are quantized
	walk *model.Walk  // nil until it is needed
	get  *Collector

	done   int // units
	tokens int64
	now    Progress // of what the text goes through
	last   int      // the last unit that must be looked at; -1: none
	proven bool     // of codes that were read back, that some are not the baseline's
	counts []Counts
}

// outcomeOf is what a matrix came to.
type outcomeOf struct {
	target int
	trade  Trade
	raised int // how often its damping was raised
}

// Run calibrates. What the codes folder has already is read back and passed
// through, not made again. ctx ends it; what is kept stays. The store of the outcome
// is open for reading and writing, and the caller's to close.
func (j *Job) Run(ctx context.Context, sink Sink) (_ *Outcome, err error) {
	r := &running{Job: j, sink: sink, out: &Outcome{Rank: j.rank}, get: NewCollector(CollectOptions{Set: j.s.Set, Threads: j.s.Threads, Mem: j.budget.Moments})}
	if r.raw, err = j.s.Reference.Source(); err != nil {
		return nil, err
	}
	defer r.raw.Release()
	base, err := j.s.Reference.Source()
	if err != nil {
		return nil, err
	}
	r.src = &overlay{base, j.s.Set, map[model.Place]model.Weight{}}
	defer r.src.Release()
	if j.s.Codes != "" {
		if r.store, err = codes.Create(j.s.Codes, j.Manifest(), j.chunks()); err != nil {
			return nil, err
		}
		r.out.Store = r.store
		defer func() {
			if err != nil {
				err = errors.Join(err, r.store.Close())
			}
		}()
	}
	defer func() {
		if r.walk != nil {
			err = errors.Join(err, r.walk.Close())
		}
	}()
	r.last = r.lastLook()
	for i := range j.units {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if sink.Pause != nil {
			if err := sink.Pause(ctx); err != nil {
				return nil, err
			}
		}
		if err := r.unit(ctx, i); err != nil {
			return nil, err
		}
		r.done++
	}
	r.sum()
	return r.out, nil
}

// has says whether a unit is in the folder already.
func (r *running) has(i int) bool { return r.store != nil && r.store.Has(r.units[i].name) }

// looks says whether a unit needs its inputs measured.
func (r *running) looks(i int) bool {
	u := &r.units[i]
	return u.name != unitOutside && r.s.Saved == nil && slices.ContainsFunc(u.targets, func(k int) bool { return r.targets[k].calibrated() })
}

// lastLook is the last unit that must be looked at.
func (r *running) lastLook() int {
	last := -1
	for i := range r.units {
		if r.looks(i) && !r.has(i) {
			last = i
		}
	}
	return last
}

// goesOn says whether the text has to go through a unit's layer, because a later
// one is looked at behind it. The head is looked at behind the decoder layers.
func (r *running) goesOn(i int) bool {
	l := r.units[i].layer
	if l == nil || i >= r.last {
		return false
	}
	if !l.MTP || r.units[r.last].layer != nil {
		return true
	}
	for k := i + 1; k < r.last; k++ {
		if r.looks(k) && !r.has(k) {
			return true
		}
	}
	return false
}

// unit makes a unit, or reads it back, and goes on behind it.
func (r *running) unit(ctx context.Context, i int) error {
	began := time.Now()
	u := &r.units[i]
	var list []codes.Matrix
	var err error
	if r.has(i) {
		list, err = r.again(ctx, u)
	} else {
		list, err = r.make(ctx, u)
	}
	if err != nil {
		return err
	}
	if r.sink.Unit != nil {
		if err := r.sink.Unit(u.name, time.Since(began).Seconds()); err != nil {
			return err
		}
	}
	at, err := r.weights(list)
	if err != nil {
		return err
	}
	if u.name == unitOutside { // before everything
		r.src.at = at
		return nil
	}
	if !r.goesOn(i) {
		return nil
	}
	if err := r.advance(ctx, u.layer); err != nil {
		return err
	}
	return r.pass(ctx, &overlay{r.src, r.s.Set, at})
}

// weights are codes as factors.
func (r *running) weights(list []codes.Matrix) (map[model.Place]model.Weight, error) {
	at := make(map[model.Place]model.Weight, len(list))
	places := map[string]model.Place{}
	for i := range r.targets {
		places[r.targets[i].name] = r.targets[i].at
	}
	for i := range list {
		if list[i].Codes == nil && list[i].Rows > 0 && list[i].Cols > 0 { // stays as it is stored
			continue
		}
		w, err := candidate.CodedWeight(r.s.Set, r.base.Spec, &list[i])
		if err != nil {
			return nil, err
		}
		at[places[list[i].Name]] = w
	}
	return at, nil
}

// figures are what a codes folder keeps of a matrix beside its codes: the trade,
// and the tap record, so that a run that is gone on with tells the same.
type figures struct {
	Trade
	Tap    *kernels.Tap `json:"tap,omitempty"`
	Raised int          `json:"raised,omitempty"` // how often the damping was raised
}

// note is what a codes folder keeps of a unit.
type note struct {
	Counts *Counts `json:"counts,omitempty"`
}

// again reads a unit back and hands it over.
func (r *running) again(ctx context.Context, u *unit) ([]codes.Matrix, error) {
	r.tell(Progress{Unit: u.name, Step: "reading codes"})
	list, text, err := r.store.Unit(u.name)
	if err != nil {
		return nil, err
	}
	fail := func(tensor, format string, args ...any) error {
		return fmt.Errorf("calibrate: %s: unit %q: %s: %s", r.store.Dir(), u.name, tensor, fmt.Sprintf(format, args...))
	}
	if len(list) != len(u.targets) {
		return nil, fail("its matrices", "are %d, and %d are asked for", len(list), len(u.targets))
	}
	var n note
	if len(text) > 0 {
		if err := json.Unmarshal(text, &n); err != nil {
			return nil, fail("its note", "cannot be read: %v", err)
		}
	}
	r.count(n.Counts)
	for k, at := range u.targets {
		t, m := &r.targets[at], &r.s.Matrices[at]
		c := &list[k]
		if c.Name != m.Name || c.Rows != m.Rows || c.Cols != m.Cols {
			return nil, fail(c.Name, "%d×%d stands where %s of %d×%d is asked for", c.Rows, c.Cols, m.Name, m.Rows, m.Cols)
		}
		var f figures
		if err := json.Unmarshal(c.Figures, &f); err != nil {
			return nil, fail(c.Name, "its figures cannot be read: %v", err)
		}
		if err := r.prove(ctx, u, at, c, &f.Trade); err != nil {
			return nil, err
		}
		res := Result{Matrix: at, Trade: f.Trade, Codes: *c, Again: true}
		r.seen = append(r.seen, outcomeOf{at, f.Trade, f.Raised})
		if r.sink.Matrix == nil {
			continue
		}
		if err := r.lend(ctx, t, f.Tap, &res); err != nil {
			return nil, err
		}
		err := r.sink.Matrix(res)
		r.raw.Release()
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// lend reads the weights that a result is of, and completes its record.
func (r *running) lend(ctx context.Context, t *target, tap *kernels.Tap, res *Result) error {
	m := &r.s.Matrices[t.index]
	res.Source = kernels.Matrix{Rows: m.Rows, Cols: m.Cols}
	if tap != nil {
		res.Tap = *tap
	}
	if t.kept {
		return nil
	}
	w, err := r.raw.Weight(ctx, t.at)
	if err != nil {
		return r.about(ctx, err)
	}
	if stored, ok := w.Operand.Stored(); ok {
		res.Source = stored
	}
	if tap != nil {
		return nil
	}
	out := kernels.Output{Codes: res.Codes.Codes, Scales: res.Codes.Scales, Mins: res.Codes.Mins}
	spec := r.base.Spec
	spec.Codebook = res.Codes.Codebook
	if res.Tap, err = r.s.Set.TapOf(spec, w.Operand, &out, res.Codes.Global, r.s.Threads); err != nil {
		return fmt.Errorf("calibrate: %s: %w", t.name, err)
	}
	return nil
}

// count hands over how many tokens experts were given.
func (r *running) count(c *Counts) {
	if c == nil {
		return
	}
	r.counts = append(r.counts, *c)
	if r.sink.Counts != nil {
		r.sink.Counts(*c)
	}
}

// tell tells how far the run is.
func (r *running) tell(p Progress) {
	if r.sink.Progress != nil {
		p.Units, p.Done, p.Tokens = len(r.units), r.done, r.tokens+p.Tokens
		r.sink.Progress(p)
	}
}
