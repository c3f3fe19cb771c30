package main

import (
	"fmt"
	"strings"

	recipes "quantscope/quant/plan"
	"quantscope/sessions"
	"quantscope/views"
)

// mostPatterns is how many patterns a table shows; --json has all.
const mostPatterns = 24

func printPlan(std streams, d planDocument, f planFlags) error {
	p := d.Plan
	t := newReport(std.out)
	t.line("%s", views.Clean(p.Checkpoint))
	t.line("  %s", p.Summary)
	t.line("  recipe    %s", views.Clean(p.Recipe))
	for _, url := range strings.Fields(p.Source) {
		t.line("  follows   %s", views.Clean(url))
	}
	if p.Layout != "" {
		t.line("  layout    %s", p.Layout)
	}
	t.line("")
	printPlanGroups(t, p)
	printPlanPatterns(t, p)
	var rows [][]string
	for _, c := range p.Coverage {
		rows = append(rows, []string{c.Kind, fmt.Sprint(c.Matrices), dash(c.Targeted), dash(c.Ignored), dash(c.Exempted), dash(c.Untargeted), millions(c.Params)})
	}
	rows = append(rows, []string{"all", fmt.Sprint(p.Matrices), dash(p.Targeted), dash(p.Ignored), dash(p.Exempted), dash(p.Untargeted), ""})
	t.table([]string{"matrices", ">all", ">in a group", ">ignored", ">exempted", ">in none", ">params"}, rows)
	t.line("")
	printLeft(t, p.LeftAlone)
	if e := p.Experts; e != nil {
		t.line("experts  %d of %d targeted: %d layers × %d experts × %d projections%s", e.Targeted, e.Expected, e.Layers, e.Experts, e.Projections, mtpExperts(e))
		if e.Fused > 0 {
			t.line("         %d of them in tensors of all experts of a layer", e.Fused)
		}
	}
	printPlanSizes(t, p, f)
	if d.Written != "" {
		t.line("written  %s", views.Clean(d.Written))
	}
	t.line("")
	printPlanFindings(t, p)
	return t.err
}

func dash(n int) string {
	if n == 0 {
		return "—"
	}
	return fmt.Sprint(n)
}

func mtpExperts(e *recipes.Experts) string {
	switch {
	case e.MTPLayers > 0 && e.Expected > e.Layers*e.Experts*e.Projections:
		return fmt.Sprintf(", and %s", counted(e.MTPLayers, "MTP layer", "MTP layers"))
	case e.MTPLayers > 0:
		return fmt.Sprintf("; %s left alone", counted(e.MTPLayers, "MTP layer", "MTP layers"))
	}
	return ""
}

func printPlanGroups(t *textReport, p *recipes.Plan) {
	var rows [][]string
	row := func(name string, s *recipes.Share, bits string) {
		rows = append(rows, []string{name, fmt.Sprint(s.Matrices), millions(s.Params), percent(sessions.Figure(s.ShareParams)), bits, formatBytes(s.BytesBefore), formatBytes(s.BytesAfter)})
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		row(fmt.Sprintf("group %d  %s", i+1, g.Variant), &g.Share, fmt.Sprintf("%.2f", g.BitsPerWeight))
	}
	for i := range p.Kept {
		row("kept     "+p.Kept[i].Scheme, &p.Kept[i], "")
	}
	rows = append(rows, []string{"all", "", millions(p.Params), "", fmt.Sprintf("%.2f", p.BitsAfter), formatBytes(p.BytesBefore), formatBytes(p.BytesAfter)})
	t.table([]string{"stored as", ">matrices", ">params", ">share", ">b/w", ">before", ">after"}, rows)
	t.line("")
}

func printPlanPatterns(t *textReport, p *recipes.Plan) {
	var rows [][]string
	add := func(where string, list []recipes.Pattern) {
		for i, x := range list {
			n := fmt.Sprint(x.Matches)
			if x.Matches == 0 && x.Modules > 0 {
				n = fmt.Sprintf("%s, no matrix", counted(x.Modules, "module", "modules"))
			}
			rows = append(rows, []string{fmt.Sprintf("%s[%d]", where, i), n, views.Clean(x.Pattern)})
		}
	}
	for i := range p.Groups {
		add(fmt.Sprintf("groups[%d].targets", i), p.Groups[i].Targets)
	}
	add("ignore", p.Ignore)
	add("exemptions", p.Exemptions)
	left := len(rows) - mostPatterns
	t.table([]string{"pattern", ">matches", ""}, rows[:min(len(rows), mostPatterns)])
	if left > 0 {
		t.line("… %d more (--json has all)", left)
	}
	t.line("")
}

// gib writes bytes as what they are, and in GiB, as memory is spoken of.
func gib(n int64) string { return fmt.Sprintf("%d = %.3f GiB", n, float64(n)/(1<<30)) }

func printPlanSizes(t *textReport, p *recipes.Plan, f planFlags) {
	t.line("files    %s → %s, %.2f → %.2f bits a weight", formatBytes(p.BytesBefore), formatBytes(p.BytesAfter), p.BitsBefore, p.BitsAfter)
	t.line("")
	rows := [][]string{{"weights", gib(p.Before.WeightsBytes), gib(p.After.WeightsBytes)}}
	if n := f.options.KVTokens; n > 0 {
		rows = append(rows, []string{fmt.Sprintf("%s of %d tokens", f.options.KVFormat, n), gib(p.Before.KVBytes), gib(p.After.KVBytes)})
		if p.After.StateBytes > 0 {
			rows = append(rows, []string{"state of one sequence", gib(p.Before.StateBytes), gib(p.After.StateBytes)})
		}
		rows = append(rows, []string{"together", gib(p.Before.WeightsBytes + p.Before.KVBytes + p.Before.StateBytes), gib(p.After.WeightsBytes + p.After.KVBytes + p.After.StateBytes)})
	}
	if p.DecodeAfter.BytesPerToken > 0 {
		rows = append(rows, []string{"a token reads", gib(p.DecodeBefore.BytesPerRank), gib(p.DecodeAfter.BytesPerRank)})
		if f.options.Bandwidth > 0 {
			rows = append(rows, []string{fmt.Sprintf("tokens/s at %s/s, at most", formatBytes(int64(f.options.Bandwidth))),
				fmt.Sprintf("%.1f", p.DecodeBefore.TokensPerSec), fmt.Sprintf("%.1f", p.DecodeAfter.TokensPerSec)})
		}
	}
	device := "one device"
	if p.After.Ranks > 1 {
		device = fmt.Sprintf("each of %d devices", p.After.Ranks)
	}
	t.table([]string{device, ">bytes before", ">after"}, rows)
	t.line("")
	t.line("loader   %s", views.Clean(p.After.Loader))
	for _, part := range p.After.LeftOut {
		t.line("left out %s, %s: %s", part.Name, formatBytes(part.Bytes), part.Why)
	}
	for _, n := range p.After.Notes {
		t.line("note     %s", views.Clean(n))
	}
}

func printPlanFindings(t *textReport, p *recipes.Plan) {
	for i := range p.Findings {
		f := &p.Findings[i]
		where := ""
		if f.Where != "" {
			where = f.Where + ": "
		}
		t.line("%-8s %s: %s%s", f.Severity, f.ID, where, views.Clean(f.Message))
		if f.Fix != "" {
			t.line("         %s", views.Clean(f.Fix))
		}
	}
	if len(p.Findings) == 0 {
		t.line("no findings")
	}
}
