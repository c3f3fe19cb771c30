package views

import (
	"fmt"

	"github.com/muesli/termenv"

	"quantscope/analysis/lint"
	recipes "quantscope/quant/plan"
)

// auditPart is one of the things that the screen shows.
type auditPart int

const (
	auditCensus auditPart = iota
	auditFindings
	auditPlan
	auditFallbacks
	auditParts
)

var auditPartNames = [auditParts]string{"census", "findings", "plan", "fallbacks"}

// auditPartKeys show a part at once.
var auditPartKeys = [auditParts]string{"c", "f", "P", "F"}

// showPart shows a part of the screen.
func (p *Audit) showPart(part auditPart) {
	if part != p.part || p.opened {
		p.part, p.opened = part, false
		p.version++
	}
}

// Opened says whether what is selected is open and has the keys.
func (p *Audit) Opened() bool { return p.opened }

// partCount says in a word or two what is in a part; bad where a person should
// look at it.
func (p *Audit) partCount(part auditPart) (text string, bad bool) {
	switch part {
	case auditCensus:
		if r := p.report(); r != nil && r.Pairs > 0 {
			return fmt.Sprintf("%s of %s differ", thousands(r.Differing), thousands(r.Pairs)), r.Differing > 0
		}
	case auditFindings:
		s := p.scene.Audits.Shown()
		if s == nil || s.Audit == nil {
			return "", false
		}
		return thousands(p.findingsCount()), lint.Failed(s.Audit.Findings)
	case auditPlan:
		r, _, _ := p.recipe()
		if r == nil {
			return "none", false
		}
		errors := 0
		for i := range r.Plan.Findings {
			if r.Plan.Findings[i].Severity == recipes.Error {
				errors++
			}
		}
		if errors > 0 {
			return plural(errors, "error"), true
		}
		return plural(len(r.Plan.Groups), "group"), false
	case auditFallbacks:
		rows, fell := p.effectiveRows()
		switch {
		case len(rows) == 0:
			return "", false
		case fell == 0:
			return "none", false
		}
		n := 0
		for i := range rows[:fell] {
			n += rows[i].Tensors
		}
		return plural(n, "tensor"), true
	}
	return "", false
}

// partSpan is where the name of a part stands.
type partSpan struct {
	from, to int
	part     auditPart
}

// partBar is the line of the parts, with their counts where there is room.
func (p *Audit) partBar(w int) (string, []partSpan) {
	line, spans := p.partTabs(true)
	if Width(line) > w {
		line, spans = p.partTabs(false)
	}
	return Truncate(line, w), spans
}

func (p *Audit) partTabs(counts bool) (line string, spans []partSpan) {
	th, x := p.scene.Theme, 0
	for part := range auditParts {
		name := auditPartNames[part]
		style, left, right := th.Dim, " ", " "
		if part == p.part {
			style = th.Accent.Bold(true).Underline(true)
			if th.Profile == termenv.Ascii {
				left, right = "[", "]"
			}
		}
		text, n := style.Render(name), Width(name)
		if count, bad := p.partCount(part); counts && count != "" {
			ink := th.Dim
			if bad {
				ink = th.Warn
			}
			text, n = text+" "+ink.Render(count), n+1+Width(count)
		}
		line += left + text + right + " "
		spans = append(spans, partSpan{x, x + n + 2, part})
		x += n + 3
	}
	return line, spans
}

// auditBar is how many lines the names of the parts take.
func auditBarLines(h int) int {
	switch {
	case h >= 24:
		return 2
	case h >= 4:
		return 1
	}
	return 0
}

// partsLayout says where findings, plan, fallbacks and what is opened stand; what
// is not shown is empty. The first line of each is its title.
type partsLayout struct {
	lists  [auditParts]rect
	detail rect
	wide   bool
}

// arrangeParts is pure. Narrow, there is one at a time; with more room what is
// selected is shown in full below the list, and on wide screens findings,
// fallbacks, the plan and what is selected stand beside each other. lines are what
// the list has, and fallbacks those of theirs.
func arrangeParts(w, h int, part auditPart, opened, plan bool, lines, fallbacks int) partsLayout {
	var l partsLayout
	y := auditBarLines(h)
	w, h = max(w, 0), max(h-y, 0)
	switch {
	case w >= auditWideW && h >= auditRoomyH:
		l.wide = true
		left := (w - 2*auditGap) * 37 / 100
		right := (w - 2*auditGap) * 35 / 100
		if !plan {
			left, right = (w-auditGap)*55/100, 0
		}
		middle := w - left - right - 2*auditGap
		low := min(fallbacks+2, h/3)
		l.lists[auditFindings] = rect{0, y, left, h - low - 1}
		l.lists[auditFallbacks] = rect{0, y + h - low, left, low}
		l.detail = rect{left + auditGap, y, middle, h}
		if plan {
			l.lists[auditPlan] = rect{left + middle + 2*auditGap, y, right, h}
		} else {
			l.detail.w += auditGap
			if part == auditPlan { // which says that there is none
				l.lists[auditPlan], l.lists[auditFindings] = l.lists[auditFindings], rect{}
			}
		}
	case w >= auditRoomyW && h >= auditRoomyH:
		low := h * 9 / 20
		if part == auditPlan { // which is long
			low = h * 7 / 20
		}
		low = max(low, h-lines-2) // what a short list leaves
		l.lists[part] = rect{0, y, w, h - low - 1}
		l.detail = rect{0, y + h - low, w, low}
	case opened:
		l.detail = rect{0, y, w, h}
	default:
		l.lists[part] = rect{0, y, w, h}
	}
	return l
}

func (p *Audit) partsLayout() partsLayout {
	r, _, _ := p.recipe()
	rows, _ := p.effectiveRows()
	n := len(rows) + 3
	if e := len(p.scene.State.Exports); e > 0 {
		n += e + 1
	}
	if p.w < auditWideW {
		n = 0
	}
	lines := p.h
	if p.w >= auditRoomyW && p.w < auditWideW {
		d, _ := p.list(p.part, p.w)
		lines = len(d.head) + len(d.lines)
	}
	return arrangeParts(p.w, p.h, p.part, p.opened, r != nil, lines, n)
}

// titled says whether lists have their names above them: where there are several.
func (l *partsLayout) titled() bool { return l.wide }

// body is a list without its title.
func (l *partsLayout) body(part auditPart) rect {
	r := l.lists[part]
	if l.titled() && r.h > 0 {
		r.y, r.h = r.y+1, r.h-1
	}
	return r
}
