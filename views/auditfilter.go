package views

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// findingOrders are what findings can be sorted by.
var findingOrders = []string{"severity", "place", "id", "rule, as they were found"}

// Searching says whether the filter that is typed is that of the findings.
func (p *Audit) Searching() bool { return p.part == auditFindings && !p.opened }

// FilterText is the filter of the findings as it was typed.
func (p *Audit) FilterText() string { return p.filter }

// FilterCount is how many findings the filter leaves, of how many.
func (p *Audit) FilterCount() (n, of int) {
	all := p.lintItems()
	return len(p.filtered(all)), len(all)
}

// FilterNoun is what the filter counts.
func (p *Audit) FilterNoun() string { return "finding" }

// SetFilterText shows only findings whose severity, id, place or message matches;
// case is ignored unless the text has upper case, and "!" in front inverts it.
func (p *Audit) SetFilterText(text string) error {
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
	if text == p.filter {
		return nil
	}
	p.filter, p.match, p.invert = text, re, invert
	if text == "" {
		p.match = nil
	}
	p.pages[auditFindings] = auditPager{}
	p.version++
	return nil
}

// filtered are the findings that the filter leaves.
func (p *Audit) filtered(items []auditItem) []auditItem {
	if p.match == nil {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), func(i auditItem) bool {
		text := strings.Join([]string{string(i.severity), i.id, i.place, i.message}, " ")
		return p.match.MatchString(text) == p.invert
	})
}

// sortFindings sorts in the order that the person chose.
func sortFindings(items []auditItem, order int) {
	by := func(f func(a, b *auditItem) int) {
		slices.SortStableFunc(items, func(a, b auditItem) int { return f(&a, &b) })
	}
	switch order {
	case 0:
		by(func(a, b *auditItem) int { return cmp.Compare(severityRank[a.severity], severityRank[b.severity]) })
	case 1:
		by(func(a, b *auditItem) int { // tensors of the session first, in its order
			at := func(i *auditItem) int {
				if len(i.tensors) > 0 {
					return i.tensors[0]
				}
				return int(^uint(0) >> 1)
			}
			return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.place, b.place))
		})
	case 2:
		by(func(a, b *auditItem) int { return cmp.Compare(a.id, b.id) })
	}
}

// findingRows is the table of findings: its header and a line each, of w cells.
func findingRows(th *Theme, items []auditItem, w int) (head string, rows []string) {
	id, place := 6, 6
	for i := range items {
		id, place = max(id, Width(items[i].id)), max(place, Width(items[i].place))
	}
	tb := Table{Columns: []Column{
		{Title: "severity", Width: 9}, {Title: "finding", Width: min(id, max(w/4, 14))},
		{Title: "place", Align: Middle, Width: min(place, max(w/5, 14)), Drop: 2}, {Title: "what", Flex: 1, Min: 12, Drop: 1},
	}}
	for i := range items {
		tb.Rows = append(tb.Rows, []string{severityText(th, items[i].severity), items[i].id, items[i].place, items[i].message})
	}
	return tb.apart(th, w)
}

// findingsDoc lists the findings.
func (p *Audit) findingsDoc(w int, items []auditItem) auditDoc {
	th := p.scene.Theme
	var d auditDoc
	if s := p.scene.Audits.Shown(); s == nil || s.Audit == nil {
		d.say(p.without()...)
		return d
	}
	all := p.findingsCount()
	switch {
	case all == 0:
		d.say(th.Good.Render("✓ ") + th.Text.Render("lint finds nothing"))
		return d
	case p.match != nil:
		d.head = append(d.head, Truncate(th.Accent.Render("/ ")+th.Text.Render(Clean(p.filter))+th.Dim.Render("  "+thousands(len(items))+" of "+plural(all, "finding")+"; esc shows all"), w))
	}
	head, rows := findingRows(th, items, w-auditMark)
	d.head = append(d.head, spaces(auditMark)+head)
	for _, row := range rows {
		d.add(row)
	}
	if len(items) == 0 {
		d.say(th.Dim.Render("none matches"))
	}
	return d
}
