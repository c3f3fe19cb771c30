package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"quantscope/analysis/bakeoff"
	"quantscope/analysis/landscape"
	"quantscope/views"
)

// printBakeoff prints a bake-off as plain tables.
func printBakeoff(w io.Writer, d *bakeoffDocument, m bakeoff.Metric) error {
	t := newReport(w)
	t.line("%s against %s by %s", counted(len(d.Levers), "variant", "variants"), d.Base, d.Metric)
	t.line("  checkpoint  %s", d.Checkpoint)
	base := fmt.Sprintf("%s taken", counted(d.BaseTaken, "record", "records"))
	if d.BaseRun > 0 {
		base += fmt.Sprintf(", %d measured now", d.BaseRun)
	}
	t.line("  base        %s (%s)", d.BaseSession, base)
	t.line("  session     %s", d.Session)
	t.line("  sample      %s: %s", d.Sample, counted(d.Tensors, "tensor", "tensors"))
	for _, s := range d.Strata {
		t.line("              %s: %d of %d", s.Stratum, s.N, s.Of)
	}
	for _, o := range d.Overlaps {
		t.line("              %d in both %s and %s, measured once, counted in both", o.N, o.A, o.B)
	}
	if d.LeftOut > 0 {
		t.line("              %s not measurable under %s, in no stratum", counted(d.LeftOut, "tensor", "tensors"), d.Base)
	}
	for i := range d.Levers {
		t.line("")
		printLever(t, &d.Levers[i], m)
	}
	t.line("")
	for i := range d.Levers {
		l := &d.Levers[i]
		mark := "·"
		if l.SameAsBase {
			mark = "!!"
		}
		t.line("%s %s", mark, l.Verdict)
	}
	t.line("")
	var methods []string
	strata := map[string][]string{} // by method
	for i := range d.Levers {
		for _, o := range d.Levers[i].Outcomes {
			m := o.Test.Method
			switch {
			case !o.Test.P.Defined():
				continue
			case len(strata[m]) == 0:
				methods = append(methods, m)
			}
			if !slices.Contains(strata[m], o.Stratum) {
				strata[m] = append(strata[m], o.Stratum)
			}
		}
	}
	for _, m := range methods {
		if len(methods) == 1 {
			t.line("p: %s", m)
		} else {
			t.line("p: %s: %s", m, strings.Join(strata[m], ", "))
		}
	}
	t.line("%s", d.Method)
	for _, n := range d.Notes {
		t.line("note: %s", n)
	}
	for _, line := range []struct {
		title string
		lines []eventLine
	}{{"failed", d.Failed}, {"fallback", d.Fallbacks}} {
		const most = 20
		for i, l := range line.lines {
			if i == most {
				t.line("%s  … %d more: --json has all", line.title, len(line.lines)-most)
				break
			}
			t.line("%-9s %s  %s", line.title, l.Variant, views.Clean(l.Message))
		}
	}
	return t.err
}

func printLever(t *textReport, l *bakeoff.Lever, m bakeoff.Metric) {
	t.line("%s (%.2f bits/weight)", l.Variant, l.BitsPerWeight)
	var rows [][]string
	for _, o := range l.Outcomes {
		rows = append(rows, []string{
			o.Stratum, fmt.Sprint(o.N), fmt.Sprint(o.Wins), fmt.Sprint(o.Ties), fmt.Sprint(o.Losses),
			bakeoff.Change(m, o.MeanChange), bakeoff.Change(m, o.MedianChange), bakeoff.Change(m, o.WorstChange), bakeoff.P(o.Test),
			shares(o.BaseClipping.Shallow, o.Clipping.Shallow), shares(o.BaseClipping.Deep, o.Clipping.Deep), shares(o.BaseClipping.DeepL2, o.Clipping.DeepL2),
		})
	}
	t.table([]string{"stratum", ">n", ">wins", ">ties", ">losses", ">mean change", ">median change", ">worst change", ">p", ">shallow", ">deep", ">deep L2"}, rows)
	if o := l.Whole(); o.WorstTensor != "" {
		t.line("worst change: %s", o.WorstTensor)
	}
	for _, o := range l.Outcomes {
		var left []string
		for _, c := range []struct {
			n    int
			what string
		}{{o.Pending, "not measured"}, {o.Failed, "failed"}, {o.LeftOut, "not finite"}} {
			if c.n > 0 {
				left = append(left, fmt.Sprintf("%d %s", c.n, c.what))
			}
		}
		if len(left) > 0 {
			t.line("%s: left out %s of %d", o.Stratum, strings.Join(left, ", "), o.Tensors)
		}
		for _, v := range []landscape.Value{o.MeanChange, o.WorstChange, o.Test.P} {
			if !v.Defined() {
				t.line("%s: %s", o.Stratum, v.Why)
				break
			}
		}
	}
}

// shares writes a share before and after as percentages.
func shares(a, b landscape.Value) string {
	one := func(v landscape.Value) string {
		if !v.Defined() {
			return "–"
		}
		return fmt.Sprintf("%.2f", 100*v.V)
	}
	return one(a) + " → " + one(b) + " %"
}
