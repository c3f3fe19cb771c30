package report

import (
	"context"
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// predictions is one measurement of KL divergence with its report.
type predictions struct {
	yard   *sessions.Yard
	report *yardstick.Report
}

// measurements analyzes those that a session holds.
func measurements(ctx context.Context, st *sessions.State) ([]predictions, error) {
	var out []predictions
	for _, y := range st.Yards {
		if len(y.Chunks) == 0 {
			continue
		}
		rep, err := y.Analyze(ctx, y.Setup.Seed)
		if err != nil {
			return nil, fmt.Errorf("report: KL to %s: %w", y.Setup.Reference.Label, err)
		}
		out = append(out, predictions{y, rep})
	}
	return out, nil
}

// kl are the tables of a measurement's candidates, one a measurement.
func (r *Report) kl() []table {
	var out []table
	for _, m := range r.predictions {
		out = append(out, m.table())
	}
	return out
}

func (m *predictions) table() table {
	s := m.yard.Setup
	t := table{
		Caption: "KL to " + s.Reference.Label,
		Cols: []column{
			{Name: "candidate"}, {Name: "bits", Sub: "per weight", Num: true}, {Name: "KL", Sub: "mean, nats", Num: true}, {Name: "p99", Num: true},
			{Name: "max", Num: true}, {Name: "top-1", Sub: "as the reference", Num: true}, {Name: "perplexity", Num: true},
		},
	}
	var texts []string
	for _, c := range s.Corpora {
		t.Cols = append(t.Cols, column{Name: c.Name, Sub: "KL", Num: true})
		texts = append(texts, fmt.Sprintf("%s (sha256 %.12s)", c.Name, c.SHA256))
	}
	state := "unfinished"
	if m.yard.End != nil {
		state = string(m.yard.End.State)
	}
	t.Note = fmt.Sprintf("%s: %s of %s positions, %s activations, kernels %s, over %s. Errors are over chunks. The floor is what the ruler reads for the reference's own weights.",
		capital(state), thousands(m.report.Positions), thousands(m.report.Of), s.Activations, s.KernelSet, strings.Join(texts, ", "))
	for i := range m.report.Results {
		t.Rows = append(t.Rows, row{Cells: m.cells(&m.report.Results[i])})
	}
	for _, g := range m.report.Gates {
		if !g.Passed {
			t.Note += " Gate " + g.Name + " failed: " + g.Message + "."
		}
	}
	return t
}

func (m *predictions) cells(r *yardstick.Result) []td {
	p := &m.yard.Setup.Candidates[r.Candidate]
	name := td{Text: p.Label}
	switch {
	case p.Floor:
		name.Sub = "the ruler's floor"
	case r.All.NaN > 0 || r.All.Infinite > 0:
		name.Sub = fmt.Sprintf("%s not a number, %s infinite", thousands(r.All.NaN), thousands(r.All.Infinite))
	case p.Derived != "":
		name.Sub = p.Derived
	}
	kl := nats(r.All.KL)
	if !math.IsNaN(r.All.KLErr) {
		kl.Sub = "±" + nats(r.All.KLErr).Text
	}
	top := numeric(none, math.NaN())
	if !math.IsNaN(r.All.Top1) {
		top = numeric(Share(r.All.Top1), r.All.Top1)
	}
	cells := []td{name, numeric(fixed(p.BitsPerWeight, 2), p.BitsPerWeight), kl, nats(r.All.P99), nats(r.All.Max), top, numeric(none, math.NaN())}
	if ppl := r.All.PPL; !math.IsNaN(ppl) && !math.IsInf(ppl, 0) {
		cells[6] = numeric(fixed(ppl, 3), ppl)
		cells[6].Sub = fmt.Sprintf("%+.3f", ppl-r.All.RefPPL)
	}
	for i := range r.Corpora {
		cells = append(cells, nats(r.Corpora[i].KL))
	}
	return cells
}

// nats is the cell of a divergence.
func nats(x float64) td {
	switch v := math.Abs(x); {
	case math.IsNaN(x):
		return numeric(none, x)
	case math.IsInf(x, 0):
		return td{Text: "∞", Key: "Infinity"}
	case v == 0 || v >= 0.001:
		return numeric(fixed(x, 4), x)
	}
	return numeric(fmt.Sprintf("%.1e", x), x)
}
