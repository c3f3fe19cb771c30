package views

import (
	"quantscope/analysis/gates"
	"quantscope/analysis/gates/grade"
	"quantscope/sessions"
)

// gatesBook has the answers of a run by probe and arm. Answers are taken in as they
// come; each is looked at once.
type gatesBook struct {
	run     *sessions.GateRun
	seen    int // of its results
	cells   [][]gatesCell
	all     int // answers that there are, each counted once
	last    gates.Key
	changes uint64 // grows with every answer
}

// gatesCell is what an arm answered to a probe.
type gatesCell struct {
	passed, of, all int
	faults          map[grade.Fault]int
	events          int             // characters that are none
	results         []*gates.Result // by case × passes + pass; nil where none is there
}

// gatesMost bounds what is kept of a setup that a damaged file holds.
const gatesMost = 1 << 22

// update takes in what is new of a run.
func (b *gatesBook) update(run *sessions.GateRun) {
	if run == nil {
		*b = gatesBook{}
		return
	}
	if b.run != run || b.seen != len(run.Results) {
		*b = gatesBook{run: run, changes: b.changes + 1, last: gates.Key{Arm: -1, Probe: -1}}
		s := run.Setup
		b.cells = make([][]gatesCell, len(s.Probes))
		left := gatesMost
		for p := range b.cells {
			n := max(s.Probes[p].Answers(), 0)
			b.cells[p] = make([]gatesCell, len(s.Arms))
			for a := range b.cells[p] {
				if left -= n; left < 0 {
					break
				}
				b.cells[p][a] = gatesCell{all: n, results: make([]*gates.Result, n)}
			}
		}
	}
	for _, r := range run.Results[b.seen:] {
		b.take(r)
	}
	b.seen = len(run.Results)
}

// note takes in answers that the run has just taken in. One that was asked again
// stands in place of the older.
func (b *gatesBook) note(run *sessions.GateRun, results []*gates.Result) {
	if b.run != run || run == nil {
		return // they are taken in with all others
	}
	for _, r := range results {
		b.take(r)
	}
	b.seen = len(run.Results)
}

func (b *gatesBook) take(r *gates.Result) {
	c, i := b.place(r.Key())
	if c == nil {
		return
	}
	b.last = r.Key()
	if old := c.results[i]; old != nil {
		c.count(old, -1)
		b.all--
	}
	c.results[i] = r
	c.count(r, 1)
	b.all++
	b.changes++
}

// count adds an answer to what is known of a cell, or takes it out.
func (c *gatesCell) count(r *gates.Result, by int) {
	c.of += by
	if n := r.Verdict.Figures["replacement"]; n > 0 && n < gatesMost {
		c.events += by * int(n)
	}
	if r.Verdict.Passed {
		c.passed += by
		return
	}
	if c.faults == nil {
		c.faults = map[grade.Fault]int{}
	}
	c.faults[r.Verdict.Fault] += by
}

// place is the cell of an answer and where it stands in it; nil where there is no
// such place.
func (b *gatesBook) place(k gates.Key) (*gatesCell, int) {
	if b.run == nil || k.Probe < 0 || k.Probe >= len(b.cells) || k.Arm < 0 || k.Arm >= len(b.cells[k.Probe]) || k.Case < 0 || k.Pass < 0 {
		return nil, 0
	}
	c, passes := &b.cells[k.Probe][k.Arm], b.run.Setup.Probes[k.Probe].Passes
	i := k.Case*passes + k.Pass
	if k.Pass >= passes || k.Case >= len(b.run.Setup.Probes[k.Probe].Cases) || i >= len(c.results) {
		return nil, 0
	}
	return c, i
}

// result is an answer, nil where it is not there.
func (b *gatesBook) result(k gates.Key) *gates.Result {
	c, i := b.place(k)
	if c == nil {
		return nil
	}
	return c.results[i]
}

// sum is what an arm answered to several probes, without its results.
func (b *gatesBook) sum(probes []int, arm int) gatesCell {
	var out gatesCell
	for _, p := range probes {
		if p < 0 || p >= len(b.cells) || arm < 0 || arm >= len(b.cells[p]) {
			continue
		}
		c := &b.cells[p][arm]
		out.passed, out.of, out.all, out.events = out.passed+c.passed, out.of+c.of, out.all+c.all, out.events+c.events
		for f, n := range c.faults {
			if out.faults == nil {
				out.faults = map[grade.Fault]int{}
			}
			out.faults[f] += n
		}
	}
	return out
}

// inks are the colours of arms: those of the variants that they are, none for the
// baseline and its placebo.
func (b *gatesBook) inks(state *sessions.State) []int {
	if b.run == nil {
		return nil
	}
	arms := b.run.Setup.Arms
	out := make([]int, len(arms))
	next, taken := len(state.Variants), map[int]bool{}
	for i := range arms {
		if arms[i].Role != gates.Candidate {
			out[i] = -1
			continue
		}
		ink := state.VariantByName(arms[i].Label)
		if ink < 0 {
			ink = state.VariantByName(arms[i].Spec)
		}
		if ink < 0 || taken[ink] { // the same variant served in another way
			ink = next
			next++
		}
		out[i], taken[ink] = ink, true
	}
	return out
}
