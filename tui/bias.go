package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/bias"
	"quantscope/sessions"
	"quantscope/views"
)

// biasing is what the bias pane knows of a source and what is under way for it: one
// look at a time.
type biasing struct {
	src    *source
	chosen bool // the person chose which look is shown
	at     int  // the one that was shown last
	begun  int  // looks that the state had when one was begun; −1 where none was

	gen      uint64 // of looks
	stop     context.CancelFunc
	progress *atomic.Pointer[bias.Progress]
	hold     *hold
	ticking  bool
}

// biasedMsg ends a look.
type biasedMsg struct {
	gen uint64
	err error
}

func (d biasedMsg) apply(m *Model) tea.Cmd { return m.biasDone(d) }

// biasTickMsg asks to look how far a look is.
type biasTickMsg struct{}

func (biasTickMsg) apply(m *Model) tea.Cmd {
	m.bias.ticking = false
	return m.biasTick()
}

// fetchBias finds the looks of the source and does what the person asked for.
func (m *Model) fetchBias() tea.Cmd {
	k, w := &m.bias, &m.scene.Bias
	if k.src != m.src {
		m.stopBias()
		*k = biasing{src: m.src, at: -1, begun: -1, gen: k.gen}
		*w = views.BiasWork{At: -1, Runs: -1, Off: m.offBias()}
	}
	if m.first != nil {
		return nil
	}
	m.findBiases()
	ask := w.Ask
	w.Ask = views.BiasNothing
	switch {
	case ask == views.BiasNothing || w.Off != "" || w.Running:
	case m.busyWith() != "":
		m.say("%s", m.busyWith())
	case ask == views.BiasDialog:
		m.open(newBiasForm(m))
	default:
		return m.beginBias()
	}
	if plan := m.biasPlan(); m.focus == PaneBias && !slices.Equal(plan, w.Plan) {
		w.Plan = plan
		m.scene.Touch()
	}
	return nil
}

// offBias is why nothing can be looked at from a source; "" where it can.
func (m *Model) offBias() string {
	if m.src.player != nil {
		return "biases cannot be looked at in a replay: r leaves it"
	}
	if _, ok := m.src.feed.(sessions.Biaser); !ok {
		return "biases cannot be looked at from here"
	}
	return ""
}

// offBiasNow is why none can be begun now.
func (m *Model) offBiasNow() string {
	if why := m.offBias(); why != "" {
		return why
	}
	return m.busyWith()
}

// toggleBias shows the bias pane, or KL where it is shown.
func (m *Model) toggleBias() tea.Cmd {
	if m.screen == ScreenKL && m.focus == PaneBias {
		m.focus = PaneKL
		m.arrange()
		return nil
	}
	m.showBiasPane()
	return nil
}

// showBiasPane shows the bias pane of the KL screen.
func (m *Model) showBiasPane() {
	if m.screen != ScreenKL {
		m.show(ScreenKL)
	}
	m.focus = PaneBias
	m.arrange()
}

// findBiases keeps the look that is shown within those that there are: the newest
// unless the person chose.
func (m *Model) findBiases() {
	k, w, n := &m.bias, &m.scene.Bias, len(m.scene.State.Biases)
	if w.Running && w.Runs < 0 && n > k.begun { // it has been heard of
		w.Runs, k.chosen = n-1, false
	}
	if w.At != k.at {
		k.chosen = true
	}
	if !k.chosen || w.At >= n || w.At < 0 {
		w.At, k.chosen = n-1, false
	}
	if w.At != k.at {
		m.scene.Touch()
	}
	k.at = w.At
}

// biasRun is the look that is shown, nil where there is none.
func (m *Model) biasRun() *sessions.BiasRun {
	if at, bs := m.scene.Bias.At, m.scene.State.Biases; at >= 0 && at < len(bs) {
		return bs[at]
	}
	return nil
}

// beginBias begins what R stands for: the session's variants on the demo's corpora;
// where that does not say what to look at, the person is asked.
func (m *Model) beginBias() tea.Cmd {
	specs := m.variantSpecs()
	if len(specs) == 0 || !m.kl.planned.known() {
		m.open(newBiasForm(m))
		return nil
	}
	return m.startBias(sessions.BiasRequest{Candidates: specs})
}

// biasPlan says in sentences what R would look at.
func (m *Model) biasPlan() []string {
	specs := m.variantSpecs()
	switch {
	case len(specs) == 0:
		return []string{"The session has no variants: c names candidates, which may be variants made on the fly (code2+sym) or checkpoints."}
	case !m.kl.planned.known():
		return []string{"c names candidates and texts."}
	}
	text := specs[0]
	for _, s := range specs[1:] {
		text += ", " + s
	}
	return []string{fmt.Sprintf("R takes text through %s beside the checkpoint, layer by layer.", text)}
}

// startBias looks outside the loop; what is found comes through the feed.
func (m *Model) startBias(r sessions.BiasRequest) tea.Cmd {
	k, w := &m.bias, &m.scene.Bias
	biaser := m.src.feed.(sessions.Biaser) // else nothing is asked for
	ctx, stop := context.WithCancel(m.src.ctx)
	progress, hold := &atomic.Pointer[bias.Progress]{}, &hold{}
	k.gen++
	k.stop, k.progress, k.hold, k.chosen, k.begun = stop, progress, hold, false, len(m.scene.State.Biases)
	w.Running, w.Runs, w.Paused, w.Progress, w.Err = true, -1, false, bias.Progress{Candidate: -1, Layer: -1}, ""
	m.scene.Touch()
	gen := k.gen
	r.Progress = func(p bias.Progress) { progress.Store(&p) }
	r.Pause = hold.wait
	return tea.Batch(m.do(ctx, "bias", func(ctx context.Context) tea.Msg {
		return biasedMsg{gen, biaser.Bias(ctx, r)}
	}), m.biasTick())
}

// stopBias ends what runs. Its answer still comes, and is of no interest.
func (m *Model) stopBias() {
	k, w := &m.bias, &m.scene.Bias
	if k.stop == nil {
		return
	}
	k.stop()
	k.stop = nil
	k.gen++
	w.Running, w.Paused = false, false
	m.scene.Touch()
}

// biasDone takes in the end of a look.
func (m *Model) biasDone(d biasedMsg) tea.Cmd {
	w := &m.scene.Bias
	if d.gen != m.bias.gen || m.bias.stop == nil {
		return nil
	}
	m.stopBias()
	if d.err != nil && !errors.Is(d.err, context.Canceled) {
		w.Err = d.err.Error()
		if m.focus != PaneBias {
			m.fail(d.err)
		}
	}
	m.reviseQuit()
	return nil
}

// biasTick looks how far a look is and again after a while. One is in flight.
func (m *Model) biasTick() tea.Cmd {
	k, w := &m.bias, &m.scene.Bias
	if k.ticking || !w.Running || m.o.handFed {
		return nil
	}
	if p := k.progress.Load(); p != nil && *p != w.Progress {
		w.Progress = *p
		m.scene.Touch()
	}
	k.ticking = true
	return m.do(m.src.ctx, "bias", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(klTickEvery)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return biasTickMsg{}
	})
}

// biasOwnsPause says that space and X are of the look: on its pane, and everywhere
// while nothing else is going.
func (m *Model) biasOwnsPause() bool {
	if !m.scene.Bias.Running {
		return false
	}
	switch m.scene.State.Progress.State {
	case sessions.RunRunning, sessions.RunPaused:
		return m.screen == ScreenKL || m.src.runner == nil
	}
	return true
}

// holdBias pauses a look or lets it go on.
func (m *Model) holdBias() {
	w := &m.scene.Bias
	w.Paused = !w.Paused
	m.bias.hold.set(w.Paused)
	m.scene.Touch()
}

// askStopBias asks whether to end a look.
func (m *Model) askStopBias() {
	gen := m.bias.gen
	m.open(newConfirm("End the look at biases?", []string{
		"What was found stays in the session and can be looked at.",
		"The same again is a new run.",
	}, "end it", func(m *Model) tea.Cmd {
		if m.bias.gen == gen && m.bias.stop != nil {
			m.bias.stop()
			m.say("the look at biases ends")
		}
		return nil
	}))
}

// biasStatus says on the first line how far a look is, in at most w cells.
func (m *Model) biasStatus(w int) string {
	t, k := m.scene.Theme, &m.scene.Bias
	mark, style := "▶ biases", t.Accent
	if k.Paused {
		mark, style = "‖ biases paused", t.Warn
	}
	p := k.Progress
	parts := []string{views.BiasStage(p.Stage)}
	if p.Of > 0 {
		parts = append(parts, fmt.Sprintf("%s/%s", views.Thousands(p.Done), views.Thousands(p.Of)))
	}
	for len(parts) > 1 && views.Width(mark)+2+views.Width(joined(parts)) > w {
		parts = parts[:len(parts)-1]
	}
	return views.Truncate(style.Render(mark)+"  "+t.Text.Render(joined(parts)), w)
}

// biasEnded says on the first line how a look ended, in a session that has nothing else.
func (m *Model) biasEnded(b *sessions.BiasRun, w int) string {
	t := m.scene.Theme
	mark := t.Warn.Render("■ biases " + views.Clean(b.End.State))
	if b.End.State == string(sessions.RunFinished) {
		mark = t.Good.Render("✓ biases finished")
	}
	return views.Truncate(mark+"  "+t.Text.Render(plural(len(b.Rows), "row")), w)
}
