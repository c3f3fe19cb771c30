package views

import (
	"math"
	"slices"

	"quantscope/analysis/landscape"
)

// landSpreadLog is from how many matrices on the heights of the spread are
// logarithmic: few of many would not be seen.
const landSpreadLog = 2000

// landErrors is how the errors of a group are distributed.
type landErrors struct {
	report *landscape.Report // that it is of
	group  int

	values      []float64 // rel2 in ascending order
	mean, worst float64   // worst is the least of the worst hundredth
}

// errorsOf gathers the errors of the shown group, once a report.
func (p *Landscape) errorsOf(g *landscape.Group) *landErrors {
	e, r, at := &p.errors, p.report().report, p.groupIndex()
	if e.report == r && e.group == at {
		return e
	}
	*e = landErrors{report: r, group: at, values: e.values[:0]}
	sum := 0.0
	for i := range g.Layers {
		for _, t := range g.Layers[i].Members {
			if rec, ok := p.scene.Record(p.scene.Variant, t); ok && !rec.Failed && isNumber(rec.Rel2) {
				e.values = append(e.values, rec.Rel2)
				sum += rec.Rel2
			}
		}
	}
	slices.Sort(e.values)
	if n := len(e.values); n > 0 {
		e.mean = sum / float64(n)
		e.worst = e.values[n-max(int(math.Round(float64(n)/100)), 1)]
	}
	return e
}

// drawSpread is how many matrices have which error, with the mean and where the
// worst hundredth begins.
func (p *Landscape) drawSpread(g *landscape.Group, w, h int) string {
	th, e := p.scene.Theme, p.errorsOf(g)
	say := func(text string) string {
		return Block([]string{p.partTitle(landSpread, ""), th.Dim.Render(Truncate(text, w))}, w, h)
	}
	if len(e.values) == 0 {
		return say("no record has finite figures")
	}
	lo, hi := e.values[0], e.values[len(e.values)-1]
	if !(hi > lo) || !isNumber(hi-lo) {
		return say("all errors are " + digits4(lo))
	}
	pad := (hi - lo) * 0.02
	lo, hi = lo-pad, hi+pad
	bins := max(min((w-8)/2, 2*spreadBins, 2*int(math.Ceil(math.Sqrt(float64(len(e.values)))))), 4)
	counts := make([]float64, bins)
	for _, v := range e.values {
		counts[min(max(int((v-lo)/(hi-lo)*float64(bins)), 0), bins-1)]++
	}
	log := g.Tensors >= landSpreadLog
	more := "matrices by rel2"
	if log {
		more += ", logarithmic heights"
	}
	hist := Histogram{Bins: []Series{{Variant: p.scene.Variant, Values: counts}}, Lo: lo, Hi: hi, Counts: true, Log: log}
	marks := []chartMark{{e.mean, "mean"}, {e.worst, "worst 1 %"}}
	return Block([]string{p.partTitle(landSpread, more)}, w, 1) + "\n" + markedHistogram(th, hist, chartLook{current: p.scene.Variant, marks: marks}, w, h-1)
}
