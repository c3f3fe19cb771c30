package report

import (
	"fmt"
	"html/template"
	"math"

	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// tierParts are all runs of a hot tier that a session holds.
func (r *Report) tierParts(n *ids) []lookPart {
	var out []lookPart
	for _, run := range r.state.Tiers {
		t := breath{run}
		var names []string
		for _, b := range run.Setup.Budgets {
			names = append(names, b.Label)
		}
		p := lookPart{
			Title: fmt.Sprintf("%s over %s, %s", run.Setup.Hot, run.Setup.Cold, run.Setup.Workload.Name), Note: t.note(), Tables: []table{t.budgets()},
			Keys: lineKeys(names, func(i int) string { return size(run.Setup.Budgets[i].Bytes) }),
		}
		if run.End != nil && run.End.Verdict != "" {
			p.Says = []string{capital(run.End.Verdict)}
		}
		total := float64(run.Setup.Shape.Total())
		for _, f := range []struct {
			name, y string
			of      func(ws []*tier.Window) float64
		}{
			{"hits by window", "share of pairs", func(ws []*tier.Window) float64 {
				var hits, pairs int64
				for _, w := range ws {
					hits, pairs = hits+w.Hits, pairs+w.Pairs
				}
				return float64(hits) / float64(pairs) // NaN of none
			}},
			{"coverage by window", "hot of all experts", func(ws []*tier.Window) float64 { return float64(ws[len(ws)-1].Hot) / total }},
			{"churn by window", "experts moved", func(ws []*tier.Window) float64 {
				moved := 0
				for _, w := range ws {
					moved += w.Promoted + w.Evicted
				}
				return float64(moved) / float64(len(ws))
			}},
			{"held back by window", "moves", func(ws []*tier.Window) float64 {
				held := 0
				for _, w := range ws {
					held += w.Held
				}
				return float64(held) / float64(len(ws))
			}},
		} {
			lines := t.lines(f.of)
			p.Figures = append(p.Figures, figureOf(f.name, lineChart(n, span{}, span{}, "window", f.y, capital(f.name), fmt.Sprintf("%s at %s: from %s.", capital(f.name), counted(len(names), "budget", "budgets"), least(lines, digits(3))), true, lines)))
		}
		p.Figures = append(p.Figures, t.perLayer(n), t.curve(n))
		out = append(out, p)
	}
	return out
}

func figureOf(name string, picture template.HTML) lookFigure {
	if picture == "" {
		return lookFigure{Name: name, Why: "Nothing was recorded."}
	}
	return lookFigure{Name: name, Picture: picture}
}

// breath is one run of a hot tier.
type breath struct{ *sessions.TierRun }

func (t breath) note() string {
	s := t.Setup
	state := "unfinished"
	if t.End != nil {
		if state = t.End.State; t.End.Reason != "" {
			state += " (" + t.End.Reason + ")"
		}
	}
	by := ""
	if s.Routed != "" {
		by = ", routed by " + s.Routed
	}
	return fmt.Sprintf("%s: %s windows of %s over %s tokens of %s (%s, sha256 %.12s)%s; %s of %d experts, %d a token. Decay %g, hysteresis %g, a promoted expert stays %s. Hits are counted with the map that was in force when a token came.",
		capital(state), thousands(int64(len(t.Windows))), counted(s.Policy.Window, "token", "tokens"), thousands(int64(s.Workload.Tokens)), s.Workload.Name, s.Workload.Kind, s.Workload.SHA256, by,
		counted(len(s.Shape.Layers), "layer", "layers"), s.Shape.Experts, s.Shape.TopK, s.Policy.Decay, s.Policy.Hysteresis, counted(s.Policy.Stay, "window", "windows"))
}

// mostPoints is how many points a line has: the windows of more are taken together.
const mostPoints = 240

// lines are a figure by window, a line a budget.
func (t breath) lines(of func([]*tier.Window) float64) []series {
	by := make([][]*tier.Window, len(t.Setup.Budgets))
	for _, w := range t.Windows {
		if w.Budget >= 0 && w.Budget < len(by) {
			by[w.Budget] = append(by[w.Budget], w)
		}
	}
	lines := make([]series, len(by))
	for b, ws := range by {
		lines[b].class = lineLook(b)
		each := max((len(ws)+mostPoints-1)/mostPoints, 1)
		for at := 0; at < len(ws); at += each {
			some := ws[at:min(at+each, len(ws))]
			lines[b].at = append(lines[b].at, [2]float64{float64(some[0].Index), of(some)})
		}
	}
	return lines
}

// perLayer is how many experts of each layer are hot at the end, a line a budget.
func (t breath) perLayer(n *ids) lookFigure {
	lines := make([]series, len(t.Setup.Budgets))
	for i := range lines {
		lines[i].class = lineLook(i)
	}
	last := make([]*tier.Window, len(lines))
	for _, w := range t.Windows {
		if w.Budget >= 0 && w.Budget < len(last) {
			last[w.Budget] = w
		}
	}
	for b, w := range last {
		if w == nil {
			continue
		}
		for i, hot := range w.PerLayer[:min(len(w.PerLayer), len(t.Setup.Shape.Layers))] {
			lines[b].at = append(lines[b].at, [2]float64{float64(t.Setup.Shape.Layers[i]), float64(hot)})
		}
	}
	return figureOf("hot experts of each layer", lineChart(n, span{}, span{}, "layer", "hot experts", "Hot experts of each layer at the end",
		fmt.Sprintf("Hot experts of %s at %s, of %d each: from %s.", counted(len(t.Setup.Shape.Layers), "layer", "layers"), counted(len(lines), "budget", "budgets"), t.Setup.Shape.Experts, least(lines, digits(3))), true, lines))
}

// curve is what fixed maps of any budget could have served, with its knee.
func (t breath) curve(n *ids) lookFigure {
	const name = "hits against budget, known beforehand"
	if t.End == nil || t.End.Curve == nil {
		return lookFigure{Name: name, Why: "It is drawn when a run has finished."}
	}
	c := t.End.Curve
	line := series{class: lineLook(0)}
	each := max((len(c.Share)+mostPoints-1)/mostPoints, 1)
	for i := range c.Share {
		if i%each == 0 || i == len(c.Share)-1 {
			line.at = append(line.at, [2]float64{c.Share[i], c.Hits[i]})
		}
	}
	lines := []series{line, {class: "mean", at: [][2]float64{{0, 0}, {1, 1}}}}
	says := "without a knee"
	if c.Knee >= 0 {
		at := c.Knee
		says = fmt.Sprintf("with its knee at %s, %s above the diagonal (%s would be chance)", Share(at), Share(c.Rise), Share(c.Noise))
		lines = append(lines, series{class: "kc1", at: [][2]float64{{at, at}, {at, math.Min(at+c.Rise, 1)}}})
	}
	f := figureOf(name, lineChart(n, span{}, span{}, "share of the bytes that are hot", "share of pairs", "What fixed maps could have served",
		"Share of routed pairs that hot experts would have served against the share of bytes, chosen with the whole workload known: "+says+".", false, lines))
	f.Name += ", " + says
	return f
}

// budgets are a line on each budget.
func (t breath) budgets() table {
	out := table{Caption: "Budgets", Fixed: true, Cols: []column{
		{Name: "budget"}, {Name: "bytes", Sub: "that may be hot", Num: true}, {Name: "coverage", Sub: "hot of all", Num: true}, {Name: "hits", Sub: "settled", Num: true}, {Name: "best", Sub: "fixed, known beforehand", Num: true}, {Name: "random", Num: true}, {Name: "coldest", Num: true},
		{Name: "churn", Sub: "a window", Num: true}, {Name: "held", Sub: "moves", Num: true}, {Name: "size", Sub: "replacing", Num: true}, {Name: "size", Sub: "beside a cold copy", Num: true},
	}}
	part := func(x float64) td { return finite(x, Share) }
	results := map[int]*tier.Result{}
	if t.End != nil {
		for _, r := range t.End.Results {
			results[r.Budget] = r
		}
	}
	for i, b := range t.Setup.Budgets {
		cells := []td{{Text: b.Label, Mark: sign(i), V: i % 8}, numeric(size(b.Bytes), float64(b.Bytes))}
		r := results[i]
		if r == nil {
			for len(cells) < len(out.Cols) {
				cells = append(cells, numeric(none, math.NaN()))
			}
			out.Rows = append(out.Rows, row{Cells: cells})
			continue
		}
		hits := part(r.Hits)
		hits.Sub = part(r.Settled).Text
		control := func(name string) td {
			for _, c := range r.Controls {
				if c.Name == name {
					return part(c.Hits)
				}
			}
			return numeric(none, math.NaN())
		}
		out.Rows = append(out.Rows, row{Cells: append(cells, part(r.Coverage), hits, part(r.Best), control("random"), control("coldest"),
			finite(r.ChurnWindow, Places(1)), numeric(thousands(r.Held), float64(r.Held)), numeric(size(r.Replace), float64(r.Replace)), numeric(size(r.Beside), float64(r.Beside)))})
	}
	return out
}
