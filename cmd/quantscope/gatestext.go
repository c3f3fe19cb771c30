package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/suite"
	"quantscope/sessions"
	"quantscope/views"
)

// printGates prints a run of gates as plain text.
func printGates(w io.Writer, rep *gates.Report, d *gatesDocument) error {
	t := newReport(w)
	t.line("suite %s  %s  sha256 %.12s", views.Clean(d.Suite), counted(len(rep.Setup.Probes), "probe", "probes"), d.SuiteSHA256)
	for i := range d.Arms {
		d.armLine(t, &d.Arms[i])
	}
	t.line("  session    %s", d.Session)
	t.line("")
	t.line("is the measurement to be believed?")
	d.checkLines(t)
	t.line("")
	d.table(t, rep)
	acceptanceLines(t, d.Acceptance)
	d.pairLines(t, rep)
	d.corpusLines(t)
	d.failingLines(t)
	t.line("")
	if len(d.Fails) == 0 {
		t.line("the gates are open: every arm answers what every probe needs, and no check failed")
	}
	const most = 12
	for i, x := range d.Fails {
		if i == most {
			t.line("shut  … %d more", len(d.Fails)-most)
			break
		}
		t.line("shut  %-10s %s", x.Kind, views.Clean(x.Message))
	}
	return t.err
}

func (d *gatesDocument) armLine(t *textReport, a *gatesArm) {
	who := ""
	if id := a.Identity; id != nil {
		for _, part := range []string{id.Engine + " " + id.Version, id.Model, id.Effective} {
			if part = strings.TrimSpace(part); part != "" && !strings.Contains(who, part) {
				who += "  " + views.Clean(part)
			}
		}
	}
	speed := ""
	if v := float64(a.TokensPerS); !math.IsNaN(v) && v > 0 {
		speed = fmt.Sprintf("  %s tok/s", thousands(int64(v)))
	}
	if s := a.Speculation; s != nil { // acceptance never stands without the other two
		speed += fmt.Sprintf("  k %d: %.1f %% accepted, %.2f tokens a step", s.K, 100*float64(s.Acceptance), float64(s.AcceptedLength))
	}
	t.line("  %-10s %s%s  %s tokens%s", a.Role, views.Clean(a.Candidate), who, thousands(a.Tokens), speed)
}

// checkLines are the doubts, those that came true first. What passed for several
// arms is one line.
func (d *gatesDocument) checkLines(t *textReport) {
	word := map[gates.CheckState]string{gates.CheckFailed: "FAILED", gates.CheckUnknown: "unknown", gates.CheckPassed: "passed"}
	for _, state := range []gates.CheckState{gates.CheckFailed, gates.CheckUnknown, gates.CheckPassed} {
		said := map[string]bool{}
		for _, c := range d.Checks {
			if c.State != state || said[c.ID] {
				continue
			}
			name, message := c.ID, c.Message
			switch of := d.armsOf(c.ID, state); {
			case state == gates.CheckPassed && len(of) > 1:
				said[c.ID] = true
				message = fmt.Sprintf("%d arms; %s: %s", len(of), c.Candidate, message)
			case c.Candidate != "":
				name += " " + c.Candidate
			}
			t.line("  %-7s  %-24s  %s", word[state], views.Clean(name), views.Clean(message))
		}
	}
	if names := d.idleChecks(); len(names) > 0 {
		t.line("  nothing to check: %s", strings.Join(names, ", "))
	}
}

// armsOf are the arms of which a check came to a state.
func (d *gatesDocument) armsOf(id string, state gates.CheckState) []string {
	var out []string
	for _, c := range d.Checks {
		if c.ID == id && c.State == state && c.Candidate != "" {
			out = append(out, c.Candidate)
		}
	}
	return out
}

// idleChecks are those that had nothing to check in any arm.
func (d *gatesDocument) idleChecks() []string {
	var names []string
	for _, c := range d.Checks {
		busy := slices.ContainsFunc(d.Checks, func(x gatesCheck) bool { return x.ID == c.ID && x.State != gates.CheckIdle })
		if !busy && !slices.Contains(names, c.ID) {
			names = append(names, c.ID)
		}
	}
	return names
}

// table is probes down, arms across.
func (d *gatesDocument) table(t *textReport, rep *gates.Report) {
	header := []string{"probe", ">needs"}
	for _, a := range d.Arms {
		name := views.Clean(a.Candidate)
		if a.Role == gates.Placebo {
			name = "placebo"
		}
		header = append(header, ">"+name)
	}
	worse := map[[2]string]bool{}
	for _, p := range d.Pairs {
		worse[[2]string{p.Probe, p.Candidate}] = p.Worse
	}
	cell := map[[2]int]*gatesProbe{}
	for i := range d.Probes {
		cell[[2]int{d.Probes[i].probe, d.Probes[i].arm}] = &d.Probes[i]
	}
	var rows [][]string
	sums := make([][2]int, len(d.Arms))
	for i := range rep.Setup.Probes {
		p := &rep.Setup.Probes[i]
		row := []string{views.Clean(p.ID), fmt.Sprintf("%.0f %%", 100*p.Need)}
		for arm := range d.Arms {
			c := cell[[2]int{i, arm}]
			if c == nil {
				row = append(row, "·")
				continue
			}
			sums[arm][0] += c.Passed
			sums[arm][1] += c.Passes
			row = append(row, gatesCell(c, worse[[2]string{c.Probe, c.Candidate}]))
		}
		rows = append(rows, row)
	}
	row := []string{"all", ""}
	for arm := range d.Arms {
		mark := ""
		if worse[[2]string{"", d.Arms[arm].Candidate}] {
			mark = " ▼"
		}
		row = append(row, fmt.Sprintf("%d/%d%s", sums[arm][0], sums[arm][1], pad(mark)))
	}
	t.table(header, append(rows, row))
	t.line("n of m [95 %% interval of the share, in percent]; ! fewer than the probe needs, ▼ worse than the baseline beyond the test and the placebo, E answers that did not come, � characters that are none")
}

// pad keeps marks in a column of their own, so that figures stand below each other.
func pad(marks string) string { return marks + strings.Repeat(" ", max(0, 4-views.Width(marks))) }

func gatesCell(c *gatesProbe, worse bool) string {
	mark := " "
	if !c.OK {
		mark += "!"
	}
	if worse {
		mark += "▼"
	}
	if c.Errors > 0 {
		mark += "E"
	}
	if c.Events > 0 {
		mark += "�"
	}
	text := fmt.Sprintf("%d/%d", c.Passed, c.Passes)
	if c.Passes > 0 {
		text += fmt.Sprintf(" [%.0f, %.0f]", 100*float64(c.Low), 100*float64(c.High))
	}
	return text + pad(mark)
}

// pairLines say how arms stand to the baseline: in sum, and where a probe differs.
func (d *gatesDocument) pairLines(t *textReport, rep *gates.Report) {
	if len(d.Pairs) == 0 {
		return
	}
	t.line("")
	without := ""
	if slices.ContainsFunc(rep.Setup.Probes, func(p suite.Probe) bool { return p.Against }) {
		without = "; in sum without probes that ask for the baseline's own text"
	}
	t.line("against %s, answer by answer (McNemar, exact, over cases%s)", views.Clean(d.Pairs[0].Baseline), without)
	for _, p := range d.Pairs {
		if p.Probe != "" {
			continue
		}
		t.line("  %s  %s", views.Clean(p.Candidate), views.Clean(p.Sentence))
		for _, q := range d.Pairs {
			if q.Candidate == p.Candidate && q.Probe != "" && (q.Better || q.Worse) {
				t.line("    %s: %s", views.Clean(q.Probe), views.Clean(q.Sentence))
			}
		}
	}
}

// corpusLines are figures from log probabilities, which are never mixed with those
// over the whole vocabulary.
func (d *gatesDocument) corpusLines(t *textReport) {
	if d.Corpus == nil {
		return
	}
	t.line("")
	t.line("through log probabilities of the top %d tokens, %s of %s (KL is a lower bound; not comparable with quantscope measure)",
		d.Corpus.Top, counted(d.Corpus.Chunks, "chunk", "chunks"), views.Clean(d.Corpus.Name))
	var rows [][]string
	for _, a := range d.Arms {
		l := a.LogProbs
		if l == nil {
			rows = append(rows, []string{views.Clean(a.Candidate), "not told"})
			continue
		}
		row := []string{views.Clean(a.Candidate), thousands(int64(l.Positions)), fmt.Sprintf("%.4f", l.NLL), fmt.Sprintf("%.4f", l.SE), fmt.Sprintf("%.3f", l.PPL), fmt.Sprintf("%g", l.MedianRank), fmt.Sprintf("%.3f", l.Seen)}
		if p := a.LowerBound; p != nil {
			row = append(row, "≥ "+nats(p.KL), nats(p.SE), fmt.Sprintf("%.3f", p.Top1), fmt.Sprintf("%+.4f", p.DeltaNLL), fmt.Sprintf("%.4f", p.DeltaSE))
		}
		rows = append(rows, row)
	}
	for i, r := range rows {
		for len(r) < 12 {
			r = append(r, "")
		}
		rows[i] = r
	}
	t.table([]string{"arm", ">positions", ">NLL", ">± se", ">PPL", ">median rank", ">seen", ">KL", ">± se", ">top-1", ">ΔNLL", ">± se"}, rows)
}

// failingLines show answers that did not pass.
func (d *gatesDocument) failingLines(t *textReport) {
	if len(d.Failing) == 0 {
		return
	}
	t.line("")
	t.line("answers that did not pass, the first of each arm (the session has all, screen 6 shows them)")
	for _, a := range d.Failing {
		t.line("  %s  %s/%s  %s", views.Clean(a.Candidate), views.Clean(a.Probe), views.Clean(a.Case), views.Clean(a.Reason))
		t.line("    asked   %s", views.Clean(shorten(a.Prompt)))
		t.line("    answer  %s", views.Clean(shorten(a.Output)))
		for _, c := range a.Calls {
			t.line("    call    %s %s", views.Clean(c.Name), views.Clean(shorten(c.Arguments)))
		}
	}
}

// shorten keeps the ends of a long text.
func shorten(s string) string {
	const most = 160
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most/2]) + " … " + string(r[len(r)-most/2:])
}

// gateLines are a line on each run of gates that a session holds.
func gateLines(st *sessions.State) []string {
	var lines []string
	for _, g := range st.Gates {
		l := gateRunLineOf(g)
		lines = append(lines, fmt.Sprintf("suite %s: %s: %s, %d of %d answers", l.Suite, strings.Join(l.Arms, ", "), l.State, len(g.Results), g.Setup.Answers()))
	}
	return lines
}
