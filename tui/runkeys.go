package tui

import (
	"context"
	"path/filepath"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
)

func (m *Model) offPause() string {
	switch {
	case m.src.player != nil, m.ownedPause():
		return ""
	case m.src.runner == nil:
		return "nothing runs here: space pauses a live run or a replay"
	}
	switch m.scene.State.Progress.State {
	case sessions.RunRunning, sessions.RunPaused:
		return ""
	}
	return "the run is over: r replays it"
}

func (m *Model) togglePause() tea.Cmd {
	if m.ownedPause() {
		m.holdBackground()
		return nil
	}
	if p := m.src.player; p != nil {
		if m.pos.Playing {
			return m.send("pause", func() error { p.Pause(); return nil })
		}
		return m.send("play", func() error { p.Play(); return nil })
	}
	run := m.src.runner
	if !m.paused() {
		m.wish = sessions.RunPaused
		return m.send("pause", func() error { run.Pause(); return nil })
	}
	m.wish = sessions.RunRunning
	return m.send("resume", func() error { run.Resume(); return nil })
}

func (m *Model) offCancel() string {
	switch {
	case m.ownedPause():
		return ""
	case m.src.runner == nil:
		return "only a live run can be cancelled"
	}
	return m.offPause()
}

func (m *Model) askCancel() tea.Cmd {
	if m.ownedPause() {
		m.askStopBackground()
		return nil
	}
	m.open(newConfirm("Cancel the run?", []string{
		m.endsWith("ends"),
		"What was recorded stays and can be looked at.",
	}, "cancel the run", func(m *Model) tea.Cmd {
		if why := m.offCancel(); why != "" { // it ended while the question stood
			m.say("%s", why)
			return nil
		}
		run := m.src.runner
		return m.send("cancel", func() error { run.Cancel(); return nil })
	}))
	return nil
}

func (m *Model) offPlayer() string {
	if m.src.player == nil {
		return "this key works in a replay: r starts one"
	}
	return ""
}

// The speeds of a replay.
const (
	slowest = 0.25
	fastest = 64.0
)

func (m *Model) changeSpeed(by float64) tea.Cmd {
	p, x := m.src.player, min(max(m.pos.Speed*by, slowest), fastest)
	m.pos.Speed = x // so that keys pressed before the answer add up
	return m.send("speed", func() error { p.SetSpeed(x); return nil })
}

func (m *Model) step(by int) tea.Cmd {
	p := m.src.player
	return m.send("step", func() error { p.Step(by); return nil })
}

// seek goes to a moment of a replay. Of several that wait, the last one counts.
func (m *Model) seek(us int64) tea.Cmd {
	const what = "seek"
	p := m.src.player
	us = min(max(us, 0), m.pos.EndUS)
	m.pos.AtUS = us
	if n := len(m.lane.queue); n > 0 && m.lane.queue[n-1].what == what {
		m.lane.queue = m.lane.queue[:n-1]
	}
	return m.send(what, func() error { p.SeekTo(us); return nil })
}

func (m *Model) offReplay() string {
	switch {
	case m.opening:
		return "the session is being opened"
	case m.home != nil:
		return ""
	case m.scene.State.Meta.Path == "":
		return "the session is only in memory: there is nothing to replay"
	case m.src.player != nil && m.o.Reopen == nil, m.src.player == nil && m.o.OpenReplay == nil:
		return "sessions cannot be opened from here"
	case m.running():
		return "the run is still going: it can be replayed when it is over"
	case m.scene.KL.Running:
		return "KL is being measured: the session can be replayed when that is over"
	case m.scene.Gates.Running:
		return "gates are being run: the session can be replayed when that is over"
	case m.scene.Tier.Running:
		return "a hot tier is being run: the session can be replayed when that is over"
	case m.scene.Bias.Running:
		return "biases are being looked at: the session can be replayed when that is over"
	}
	return ""
}

// toggleReplay plays the session that is open from its beginning, or returns to
// its end.
func (m *Model) toggleReplay() tea.Cmd {
	if m.home != nil {
		return m.leaveReplay()
	}
	path := m.scene.State.Meta.Path
	m.opening = true
	m.openGen++
	gen, root := m.openGen, m.ctx
	if m.src.player != nil {
		reopen := m.o.Reopen
		return m.do(m.ctx, "open", func(context.Context) tea.Msg {
			feed, err := reopen(path)
			if err != nil {
				return openedMsg{gen: gen, err: err}
			}
			return openedMsg{gen: gen, src: newSource(root, feed, feed.Snapshot()), home: true}
		})
	}
	open, live := m.o.OpenReplay, m.src.feed
	return m.do(m.ctx, "replay", func(ctx context.Context) tea.Msg {
		waitForFile(ctx, live)
		player, err := open(path)
		if err != nil {
			return openedMsg{gen: gen, err: err}
		}
		return openedMsg{gen: gen, src: newSource(root, player, player.Snapshot())}
	})
}

// opened takes up a feed that was opened from within.
func (m *Model) opened(o openedMsg) tea.Cmd {
	m.opening = false
	if o.err != nil {
		m.fail(o.err)
		return nil
	}
	o.src.owned = true
	before := m.src
	var closing tea.Cmd
	if o.home {
		closing = m.closeSource(before)
	} else {
		m.home = before
	}
	return tea.Batch(closing, m.swap(o.src), m.pump(o.src), m.startPlaying())
}

// startPlaying sets a replay going that was asked for by hand, at a speed at
// which it is worth watching.
func (m *Model) startPlaying() tea.Cmd {
	p := m.src.player
	if p == nil {
		return nil
	}
	x := watchable(m.pos.EndUS)
	return m.send("play", func() error {
		p.SetSpeed(x)
		p.Play()
		return nil
	})
}

// watchable is the speed, a power of two, at which a replay takes between ten
// and twenty seconds, or as near as the limits allow.
func watchable(endUS int64) float64 {
	x := slowest
	for x < fastest && float64(endUS)/x > 20e6 {
		x *= 2
	}
	return x
}

// leaveReplay returns to what was open before the replay.
func (m *Model) leaveReplay() tea.Cmd {
	replay := m.src
	home := m.home
	m.home = nil
	return tea.Batch(m.swap(home), m.closeSource(replay))
}

// swap shows another source: the same places on the screen, other data.
func (m *Model) swap(to *source) tea.Cmd {
	m.src = to
	m.pos = sessions.Position{}
	sc := m.scene
	sc.State, sc.Mode, sc.Detail = to.state, to.feed.Mode(), nil
	m.takeUp(sessions.Batch{Reset: to.state, Progress: to.state.Progress, LastSeq: to.state.LastSeq, LastUS: to.state.LastUS})
	m.readClock()
	return m.tick()
}

// closeSource ends what is under way for a source and closes it if it was
// opened here.
func (m *Model) closeSource(s *source) tea.Cmd {
	s.stop()
	if !s.owned {
		return nil
	}
	return m.do(context.WithoutCancel(m.ctx), "close", func(context.Context) tea.Msg {
		return closedMsg{s.feed.Close()}
	})
}

func (m *Model) offExport() string {
	switch {
	case m.o.Export == nil:
		return "nothing can be exported from here"
	case m.scene.State.Meta.Path == "":
		return "the session is only in memory: there is nothing to export from"
	}
	return ""
}

func (m *Model) askExport() tea.Cmd {
	m.open(newExportForm(m.scene.State.Meta.Path))
	return nil
}

// export writes the records to a file, outside the loop.
func (m *Model) export(kind, path string, overwrite bool) tea.Cmd {
	m.exporting++
	m.say("exporting %s to %s …", kind, path)
	write, session := m.o.Export, m.scene.State.Meta.Path
	live, running := m.src.feed, m.running()
	return m.do(m.ctx, "export", func(ctx context.Context) tea.Msg {
		if !running {
			waitForFile(ctx, live)
		}
		return exportedMsg{kind: kind, path: path, overwrite: overwrite, err: write(ctx, kind, session, path, overwrite)}
	})
}

// waitForFile waits until the file of a run that is over holds all that was
// shown: what is shown may be a moment ahead of it.
func waitForFile(ctx context.Context, feed sessions.Feed) {
	if live, ok := feed.(interface {
		Wait(context.Context) (sessions.Progress, error)
	}); ok {
		_, _ = live.Wait(ctx) // why a run stopped is shown already
	}
}

// exportPath is where an export goes unless the person says otherwise: beside
// the session.
func exportPath(session, kind string) string {
	return strings.TrimSuffix(session, filepath.Ext(session)) + "." + strings.ToLower(kind)
}
