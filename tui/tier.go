package tui

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/tier"
	"quantscope/sessions"
	"quantscope/views"
)

// tiering is what the map knows of the hot tiers of a source and what is under way for
// it: one run at a time.
type tiering struct {
	src    *source
	chosen bool // the person chose which run is shown
	at     int  // the one that was shown last
	begun  int  // runs that the state had when one was begun; −1 where none was

	gen      uint64 // of runs
	stop     context.CancelFunc
	progress *atomic.Pointer[tier.Progress]
	hold     *hold
	pace     *pacer
	ticking  bool
}

// tieredMsg ends a run of a hot tier.
type tieredMsg struct {
	gen uint64
	err error
}

func (d tieredMsg) apply(m *Model) tea.Cmd { return m.tierDone(d) }

// tierTickMsg asks to look how far a run is.
type tierTickMsg struct{}

func (tierTickMsg) apply(m *Model) tea.Cmd {
	m.tier.ticking = false
	return m.tierTick()
}

// fetchTier finds the runs of the source and does what the person asked for.
func (m *Model) fetchTier() tea.Cmd {
	k, w := &m.tier, &m.scene.Tier
	if k.src != m.src {
		m.stopTier()
		on := w.On
		*k = tiering{src: m.src, at: -1, begun: -1, gen: k.gen}
		*w = views.TierWork{On: on, At: -1, Budget: -1, Runs: -1, Off: m.offTierRun()}
	}
	if m.first != nil {
		return nil
	}
	m.findTiers()
	ask := w.Ask
	w.Ask = views.TierNothing
	if ask == views.TierDialog {
		m.askTier()
	}
	return nil
}

// askTier opens the form that runs a hot tier, or says why none can be run.
func (m *Model) askTier() {
	if why := m.offTier(); why != "" {
		m.say("%s", why)
		return
	}
	m.open(newTierForm(m))
}

// offTierRun is why no hot tier can be run from a source; "" where one can.
func (m *Model) offTierRun() string {
	if m.src.player != nil {
		return "a hot tier cannot be run in a replay: r leaves it"
	}
	if _, ok := m.src.feed.(sessions.Tierer); !ok {
		return "a hot tier cannot be run from here"
	}
	return ""
}

// offTier is why none can be begun now.
func (m *Model) offTier() string {
	if why := m.offTierRun(); why != "" {
		return why
	}
	return m.busyWith()
}

// offTierMap is why the map cannot show a hot tier.
func (m *Model) offTierMap() string {
	if len(m.scene.State.Tiers) > 0 || m.scene.Tier.On || m.scene.Tier.Running {
		return ""
	}
	return "no hot tier was run in this session: : and tier runs one"
}

// toggleTier shows the hot tier on the map, or the metric again.
func (m *Model) toggleTier() tea.Cmd {
	on := !m.scene.Tier.On || m.screen != ScreenMap
	if m.screen != ScreenMap {
		m.show(ScreenMap)
	}
	m.showTierMap(on)
	if !on {
		m.say("the map shows %s", m.scene.Metric.Name)
	}
	return nil
}

// showTierMap shows the tier on the map. What takes the place of a pane has the focus
// that it had.
func (m *Model) showTierMap(on bool) {
	m.scene.SetTier(on)
	m.stale = true
}

// findTiers keeps the run that is shown within those that there are: the newest unless
// the person chose.
func (m *Model) findTiers() {
	k, w, n := &m.tier, &m.scene.Tier, len(m.scene.State.Tiers)
	if w.Running && w.Runs < 0 && n > k.begun { // it has been heard of
		w.Runs, k.chosen = n-1, false
	}
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
		w.Budget = -1
		m.scene.Touch()
	}
	k.at = w.At
}

// startTier runs a hot tier outside the loop; windows come through the feed. It holds
// to a pace at which a person can watch.
func (m *Model) startTier(r sessions.TierRequest, rate float64) tea.Cmd {
	k, w := &m.tier, &m.scene.Tier
	tierer := m.src.feed.(sessions.Tierer) // else nothing is asked for
	ctx, stop := context.WithCancel(m.src.ctx)
	progress, hold, pace := &atomic.Pointer[tier.Progress]{}, &hold{}, newPacer(rate)
	k.gen++
	k.stop, k.progress, k.hold, k.pace, k.chosen, k.begun = stop, progress, hold, pace, false, len(m.scene.State.Tiers)
	w.Running, w.Runs, w.Paused, w.Progress, w.Err, w.Rate, w.Budget = true, -1, false, tier.Progress{Budget: -1}, "", rate, -1
	m.scene.Touch()
	if m.screen != ScreenMap {
		m.show(ScreenMap)
	}
	m.showTierMap(true)
	gen := k.gen
	r.Progress = func(p tier.Progress) { progress.Store(&p) }
	r.Pause = hold.wait
	r.Pace = func(ctx context.Context, w *tier.Window) error {
		if w.Promoted+w.Evicted == 0 && (w.Hits == 0 || w.Hits == w.Pairs) { // nobody can move
			return ctx.Err()
		}
		return pace.wait(ctx)
	}
	return tea.Batch(m.do(ctx, "tier", func(ctx context.Context) tea.Msg {
		return tieredMsg{gen, tierer.Tier(ctx, r)}
	}), m.tierTick())
}

// stopTier ends what runs. Its answer still comes, and is of no interest.
func (m *Model) stopTier() {
	k, w := &m.tier, &m.scene.Tier
	if k.stop == nil {
		return
	}
	k.stop()
	k.stop = nil
	k.gen++
	w.Running, w.Paused = false, false
	m.scene.Touch()
}

// tierDone takes in the end of a run.
func (m *Model) tierDone(d tieredMsg) tea.Cmd {
	w := &m.scene.Tier
	if d.gen != m.tier.gen || m.tier.stop == nil {
		return nil
	}
	m.stopTier()
	if d.err != nil && !errors.Is(d.err, context.Canceled) {
		w.Err = d.err.Error()
		m.fail(d.err)
	}
	m.reviseQuit()
	return nil
}

// tierTick looks how far a run is and again after a while. One is in flight.
func (m *Model) tierTick() tea.Cmd {
	k, w := &m.tier, &m.scene.Tier
	if k.ticking || !w.Running || m.o.handFed {
		return nil
	}
	if p := k.progress.Load(); p != nil && *p != w.Progress {
		w.Progress = *p
		m.scene.Touch()
	}
	k.ticking = true
	return m.do(m.src.ctx, "tier", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(klTickEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return tierTickMsg{}
	})
}

// tierOwnsPause says that space and X are of the hot tier: on the map that shows it,
// and everywhere while nothing else is going.
func (m *Model) tierOwnsPause() bool {
	if !m.scene.Tier.Running {
		return false
	}
	switch m.scene.State.Progress.State {
	case sessions.RunRunning, sessions.RunPaused:
		return m.screen == ScreenMap && m.scene.Tier.On || m.src.runner == nil
	}
	return true
}

// holdTier pauses a run or lets it go on.
func (m *Model) holdTier() {
	w := &m.scene.Tier
	w.Paused = !w.Paused
	m.tier.hold.set(w.Paused)
	m.scene.Touch()
}

// askStopTier asks whether to end a run.
func (m *Model) askStopTier() {
	gen := m.tier.gen
	m.open(newConfirm("End the hot tier?", []string{
		"The windows that are there stay in the session and can be looked at.",
		"The same again is a new run.",
	}, "end the hot tier", func(m *Model) tea.Cmd {
		if m.tier.gen == gen && m.tier.stop != nil {
			m.tier.stop()
			m.say("the hot tier ends")
		}
		return nil
	}))
}

// runningTier is the run that is under way, nil where it has not been heard of yet.
func (m *Model) runningTier() *sessions.TierRun {
	if at, ts := m.scene.Tier.Runs, m.scene.State.Tiers; m.scene.Tier.Running && at >= 0 && at < len(ts) {
		return ts[at]
	}
	return nil
}

// tierStatus says on the first line how far a run is, in at most w cells.
func (m *Model) tierStatus(w int) string {
	t, k := m.scene.Theme, &m.scene.Tier
	mark, style := "▶ hot tier", t.Accent
	if k.Paused {
		mark, style = "‖ hot tier paused", t.Warn
	}
	var parts []string
	r := m.runningTier()
	switch {
	case r != nil && len(r.Windows) > 0:
		last := r.Windows[len(r.Windows)-1]
		if last.Budget >= 0 && last.Budget < len(r.Setup.Budgets) {
			mark += " " + views.Clean(r.Setup.Budgets[last.Budget].Label)
		}
		parts = append(parts, fmt.Sprintf("%d/%d windows", len(r.Windows), views.TierWindows(r.Setup)))
	case k.Progress.Of > 0:
		parts = append(parts, views.TierStage(k.Progress.Stage), fmt.Sprintf("%s/%s tokens", views.Thousands(k.Progress.Done), views.Thousands(k.Progress.Of)))
	default:
		parts = append(parts, views.TierStage(k.Progress.Stage))
	}
	if !k.Paused {
		parts = append(parts, m.tier.pace.words())
	}
	for len(parts) > 1 && views.Width(mark)+2+views.Width(joined(parts)) > w {
		parts = parts[:len(parts)-1]
	}
	return views.Truncate(style.Render(mark)+"  "+t.Text.Render(joined(parts)), w)
}

// tierEnded says on the first line how a run ended, in a session that has nothing else.
func (m *Model) tierEnded(r *sessions.TierRun, w int) string {
	t := m.scene.Theme
	mark := t.Warn.Render("■ hot tier " + views.Clean(r.End.State))
	if r.End.State == string(sessions.RunFinished) {
		mark = t.Good.Render("✓ hot tier finished")
	}
	return views.Truncate(mark+"  "+t.Text.Render(fmt.Sprintf("%d/%d windows", len(r.Windows), views.TierWindows(r.Setup))), w)
}
