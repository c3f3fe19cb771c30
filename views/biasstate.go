package views

import (
	"math"

	"quantscope/analysis/bias"
	"quantscope/sessions"
)

// biasKnown is a look as the pane lists it, made anew when more of it is there.
type biasKnown struct {
	of     *sessions.BiasRun
	found  int
	report *bias.Report
	inks   []int // by candidate: its colour, mark and stroke, those of the variant that it is
}

// run is the look that is shown, nil where there is none.
func (p *Bias) run() *sessions.BiasRun {
	if at, runs := p.scene.Bias.At, p.scene.State.Biases; at >= 0 && at < len(runs) {
		return runs[at]
	}
	return nil
}

// found is how much of a look is there.
func biasFound(run *sessions.BiasRun) int {
	if run == nil {
		return 0
	}
	return len(run.Weights) + len(run.Rows) + len(run.Divergences)
}

// refresh brings the report up to date and keeps the selections inside it.
func (p *Bias) refresh() {
	run := p.run()
	k := &p.known
	if run == nil || len(run.Setup.Candidates) == 0 {
		*k = biasKnown{}
		return
	}
	if k.of != run || k.found != biasFound(run) {
		*k = biasKnown{of: run, found: biasFound(run), report: run.Analyze()}
		state, next := p.scene.State, len(p.scene.State.Variants)
		for i := range run.Setup.Candidates {
			c := &run.Setup.Candidates[i]
			ink := -1
			if !c.Floor {
				if ink = state.VariantByName(c.Spec); ink < 0 {
					ink = state.VariantByName(c.Label)
				}
			}
			if ink < 0 {
				ink = next
				next++
			}
			k.inks = append(k.inks, ink)
		}
	}
	s := k.report.Setup
	p.at = max(min(p.at, len(s.Candidates)-1), 0)
	if !p.set { // the newest layer that is there, until a person chooses one
		p.layer = s.Layers - 1
		for p.layer > -1 && k.report.Row(p.at, p.layer, bias.Residual) == nil {
			p.layer--
		}
	}
	p.layer = max(min(p.layer, s.Layers-1), -1)
	room := Table{More: true, Left: len(s.Candidates)}.room(p.layout().table.h)
	p.top = max(min(p.top, p.at), p.at-room+1, 0)
}

// charted are the candidates whose curves are drawn, the selected one last so that it
// lies on top. The floor is at the foot of the axis and is drawn only where it is
// selected.
func (p *Bias) charted() []int {
	var out []int
	for c := range p.known.report.Setup.Candidates {
		if c != p.at && !p.known.report.Setup.Candidates[c].Floor {
			out = append(out, c)
		}
	}
	return append(out, p.at)
}

// partner is the pair that the selected candidate is in, of several the one whose
// streams lean most unequally; nil where its weight error is nobody's.
func (p *Bias) partner() *bias.Pair {
	unequal := func(q *bias.Pair) float64 {
		return math.Abs(math.Abs(q.LastA.Bias) - math.Abs(q.LastB.Bias))
	}
	var best *bias.Pair
	for i := range p.known.report.Pairs {
		q := &p.known.report.Pairs[i]
		if (q.A == p.at || q.B == p.at) && (best == nil || unequal(q) > unequal(best)) {
			best = q
		}
	}
	return best
}
