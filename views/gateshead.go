package views

import (
	"fmt"
	"time"

	"quantscope/analysis/gates"
)

// head says how far the run is, whether the gates are open, and whether the
// measurement can be believed; always as many lines, so that the table stays where
// it is.
func (p *Gates) head() []string {
	th, r := p.scene.Theme, p.index.report
	lines := 1
	switch {
	case p.w >= gatesRoomyW && p.h >= gatesRoomyH:
		lines = 2
	case p.h >= 16:
		lines = 2
	}
	var out []string
	if line := p.running(); line != "" {
		out = append(out, line)
	}
	if e := p.scene.Gates.Err; e != "" {
		out = append(out, th.Bad.Render(TruncateMiddle("✗ "+Clean(e), p.w)))
	}
	if r == nil {
		if len(out) < lines {
			out = append(out, th.Dim.Render(Truncate("the report is being computed "+ellipsis, p.w)))
		}
		return out
	}
	honest := "honesty of the measurement: " + checksWords(r)
	if checkCounts(r)[gates.CheckFailed] > 0 {
		honest = th.Bad.Render("✗ ") + th.Text.Render(Truncate(honest, max(p.w-2, 0)))
	} else {
		honest = th.Dim.Render(Truncate("  "+honest, p.w))
	}
	text, shut := p.shutWords(r)
	verdict := th.Text
	mark := th.Good.Render("✓ ")
	switch {
	case shut:
		mark = th.Bad.Render("✗ ")
	case p.book.all < p.book.run.Setup.Answers():
		text, mark, verdict = "nothing fails so far", th.Dim.Render("… "), th.Dim
	}
	if len(out) < lines {
		out = append(out, Truncate(mark+verdict.Render(Truncate(text, max(p.w-2, 0))), p.w))
	}
	if len(out) < lines {
		out = append(out, honest)
	}
	return out
}

// running is the line of what is under way, "" where all is answered.
func (p *Gates) running() string {
	th, w, g := p.scene.Theme, &p.scene.Gates, p.book.run
	if g == nil {
		return ""
	}
	done, all := p.book.all, g.Setup.Answers()
	of := fmt.Sprintf("%s of %s", thousands(done), plural(all, "answer"))
	mine := w.running(w.At)
	switch {
	case g.End != nil && !unfinishedGates(g) && !mine:
		return ""
	case mine && w.Paused:
		return Truncate(th.Warn.Render("‖ paused: "+of)+th.Dim.Render("  space goes on, X ends it"), p.w)
	case !mine && !p.moving(): // nobody goes on with it
		state, reason := "interrupted", ""
		if g.End != nil {
			state, reason = Clean(g.End.State), steady(g.End.Reason)
		}
		text := "■ " + state + ": " + of
		if reason != "" {
			text += ": " + reason
		}
		goes := ""
		if w.runOff() == "" {
			goes = ", R goes on"
		}
		return th.Warn.Render(Truncate(text, p.w)) + th.Dim.Render(fitting(p.w-Width(text), goes, ""))
	}
	line := th.Accent.Render("▶ ") + th.Text.Render(of+"  ") + progressBar(th, float64(done)/float64(max(all, 1)), 16)
	asked := ""
	if probe, arm := p.asking(); probe >= 0 && probe < len(g.Setup.Probes) && arm >= 0 && arm < len(g.Setup.Arms) {
		asked = "  " + Clean(g.Setup.Probes[probe].ID) + " · " + Clean(g.Setup.Arms[arm].Label)
	} else if mine {
		asked = "  " + GatesStage(w.Progress.Stage)
	}
	rate, keys := "", ""
	if mine {
		if w.Progress.PerSecond > 0 {
			rate = fmt.Sprintf("  %s tok/s", compact(w.Progress.PerSecond))
		}
		if w.Progress.ETA > 0 {
			rate += "  ETA " + gatesETA(w.Progress.ETA)
		}
		keys = "; space pauses, X ends it"
	}
	room := p.w - Width(line)
	return Truncate(line+th.Dim.Render(fitting(room, asked+rate+keys, asked+rate, rate, "")), p.w)
}

// gatesETA writes a time to come as m:ss.
func gatesETA(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// without is the screen before there is a run: what gates are, what would be asked of
// whom, and the key that begins it; or why none can be run.
func (p *Gates) without() []string {
	th, w := p.scene.Theme, &p.scene.Gates
	lines := []string{""}
	if p.h >= 12 {
		lines = append(lines, wrapped(th.Text, "Gates ask candidates, in process or through servers, the same questions and count how many they answer: calls, facts, passphrases, arithmetic, text in many scripts. The baseline is asked twice, so that noise is known before a difference is believed, and the measurement checks itself first.", p.w)...)
		lines = append(lines, "")
	}
	if w.Running {
		mark, keys := th.Accent.Render("▶ "), "space pauses, X ends it"
		if w.Paused {
			mark, keys = th.Warn.Render("‖ paused: "), "space goes on, X ends it"
		}
		lines = append(lines, Truncate(mark+th.Text.Render(GatesStage(w.Progress.Stage)+" "+ellipsis), p.w))
		return append(lines, wrapped(th.Dim, keys, p.w)...)
	}
	if w.Err != "" {
		lines = append(lines, wrapped(th.Bad, "✗ "+Clean(w.Err), p.w)...)
	}
	if off := w.runOff(); off != "" {
		lines = append(lines, wrapped(th.Warn, off, p.w)...)
	} else {
		for _, text := range w.Plan {
			lines = append(lines, wrapped(th.Text, Clean(text), p.w)...)
		}
		lines = append(append(lines, ""), wrapped(th.Accent, "R runs gates; c chooses suite, candidates and servers first", p.w)...)
	}
	lines = append(lines, "")
	return append(lines, wrapped(th.Dim, "In a shell: quantscope gates CHECKPOINT --candidate SPEC, or quantscope gates --server URL.", p.w)...)
}
