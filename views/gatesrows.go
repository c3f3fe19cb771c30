package views

import (
	"regexp"
	"slices"
	"strings"

	"quantscope/analysis/gates"
)

// gatesRowKind is what a row of the table stands for.
type gatesRowKind uint8

const (
	gatesProbeRow gatesRowKind = iota
	gatesGroupRow
	gatesSumRow
)

// gatesRowID names a row, whatever is folded or filtered.
type gatesRowID struct {
	kind  gatesRowKind
	probe int
	group string
}

// gatesRow is one row: a probe, a group with the sum of its probes, or all.
type gatesRow struct {
	gatesRowID
	probes []int
	folded bool
	inner  bool // stands below its group
	part   bool // the sum of those that the filter leaves
}

// gatesGroup is the group that a probe is listed under.
func gatesGroup(s *gates.Setup, probe int) string {
	if g := s.Probes[probe].Group; g != "" {
		return g
	}
	return s.Probes[probe].ID
}

// gatesRowsOf lists probes by group, in the order in which groups come first. A group
// of one probe is that probe; folded ones show their sum. match leaves probes out.
func gatesRowsOf(s *gates.Setup, folded map[string]bool, match func(probe int) bool) []gatesRow {
	var names []string
	under := map[string][]int{}
	var all []int
	for i := range s.Probes {
		if !match(i) {
			continue
		}
		g := gatesGroup(s, i)
		if under[g] == nil {
			names = append(names, g)
		}
		under[g] = append(under[g], i)
		all = append(all, i)
	}
	var rows []gatesRow
	for _, g := range names {
		probes := under[g]
		inner := len(probes) > 1
		if inner {
			rows = append(rows, gatesRow{gatesRowID: gatesRowID{kind: gatesGroupRow, probe: -1, group: g}, probes: probes, folded: folded[g]})
			if folded[g] {
				continue
			}
		}
		for _, p := range probes {
			rows = append(rows, gatesRow{gatesRowID: gatesRowID{kind: gatesProbeRow, probe: p}, probes: []int{p}, inner: inner})
		}
	}
	if len(all) > 1 {
		rows = append(rows, gatesRow{gatesRowID: gatesRowID{kind: gatesSumRow, probe: -1}, probes: all, part: len(all) < len(s.Probes)})
	}
	return rows
}

// name is what stands at the left of a row.
func (r *gatesRow) name(s *gates.Setup) string {
	switch r.kind {
	case gatesGroupRow:
		if r.folded {
			return "▸ " + Clean(r.group)
		}
		return "▾ " + Clean(r.group)
	case gatesSumRow:
		if r.part {
			return "these"
		}
		return "all"
	}
	id := s.Probes[r.probe].ID
	if r.inner {
		return "  " + Clean(strings.TrimPrefix(id, gatesGroup(s, r.probe)+"/"))
	}
	return Clean(id)
}

// label is how a row is called where it stands alone.
func (r *gatesRow) label(s *gates.Setup) string {
	switch r.kind {
	case gatesGroupRow:
		return Clean(r.group)
	case gatesSumRow:
		if r.part {
			return "these " + plural(len(r.probes), "probe")
		}
		return "all probes"
	}
	return Clean(s.Probes[r.probe].ID)
}

// gatesFilter leaves probes out of the table.
type gatesFilter struct {
	text   string
	match  *regexp.Regexp // nil: all are shown
	invert bool
}

// set takes a pattern: case is ignored unless it has upper case, and "!" in front
// inverts it.
func (f *gatesFilter) set(text string) error {
	pattern, invert := strings.CutPrefix(text, "!")
	if !hasUpper(pattern) {
		pattern = ignoreCase + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		if _, plain := regexp.Compile(strings.TrimPrefix(text, "!")); plain != nil {
			err = plain
		}
		return err
	}
	*f = gatesFilter{text, re, invert}
	if text == "" {
		f.match, f.invert = nil, false
	}
	return nil
}

// shows says whether a probe is left in, by its ID and its group.
func (f *gatesFilter) shows(s *gates.Setup, probe int) bool {
	return f.match == nil || f.match.MatchString(s.Probes[probe].ID+" "+s.Probes[probe].Group) != f.invert
}

// gatesRowIndex is where a row stands in the list, -1 where it is not.
func gatesRowIndex(rows []gatesRow, id gatesRowID) int {
	return slices.IndexFunc(rows, func(r gatesRow) bool { return r.gatesRowID == id })
}
