package tui

import (
	"slices"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// The reasons for which the root's actions do nothing now.

func (m *Model) offFocus() string {
	if len(m.screen.Panes()) < 2 {
		return "this screen has one pane"
	}
	return ""
}

func (m *Model) offDrill() string {
	switch {
	case m.screen == ScreenTensor:
		return "the tensor is open already: esc goes back"
	case m.scene.Cursor < 0:
		return "no tensor is under the cursor"
	}
	return ""
}

func (m *Model) offEscape() string {
	if len(m.back) == 0 && m.scene.Filter.Text == "" && m.home == nil {
		return "this is the top: q quits"
	}
	return ""
}

func (m *Model) offOneVariant() string {
	if len(m.scene.State.Variants) < 2 {
		return "the session has no other variant: v adds one to a live run"
	}
	return ""
}

func (m *Model) offProjection() string {
	if len(m.projections) < 2 {
		return "the session has one projection"
	}
	return ""
}

// escape leaves the innermost of what can be left.
func (m *Model) escape() tea.Cmd {
	switch {
	case len(m.back) > 0:
		m.goBack()
	case m.scene.Filter.Text != "":
		m.clearFilter()
	case m.home != nil:
		return m.leaveReplay()
	}
	return nil
}

func (m *Model) cycleVariant() tea.Cmd {
	m.showVariant((m.scene.Variant + 1) % len(m.scene.State.Variants))
	m.sayVariant()
	return nil
}

// cycleBaseline goes to the next variant that is not the one shown.
func (m *Model) cycleBaseline() tea.Cmd {
	n := len(m.scene.State.Variants)
	next := (m.scene.Baseline + 1) % n
	if next == m.scene.Variant {
		next = (next + 1) % n
	}
	m.compareWith(next)
	m.sayVariant()
	return nil
}

func (m *Model) sayVariant() {
	v := m.scene.State.Variants
	m.say("showing %s, compared with %s", views.Clean(v[m.scene.Variant].Name), views.Clean(v[m.scene.Baseline].Name))
}

func (m *Model) cycleMetric() tea.Cmd {
	all := views.Metrics()
	i := slices.IndexFunc(all, func(x views.Metric) bool { return x.Name == m.scene.Metric.Name })
	next := (i + 1) % len(all)
	for m.scene.MetricOff(all[next]) != "" { // those of records are never off
		next = (next + 1) % len(all)
	}
	m.setMetric(all[next])
	return nil
}

func (m *Model) setMetric(x views.Metric) {
	m.scene.SetMetric(x)
	m.say("%s: %s", x.Name, x.Help)
}

// projectionsOf lists the projections of tensors in the order in which the
// checkpoint stores them.
func projectionsOf(tensors []sessions.Tensor) []string {
	var out []string
	for i := range tensors {
		if p := tensors[i].Role.Projection; p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// cycleProjection goes from all projections to each of them and back.
func (m *Model) cycleProjection() tea.Cmd {
	all := append([]string{""}, m.projections...)
	m.setProjection(all[(slices.Index(all, m.scene.Projection)+1)%len(all)])
	return nil
}

func (m *Model) setProjection(p string) {
	sc := m.scene
	sc.SetProjection(p)
	m.followShown()
	switch {
	case p == "":
		m.say("all projections: a cell shows the worst of them")
	case sc.Cursor >= 0 && !sc.Shown(sc.Cursor):
		m.say("esc clears the filter, which hides all of projection %s", views.Clean(p))
	default:
		m.say("projection %s", views.Clean(p))
	}
}

func (m *Model) toggleLock() tea.Cmd {
	m.scene.SetLockScale(!m.scene.LockScale)
	if m.scene.LockScale {
		m.say("one colour scale over all variants")
	} else {
		m.say("the colour scale follows what is shown")
	}
	return nil
}

func (m *Model) cycleTheme() tea.Cmd {
	names := views.ThemeNames()
	m.setTheme(names[(slices.Index(names, m.scene.Theme.Name)+1)%len(names)])
	m.say("theme %s", m.scene.Theme.Name)
	return nil
}

// askQuit quits, after a question when a run or an export is under way.
func (m *Model) askQuit() tea.Cmd {
	quit := func(*Model) tea.Cmd { return tea.Quit }
	if !m.running() {
		if m.askQuitBackground(quit) {
			return nil
		}
		if m.exporting > 0 {
			c := newConfirm("Quit while an export is written?", []string{"The file is left out: it gets its name only when it is whole."}, "quit", quit)
			c.over = func(m *Model) bool { return m.exporting == 0 }
			m.open(c)
			return nil
		}
		return tea.Quit
	}
	c := newConfirm("Quit while the run is going?", []string{
		m.endsWith("stops"),
		"What was recorded stays in the session; opening the checkpoint with",
		"--session " + m.src.state.Meta.Path + " goes on from there.",
	}, "quit", quit)
	c.over = func(m *Model) bool { return !m.running() }
	m.open(c)
	return nil
}

// reviseQuit asks anew whether to quit when what was asked about has ended. The
// question stays: enter, which is perhaps on its way, must not open a tensor.
func (m *Model) reviseQuit() {
	c, ok := m.dialog.(*confirm)
	if !ok || c.over == nil || !c.over(m) {
		return
	}
	m.closeDialog()
	if m.exporting > 0 {
		m.askQuit()
		return
	}
	m.open(newConfirm("Quit?", []string{"What was under way has ended meanwhile."}, "quit", func(*Model) tea.Cmd { return tea.Quit }))
}

// interrupt quits at once. What was recorded stays; the exit status says that
// a run was cut short.
func (m *Model) interrupt() tea.Cmd {
	m.interrupted = m.running() || m.busyWith() != ""
	return tea.Quit
}
