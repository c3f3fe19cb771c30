package tui

import (
	"context"
	"fmt"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/sessions"
	"quantscope/views"
)

// Model is the root of the program: what is open, where the person looks, and
// the panes. Everything in it belongs to the loop.
type Model struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	tasks  *tasks
	crash  chan error // holds a panic of View until the loop hears of it

	first     *opening // nil once something is open
	src       *source
	home      *source // what was open before a replay was started from within
	lane      lane
	pos       sessions.Position // of a replay
	ticking   bool
	wish      sessions.RunState // paused or running: asked for, and not heard of yet
	openGen   uint64
	opening   bool
	exporting int

	scene   *views.Scene
	panes   [paneCount]views.Pane
	profile termenv.Profile
	dark    bool

	audit       auditing
	kl          measuring
	gate        gating
	tier        tiering
	bias        biasing
	look        looking
	projections []string // of the session's tensors
	walked      int      // the tensor that the walk over the worst ones went to last

	w, h    int
	layout  Layout
	screen  Screen
	focus   PaneID
	back    []place
	dialog  dialog
	editing *filterLine // the filter is being typed
	note    note
	click   lastClick

	asked     detailWant
	fetching  bool
	fetchGen  uint64
	rowsGen   uint64
	rowsStop  context.CancelFunc
	filterGen uint64
	filtering bool    // a filter is being made
	nextMatch *string // the text of the filter that is made after it
	filterErr string

	land landscaping

	interrupted bool
	err         error

	frame string
	stale bool // the frame shows something that has changed

	ignored bool // the key that is handled changed nothing
}

// place is where esc goes back to.
type place struct {
	screen Screen
	focus  PaneID
}

// New makes the model of a program that shows a feed. It takes the feed's
// snapshot and does no other IO.
func New(feed sessions.Feed, o Options) *Model {
	o = o.withDefaults()
	m := &Model{
		o: o, tasks: newTasks(), crash: make(chan error, 1),
		profile: *o.Profile, dark: *o.Dark,
		screen: ScreenMap, walked: -1, stale: true,
	}
	m.ctx, m.cancel = context.WithCancel(o.ctx)
	m.src = newSource(m.ctx, feed, feed.Snapshot())
	m.scene = &views.Scene{State: m.src.state, Mode: feed.Mode(), Metric: views.Metrics()[0], Cursor: -1}
	m.setTheme(o.Theme)
	m.scene.Baseline = 0
	m.scene.Variant = 0
	m.panes = [paneCount]views.Pane{
		PaneMap: views.NewMap(m.scene), PaneDetail: views.NewDetail(m.scene), PaneWorst: views.NewWorst(m.scene),
		PaneClipping: views.NewClipping(m.scene), PaneCompare: views.NewCompare(m.scene),
		PaneLandscape: views.NewLandscape(m.scene), PaneAudit: views.NewAudit(m.scene),
		PaneKL: views.NewKL(m.scene), PaneBias: views.NewBias(m.scene), PaneGates: views.NewGates(m.scene),
		PaneLog: views.NewLog(m.scene), PaneTensor: views.NewTensor(m.scene),
	}
	if s, _, ok := ScreenByName(o.Screen); ok {
		m.screen = s
	}
	m.panes[PaneMap], m.panes[PaneDetail], m.panes[PaneWorst] = views.WithTier(m.scene, m.panes[PaneMap], m.panes[PaneDetail], m.panes[PaneWorst])
	m.focus = m.screen.Panes()[0]
	m.startAtOther(m.src.state)
	m.takeUp(sessions.Batch{Reset: m.src.state, Progress: m.src.state.Progress})
	return m
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(m.openFirst(), m.pump(m.src), m.watch(), m.askBackground(), m.tick(), m.settle())
}

// watch hands the loop what it cannot see: a panic of View, and the end of the
// context that the program was given.
func (m *Model) watch() tea.Cmd {
	if m.o.handFed {
		return nil
	}
	crash, given := m.crash, m.o.ctx
	return m.do(m.ctx, "watch", func(ctx context.Context) tea.Msg {
		select {
		case err := <-crash:
			return fatalMsg{err}
		case <-ctx.Done():
			if given.Err() != nil {
				return tea.Quit()
			}
			return nil
		}
	})
}

// setTheme makes the theme of that name for the terminal's colours.
func (m *Model) setTheme(name string) {
	t, err := views.NewTheme(name, m.profile, m.dark)
	if err != nil {
		m.fail(err)
		if m.scene.Theme != nil {
			return
		}
		t, _ = views.NewTheme("", m.profile, m.dark)
	}
	m.scene.Theme = t
	m.scene.Touch()
	m.stale = true
}

// resize fits everything to the screen. A terminal that reports no size at all
// does not know it; then the smallest common one is taken.
func (m *Model) resize(w, h int) {
	if w <= 0 && h <= 0 {
		w, h = 80, 24
	}
	m.w, m.h = w, h
	m.arrange()
}

// arrange places the panes and tells them their sizes; a pane that is not shown
// has none, so that it holds no picture.
func (m *Model) arrange() {
	m.layout = Arrange(m.w, m.h, m.screen, m.focus)
	var shown [paneCount]bool
	for _, p := range m.layout.Panes {
		shown[p.ID] = true
		m.panes[p.ID].SetSize(p.Body.W, p.Body.H)
	}
	for id, p := range m.panes {
		if !shown[id] {
			p.SetSize(0, 0)
		}
	}
}

// show opens a screen. The places that were drilled down from are forgotten.
func (m *Model) show(s Screen) {
	if why := s.info().absent; why != "" {
		m.say("%s: %s", s, why)
		return
	}
	m.back = nil
	m.giveBack()
	m.screen, m.focus = s, s.Panes()[0]
	if st := m.scene.State; s == ScreenKL && st != nil && len(st.Yards) == 0 && len(st.Biases) > 0 {
		m.focus = PaneBias // there is nothing in the other one
	}
	if s == ScreenCompare {
		m.lend()
	}
	m.arrange()
}

// drill opens a screen on top of the present one; esc leads back.
func (m *Model) drill(s Screen) {
	if m.screen == s {
		return
	}
	m.back = append(m.back, place{m.screen, m.focus})
	m.screen, m.focus = s, s.Panes()[0]
	m.arrange()
}

// goBack leaves a drilled-down screen.
func (m *Model) goBack() {
	last := m.back[len(m.back)-1]
	m.back = m.back[:len(m.back)-1]
	m.screen, m.focus = last.screen, last.focus
	m.arrange()
}

// moveFocus gives the focus to the next or previous pane of the screen.
func (m *Model) moveFocus(by int) {
	panes := m.screen.Panes()
	for i, id := range panes {
		if id == m.focus {
			m.focus = panes[(i+by+len(panes))%len(panes)]
			m.arrange()
			return
		}
	}
}

// running says whether a live run is under way.
func (m *Model) running() bool {
	for _, s := range []*source{m.src, m.home} {
		if s != nil && s.runner != nil {
			switch s.state.Progress.State {
			case sessions.RunRunning, sessions.RunPaused:
				return true
			}
		}
	}
	return false
}

// paused says whether the run pauses, or was asked to and has not answered yet.
func (m *Model) paused() bool {
	if m.wish != "" {
		return m.wish == sessions.RunPaused
	}
	return m.scene.State.Progress.State == sessions.RunPaused
}

// note is the line that answers the last key.
type note struct {
	text string
	bad  bool
}

// say puts a line above the last one until the next key.
func (m *Model) say(format string, args ...any) {
	m.note = note{text: fmt.Sprintf(format, args...)}
	m.stale = true
}

// fail says what went wrong.
func (m *Model) fail(err error) {
	m.note = note{text: err.Error(), bad: true}
	m.stale = true
}

// lastClick tells a double click from two clicks.
type lastClick struct {
	x, y int
	at   time.Time
}
