package tui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/gates"
	"quantscope/sessions"
	"quantscope/views"
)

// gating is what the Gates screen knows of a source and what is under way for it:
// one run of gates, and one analysis of its answers, at a time.
type gating struct {
	src    *source
	chosen bool // the person chose which run is shown
	at     int  // the one that was shown last

	gen      uint64 // of runs
	stop     context.CancelFunc
	progress *atomic.Pointer[gates.Progress]
	hold     *hold
	ticking  bool

	reports gateReports
}

// gatedMsg ends a run of gates.
type gatedMsg struct {
	gen uint64
	err error
}

func (d gatedMsg) apply(m *Model) tea.Cmd { return m.gatesDone(d) }

// gatesTickMsg asks to look how far a run is.
type gatesTickMsg struct{}

func (gatesTickMsg) apply(m *Model) tea.Cmd {
	m.gate.ticking = false
	return m.gatesTick()
}

// fetchGates finds the runs of the source, does what the person asked for on the
// screen, and computes the report of what was answered where there is none.
func (m *Model) fetchGates() tea.Cmd {
	k, w := &m.gate, &m.scene.Gates
	if k.src != m.src {
		m.stopGates()
		*k = gating{src: m.src, at: -1, gen: k.gen}
		*w = views.GatesWork{At: -1, Off: m.offGates()}
	}
	if m.first != nil {
		return nil
	}
	m.findGates()
	var cmd tea.Cmd
	ask := w.Ask
	w.Ask = views.GatesNothing
	switch {
	case m.screen != ScreenGates || w.Off != "" || w.Running:
	case ask != views.GatesNothing && m.busyWith() != "":
		m.say("%s", m.busyWith())
	case ask == views.GatesDialog:
		m.open(newGatesForm(m))
	case ask == views.GatesRun:
		cmd = m.beginGates()
	}
	if plan := m.gatesPlan(); m.screen == ScreenGates && strings.Join(plan, "\n") != strings.Join(w.Plan, "\n") {
		w.Plan = plan
		m.scene.Touch()
	}
	return tea.Batch(cmd, m.fetchGatesReport())
}

// offGates is why no gates can be run from a source; "" where they can.
func (m *Model) offGates() string {
	if m.src.player != nil {
		return "gates cannot be run in a replay: r leaves it"
	}
	if _, ok := m.src.feed.(sessions.Gater); !ok {
		return "gates cannot be run from here"
	}
	return ""
}

// findGates keeps the run that is shown within those that there are: the newest
// unless the person chose.
func (m *Model) findGates() {
	k, w, n := &m.gate, &m.scene.Gates, len(m.scene.State.Gates)
	if w.At != k.at {
		k.chosen = true
	}
	if !k.chosen || w.At >= n || w.At < 0 {
		w.At, k.chosen = n-1, false
		if w.Running && w.Runs >= 0 && w.Runs < n {
			w.At = w.Runs
		}
	}
	if w.At != k.at {
		m.scene.Touch()
	}
	k.at = w.At
}

// gateRun is the run that is shown, nil where there is none.
func (m *Model) gateRun() *sessions.GateRun {
	if at, gs := m.scene.Gates.At, m.scene.State.Gates; at >= 0 && at < len(gs) {
		return gs[at]
	}
	return nil
}

// beginGates begins what R stands for: what the run that is shown left undone, else
// the session's variants on the suite that goes with its tokenizer; where there is
// nobody to ask, the person is asked.
func (m *Model) beginGates() tea.Cmd {
	if g := m.gateRun(); views.GatesLeft(g) {
		cmd := m.startGates(func() sessions.GatesRequest { return gatesRequestOf(g, m.source()) })
		m.scene.Gates.Runs = m.scene.Gates.At // it may not be the newest
		return cmd
	}
	specs := m.variantSpecs()
	if len(specs) == 0 || m.served() {
		m.open(newGatesForm(m))
		return nil
	}
	return m.startGates(func() sessions.GatesRequest { return sessions.GatesRequest{Candidates: specs} })
}

// served says that the session is of served models, without a checkpoint.
func (m *Model) served() bool { return m.scene.State.Meta.Served() }

// source is where the session's checkpoint is.
func (m *Model) source() string { return m.scene.State.Meta.SourcePath }

// startGates runs gates outside the loop; answers come through the feed. what is
// asked for there: to go on with a run its suite is read again.
func (m *Model) startGates(what func() sessions.GatesRequest) tea.Cmd {
	k, w := &m.gate, &m.scene.Gates
	gater := m.src.feed.(sessions.Gater) // else nothing is asked for
	ctx, stop := context.WithCancel(m.src.ctx)
	progress, hold := &atomic.Pointer[gates.Progress]{}, &hold{}
	k.gen++
	k.stop, k.progress, k.hold, k.chosen = stop, progress, hold, false
	w.Running, w.Runs, w.Paused, w.Progress, w.Err = true, -1, false, gates.Progress{Arm: -1, Probe: -1}, ""
	m.scene.Touch()
	gen := k.gen
	return tea.Batch(m.do(ctx, "gates", func(ctx context.Context) tea.Msg {
		r := what()
		r.Progress = func(p gates.Progress) { progress.Store(&p) }
		r.Pause = hold.wait
		return gatedMsg{gen, gater.Gates(ctx, r)}
	}), m.gatesTick())
}

// stopGates ends what runs. Its answer still comes, and is of no interest.
func (m *Model) stopGates() {
	k, w := &m.gate, &m.scene.Gates
	if k.stop == nil {
		return
	}
	k.stop()
	k.stop = nil
	k.gen++
	w.Running, w.Paused = false, false
	m.scene.Touch()
}

// gatesDone takes in the end of a run.
func (m *Model) gatesDone(d gatedMsg) tea.Cmd {
	w := &m.scene.Gates
	if d.gen != m.gate.gen || m.gate.stop == nil {
		return nil
	}
	did := m.gate.progress.Load()
	m.stopGates()
	if d.err == nil && did != nil && did.Stage == "opening" && did.Arm < 0 { // and nothing after that
		m.say("all of that is answered already: c chooses another suite or other arms")
	}
	if d.err != nil && !errors.Is(d.err, context.Canceled) {
		w.Err = d.err.Error()
		if m.screen != ScreenGates {
			m.fail(d.err)
		}
	}
	m.reviseQuit()
	return nil
}

// gatesTick looks how far a run is and again after a while. One is in flight.
func (m *Model) gatesTick() tea.Cmd {
	k, w := &m.gate, &m.scene.Gates
	if k.ticking || !w.Running || m.o.handFed {
		return nil
	}
	if p := k.progress.Load(); p != nil && *p != w.Progress {
		w.Progress = *p
		m.scene.Touch()
	}
	k.ticking = true
	return m.do(m.src.ctx, "gates", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(klTickEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return gatesTickMsg{}
	})
}

// gatesOwnPause says that space and X are of the run of gates: on its screen, and
// everywhere while nothing else is going.
func (m *Model) gatesOwnPause() bool {
	if !m.scene.Gates.Running {
		return false
	}
	switch m.scene.State.Progress.State {
	case sessions.RunRunning, sessions.RunPaused:
		return m.screen == ScreenGates || m.src.runner == nil
	}
	return true
}

// holdGates pauses a run or lets it go on.
func (m *Model) holdGates() {
	w := &m.scene.Gates
	w.Paused = !w.Paused
	m.gate.hold.set(w.Paused)
	m.scene.Touch()
}

// askStopGates asks whether to end a run.
func (m *Model) askStopGates() {
	gen := m.gate.gen
	m.open(newConfirm("End the gates?", []string{
		"The answers that are there stay in the session and can be looked at.",
		"R goes on with the others.",
	}, "end the gates", func(m *Model) tea.Cmd {
		if m.gate.gen == gen {
			m.gate.stop()
			m.say("the gates end")
		}
		return nil
	}))
}

// gatesStatus says on the first line how far a run is, in at most w cells.
func (m *Model) gatesStatus(w int) string {
	t, k := m.scene.Theme, &m.scene.Gates
	p := k.Progress
	mark, style := "▶ gates", t.Accent
	if k.Paused {
		mark, style = "‖ gates paused", t.Warn
	}
	g := m.gateRun()
	if gs := m.scene.State.Gates; k.Runs >= 0 && k.Runs < len(gs) { // which need not be the one that is shown
		g = gs[k.Runs]
	} else if k.Running {
		g = nil
	}
	if g != nil && !k.Paused && p.Arm >= 0 && p.Arm < len(g.Setup.Arms) {
		mark += " " + views.Clean(g.Setup.Arms[p.Arm].Label)
	}
	var parts []string
	if g != nil {
		done, of := g.Answers()
		parts = append(parts, fmt.Sprintf("%d/%d answers", done, of))
	} else {
		parts = append(parts, views.GatesStage(p.Stage))
	}
	if p.PerSecond > 0 && !k.Paused {
		parts = append(parts, views.Thousands(int64(math.Round(p.PerSecond)))+" tok/s")
	}
	if p.ETA > 0 && !k.Paused {
		parts = append(parts, "ETA "+minutes(int64(p.ETA.Seconds())))
	}
	for len(parts) > 1 && views.Width(mark)+2+views.Width(strings.Join(parts, "  ")) > w {
		parts = parts[:len(parts)-1]
	}
	return views.Truncate(style.Render(mark)+"  "+t.Text.Render(strings.Join(parts, "  ")), w)
}

// gatesEnded says on the first line how a run ended, in a session that has nothing
// else.
func (m *Model) gatesEnded(g *sessions.GateRun, w int) string {
	t := m.scene.Theme
	mark := t.Warn.Render("■ gates " + views.Clean(g.End.State))
	if g.End.State == string(sessions.RunFinished) {
		mark = t.Good.Render("✓ gates finished")
	}
	done, of := g.Answers()
	return views.Truncate(mark+"  "+t.Text.Render(fmt.Sprintf("%d/%d answers", done, of)), w)
}

// gatesWord is the word of a key in the last line.
func (m *Model) gatesWord(key, word string) string {
	p, ok := m.panes[PaneGates].(*views.Gates)
	if !ok {
		return word
	}
	switch key {
	case "R":
		if views.GatesLeft(m.gateRun()) {
			return "go on"
		}
	case "enter":
		if m.gateRun() == nil {
			return "run"
		}
		if p.InCases() {
			return "open"
		}
	case "tab":
		return "part"
	case "esc":
		if p.CanLeave() {
			return "back"
		}
	}
	return word
}
