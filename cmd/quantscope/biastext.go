package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"quantscope/analysis/bias"
	"quantscope/views"
)

// printBias prints a look at biases as plain text: candidates, then layers down and
// candidates across, then what holds between them.
func printBias(w io.Writer, r *bias.Report, d *biasDocument, part string) error {
	t := newReport(w)
	t.line("%s", views.Clean(cmp.Or(d.Reference.Path, d.Reference.Label)))
	t.line("  reference  %s, %.2f bits a weight", views.Clean(d.Reference.Effective), d.Reference.BitsPerWeight)
	t.line("  looked at  %s of %s, %d channels, %s activations, kernels %q", counted(d.Positions, "position", "positions"), counted(d.Layers, "layer", "layers"), d.Hidden, d.Activations, d.KernelSet)
	for _, c := range d.Corpora {
		t.line("  corpus     %s: %s, %s, sha256 %.12s (%s)", views.Clean(c.Name), counted(c.Chunks, "chunk", "chunks"), counted(c.Tokens, "token", "tokens"), c.SHA256, views.Clean(c.Source))
	}
	t.line("  session    %s", d.Session)
	for _, n := range d.Notes {
		t.line("  note       %s", views.Clean(n))
	}
	biasWeightTable(t, r)
	biasStreamTable(t, r)
	biasDepth(t, r, part)
	t.line("")
	for _, v := range r.Verdicts {
		for i, part := range strings.Split(views.Clean(v), "; ") {
			if i > 0 {
				part = "  " + part
			}
			t.line("%s", part)
		}
	}
	return t.err
}

// biasWeightTable are the weights of every candidate that has its own.
func biasWeightTable(t *textReport, r *bias.Report) {
	var rows [][]string
	for c := range r.Setup.Candidates {
		p, w := &r.Setup.Candidates[c], r.Total(c)
		if w == nil || w.Tensors == 0 {
			continue
		}
		rows = append(rows, []string{
			views.Clean(p.Label), fmt.Sprintf("%.2f", p.BitsPerWeight), fmt.Sprint(w.Tensors), biasFigure(w.RelL2), biasSigned(w.Bias), biasFigure(w.AbsBias), biasFigure(w.AbsNull),
			biasFigure(w.RowRMS), biasFigure(w.RowNull), biasFigure(w.RowMax), biasPercent(w.Positive), views.BiasBooks(w.Books),
		})
	}
	if len(rows) == 0 {
		return
	}
	t.line("")
	t.line("weights: Σ(q−w)/Σ|w| over all, the mean of its magnitude over matrices, over rows")
	t.table([]string{"candidate", ">bits", ">matrices", ">rel_l2", ">bias", ">mean |bias|", ">by chance", ">row rms", ">by chance", ">row max", ">positive", "codebooks"}, rows)
}

// biasStreamTable is the stream after the last layer, and predictions.
func biasStreamTable(t *textReport, r *bias.Report) {
	var rows [][]string
	for c := range r.Setup.Candidates {
		row, d := r.Last(c), r.DivergenceOf(c)
		if row == nil {
			continue
		}
		cells := []string{
			views.Clean(r.Setup.Candidates[c].Label), biasFigure(row.Rel), biasSigned(row.Bias), biasSigned(row.Gain), biasSigned(row.Rest()), biasFigure(row.Shift), biasFigure(row.Null), fmt.Sprint(row.NonFinite), "–", "–",
		}
		if d != nil {
			cells[8], cells[9] = nats(d.KL), biasPercent(d.Top1)
			if !math.IsNaN(d.StdErr) {
				cells[8] += " ±" + nats(d.StdErr)
			}
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 {
		return
	}
	t.line("")
	t.line("residual stream after the last layer, and predictions")
	t.table([]string{"candidate", ">rel_l2", ">bias", ">gain", ">bias beside it", ">shift", ">by chance", ">not finite", ">KL", ">top-1"}, rows)
}

// biasDepth is a part layer by layer: of each candidate its error and its bias.
func biasDepth(t *textReport, r *bias.Report, part string) {
	header := []string{">layer"}
	for c := range r.Setup.Candidates {
		header = append(header, ">"+views.Clean(r.Setup.Candidates[c].Label), ">bias")
	}
	var rows [][]string
	for l := -1; l < r.Setup.Layers; l++ {
		cells, any := []string{fmt.Sprint(l)}, false
		if l < 0 {
			cells[0] = "emb"
		}
		for c := range r.Setup.Candidates {
			row := r.Row(c, l, part)
			if row == nil {
				cells = append(cells, "–", "–")
				continue
			}
			cells, any = append(cells, biasFigure(row.Rel), biasSigned(row.Bias)), true
		}
		if any {
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		return
	}
	what := map[string]string{bias.Residual: "residual stream after each layer", bias.Attention: "what attention adds", bias.MLP: "what MLP or experts add"}[part]
	t.line("")
	t.line("%s: relative error, and beside it sign bias", what)
	t.table(header, rows)
}

// biasFigure writes a figure with three digits.
func biasFigure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v != 0 && math.Abs(v) < 1e-4:
		return fmt.Sprintf("%.1e", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// biasSigned is a figure with its sign.
func biasSigned(v float64) string {
	if v > 0 {
		return "+" + biasFigure(v)
	}
	return biasFigure(v)
}

func biasPercent(share float64) string {
	if math.IsNaN(share) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
