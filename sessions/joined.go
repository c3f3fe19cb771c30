package sessions

import (
	"fmt"
	"slices"
)

// Join makes one state of two sessions of one source: the tensors that both have,
// in a's order, the variants of a and after them those of b. A variant of b is
// called NAME @ LABEL, so that every name is unique and says where it is from.
// What else a state holds is a's; events about b's variants follow a's in the
// log, and one says how many tensors are left out. Sessions of different sources
// are a *JoinError. Neither state is changed.
func Join(a, b *State, label string) (*State, error) {
	j, err := newJoining(a, b, label)
	if err != nil {
		return nil, err
	}
	return j.state(a, b), nil
}

// joinedSide says which of two joined sessions is meant.
type joinedSide int

const (
	first joinedSide = iota
	second
)

// joinedVariant is a variant of one of two joined sessions.
type joinedVariant struct {
	side    joinedSide
	variant int // of that session
}

// joining knows what of two sessions became what of the joined one.
type joining struct {
	label    string
	note     string          // of what is left out, "" where nothing is
	own      [2][]int        // by joined tensor: the tensor of either session
	joined   [2][]int        // by a session's tensor: the joined one, -1 where it is left out
	variants []joinedVariant // by joined variant
	at       [2][]int        // by a session's variant: the joined one
	names    map[string]bool
	last     [2]Progress
	seq      [2]int64 // last of either session
	added    int64    // events that are of neither
	us       [2]int64
	known    [][]outcomeKnown // by joined variant and tensor
	calibs   [2][]int         // by a session's calibration: the joined one
	ncalibs  int
	done     int64
	failed   int64
	kept     int64 // of what recipes leave as the source has it
}

func newJoining(a, b *State, label string) (*joining, error) {
	m, err := match(a, b)
	if err != nil {
		return nil, err
	}
	j := &joining{label: label, note: m.leftOut(sessionName(a), sessionName(b)), names: map[string]bool{}}
	j.own = [2][]int{m.a, m.b}
	for side, s := range []*State{a, b} {
		j.joined[side] = slices.Repeat([]int{-1}, len(s.Tensors))
		for t, own := range j.own[side] {
			j.joined[side][own] = t
		}
	}
	return j, nil
}

// state joins two states.
func (j *joining) state(a, b *State) *State {
	out := &State{Meta: a.Meta, Tensors: make([]Tensor, len(j.own[first])), Exports: slices.Clone(a.Exports), Audits: slices.Clone(a.Audits), Yards: cloneYards(a.Yards), Gates: cloneGates(a.Gates),
		Biases: cloneBiases(a.Biases), Tiers: cloneTiers(a.Tiers)}
	out.Meta.Summary += " · with " + j.label
	for t, own := range j.own[first] {
		out.Tensors[t] = a.Tensors[own]
		out.Tensors[t].ID = t
	}
	for side, s := range []*State{a, b} {
		side := joinedSide(side)
		for v := range s.Variants {
			out.Variants = append(out.Variants, j.variant(side, s.Variants[v]))
			records := make([]Record, len(out.Tensors))
			for t, own := range j.own[side] {
				if r := s.Records[v][own]; r.Seq != 0 {
					records[t], _ = j.record(side, r)
				}
			}
			out.Records = append(out.Records, records)
		}
		for _, r := range s.Recipes {
			out.Recipes = append(out.Recipes, j.recipe(side, r)...)
		}
		for _, e := range s.Log {
			if e, ok := j.event(side, e); ok {
				out.Log = append(out.Log, e)
			}
		}
		for _, c := range s.Calibrations {
			out.Calibrations = append(out.Calibrations, j.calibration(side, c))
		}
		j.last[side], j.seq[side], j.us[side] = j.sideProgress(side, s.Progress), s.LastSeq, s.LastUS
	}
	if j.note != "" {
		j.added = 1
		out.Log = append(out.Log, Event{Seq: j.lastSeq(), AtUS: j.us[first], Kind: EventFinding, Variant: -1, Tensor: -1, Message: j.note})
	}
	out.Progress, out.LastSeq, out.LastUS = j.progress(), j.lastSeq(), max(j.us[first], j.us[second])
	return out
}

// variant enters a variant of one side.
func (j *joining) variant(side joinedSide, v Variant) Variant {
	j.at[side] = append(j.at[side], len(j.variants))
	j.variants = append(j.variants, joinedVariant{side, v.ID})
	j.known = append(j.known, make([]outcomeKnown, len(j.own[side])))
	v.ID = len(j.variants) - 1
	if side == second {
		v.From, v.Own = j.label, v.Name
		v.Name += " @ " + j.label
	}
	for n, plain := 2, v.Name; j.names[v.Name]; n++ {
		v.Name = fmt.Sprintf("%s (%d)", plain, n)
	}
	j.names[v.Name] = true
	return v
}

// recipe enters a recipe of one side, over the joined tensors.
func (j *joining) recipe(side joinedSide, r *RecipeRun) []*RecipeRun {
	if r.Variant < 0 || r.Variant >= len(j.at[side]) {
		return nil
	}
	out := r.as(j.at[side][r.Variant])
	out.Of = make([]int, len(j.own[side]))
	for t, own := range j.own[side] {
		if out.Of[t] = -1; own < len(r.Of) {
			out.Of[t] = r.Of[own]
		}
	}
	j.kept += out.Kept()
	return []*RecipeRun{out}
}

// record moves a record of one side to the joined tensor and variant; ok is false
// where the other side does not have the tensor.
func (j *joining) record(side joinedSide, r Record) (_ Record, ok bool) {
	t := j.joined[side][r.Tensor]
	if t < 0 {
		return r, false
	}
	r.Variant, r.Tensor = j.at[side][r.Variant], t
	known := &j.known[r.Variant][t]
	j.count(*known, -1)
	if *known = outcomeMade; r.Failed {
		*known = outcomeFailed
	}
	j.count(*known, 1)
	return r, true
}

// outcomeKnown is what became of one measurement.
type outcomeKnown uint8

const (
	outcomeNone outcomeKnown = iota
	outcomeMade
	outcomeFailed
)

func (j *joining) count(k outcomeKnown, by int64) {
	switch k {
	case outcomeMade:
		j.done += by
	case outcomeFailed:
		j.failed += by
	}
}

// event moves an event. Of the second session those stay that are about its
// variants, and what its run says of itself goes: the joined state has one run.
func (j *joining) event(side joinedSide, e Event) (_ Event, ok bool) {
	if side == second && e.Variant < 0 {
		return e, false
	}
	if e.Tensor >= 0 {
		if e.Tensor >= len(j.joined[side]) || j.joined[side][e.Tensor] < 0 {
			return e, false
		}
		e.Tensor = j.joined[side][e.Tensor]
	}
	if e.Variant >= 0 {
		if e.Variant >= len(j.at[side]) {
			return e, false
		}
		e.Variant = j.at[side][e.Variant]
	}
	if side == second {
		e.Seq += j.seq[first]
	}
	return e, true
}

// lastSeq grows with every change on either side.
func (j *joining) lastSeq() int64 { return j.seq[first] + j.seq[second] + j.added }

// progress is that of both runs over the joined tensors.
func (j *joining) progress() Progress {
	p, q := j.last[first], j.last[second]
	if p.State != RunRunning && (q.State == RunRunning || p.State != RunPaused && q.State == RunPaused) {
		p, q = q, p
	}
	if p.Calibrating.Units == 0 {
		p.Calibrating = q.Calibrating
	}
	p.BytesPerSec += q.BytesPerSec
	p.WeightsPerSec += q.WeightsPerSec
	p.ETASeconds = max(p.ETASeconds, q.ETASeconds)
	p.Done, p.Failed, p.Total = j.done, j.failed, int64(len(j.own[first]))*int64(len(j.variants))-j.kept
	p.Variant = -1
	if n := len(j.variants); n > 0 {
		p.Variant = n - 1
	}
	return p
}
