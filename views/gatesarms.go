package views

import (
	"fmt"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
)

// meter is what an arm told of itself, nil while it is not done.
func (p *Gates) meter(arm int) *gates.Meter {
	for _, m := range p.book.run.Meters {
		if m.Arm == arm {
			return m
		}
	}
	return nil
}

// speedOf is tokens a second by the clock, "" where nothing was made.
func speedOf(m *gates.Meter) string {
	if m == nil || !(m.Seconds > 0) || m.Tokens <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(m.Tokens)/m.Seconds)
}

// acceptanceOf is the share of drafted tokens that were accepted and the mean length of
// a step. Both are told or none, and only where the speed is: alone they mislead.
func acceptanceOf(m *gates.Meter) (rate, length string) {
	if m == nil || m.Counted == nil || speedOf(m) == "" {
		return "", ""
	}
	r, l := m.Counted.Acceptance()
	if !isNumber(r) || !isNumber(l) {
		return "", ""
	}
	return klPercent(r), fmt.Sprintf("%.2f", l)
}

// armsTable is what the arms told in a row each.
func (p *Gates) armsTable() Table {
	th := p.scene.Theme
	s := p.book.run.Setup
	through := false
	drafts := false
	for _, m := range p.book.run.Meters {
		through = through || m.Arm1 != nil
		rate, _ := acceptanceOf(m)
		drafts = drafts || rate != ""
	}
	tb := Table{Cursor: -1, Marked: true, More: true, Columns: []Column{
		{Title: "arm", Align: Middle, Width: p.armsName()}, {Title: "tok/s", Align: Right},
	}}
	if drafts {
		tb.Columns = append(tb.Columns, Column{Title: "k", Align: Right, Drop: 2}, Column{Title: "accepted", Align: Right}, Column{Title: "length", Align: Right})
	}
	if through {
		tb.Columns = append(tb.Columns, Column{Title: "PPL", Align: Right, Drop: 3}, Column{Title: "KL ≥", Align: Right, Drop: 4})
	}
	for a := range s.Arms {
		m := p.meter(a)
		row := []string{p.armName(a, gatesNameMost), speedOf(m)}
		if drafts {
			rate, length := acceptanceOf(m)
			k := ""
			if m != nil && m.Identity.Speculative >= 0 && rate != "" {
				k = fmt.Sprint(m.Identity.Speculative)
			}
			row = append(row, k, rate, length)
		}
		if through {
			ppl, kl := "", ""
			if m != nil && m.Arm1 != nil {
				ppl = klShort(m.Arm1.PPL)
			}
			if m != nil && m.Pair != nil {
				kl = klShort(m.Pair.KL)
			}
			row = append(row, ppl, kl)
		}
		if s.Arms[a].Role == gates.Placebo {
			row = quiet(th.Dim, row)
		}
		if a == p.arm {
			tb.Cursor = a
		}
		tb.Rows = append(tb.Rows, row)
	}
	return tb
}

// armsName is the room for names of arms.
func (p *Gates) armsName() int {
	w := 8
	for a := range p.book.run.Setup.Arms {
		w = max(w, Width(p.armName(a, gatesNameMost)))
	}
	return min(w, 18)
}

// armWords are the sentences about the selected arm: against the baseline, who it
// is, how fast, and what log probabilities say.
func (p *Gates) armWords(w int) []string {
	th := p.scene.Theme
	var out []string
	say := func(text string) {
		if text != "" {
			out = append(out, wrapped(th.Text, text, w)...)
		}
	}
	quietly := func(text string) {
		if text != "" {
			out = append(out, wrapped(th.Dim, text, w)...)
		}
	}
	if q := p.index.pairs[[2]int{-1, p.arm}]; q != nil {
		say(Clean(p.book.run.Setup.Arms[p.arm].Label) + ": " + gatesSaid(q.Verdict) + ".")
		quietly(fmt.Sprintf("Only the baseline passes %d, only this arm %d.", q.OnlyBase, q.OnlyArm))
	}
	m := p.meter(p.arm)
	if m == nil {
		quietly("It is not done: what it tells of itself comes at its end.")
		if opened := p.book.run.Opened; p.arm < len(opened) && opened[p.arm] != nil {
			quietly(identityWords(opened[p.arm]))
		}
		return out
	}
	if rate, length := acceptanceOf(m); rate != "" {
		say(fmt.Sprintf("It accepts %s of the tokens that it drafts, %s a step with its own, at %s tokens a second.", rate, length, speedOf(m)))
		if len(m.Counted.ByPosition) > 1 && m.Counted.Drafts > 0 {
			text := "By place in the draft:"
			for i, n := range m.Counted.ByPosition {
				if i == 8 {
					break
				}
				text += " " + klPercent(float64(n)/float64(m.Counted.Drafts))
			}
			quietly(text + ".")
		}
	} else if s := speedOf(m); s != "" {
		say(fmt.Sprintf("%s tokens a second: %s tokens in %.1f s.", s, thousands(m.Tokens), m.Seconds))
	}
	if t := m.Arm1; t != nil {
		text := fmt.Sprintf("Log probabilities through the server: PPL %s, median rank of the true token %.0f, top %d tokens hold %s of the probability.", klShort(t.PPL), t.MedianRank, t.Top, klPercent(t.Seen))
		if q := m.Pair; q != nil {
			text += fmt.Sprintf(" KL to the baseline is at least %s: a lower bound, of the top %d.", klMean(q.KL, q.SE), t.Top)
		}
		say(text)
	}
	out = append(out, p.acceptanceWords(p.arm, w)...)
	quietly(identityWords(&m.Identity))
	return out
}

// identityWords say who answered.
func identityWords(d *chat.Identity) string {
	text := "Answered by " + Clean(d.Model)
	if d.Model == "" {
		text = "Answered by a model without a name"
	}
	if d.Engine != "" {
		text += ", " + Clean(d.Engine)
		if d.Version != "" {
			text += " " + Clean(d.Version)
		}
	}
	if d.At != "" {
		text += " at " + Clean(d.At)
	}
	if d.Effective != "" && d.Effective != d.Spec {
		text += ", really " + Clean(d.Effective)
	}
	if d.Content != "" {
		text += ", weights " + Clean(shortHash(d.Content))
	}
	if d.Fingerprint != "" {
		text += ", fingerprint " + Clean(d.Fingerprint)
	}
	return text + "."
}

// shortHash is the beginning of a hash, which tells two apart.
func shortHash(s string) string {
	if len(s) > 12 {
		return s[:12]
	}
	return s
}

// drawArms is what the arms told of themselves.
func (p *Gates) drawArms(w, h int) string {
	th := p.scene.Theme
	title := p.partTitle(gatesArms, "arms") + th.Dim.Render(fitting(w-6, "  speed, acceptance and log probabilities, as they tell", "  as they tell", ""))
	tb := p.armsTable()
	words := p.armWords(w)
	n := len(tb.Rows)
	table := min(n+1, max(h-1, 0))
	if rest := h - 1 - table; rest < len(words)+1 && n > 2 { // the sentences are of the selected one
		table = max(min(table, h-2-len(words)), min(table, (h-1)/2))
	}
	if room := table - 1; room < n && room > 1 {
		tb.Offset = max(min(tb.Cursor-(room-2), n-room), 0)
	}
	if p.focus != gatesArms && tb.Cursor >= 0 && tb.Cursor < n {
		tb.Cursor = -1
	}
	lines := []string{title}
	if table > 0 {
		lines = append(lines, strings.Split(tb.Render(th, w, table), "\n")...)
	}
	if h-len(lines) > 1 {
		lines = append(lines, "")
		lines = append(lines, p.scrolled(words, 0, w, h-len(lines))...)
	}
	return Block(lines, w, h)
}
