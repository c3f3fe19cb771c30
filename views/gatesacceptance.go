package views

import (
	"fmt"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
)

// acceptance of drafts on screen 6: where a probe measures it, its cells show the rate
// with its interval in place of n of m, which would be the same in every arm; the
// arms' part has what it says of the selected one, and a case has its own text in
// stretches, one after the other. What is not known is a ?, never 0.

// acceptanceAt is what drafting brought an arm over a probe; nil where the probe does
// not measure it, and while the report is not there.
func (p *Gates) acceptanceAt(row *gatesRow, arm int) *gates.Acceptance {
	if row.kind != gatesProbeRow {
		return nil
	}
	return p.index.accepted[[2]int{row.probe, arm}]
}

// acceptanceState is how a row's acceptance stands, the worst of its probes.
func (p *Gates) acceptanceState(row *gatesRow, arm int) (s gatesState, ok bool) {
	for _, probe := range row.probes {
		x := p.index.accepted[[2]int{probe, arm}]
		if x == nil {
			continue
		}
		at := gatesOK
		switch x.Verdict {
		case gates.AcceptanceBelow:
			at = gatesDown
		case gates.AcceptanceAbove:
			at = gatesUp
		case gates.AcceptanceUnknown, gates.AcceptanceShort, gates.AcceptanceOtherK:
			at = gatesUntold
		}
		s, ok = max(s, at), true
	}
	return s, ok
}

// acceptanceCount is the rate in the room of n of m.
func acceptanceCount(x *gates.Acceptance) string {
	if !isNumber(x.Rate) {
		return "?"
	}
	return fmt.Sprintf("%.0f %%", 100*x.Rate)
}

// acceptanceWords are the sentences on an arm's acceptance, a probe after the other,
// with each of its texts in stretches.
func (p *Gates) acceptanceWords(arm, w int) []string {
	th, r := p.scene.Theme, p.index.report
	if r == nil {
		return nil
	}
	var out []string
	for i := range r.Acceptance {
		x := &r.Acceptance[i]
		if x.Arm != arm {
			continue
		}
		probe := &p.book.run.Setup.Probes[x.Probe]
		style := th.Text
		if x.Verdict == gates.AcceptanceBelow {
			style = th.Bad
		}
		out = append(out, wrapped(style, Clean(probe.ID)+": "+gatesSaid(x.Text)+".", w)...)
		if len(x.Blocks) > acceptanceShown || !x.Told() {
			continue // too many to tell one from another, or none
		}
		for c, blocks := range x.Blocks {
			name := Fit(Truncate(steady(probe.Cases[c].ID), acceptanceName), acceptanceName)
			out = append(out, Truncate("  "+th.Dim.Render(name)+" "+p.barStyle(arm).Render(acceptanceTrack(blocks))+th.Dim.Render("  "+acceptanceShare(blocks)), w))
		}
	}
	return out
}

const (
	acceptanceShown = 6  // texts that are drawn in the arms' part
	acceptanceName  = 10 // cells of their names there
)

// caseDrafts is what drafting brought one answer: the sum, and its stretches.
func (p *Gates) caseDrafts(r *gates.Result, w int) []string {
	th := p.scene.Theme
	probe := &p.book.run.Setup.Probes[r.Probe]
	if !probe.Measure || len(r.Answer.Replies) == 0 {
		return nil
	}
	reply := &r.Answer.Replies[0]
	d := reply.Drafts
	switch {
	case d == nil:
		return wrapped(th.Warn, "what was drafted of it is not told: acceptance is not known", w)
	case !d.Whole():
		return wrapped(th.Warn, "counts of drafts that do not fit together: acceptance is not known", w)
	case d.Drafted == 0:
		return wrapped(th.Warn, "nothing was drafted: acceptance is not known", w)
	}
	text := fmt.Sprintf("%d of %s accepted, %s, %.2f tokens a step", d.Accepted, plural(int(d.Drafted), "drafted token"), klPercent(float64(d.Accepted)/float64(d.Drafted)), 1+float64(d.Accepted)/float64(d.Drafts))
	lines := wrapped(th.Text, text, w)
	blocks := d.Blocks(reply.CompletionTokens, probe.Block())
	if blocks == nil {
		return append(lines, wrapped(th.Dim, "by step it is not told", w)...)
	}
	label := fmt.Sprintf("each %d tokens  ", probe.Block())
	lines = append(lines, Truncate(th.Dim.Render(label)+p.barStyle(r.Arm).Render(acceptanceTrack(blocks))+th.Dim.Render("  "+acceptanceRange(blocks)), w))
	if p.full {
		var parts []string
		for _, b := range blocks {
			parts = append(parts, fmt.Sprintf("%d/%d", b.Accepted, b.Drafted))
		}
		lines = append(lines, wrapped(th.Dim, "accepted of drafted: "+strings.Join(parts, " "), w)...)
	}
	return lines
}

// acceptanceTrack is the rate of each stretch as a bar, on a scale from 0 to 1 that is
// the same everywhere; a stretch without drafts is a dot.
func acceptanceTrack(blocks []chat.Block) string {
	var b strings.Builder
	for i := range blocks {
		if blocks[i].Drafted <= 0 {
			b.WriteString("·")
			continue
		}
		share := float64(blocks[i].Accepted) / float64(blocks[i].Drafted)
		b.WriteString(bars[min(max(int(share*float64(len(bars))), 0), len(bars)-1)])
	}
	return b.String()
}

// acceptanceShare is the rate over stretches.
func acceptanceShare(blocks []chat.Block) string {
	accepted, drafted := int64(0), int64(0)
	for _, b := range blocks {
		accepted, drafted = accepted+b.Accepted, drafted+b.Drafted
	}
	if drafted <= 0 {
		return "?"
	}
	return klPercent(float64(accepted) / float64(drafted))
}

// acceptanceRange is the least and the largest rate of a stretch.
func acceptanceRange(blocks []chat.Block) string {
	low, high := 1.0, 0.0
	for _, b := range blocks {
		if b.Drafted > 0 {
			share := float64(b.Accepted) / float64(b.Drafted)
			low, high = min(low, share), max(high, share)
		}
	}
	if low > high {
		return ""
	}
	return fmt.Sprintf("%.0f to %.0f %%", 100*low, 100*high)
}
