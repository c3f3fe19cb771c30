package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"quantscope/sessions"
	"quantscope/views"
)

// printTier prints a run of a tier as plain text.
func printTier(w io.Writer, d *tierDocument) error {
	t := newReport(w)
	s := d.Setup
	t.line("%s  %d experts in %s  %s hot, %s cold  %s of a token", views.Clean(s.Model), s.Shape.Total(), counted(len(s.Shape.Layers), "layer", "layers"), views.Clean(s.Hot), views.Clean(s.Cold), counted(s.Shape.TopK, "expert", "experts"))
	from := ""
	if s.Routed != "" {
		from = "  routed by " + views.Clean(s.Routed)
	}
	t.line("  workload   %s  %s tokens  sha256 %.12s%s", views.Clean(s.Workload.Name), thousands(int64(s.Workload.Tokens)), s.Workload.SHA256, from)
	p := s.Policy
	compete := "layers compete"
	if p.PerLayer {
		compete = "every layer has its share"
	}
	t.line("  policy     windows of %d, decay %g, hysteresis %g, stays %d, %s", p.Window, p.Decay, p.Hysteresis, p.Stay, compete)
	t.line("  all hot    %s; all cold %s", formatBytes(s.Shape.AllHot()), formatBytes(s.Shape.AllCold()))
	for _, n := range s.Notes {
		t.line("  note       %s", views.Clean(n))
	}
	t.line("  session    %s", d.Session)
	t.line("")
	d.served(t)
	t.line("")
	d.perLayer(t)
	if d.KL != nil || d.Suite != nil {
		t.line("")
		d.does(t)
	}
	t.line("")
	t.line("%s", d.Verdict)
	for _, e := range d.Ends {
		if e.KL == notMeasured && e.Answers == notAsked {
			continue
		}
		t.line("%s against %s: KL %s, answers %s", tierLabel(e.Budget, ""), views.Clean(e.Arm), e.KL, e.Answers)
	}
	return t.err
}

// served is what the tier does with the workload, by budget.
func (d *tierDocument) served(t *textReport) {
	header := []string{"budget", ">hot bytes", ">coverage", ">hits", ">settled", ">best fixed", ">random", ">coldest", ">up", ">down", ">churn/window", ">held", ">in place", ">beside"}
	var rows [][]string
	for i := range d.Budgets {
		b := &d.Budgets[i]
		controls := map[string]string{"random": "", "coldest": ""}
		for _, c := range b.Controls {
			controls[c.Name] = shareOf(c.Hits)
		}
		rows = append(rows, []string{
			b.Label, formatBytes(b.HotBytes), shareOf(b.Coverage), shareOf(b.Hits), shareOf(b.Settled), shareOf(b.Best), controls["random"], controls["coldest"],
			fmt.Sprint(b.Promoted), fmt.Sprint(b.Evicted), fmt.Sprintf("%.2f", b.ChurnWindow), fmt.Sprint(b.Held), formatBytes(b.Replace), formatBytes(b.Beside),
		})
	}
	t.table(header, rows)
}

func shareOf(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// perLayer are hot experts by layer, and how many layers have as many.
func (d *tierDocument) perLayer(t *textReport) {
	layers := d.Setup.Shape.Layers
	const most = 24
	header := []string{"hot experts of layer"}
	for l := range min(len(layers), most) {
		header = append(header, fmt.Sprintf(">%d", layers[l]))
	}
	if len(layers) > most {
		header = append(header, fmt.Sprintf("… %d more", len(layers)-most))
	}
	var rows [][]string
	for i := range d.Budgets {
		row := []string{d.Budgets[i].Label}
		for l := range min(len(layers), most) {
			row = append(row, fmt.Sprint(d.Budgets[i].PerLayer[l]))
		}
		rows = append(rows, row)
	}
	t.table(header, rows)
	for i := range d.Budgets {
		if b := &d.Budgets[i]; b.Coverage > 0 && b.Coverage < 1 {
			var words []string
			for n, layers := range b.Histogram {
				if layers > 0 {
					words = append(words, fmt.Sprintf("%d×%d", layers, n))
				}
			}
			t.line("  %s: layers by hot experts %s", b.Label, strings.Join(words, " "))
		}
	}
}

// does is what the maps do to the model, beside all cold, all hot and controls.
func (d *tierDocument) does(t *textReport) {
	if k := d.KL; k != nil {
		t.line("KL to the checkpoint over %s positions of %s; floor %s", thousands(k.Positions), strings.Join(k.Corpora, ", "), nats(float64(k.Floor)))
	}
	if s := d.Suite; s != nil {
		placebo := ""
		if s.Placebo >= 0 {
			placebo = fmt.Sprintf(", asked again %d", s.Placebo)
		}
		t.line("suite %s: the checkpoint passes %d of %d%s", views.Clean(s.Suite), s.Baseline, s.Answers, placebo)
	}
	header := []string{"", ">hits"}
	if d.KL != nil {
		header = append(header, ">b/w", ">KL mean", ">± se", ">p99", ">top-1")
	}
	var probes []string
	most := 0
	all := append([]tierMeasured{}, d.Arms...)
	for i := range d.Budgets {
		all = append(all, d.Budgets[i].tierMeasured)
	}
	for _, m := range all {
		if len(m.Probes) > most {
			most = len(m.Probes)
			probes = nil
			for _, p := range m.Probes {
				if !d.rated(p.Probe) {
					probes = append(probes, p.Probe)
				}
			}
		}
	}
	for _, p := range probes {
		header = append(header, ">"+views.Clean(p))
	}
	var rows [][]string
	row := func(name, hits string, m *tierMeasured) {
		out := []string{name, hits}
		if d.KL != nil {
			out = append(out, orBlank(m.BitsPerWeight, "%.2f"), orBlank(m.KLMean, "%.4f"), orBlank(m.KLStderr, "%.4f"), orBlank(m.KLP99, "%.3f"), orBlank(m.Top1, "%.3f"))
		}
		for _, p := range probes {
			cell := ""
			if i := slices.IndexFunc(m.Probes, func(q tierProbe) bool { return q.Probe == p }); i >= 0 {
				cell = fmt.Sprintf("%d/%d", m.Probes[i].Passed, m.Probes[i].Passes)
			}
			out = append(out, cell)
		}
		rows = append(rows, out)
	}
	for i := range d.Arms {
		if d.Arms[i].Candidate == d.Setup.Cold {
			row(views.Clean(d.Arms[i].Candidate)+" (all cold)", "", &d.Arms[i])
		}
	}
	for i := range d.Budgets {
		b := &d.Budgets[i]
		row(b.Label, shareOf(b.Hits), &b.tierMeasured)
		for k := range b.Controls {
			if c := &b.Controls[k]; c.KLMean != nil || len(c.Probes) > 0 {
				row("  "+c.Name, shareOf(c.Hits), &c.tierMeasured)
			}
		}
	}
	for i := range d.Arms {
		if d.Arms[i].Candidate == d.Setup.Hot {
			row(views.Clean(d.Arms[i].Candidate)+" (all hot)", "", &d.Arms[i])
		}
	}
	t.table(header, rows)
	acceptanceLines(t, d.Acceptance)
}

// rated says whether a probe measures acceptance: rates say it, not answers that passed.
func (d *tierDocument) rated(probe string) bool {
	return slices.ContainsFunc(d.Acceptance, func(a gatesAcceptance) bool { return a.Probe == probe })
}

func orBlank(f *sessions.Figure, format string) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(format, float64(*f))
}
