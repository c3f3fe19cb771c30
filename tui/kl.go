package tui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views"
)

// measuring is what the KL screen knows of a source and what is under way for
// it: one measurement, and one analysis of what was scored, at a time.
type measuring struct {
	src     *source
	chosen  bool // the person chose which measurement is shown
	at      int  // the one that was shown last
	planned klPlan

	gen      uint64 // of measurements
	stop     context.CancelFunc
	progress *atomic.Pointer[yardstick.Progress]
	hold     *hold
	ticking  bool

	reports  klReports
	compared klReports
}

// klTickEvery is how often the progress of a measurement is read.
const klTickEvery = 250 * time.Millisecond

// measuredMsg ends a measurement.
type measuredMsg struct {
	gen uint64
	err error
}

func (d measuredMsg) apply(m *Model) tea.Cmd { return m.measureEnded(d) }

// klTickMsg asks to look how far a measurement is.
type klTickMsg struct{}

func (klTickMsg) apply(m *Model) tea.Cmd {
	m.kl.ticking = false
	return m.klTick()
}

// fetchKL finds the measurements of the source, does what the person asked for
// on the screen, and computes the report of what was scored where there is none.
func (m *Model) fetchKL() tea.Cmd {
	k, w := &m.kl, &m.scene.KL
	if k.src != m.src {
		m.stopMeasuring()
		*k = measuring{src: m.src, at: -1, gen: k.gen}
		*w = views.KLWork{At: -1, Off: m.offMeasure()}
	}
	if m.first != nil {
		return nil
	}
	m.findYards()
	var cmd tea.Cmd
	ask := w.Ask
	w.Ask = views.KLNothing
	switch {
	case m.screen != ScreenKL || w.Off != "" || w.Running:
	case ask != views.KLNothing && m.busyWith() != "":
		m.say("%s", m.busyWith())
	case ask == views.KLDialog:
		m.open(newKLForm(m))
	case ask == views.KLMeasure:
		cmd = m.beginMeasuring()
	}
	return tea.Batch(cmd, m.fetchPlan(), m.fetchReport(), m.fetchCompared())
}

// offMeasure is why nothing can be measured from a source; "" where it can.
func (m *Model) offMeasure() string {
	if m.src.player != nil {
		return "KL cannot be measured in a replay: r leaves it"
	}
	if _, ok := m.src.feed.(sessions.Measurer); !ok {
		return "KL cannot be measured from here"
	}
	return ""
}

// findYards keeps the measurement that is shown within those that there are: the
// newest unless the person chose.
func (m *Model) findYards() {
	k, w, n := &m.kl, &m.scene.KL, len(m.scene.State.Yards)
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

// beginMeasuring begins what R stands for: what the measurement that is shown
// left undone, else the session's variants on the demo's corpora; where that does
// not say what to measure, the person is asked.
func (m *Model) beginMeasuring() tea.Cmd {
	r, ok := m.wantedMeasure()
	if !ok {
		m.open(newKLForm(m))
		return nil
	}
	cmd := m.startMeasuring(r)
	if y := m.yard(); unfinished(y) { // it may not be the newest
		m.scene.KL.Runs = m.scene.KL.At
	}
	return cmd
}

// wantedMeasure is the request that R stands for; false where it is not whole.
func (m *Model) wantedMeasure() (sessions.MeasureRequest, bool) {
	if y := m.yard(); unfinished(y) {
		return requestOf(y.Setup), true
	}
	r := sessions.MeasureRequest{Candidates: m.variantSpecs()}
	return r, len(r.Candidates) > 0 && m.kl.planned.known()
}

// yard is the measurement that is shown, nil where there is none.
func (m *Model) yard() *sessions.Yard {
	if at, ys := m.scene.KL.At, m.scene.State.Yards; at >= 0 && at < len(ys) {
		return ys[at]
	}
	return nil
}

// unfinished says that there is a measurement and more to do for it.
func unfinished(y *sessions.Yard) bool {
	return y != nil && (y.End == nil || y.End.State != sessions.RunFinished)
}

// requestOf asks again for what a measurement takes in.
func requestOf(s *yardstick.Setup) sessions.MeasureRequest {
	r := sessions.MeasureRequest{
		Keep: s.Keep, Targets: s.Targets, BF16: s.Activations == "bf16", Half: s.Positions == "half", NoFloor: true, Seed: s.Seed, Ceiling: s.Ceiling,
	}
	for i := range s.Candidates {
		switch c := &s.Candidates[i]; {
		case c.Floor:
			r.NoFloor = false
		case c.Part != "":
			r.Attribute = true
		case c.Of < 0:
			r.Candidates = append(r.Candidates, c.Spec)
		}
	}
	for i := range s.Corpora {
		name := s.Corpora[i].Source
		if name == "" || name == demoSource {
			name = s.Corpora[i].Name
		}
		if !slices.Contains(r.Corpora, name) {
			r.Corpora = append(r.Corpora, name)
		}
	}
	return r
}

// variantSpecs are the session's variants as candidates.
func (m *Model) variantSpecs() []string {
	var out []string
	for i := range m.scene.State.Variants {
		if name := m.scene.State.Variants[i].Plain(); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// startMeasuring measures outside the loop; what is scored comes through the feed.
func (m *Model) startMeasuring(r sessions.MeasureRequest) tea.Cmd {
	k, w := &m.kl, &m.scene.KL
	measurer := m.src.feed.(sessions.Measurer) // else nothing is asked for
	ctx, stop := context.WithCancel(m.src.ctx)
	progress, hold := &atomic.Pointer[yardstick.Progress]{}, &hold{}
	k.gen++
	k.stop, k.progress, k.hold, k.chosen = stop, progress, hold, false
	w.Running, w.Runs, w.Paused, w.Progress, w.Err = true, -1, false, yardstick.Progress{Party: -1}, ""
	m.scene.Touch()
	r.Progress = func(p yardstick.Progress) { progress.Store(&p) }
	r.Pause = hold.wait
	gen := k.gen
	return tea.Batch(m.do(ctx, "measure", func(ctx context.Context) tea.Msg {
		return measuredMsg{gen, measurer.Measure(ctx, r)}
	}), m.klTick())
}

// stopMeasuring ends what runs. Its answer still comes, and is of no interest.
func (m *Model) stopMeasuring() {
	k, w := &m.kl, &m.scene.KL
	if k.stop == nil {
		return
	}
	k.stop()
	k.stop = nil
	k.gen++
	w.Running, w.Paused = false, false
	m.scene.Touch()
}

// measureEnded takes in the end of a measurement.
func (m *Model) measureEnded(d measuredMsg) tea.Cmd {
	w := &m.scene.KL
	if d.gen != m.kl.gen || m.kl.stop == nil {
		return nil
	}
	did := m.kl.progress.Load()
	m.stopMeasuring()
	if d.err == nil && did != nil && did.Stage == "opening" { // and nothing after that
		m.say("all of that is measured already: c chooses other candidates and corpora")
	}
	if d.err != nil && !errors.Is(d.err, context.Canceled) {
		w.Err = d.err.Error()
		if m.screen != ScreenKL {
			m.fail(d.err)
		}
	}
	m.reviseQuit()
	return nil
}

// klTick looks how far a measurement is and again after a while. One is in flight.
func (m *Model) klTick() tea.Cmd {
	k, w := &m.kl, &m.scene.KL
	if k.ticking || !w.Running || m.o.handFed {
		return nil
	}
	if p := k.progress.Load(); p != nil && *p != w.Progress {
		w.Progress = *p
		m.scene.Touch()
	}
	k.ticking = true
	return m.do(m.src.ctx, "measure", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(klTickEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return klTickMsg{}
	})
}

// hold lets a person pause what runs outside the loop.
type hold struct {
	mu   sync.Mutex
	held chan struct{} // closed when it goes on; nil while nothing is held
}

// set holds, or lets go on.
func (h *hold) set(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case held && h.held == nil:
		h.held = make(chan struct{})
	case !held && h.held != nil:
		close(h.held)
		h.held = nil
	}
}

// wait returns when nothing is held, or with the error of ctx.
func (h *hold) wait(ctx context.Context) error {
	h.mu.Lock()
	held := h.held
	h.mu.Unlock()
	if held == nil {
		return ctx.Err()
	}
	select {
	case <-held:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ownsPause says that space and X are of the measurement: on its screen, and
// everywhere while no run is going.
func (m *Model) ownsPause() bool {
	if !m.scene.KL.Running {
		return false
	}
	switch m.scene.State.Progress.State {
	case sessions.RunRunning, sessions.RunPaused:
		return m.screen == ScreenKL || m.src.runner == nil
	}
	return true
}

// holdMeasuring pauses a measurement or lets it go on.
func (m *Model) holdMeasuring() {
	w := &m.scene.KL
	w.Paused = !w.Paused
	m.kl.hold.set(w.Paused)
	m.scene.Touch()
}

// askStopMeasuring asks whether to end a measurement.
func (m *Model) askStopMeasuring() {
	gen := m.kl.gen
	c := newConfirm("End the measurement?", []string{
		"The chunks that are scored stay in the session and can be looked at.",
		"R goes on with the others.",
	}, "end the measurement", func(m *Model) tea.Cmd {
		if m.kl.gen == gen {
			m.kl.stop()
			m.say("the measurement ends")
		}
		return nil
	})
	m.open(c)
}

// klStatus says on the first line how far a measurement is, in at most w cells.
func (m *Model) klStatus(w int) string {
	t, k := m.scene.Theme, &m.scene.KL
	g := k.Progress
	mark, style := "▶ KL", t.Accent
	if k.Paused {
		mark, style = "‖ KL paused", t.Warn
	}
	y, ours := m.yard(), false
	if ys := m.scene.State.Yards; k.Runs >= 0 && k.Runs < len(ys) { // which need not be the one that is shown
		y, ours = ys[k.Runs], true
	}
	if y != nil && !k.Paused {
		switch {
		case g.Stage == "reference":
			mark += " reference"
		case g.Party >= 0 && g.Party < len(y.Setup.Candidates) && y.Setup.Candidates[g.Party].Floor:
			mark += " floor"
		case g.Party >= 0 && g.Party < len(y.Setup.Candidates):
			mark += " " + views.Clean(y.Setup.Candidates[g.Party].Label)
		}
	}
	var parts []string
	if y != nil && (ours || y.End == nil) && g.Of > 0 { // of which an earlier measurement may have done some
		parts = append(parts, fmt.Sprintf("%d/%d chunks", len(y.Chunks), chunksOf(y.Setup)))
	} else {
		parts = append(parts, views.KLStage(g.Stage))
	}
	if g.TokensPerSec > 0 && !k.Paused {
		parts = append(parts, views.Thousands(int64(math.Round(g.TokensPerSec)))+" tok/s")
	}
	if g.ETASeconds > 0 && !k.Paused {
		parts = append(parts, "ETA "+minutes(int64(g.ETASeconds)))
	}
	for len(parts) > 1 && views.Width(mark)+2+views.Width(strings.Join(parts, "  ")) > w {
		parts = parts[:len(parts)-1]
	}
	return views.Truncate(style.Render(mark)+"  "+t.Text.Render(strings.Join(parts, "  ")), w)
}

// klEnded says on the first line how a measurement ended, in a session that has
// nothing else.
func (m *Model) klEnded(y *sessions.Yard, w int) string {
	t := m.scene.Theme
	mark := t.Warn.Render("■ KL " + string(y.End.State))
	if y.End.State == sessions.RunFinished {
		mark = t.Good.Render("✓ KL finished")
	}
	return views.Truncate(mark+"  "+t.Text.Render(fmt.Sprintf("%d/%d chunks", len(y.Chunks), chunksOf(y.Setup))), w)
}

// chunksOf is how many chunks a measurement scores.
func chunksOf(s *yardstick.Setup) int {
	n := 0
	for i := range s.Corpora {
		n += len(s.Corpora[i].IDs)
	}
	return n
}
