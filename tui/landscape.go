package tui

import (
	"context"
	"fmt"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
	"quantscope/views"
)

// landscaping is what the Landscape screen has asked for. Figures are copied out
// of the state in the loop, a piece a message; everything else is done outside
// of it, one analysis and one answer to a budget at a time. What comes back for
// another source or an older table is dropped, except that a solver serves until
// there is a newer one.
type landscaping struct {
	src     *source
	gen     uint64           // of the table; counts up
	table   *landscape.Table // nil until the first is made
	stamp   uint64           // of the figures in it, or that are being copied
	copying bool             // pieces are taken
	made    time.Time        // when copying began last
	waiting bool             // a timer runs until the next copy may begin
	working bool             // an analysis is under way

	analysed []bool    // variants of the table
	priced   priceWant // what the prices are of
	prepared bool      // the solver is of the table, or there is none

	by      landscape.Granularity // of the solver
	solver  *landscape.Solver     // the one number of
	of      uint64
	arms    []string // of its table
	solving bool
	asked   int64  // the budget that was asked for last,
	askedOf uint64 // and which solver was asked
}

// priceWant names a pricing.
type priceWant struct {
	gen           uint64
	base, protect int
	by            landscape.Granularity
}

// landscapeEvery is how often the figures of a run are analysed anew.
const landscapeEvery = time.Second

// Settings of what is random, so that the same session shows the same figures.
const (
	landscapeSeed    = 1
	landscapeRepeats = 20
)

func (m *Model) landPane() *views.Landscape { return m.panes[PaneLandscape].(*views.Landscape) }

// fetchLandscape asks for what the Landscape screen shows and does not have.
func (m *Model) fetchLandscape() tea.Cmd {
	l, pane := &m.land, m.landPane()
	if l.src != m.src {
		*l = landscaping{src: m.src, gen: l.gen + 1}
	}
	if m.screen != ScreenLandscape {
		return nil
	}
	next := m.analyse()
	if next == nil { // a run must not keep what comes last from being computed
		next = m.copyFigures()
	}
	cmd := tea.Batch(next, m.solve())
	pane.SetBusy(l.copying || l.working)
	return cmd
}

// copyFigures takes the next piece of the figures when they have changed and it
// is time to.
func (m *Model) copyFigures() tea.Cmd {
	l, pane := &m.land, m.landPane()
	stamp := pane.Stamp()
	if l.copying || l.working || l.table != nil && stamp == l.stamp || len(m.scene.State.Variants) == 0 || len(m.scene.State.Tensors) == 0 {
		return nil
	}
	if wait := landscapeEvery - m.o.Now().Sub(l.made); wait > 0 && m.landMoving() {
		return m.landTimer(wait)
	}
	l.copying, l.made, l.stamp = true, m.o.Now(), stamp
	return m.nextPiece()
}

// landMoving says whether more figures come in all the time.
func (m *Model) landMoving() bool { return m.scene.State.Progress.State == sessions.RunRunning }

// landTimer asks again after a while. One is in flight.
func (m *Model) landTimer(wait time.Duration) tea.Cmd {
	l := &m.land
	if l.waiting || m.o.handFed {
		return nil
	}
	l.waiting = true
	return m.do(m.src.ctx, "landscape clock", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return landTimeMsg{}
	})
}

// landTimeMsg says that figures may be copied again.
type landTimeMsg struct{}

func (landTimeMsg) apply(m *Model) tea.Cmd {
	m.land.waiting = false
	return nil
}

// landPieceMsg asks for the next piece.
type landPieceMsg struct{ src *source }

func (p landPieceMsg) apply(m *Model) tea.Cmd {
	if p.src != m.land.src || p.src != m.src {
		return nil
	}
	return m.nextPiece()
}

// nextPiece copies one piece and asks for the next one, or sets them together
// where all are there.
func (m *Model) nextPiece() tea.Cmd {
	l, pane := &m.land, m.landPane()
	if pane.TakePiece() {
		src := l.src
		return m.do(src.ctx, "figures", func(context.Context) tea.Msg { return landPieceMsg{src} })
	}
	l.copying = false
	join := pane.Table()
	if join == nil {
		return nil
	}
	l.stamp = pane.Stamp()
	l.working = true
	src := l.src
	return m.do(src.ctx, "figures", func(context.Context) tea.Msg { return landTableMsg{src: src, table: join()} })
}

// landTableMsg is a table that was set together.
type landTableMsg struct {
	src   *source
	table *landscape.Table
}

func (t landTableMsg) apply(m *Model) tea.Cmd {
	l := &m.land
	if t.src != l.src {
		return nil
	}
	l.working = false
	l.gen++
	l.table = t.table
	l.analysed = make([]bool, len(t.table.Arms))
	l.prepared = false
	l.priced = priceWant{}
	return nil
}

// analyse starts the next analysis of the table: the report of the shown variant
// first, then what budgets and prices need, then the other variants.
func (m *Model) analyse() tea.Cmd {
	l, pane := &m.land, m.landPane()
	if l.table == nil || l.working || l.copying {
		return nil
	}
	variants := len(l.table.Arms) - 1
	next := -1
	if v := m.scene.Variant; v >= 0 && v < variants && !l.analysed[v] {
		next = v
	}
	want := priceWant{l.gen, m.scene.Variant, pane.Protect(), pane.Granularity()}
	switch {
	case next >= 0:
	case !l.prepared || l.by != pane.Granularity():
		return m.prepareSolver()
	case want != l.priced && want.base >= 0 && want.base < variants && want.protect <= variants:
		return m.price(want)
	default:
		for v := range variants {
			if !l.analysed[v] {
				next = v
				break
			}
		}
	}
	if next < 0 {
		return nil
	}
	l.working = true
	src, gen, t := l.src, l.gen, l.table
	return m.do(src.ctx, "landscape", func(ctx context.Context) tea.Msg {
		r, err := landscape.Analyze(ctx, t, next)
		return landReportMsg{landAnswer{src, gen, err}, next, r}
	})
}

// landAnswer is what all answers about a table have.
type landAnswer struct {
	src *source
	gen uint64
	err error
}

// take says whether the answer is of what is open, and ends the analysis.
func (a *landAnswer) take(m *Model) bool {
	if a.src != m.land.src {
		return false
	}
	m.land.working = false
	return a.gen == m.land.gen
}

func (a *landAnswer) why() string {
	if a.err == nil {
		return ""
	}
	return a.err.Error()
}

// landReportMsg is the report of a variant.
type landReportMsg struct {
	landAnswer
	variant int
	report  *landscape.Report
}

func (r landReportMsg) apply(m *Model) tea.Cmd {
	if !r.take(m) {
		return nil
	}
	l := &m.land
	l.analysed[r.variant] = true
	m.landPane().SetReport(r.variant, r.report, r.why())
	return nil
}

// prepareSolver makes the solver of the table.
func (m *Model) prepareSolver() tea.Cmd {
	l := &m.land
	l.working = true
	src, gen, t, by := l.src, l.gen, l.table, m.landPane().Granularity()
	return m.do(src.ctx, "solver", func(context.Context) tea.Msg {
		s, err := landscape.NewSolverWith(t, landscape.SolverOptions{By: by})
		return landSolverMsg{landAnswer{src, gen, err}, s, t, by}
	})
}

// landSolverMsg is a solver that is ready.
type landSolverMsg struct {
	landAnswer
	solver *landscape.Solver
	table  *landscape.Table
	by     landscape.Granularity
}

func (s landSolverMsg) apply(m *Model) tea.Cmd {
	if !s.take(m) {
		return nil
	}
	l := &m.land
	l.prepared, l.by = true, s.by
	if s.err != nil {
		l.solver = nil
		m.landPane().SetRange(0, 0, 0, s.why())
		return nil
	}
	least, most := s.solver.Range()
	if least == most {
		l.solver = nil
		m.landPane().SetRange(0, 0, 0, "there is one size only: nothing is measured yet, or nothing is smaller than the source")
		return nil
	}
	l.solver = s.solver
	l.of++
	l.arms = nil
	for i := range s.table.Arms {
		l.arms = append(l.arms, s.table.Arms[i].Name)
	}
	m.landPane().SetRange(least, most, s.solver.Elements(), "")
	return nil
}

// price follows exemption lists from the shown variant.
func (m *Model) price(want priceWant) tea.Cmd {
	l := &m.land
	l.working = true
	src, t := l.src, l.table
	return m.do(src.ctx, "prices", func(ctx context.Context) tea.Msg {
		p, err := landscape.Price(ctx, t, landscape.PriceOptions{Base: want.base, Protect: want.protect, By: want.by, Repeats: landscapeRepeats, Seed: landscapeSeed})
		return landPriceMsg{landAnswer{src, want.gen, err}, want, p}
	})
}

// landPriceMsg is a pricing.
type landPriceMsg struct {
	landAnswer
	want    priceWant
	pricing *landscape.Pricing
}

func (p landPriceMsg) apply(m *Model) tea.Cmd {
	if !p.take(m) {
		return nil
	}
	m.land.priced = p.want
	m.landPane().SetPricing(p.pricing, p.why())
	return nil
}

// solve asks for the answer to the budget, one request at a time: while the
// slider moves, only the budget where it stands when an answer comes in is asked
// for next.
func (m *Model) solve() tea.Cmd {
	l, pane := &m.land, m.landPane()
	budget, ok := pane.Budget()
	if !ok || l.solver == nil || l.solving || l.asked == budget && l.askedOf == l.of {
		return nil
	}
	l.solving, l.asked, l.askedOf = true, budget, l.of
	src, s, arms := l.src, l.solver, l.arms
	return m.do(src.ctx, "budget", func(context.Context) tea.Msg {
		a, err := s.Solve(budget)
		if err != nil {
			return landSolvedMsg{src: src, err: err}
		}
		controls := s.Controls(a, landscapeRepeats, landscapeSeed)
		verdict, beats := landscape.Beats(a, controls)
		return landSolvedMsg{src: src, answer: &views.LandscapeAnswer{
			Budget: budget, Assignment: a, Arms: arms, Controls: controls, Verdict: verdict, Beats: beats,
		}}
	})
}

// landSolvedMsg is an answer to a budget.
type landSolvedMsg struct {
	src    *source
	answer *views.LandscapeAnswer
	err    error
}

func (s landSolvedMsg) apply(m *Model) tea.Cmd {
	if s.src != m.land.src {
		return nil
	}
	m.land.solving = false
	why := ""
	if s.err != nil {
		why = fmt.Sprintf("the budget cannot be met: %v", s.err)
	}
	m.landPane().SetAnswer(s.answer, why)
	return nil
}
