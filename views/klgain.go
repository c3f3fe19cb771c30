package views

import (
	"math"

	"github.com/charmbracelet/lipgloss"

	"quantscope/analysis/yardstick"
)

// gains are the cells of what calibration changed, by row: of calibrated
// candidates the share of their baseline's KL that is gone or has come, with its
// interval, and the verdict.
func (p *KL) gains() []string {
	r := p.rows.report
	shares := make([]string, len(p.rows.order))
	verdicts := make([]string, len(p.rows.order))
	intervals := make([]string, len(p.rows.order))
	for i, c := range p.rows.order {
		if p.rows.party(c).Calibrated == "" {
			continue
		}
		g, ok := r.Gain(c)
		switch {
		case !ok:
			verdicts[i] = p.scene.Theme.Dim.Render("no baseline measured")
		case g.Verdict == yardstick.Equal:
			verdicts[i] = p.scene.Theme.Bad.Render("TIE: nothing changed")
		default:
			shares[i], intervals[i] = signed("%+.1f", -100*g.At), shareInterval(-g.High, -g.Low)
			style, word := p.verdict(g.Verdict)
			verdicts[i] = style.Render(word)
		}
	}
	shares = AlignDecimal(shares)
	wide := 0
	for _, s := range intervals {
		wide = max(wide, Width(s))
	}
	out := make([]string, len(shares))
	for i := range out {
		switch {
		case verdicts[i] == "":
		case intervals[i] == "":
			out[i] = verdicts[i]
		default:
			out[i] = shares[i] + " % " + Fit(intervals[i], wide) + " " + verdicts[i]
		}
	}
	return out
}

// verdict is a verdict in the words of the table and how it is set.
func (p *KL) verdict(v yardstick.Verdict) (lipgloss.Style, string) {
	th := p.scene.Theme
	switch v {
	case yardstick.Better:
		return th.Good, "better"
	case yardstick.Worse:
		return th.Bad, "WORSE"
	case yardstick.Undecided:
		return th.Dim, "no interval"
	}
	return th.Warn, "not shown"
}

// shareInterval is an interval of a relative change in per cent: [−28.1, −21.7];
// "" where there is none.
func shareInterval(lo, hi float64) string {
	if math.IsNaN(lo) || math.IsNaN(hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return "[–]"
	}
	return "[" + signed("%+.1f", 100*lo) + ", " + signed("%+.1f", 100*hi) + "]"
}

// calibratedOn says what the selected candidate was calibrated on and what of it
// fell back, "" where it was not calibrated.
func (p *KL) calibratedOn() string {
	party := p.rows.party(p.at)
	if party.Calibrated == "" {
		return ""
	}
	text := p.label(p.at) + " is calibrated on " + Clean(party.Calibrated)
	if n := len(party.Fallbacks); n > 0 {
		text += "; " + thousands(n) + " fell back: " + Clean(party.Fallbacks[0].Tensor) + ": " + Clean(party.Fallbacks[0].Reason)
	}
	return text
}
