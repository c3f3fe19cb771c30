package views

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/charmbracelet/lipgloss"

	"quantscope/analysis/gates"
)

// gatesCheckSigns are their signs and words.
var gatesCheckSigns = map[gates.CheckState][2]string{
	gates.CheckFailed: {"✗", "fails"}, gates.CheckUnknown: {"?", "not told"}, gates.CheckPassed: {"✓", "holds"}, gates.CheckIdle: {"·", "nothing to check"},
}

// gatesCheckNames say what a check is of.
var gatesCheckNames = map[string]string{
	gates.CheckNonce: "fresh nonce", gates.CheckCached: "cached timings", gates.CheckPlacebo: "placebo", gates.CheckAgain: "baseline again",
	gates.CheckChanged: "the change landed", gates.CheckRank: "rank of the true token", gates.CheckMatchedK: "same k", gates.CheckAcceptance: "acceptance",
	gates.CheckCap: "cap on tokens", gates.CheckEmpty: "empty outputs", gates.CheckDeterminism: "determinism", gates.CheckModel: "model that answers",
	gates.CheckSpeed: "counts agree",
}

// gatesFailNames say why gates are shut.
var gatesFailNames = map[gates.FailKind]string{
	gates.FailNeed: "too few", gates.FailRegression: "worse", gates.FailCheck: "not to be believed", gates.FailError: "no answer",
}

// gatesCheck is one item of the honesty list: checks of one kind that came to the
// same, or a reason for which the gates are shut.
type gatesCheck struct {
	checks []*gates.Check
	fail   *gates.Fail
}

// checkItems are the checks, those that failed first and each alone, and behind them
// why the gates are shut beside that. While the run goes on, what is not told yet
// comes after what holds.
func (p *Gates) checkItems() []gatesCheck {
	r := p.index.report
	if r == nil {
		return nil
	}
	order := []gates.CheckState{gates.CheckFailed, gates.CheckUnknown, gates.CheckPassed, gates.CheckIdle}
	if p.book.all < p.book.run.Setup.Answers() {
		order[1], order[2] = order[2], order[1]
	}
	var out []gatesCheck
	for _, state := range order {
		at := map[string]int{}
		for i := range r.Checks {
			c := &r.Checks[i]
			if c.State != state {
				continue
			}
			if j, ok := at[c.ID]; ok && state != gates.CheckFailed {
				out[j].checks = append(out[j].checks, c)
				continue
			}
			at[c.ID] = len(out)
			out = append(out, gatesCheck{checks: []*gates.Check{c}})
		}
	}
	for i := range r.Fails {
		if r.Fails[i].Kind != gates.FailCheck {
			out = append(out, gatesCheck{fail: &r.Fails[i]})
		}
	}
	return out
}

// checkCounts is how many checks are in each state.
func checkCounts(r *gates.Report) map[gates.CheckState]int {
	out := map[gates.CheckState]int{}
	for i := range r.Checks {
		out[r.Checks[i].State]++
	}
	return out
}

// checksWords is the counts in words: 1 fails · 7 hold · 2 not told.
func checksWords(r *gates.Report) string {
	n := checkCounts(r)
	text := ""
	add := func(k int, one, many string) {
		if k == 0 {
			return
		}
		if text != "" {
			text += " · "
		}
		if k == 1 {
			text += "1 " + one
		} else {
			text += thousands(k) + " " + many
		}
	}
	add(n[gates.CheckFailed], "fails", "fail")
	add(n[gates.CheckPassed], "holds", "hold")
	add(n[gates.CheckUnknown], "not told", "not told")
	add(n[gates.CheckIdle], "idle", "idle")
	if text == "" {
		text = "none was made yet"
	}
	return text
}

// words of an item: its sign, its name, whom it is about, and what it says.
func (p *Gates) checkWords(c gatesCheck) (sign string, style lipgloss.Style, name, message string, loud bool) {
	th := p.scene.Theme
	s := p.book.run.Setup
	arm := func(i int) string {
		if i >= 0 && i < len(s.Arms) {
			return " " + Clean(s.Arms[i].Label)
		}
		return ""
	}
	if f := c.fail; f != nil {
		name := gatesFailNames[f.Kind]
		if name == "" {
			name = Clean(string(f.Kind))
		}
		return "▪", th.Bad, name, gatesSaid(f.Message), false
	}
	k := c.checks[0]
	name, message = gatesCheckNames[k.ID], gatesSaid(k.Message)
	if name == "" {
		name = Clean(k.ID)
	}
	if n := len(c.checks); n > 1 {
		same := !slices.ContainsFunc(c.checks, func(o *gates.Check) bool { return o.Message != k.Message })
		if !same {
			message = arm(k.Arm)[min(1, len(arm(k.Arm))):] + ": " + message
		}
		name += ", " + plural(n, "arm")
	} else {
		name += arm(k.Arm)
	}
	signs, known := gatesCheckSigns[k.State]
	if !known {
		signs[0] = "·"
	}
	switch k.State {
	case gates.CheckFailed:
		style, loud = th.Bad, true
	case gates.CheckUnknown:
		style, loud = th.Warn, p.book.all >= s.Answers() // else it may be told yet
	case gates.CheckPassed:
		style = th.Good
	default:
		style = th.Dim
	}
	return signs[0], style, name, message, loud
}

// checkItem is an item in lines of w cells. What holds has at most so many lines for
// what it says below its name; with 0 it is one line in all.
func (p *Gates) checkItem(c gatesCheck, w, most int, here bool) []string {
	th := p.scene.Theme
	sign, style, name, message, loud := p.checkWords(c)
	nameStyle := th.Text
	if here {
		nameStyle = th.Title
	}
	lead := "  "
	if here {
		lead = th.Accent.Render("▸") + " "
		if p.focus != gatesChecks {
			lead = "  "
			nameStyle = th.Text
		}
	}
	first := lead + style.Render(sign) + " " + nameStyle.Render(name)
	text := th.Dim
	if loud {
		text = th.Text
	}
	if !loud && most == 0 {
		return []string{Truncate(first+text.Render("  "+message), w)}
	}
	out := []string{Truncate(first, w)}
	if Width(first)+2+Width(message) <= w {
		out[0] = first + text.Render("  "+message)
		return out
	}
	const indent = 4
	said := wrapped(text, message, max(w-indent, 1))
	if !loud && len(said) > most {
		said = wrappedTo(text, message, max(w-indent, 1), most)
	}
	for _, line := range said {
		out = append(out, spaces(indent)+line)
	}
	return out
}

// gatesSpans are the lines of all items, laid out once, and which item each of them
// belongs to.
type gatesSpans struct {
	of    gatesSpansOf
	lines []string
	item  []int
}

type gatesSpansOf struct {
	report   *gates.Report
	theme    *Theme
	w        int
	selected int
	has      bool // the part has the keys
	told     bool // nothing more is to come
}

// gatesSpoken are how many lines of what a check says are shown: as many as leave
// room for all checks.
var gatesSpoken = [...]int{99, 2, 1, 0}

// checkSpans are the items in lines of w cells, at a place of gatesSpoken.
func (p *Gates) checkSpans(w, level int) (lines []string, of []int) {
	m := &p.spans[level]
	now := gatesSpansOf{p.index.report, p.scene.Theme, w, p.checks.selected, p.focus == gatesChecks, p.book.all >= p.book.run.Setup.Answers()}
	if m.of == now && m.lines != nil {
		return m.lines, m.item
	}
	*m = gatesSpans{of: now}
	for i, c := range p.checkItems() {
		for _, line := range p.checkItem(c, w, gatesSpoken[level], i == p.checks.selected) {
			m.lines, m.item = append(m.lines, line), append(m.item, i)
		}
	}
	return m.lines, m.item
}

// seenChecks is the part of the list that h lines show, so that the selected item is
// in it.
func (p *Gates) seenChecks(w, h int) (lines []string, of []int, left int) {
	for level := range gatesSpoken {
		if lines, of = p.checkSpans(w, level); len(lines) <= h {
			break
		}
	}
	if h <= 0 || len(lines) <= h {
		return lines, of, 0
	}
	room := max(h-1, 1)
	from := 0
	if p.focus == gatesChecks {
		first := slices.Index(of, p.checks.selected)
		last := first
		for last >= 0 && last < len(of) && of[last] == p.checks.selected {
			last++
		}
		from = max(min(max(last-room, 0), first), 0)
	}
	to := min(from+room, len(lines))
	return lines[from:to], of[from:to], len(lines) - to
}

// drawChecks is the honesty of the measurement: what can be believed of the table.
func (p *Gates) drawChecks(w, h int) string {
	th, r := p.scene.Theme, p.index.report
	title := p.partTitle(gatesChecks, "honesty")
	if r == nil {
		return Block([]string{title, th.Dim.Render(Truncate("the checks are being computed "+ellipsis, w))}, w, h)
	}
	title += th.Dim.Render(fitting(w-8, "  of the measurement: "+checksWords(r), "  "+checksWords(r), ""))
	lines, _, left := p.seenChecks(w, h-1)
	if len(lines) == 0 {
		lines = []string{th.Dim.Render(Truncate("  no check was made yet", w))}
	}
	if left > 0 {
		lines = append(slices.Clone(lines), th.Dim.Render("  "+moreText(left)))
	}
	return Block(append([]string{title}, lines...), w, h)
}

// checkAt is the item at a place.
func (p *Gates) checkAt(r rect, x, y int) (int, bool) {
	if !r.has(x, y) {
		return 0, false
	}
	_, of, _ := p.seenChecks(r.w, r.h-1)
	if i := y - r.y - 1; i >= 0 && i < len(of) {
		return of[i], true
	}
	return 0, false
}

// checkFull is all that is known of the selected item.
func (p *Gates) checkFull(w int) []string {
	th := p.scene.Theme
	items := p.checkItems()
	if p.checks.selected >= len(items) {
		return nil
	}
	c := items[p.checks.selected]
	sign, style, name, message, _ := p.checkWords(c)
	lines := []string{style.Render(sign) + " " + th.Title.Render(Truncate(name, w-2))}
	if c.fail != nil {
		return append(append(lines, ""), wrapped(th.Text, message, w)...)
	}
	if words := gatesCheckSigns[c.checks[0].State][1]; words != "" {
		lines = append(lines, th.Dim.Render(Truncate(words, w)))
	}
	for _, k := range c.checks {
		lines = append(lines, "")
		if len(c.checks) > 1 && k.Arm >= 0 && k.Arm < len(p.book.run.Setup.Arms) {
			lines = append(lines, Truncate(p.armName(k.Arm, gatesNameMost), w))
		}
		lines = append(lines, wrapped(th.Text, gatesSaid(k.Message), w)...)
		lines = append(lines, p.checkFigures(k, w)...)
	}
	return lines
}

// checkFigures are the figures of a check, by name.
func (p *Gates) checkFigures(k *gates.Check, w int) []string {
	th := p.scene.Theme
	var lines []string
	var keys []string
	for name := range k.Figures {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	wide := 0
	for _, name := range keys {
		wide = max(wide, Width(steady(name)))
	}
	for _, name := range keys {
		lines = append(lines, Truncate(th.Dim.Render(Fit(steady(name), min(wide, w/2)))+"  "+th.Text.Render(gatesFigure(k.Figures[name])), w))
	}
	return lines
}

// gatesFigure writes a figure of a check: whole numbers as they are.
func gatesFigure(v float64) string {
	if isNumber(v) && v == float64(int64(v)) && v < 1e15 && v > -1e15 {
		return minus(thousands(int64(v)))
	}
	return minus(strconv.FormatFloat(v, 'g', 4, 64))
}

// shutWords says in one line whether the gates are open.
func (p *Gates) shutWords(r *gates.Report) (text string, shut bool) {
	n := len(r.Fails)
	if n == 0 {
		return "the gates are open: nothing fails", false
	}
	return fmt.Sprintf("the gates are shut, %s: %s", plural(n, "reason"), gatesSaid(r.Fails[0].Message)), true
}
