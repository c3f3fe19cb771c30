package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/census"
	"quantscope/views"
)

// printCensus prints a census as plain text: what differs a layer, the worst, the
// proof, what is left out and what a repair did.
func printCensus(std streams, doc censusDocument, worst int) error {
	t := newReport(std.out)
	rep := doc.Report
	head := rep.Path
	if rep.Layout != "" {
		head += "  " + rep.Layout
	}
	if rep.Convention != "" {
		head += ", second-level scales are " + plural(rep.Convention)
	}
	t.line("%s", views.Clean(head))
	if rep.Note != "" {
		t.line("%s", rep.Note)
	}
	if rep.Pairs > 0 {
		t.line("%s", countLine(rep.Totals, rep.Noun(rep.Pairs)))
		t.line("")
		censusLayers(t, rep)
	}
	if rep.Differing > 0 && worst > 0 {
		t.line("")
		censusWorst(t, rep, worst)
	}
	if said := rep.Sentence(); said != "" {
		t.line("")
		t.line("%s", said)
		if rep.Proof != nil && rep.Proof.Stored > farFromMaster {
			t.line("note    as stored it is far from %s, which may not be what it was made of", views.Clean(rep.Master))
		}
	}
	censusLeft(t, rep.Left)
	if doc.Fixed != nil {
		t.line("")
		censusFixed(t, doc)
	}
	return t.err
}

// farFromMaster is a relative error that quantization to four bits stays below.
const farFromMaster = 0.3

func plural(conventions string) string {
	list := strings.Split(conventions, ", ")
	for i := range list {
		list[i] += "s"
	}
	return strings.Join(list, " and ")
}

// countLine is the totals in a line.
func countLine(c census.Totals, noun string) string {
	line := fmt.Sprintf("%d of %d %s that servers fuse differ", c.Differing, c.Pairs, noun)
	if c.Differing == 0 {
		return line
	}
	return line + fmt.Sprintf("; ratio to the first's scale %.4g to %.4g, geometric mean %.4g", c.RatioMin, c.RatioMax, c.RatioMean)
}

// censusLayers is a row a layer and set.
func censusLayers(t *textReport, rep *census.Report) {
	header := []string{">layer", "of", "fused", ">" + rep.Noun(2), ">differ", ">ratio min", ">mean", ">max"}
	if rep.Proof != nil { // rel_l2
		header = append(header, ">served", ">stored", ">comp.", ">clamped")
	}
	var rows [][]string
	for i := range rep.Layers {
		l := &rep.Layers[i]
		layer := fmt.Sprint(l.Layer)
		if l.MTP {
			layer += " (MTP)"
		}
		row := []string{layer, l.Kind, l.Set, fmt.Sprint(l.Pairs), fmt.Sprint(l.Differing), "", "", ""}
		if l.Differing > 0 {
			row[5], row[6], row[7] = fmt.Sprintf("%.4g", l.RatioMin), fmt.Sprintf("%.4g", l.RatioMean), fmt.Sprintf("%.4g", l.RatioMax)
		}
		if p := l.Proof; p != nil {
			row = append(row, fmt.Sprintf("%.4g", p.Served), fmt.Sprintf("%.4g", p.Stored), fmt.Sprintf("%.4g", p.Compensated), fmt.Sprint(p.Clamped))
		} else if rep.Proof != nil {
			row = append(row, "", "", "", "")
		}
		rows = append(rows, row)
	}
	t.table(header, rows)
}

// differingMember is a member whose scale is not the first's.
type differingMember struct {
	census.Member
	first census.Member
	proof *census.Proof
}

// censusWorst lists members whose scale is furthest from the first's; where there
// is a proof, those that a server damages most.
func censusWorst(t *textReport, rep *census.Report, n int) {
	var all []differingMember
	for i := range rep.Layers {
		for k := range rep.Layers[i].Groups {
			g := &rep.Layers[i].Groups[k]
			for _, m := range g.Members[1:] {
				if m.Ratio == 1 {
					continue
				}
				d := differingMember{Member: m, first: g.Members[0]}
				if at := slices.IndexFunc(g.Proof, func(p census.Proof) bool { return p.Member == m.Name }); at >= 0 {
					d.proof = &g.Proof[at]
				}
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b differingMember) int {
		if a.proof != nil && b.proof != nil {
			return cmp.Compare(b.proof.Served, a.proof.Served)
		}
		return cmp.Compare(math.Abs(math.Log(b.Ratio)), math.Abs(math.Log(a.Ratio)))
	})
	header := []string{">scale", ">first's", ">ratio"}
	if rep.Proof != nil { // rel_l2
		header = append(header, ">served", ">stored", ">comp.", ">clamped", ">to 0")
	}
	header = append(header, "worst")
	var rows [][]string
	for _, d := range all[:min(n, len(all))] {
		row := []string{fmt.Sprintf("%.6g", d.Scale), fmt.Sprintf("%.6g", d.first.Scale), fmt.Sprintf("%.6g", d.Ratio)}
		if p := d.proof; p != nil {
			row = append(row, fmt.Sprintf("%.4g", p.Served), fmt.Sprintf("%.4g", p.Stored), fmt.Sprintf("%.4g", p.Compensated), fmt.Sprint(p.Clamped), fmt.Sprint(p.Underflowed))
		} else if rep.Proof != nil {
			row = append(row, "", "", "", "", "")
		}
		rows = append(rows, append(row, views.Clean(d.Name)))
	}
	t.table(header, rows)
	if more := len(all) - len(rows); more > 0 {
		t.line("%d more; --worst and --json have all", more)
	}
}

func censusLeft(t *textReport, left []census.LeftOut) {
	for i, l := range left {
		if i == maxPrinted {
			t.line("%d more left out; --json has all", len(left)-i)
			return
		}
		t.line("left out  %s: %s", views.Clean(l.Name), views.Clean(l.Reason))
	}
}

// censusFixed says what was written and what it lost.
func censusFixed(t *textReport, doc censusDocument) {
	f := doc.Fixed
	noun, with := doc.Noun(f.Groups), ""
	if f.Requantized > 0 {
		with = f.Method
	}
	t.line("fixed   %s: %d %s, %d by compensation, %d by requantization%s; %s, %s", views.Clean(f.Out), f.Groups, noun, f.Compensated, f.Requantized,
		after(" with ", with), counted(f.Files, "file", "files"), formatBytes(f.Bytes))
	if f.ByComp != nil {
		line := fmt.Sprintf("rel_l2  over those %s: ", noun)
		if f.Stored > 0 {
			line += fmt.Sprintf("%.4g as stored, ", f.Stored)
		}
		line += fmt.Sprintf("%.4g by compensation", *f.ByComp)
		if f.ByRequant != nil {
			line += fmt.Sprintf(", %.4g by requantization", *f.ByRequant)
		}
		t.line("%s; %.4g as written (against %s)", line, f.Written, f.Against)
	}
	for _, n := range f.Notes {
		t.line("note    %s", views.Clean(n))
	}
	t.line("after   %s", countLine(*doc.After, doc.Noun(doc.After.Pairs)))
}

// after is a word with what stands before it, "" without one.
func after(lead, word string) string {
	if word == "" {
		return ""
	}
	return lead + word
}
