package report

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/bias"
	"quantscope/sessions"
)

// biasParts are all looks at biases that a session holds.
func (r *Report) biasParts(n *ids) []lookPart {
	var out []lookPart
	for _, b := range r.state.Biases {
		l := look{b}
		rep := b.Analyze()
		var names []string
		for _, c := range b.Setup.Candidates {
			names = append(names, c.Label)
		}
		p := lookPart{Title: "Against " + b.Setup.Reference.Label, Note: l.note(), Keys: lineKeys(names, func(int) string { return "" }), Tables: []table{l.table()}}
		for _, v := range rep.Verdicts {
			p.Says = append(p.Says, capital(v))
		}
		for _, f := range []struct {
			name, part, y string
			zero          bool
			of            func(*bias.Flow) float64
		}{
			{"error of the residual stream", bias.Residual, "‖d‖/‖x‖", false, func(f *bias.Flow) float64 { return f.Rel }},
			{"sign bias of the residual stream", bias.Residual, "Σd/Σ|x|", true, func(f *bias.Flow) float64 { return f.Bias }},
			{"shift: what averaging does not remove", bias.Residual, "share of ‖d‖²", true, func(f *bias.Flow) float64 { return f.Shift }},
			{"sign bias of what attention adds", bias.Attention, "Σd/Σ|x|", true, func(f *bias.Flow) float64 { return f.Bias }},
			{"sign bias of what the MLP adds", bias.MLP, "Σd/Σ|x|", true, func(f *bias.Flow) float64 { return f.Bias }},
			{"sign bias beside fading", bias.Residual, "bias − gain·lean", true, func(f *bias.Flow) float64 { return f.Rest() }},
			{"gain of the residual stream", bias.Residual, "Σd·x/Σx²", true, func(f *bias.Flow) float64 { return f.Gain }},
		} {
			lines := l.lines(f.part, f.of)
			fig := lookFigure{Name: f.name}
			fig.Picture = lineChart(n, span{}, span{}, "layer", f.y, capital(f.name)+" by depth",
				fmt.Sprintf("%s of %s by layer: from %s.", capital(f.name), counted(len(names), "candidate", "candidates"), least(lines, digits(3))), f.zero, lines)
			if fig.Picture == "" {
				fig.Why = "No layer has a figure."
			}
			p.Figures = append(p.Figures, fig)
		}
		out = append(out, p)
	}
	return out
}

// look is one look at biases.
type look struct{ *sessions.BiasRun }

func (l look) note() string {
	s := l.Setup
	state := "unfinished"
	if l.End != nil {
		if state = l.End.State; l.End.Reason != "" {
			state += " (" + l.End.Reason + ")"
		}
	}
	var texts []string
	for _, c := range s.Corpora {
		texts = append(texts, fmt.Sprintf("%s (sha256 %.12s)", c.Name, c.SHA256))
	}
	return fmt.Sprintf("%s: %s positions over %s, %s, %s activations, kernels %s. d is the candidate's value less the reference's x.",
		capital(state), thousands(s.Positions), strings.Join(texts, ", "), counted(s.Layers, "layer", "layers"), s.Activations, s.KernelSet)
}

// lines are a figure of one part by layer, a line a candidate. Layer −1 are the
// embeddings.
func (l look) lines(part string, of func(*bias.Flow) float64) []series {
	lines := make([]series, len(l.Setup.Candidates))
	for i := range lines {
		lines[i].class = lineLook(i)
	}
	for _, r := range l.Rows {
		if r.Part == part && r.Candidate < len(lines) {
			s := &lines[r.Candidate]
			s.at = append(s.at, [2]float64{float64(r.Layer), of(&r.Flow)})
		}
	}
	return lines
}

// table is a line on each candidate: its weights, the stream after the last layer, KL.
func (l look) table() table {
	t := table{Caption: "Weights, the stream after the last layer, predictions", Cols: []column{
		{Name: "candidate"}, {Name: "bits", Sub: "per weight", Num: true}, {Name: "rel_l2", Sub: "of weights", Num: true}, {Name: "sign bias", Sub: "of weights", Num: true}, {Name: "|bias|", Sub: "mean, and by chance", Num: true}, {Name: "row bias", Sub: "rms, and by chance", Num: true},
		{Name: "rel_l2", Sub: "of the stream", Num: true}, {Name: "sign bias", Sub: "of the stream", Num: true}, {Name: "shift", Sub: "and by chance", Num: true}, {Name: "KL", Sub: "mean, nats", Num: true}, {Name: "codebooks"},
	}}
	figure := func(x float64) td { return finite(x, digits(3)) }
	for i, c := range l.Setup.Candidates {
		nan := math.NaN()
		w := &bias.Weights{RelL2: nan, Bias: nan, AbsBias: nan, AbsNull: nan, RowRMS: nan, RowNull: nan}
		for _, x := range l.Weights {
			if x.Candidate == i && x.Layer < 0 {
				w = x
			}
		}
		f := &bias.Flow{Rel: nan, Bias: nan, Shift: nan, Null: nan}
		last := -2
		for _, x := range l.Rows {
			if x.Candidate == i && x.Part == bias.Residual && x.Layer > last {
				f, last = &x.Flow, x.Layer
			}
		}
		kl := nats(nan)
		for _, d := range l.Divergences {
			if d.Candidate == i {
				kl = nats(d.KL)
				kl.Sub = "±" + nats(d.StdErr).Text
			}
		}
		abs, rows := figure(w.AbsBias), figure(w.RowRMS)
		abs.Sub, rows.Sub = figure(w.AbsNull).Text, figure(w.RowNull).Text
		shift := figure(f.Shift)
		shift.Sub = figure(f.Null).Text
		var books []string
		for _, b := range w.Books[:min(len(w.Books), 3)] {
			values := strings.Trim(fmt.Sprint(b.Values), "[]")
			books = append(books, fmt.Sprintf("%s: %d", values, b.Tensors))
		}
		if n := len(w.Books) - len(books); n > 0 {
			books = append(books, counted(n, "other", "others"))
		}
		t.Rows = append(t.Rows, row{Cells: []td{
			{Text: c.Label, Mark: sign(i), V: i % 8}, finite(c.BitsPerWeight, Places(2)), figure(w.RelL2), figure(w.Bias), abs, rows,
			figure(f.Rel), figure(f.Bias), shift, kl, {Text: strings.Join(books, "; ")},
		}})
	}
	return t
}
