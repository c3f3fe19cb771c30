package tui

import (
	"context"
	"strings"
	"sync/atomic"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/sessions"
	"quantscope/views"
)

// opening is what the program waits for before it has anything to show.
type opening struct {
	name string
	open func() (sessions.Feed, error)
	keys []tea.KeyMsg // pressed meanwhile
	// fresh is what was opened and has not been taken up yet, so that a program
	// that ends in between closes it.
	fresh atomic.Pointer[source]
}

// mostKeys bounds the keys that are kept while something is opened.
const mostKeys = 64

// newOpening is New for a feed that is opened while a frame is on the screen.
func newOpening(name string, open func() (sessions.Feed, error), o Options) *Model {
	m := New(sessions.NewStatic(&sessions.State{}), o)
	m.first = &opening{name: name, open: open}
	return m
}

// openFirst opens what the program is to show.
func (m *Model) openFirst() tea.Cmd {
	first, root := m.first, m.ctx
	if first == nil {
		return nil
	}
	return m.do(m.ctx, "open", func(context.Context) tea.Msg {
		feed, err := first.open()
		if err != nil {
			return fatalMsg{err}
		}
		src := newSource(root, feed, feed.Snapshot())
		src.owned = true
		first.fresh.Store(src)
		return firstMsg{}
	})
}

// firstMsg says that what the program is to show has been opened.
type firstMsg struct{}

// apply shows it and does what was asked for meanwhile.
func (firstMsg) apply(m *Model) tea.Cmd {
	first := m.first
	m.first = nil
	src := first.fresh.Swap(nil)
	m.lookAtOther(src.state)
	m.startAtOther(src.state)
	cmds := []tea.Cmd{m.closeSource(m.src), m.swap(src), m.pump(src)}
	for _, k := range first.keys {
		m.remember()
		cmds = append(cmds, m.handleKey(k))
	}
	return tea.Batch(cmds...)
}

// lookAtOther chooses, of a state that two sessions were joined to, the second
// one's first variant, so that it stands against the first one's.
func (m *Model) lookAtOther(s *sessions.State) {
	for i := range s.Variants {
		if v := &s.Variants[i]; v.From != "" {
			m.look.variant = choice{v.Name, -1}
			return
		}
	}
}

// startAtOther begins at the measurements or the gates of a session that has nothing
// else, unless another screen is asked for.
func (m *Model) startAtOther(s *sessions.State) {
	switch {
	case m.o.Screen != "" || len(s.Variants) > 0:
	case len(s.Yards) > 0:
		m.show(ScreenKL)
	case len(s.Gates) > 0:
		m.show(ScreenGates)
	case len(s.Tiers) > 0:
		m.showTierMap(true)
	case len(s.Biases) > 0:
		m.showBiasPane()
	}
}

// keep keeps a key for later. The first one may also end the program.
func (f *opening) keep(k tea.KeyMsg) tea.Cmd {
	if key := k.String(); len(f.keys) == 0 && (key == "q" || key == "esc") {
		return tea.Quit
	}
	if len(f.keys) < mostKeys {
		f.keys = append(f.keys, k)
	}
	return nil
}

// drawOpening is the frame while nothing is open yet.
func (m *Model) drawOpening() string {
	t := m.scene.Theme
	words := views.TruncateMiddle("opening "+views.Clean(m.first.name)+" …", max(m.w-2, 0))
	lines := make([]string, m.h)
	lines[m.h/2] = strings.Repeat(" ", (m.w-views.Width(words))/2) + t.Text.Render(words)
	if !m.layout.Small {
		shorter := 0
		if m.w < twoColumns {
			shorter = 2
		}
		tabs, _ := m.tabs(shorter)
		lines[0], lines[1] = " "+t.Title.Render("quantscope"), tabs
		lines[m.h-1] = views.FitRight(t.Accent.Render("q")+" "+t.Dim.Render("quit")+" ", m.w)
	}
	return strings.Join(lines, "\n")
}
