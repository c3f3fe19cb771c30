package main

import (
	"cmp"
	"fmt"

	"quantscope/analysis/landscape"
	reports "quantscope/sessions/report"
	"quantscope/views"
)

// mostLines is how many lines of one list plain text has; --json has all.
const mostLines = 12

// printGroup prints the figures of one role under a variant.
func printGroup(t *textReport, v *reports.Variant, g *landscape.Group) {
	t.line("")
	t.line("── %s · %s · %s", v.Summary.Variant, g.Role, measuredText(g))
	part := ""
	var rows [][]string
	for _, f := range reports.Figures(g) {
		head := ""
		if f.Part != part {
			part, head = f.Part, f.Part
		}
		rows = append(rows, []string{head, f.Name, f.Value, cmp.Or(f.Interval, f.Why), f.Gloss})
	}
	t.table([]string{"", "figure", ">value", "95 % interval, or why there is none", "what it says"}, rows)
	if g.WorstTensor != "" {
		t.line("")
		t.line("worst tensor  %s", views.Clean(g.WorstTensor))
	}
	printStandouts(t, g)
	printTail(t, g)
	printSelectors(t, g)
	printNeighbours(t, g)
	printClamps(t, g)
}

// measuredText counts what a group is made of.
func measuredText(g *landscape.Group) string {
	s := counted(g.Tensors, "tensor", "tensors")
	for _, n := range []struct {
		count int
		word  string
	}{{g.Pending, "pending"}, {g.Failed, "failed"}, {g.LeftOut, "not finite"}} {
		if n.count > 0 {
			s += fmt.Sprintf(", %d %s", n.count, n.word)
		}
	}
	return s
}

func printStandouts(t *textReport, g *landscape.Group) {
	all := reports.Standouts(g)
	t.line("")
	if len(all) == 0 {
		t.line("stands out    nothing of %d layers, %d expert indices and %d projections", len(g.Layers), len(g.Experts), len(g.Projections))
		return
	}
	var rows [][]string
	for _, s := range all[:min(len(all), mostLines)] {
		n, mean, against, p, kind := s.Written()
		rows = append(rows, []string{s.Level.Name, s.Axis, n, mean, against, p, kind})
	}
	t.table([]string{"stands out", "", ">tensors", ">mean rel2", ">to the others", ">p", "how"}, rows)
	more(t, len(all), "levels stand out")
}

func printTail(t *textReport, g *landscape.Group) {
	names := g.Tail.Tensors
	if len(names) == 0 {
		return
	}
	t.line("")
	for i, name := range names[:min(len(names), mostLines)] {
		head := ""
		if i == 0 {
			head = "in the tail"
		}
		t.line("%-12s  %s", head, views.Clean(name))
	}
	more(t, len(names), "tensors in the tail")
}

func printSelectors(t *textReport, g *landscape.Group) {
	if len(g.Selectors) == 0 {
		return
	}
	t.line("")
	var rows [][]string
	for _, s := range g.Selectors {
		if s.Overlap.Why != "" {
			rows = append(rows, []string{s.Name, "–", "–", "–", "–", "–", s.Overlap.Why})
			continue
		}
		rows = append(rows, []string{
			s.Name, fmt.Sprint(s.K), fmt.Sprint(s.Hits), reports.Written(s.Overlap, reports.Share), reports.Written(s.Expected, reports.Share),
			reports.Written(s.P, reports.Chance), reports.Written(s.Rho, reports.Places(3)),
		})
	}
	t.table([]string{"selector", ">list", ">hits", ">overlap", ">by chance", ">p", "ρ with rel2"}, rows)
}

func printNeighbours(t *textReport, g *landscape.Group) {
	pairs := g.Neighbours.Pairs
	if len(pairs) == 0 {
		return
	}
	t.line("")
	var rows [][]string
	for _, p := range pairs[:min(len(pairs), mostLines)] {
		rows = append(rows, []string{p.A + " → " + p.B, fmt.Sprint(p.N), reports.Written(p.Rho, reports.Places(3)), reports.Written(p.P, reports.Chance)})
	}
	t.table([]string{"neighbours", ">experts", ">ρ of ranks", ">p"}, rows)
	more(t, len(pairs), "pairs of layers")
}

func printClamps(t *textReport, g *landscape.Group) {
	places := g.Clamps.Places
	if len(places) == 0 {
		return
	}
	t.line("")
	var rows [][]string
	for _, p := range places[:min(len(places), mostLines)] {
		rows = append(rows, []string{p.Layer + " " + p.Projection, fmt.Sprint(p.Tensors), fmt.Sprint(p.High), fmt.Sprint(p.Low), fmt.Sprint(p.Blocks)})
	}
	t.table([]string{"clamped at", ">tensors", ">high", ">low", ">of blocks"}, rows)
	more(t, len(places), "places with clamped scales")
}

// more says what a list leaves out.
func more(t *textReport, n int, what string) {
	if n > mostLines {
		t.line("… of %d %s; --json has all", n, what)
	}
}
