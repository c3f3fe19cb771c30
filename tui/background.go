package tui

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// Beside the run of an engine, one thing at a time is under way in the background: a
// measurement, gates, a hot tier, or a look at biases.

// busyWith says what is under way in the background; "" where nothing is.
func (m *Model) busyWith() string {
	switch {
	case m.scene.KL.Running:
		return "KL is being measured: X on its screen ends it"
	case m.scene.Gates.Running:
		return "gates are being run: X on their screen ends them"
	case m.scene.Tier.Running:
		return "a hot tier is being run: X on the map ends it"
	case m.scene.Bias.Running:
		return "biases are being looked at: X on screen 5 ends it"
	}
	return ""
}

// ownedPause says that space and X are of what runs in the background.
func (m *Model) ownedPause() bool {
	return m.gatesOwnPause() || m.ownsPause() || m.tierOwnsPause() || m.biasOwnsPause()
}

// holdBackground pauses what runs in the background or lets it go on.
func (m *Model) holdBackground() {
	switch {
	case m.gatesOwnPause():
		m.holdGates()
	case m.ownsPause():
		m.holdMeasuring()
	case m.tierOwnsPause():
		m.holdTier()
	case m.biasOwnsPause():
		m.holdBias()
	}
}

// heldBackground says that what space is of is paused.
func (m *Model) heldBackground() bool {
	switch {
	case m.gatesOwnPause():
		return m.scene.Gates.Paused
	case m.ownsPause():
		return m.scene.KL.Paused
	case m.tierOwnsPause():
		return m.scene.Tier.Paused
	}
	return m.scene.Bias.Paused
}

// askStopBackground asks whether to end it.
func (m *Model) askStopBackground() {
	switch {
	case m.gatesOwnPause():
		m.askStopGates()
	case m.ownsPause():
		m.askStopMeasuring()
	case m.tierOwnsPause():
		m.askStopTier()
	case m.biasOwnsPause():
		m.askStopBias()
	}
}

// askQuitBackground asks whether to quit while something runs in the background; false
// where nothing does.
func (m *Model) askQuitBackground(quit func(*Model) tea.Cmd) bool {
	ask := func(title string, going func(*Model) bool, lines ...string) bool {
		c := newConfirm(title, lines, "quit", quit)
		c.over = func(m *Model) bool { return !going(m) }
		m.open(c)
		return true
	}
	switch {
	case m.scene.KL.Running:
		return ask("Quit while KL is being measured?", func(m *Model) bool { return m.scene.KL.Running },
			"The chunks that are scored stay in the session; R on this screen goes",
			"on with the others when it is opened again.")
	case m.scene.Gates.Running:
		return ask("Quit while gates are run?", func(m *Model) bool { return m.scene.Gates.Running },
			"The answers that are there stay in the session; R on this screen goes",
			"on with the others when it is opened again.")
	case m.scene.Tier.Running:
		return ask("Quit while a hot tier is run?", func(m *Model) bool { return m.scene.Tier.Running },
			"The windows that are there stay in the session; the same again is a new run.")
	case m.scene.Bias.Running:
		return ask("Quit while biases are looked at?", func(m *Model) bool { return m.scene.Bias.Running },
			"What was found stays in the session; the same again is a new run.")
	}
	return false
}

// offSpeed is why a speed cannot be changed: that of a replay, or of a hot tier that is
// being run.
func (m *Model) offSpeed() string {
	if m.src.player == nil && !m.scene.Tier.Running {
		return "this key works in a replay, which r starts, and while a hot tier is run"
	}
	return ""
}

// changePace makes a replay or a hot tier slower or faster.
func (m *Model) changePace(by int) tea.Cmd {
	if m.src.player != nil {
		if by < 0 {
			return m.changeSpeed(0.5)
		}
		return m.changeSpeed(2)
	}
	if rate := m.tier.pace.change(by); rate > 0 {
		m.say("%s", fmt.Sprintf("the hot tier is run at %g windows a second", rate))
	} else {
		m.say("the hot tier is run as fast as it goes")
	}
	m.scene.Touch()
	return nil
}

// joined sets parts of a status apart.
func joined(parts []string) string { return strings.Join(parts, "  ") }
