package tui

import (
	"context"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/gates"
	"quantscope/sessions"
)

// gateReports computes what is said of the answers of a run, outside the loop, one
// analysis at a time and no more than one a second while answers come.
type gateReports struct {
	have, want gateReportOf // what the report that is shown is of, and what was asked for
	working    bool
	waiting    bool // a timer runs until the next may begin
	made       time.Time
}

// gateReportOf is what an analysis depends on. Answers that are asked again leave
// their number as it is, and the last one is then another.
type gateReportOf struct {
	setup   *gates.Setup
	results int
	last    *gates.Result
	meters  int
	meter   *gates.Meter
	end     *gates.End
}

func gateReportOfRun(g *sessions.GateRun) gateReportOf {
	of := gateReportOf{setup: g.Setup, results: len(g.Results), meters: len(g.Meters), end: g.End}
	if n := len(g.Results); n > 0 {
		of.last = g.Results[n-1]
	}
	if n := len(g.Meters); n > 0 {
		of.meter = g.Meters[n-1]
	}
	return of
}

// gateReportEvery is how often the answers of a run that goes on are analysed.
const gateReportEvery = time.Second

// fetchGatesReport computes the report of the run that is shown.
func (m *Model) fetchGatesReport() tea.Cmd {
	k, w, g := &m.gate.reports, &m.scene.Gates, m.gateRun()
	if w.Report != nil && (g == nil || w.Report.Setup != g.Setup) {
		w.Report = nil
		k.have, k.want = gateReportOf{}, gateReportOf{}
		m.scene.Touch()
	}
	if g == nil || m.screen != ScreenGates {
		return nil
	}
	of := gateReportOfRun(g)
	if stale := w.Report != nil && k.have != of; stale != w.Stale {
		w.Stale = stale
	}
	if k.working || of == k.want {
		return nil
	}
	if wait := gateReportEvery - m.o.Now().Sub(k.made); of.end == nil && of.setup == k.want.setup && wait > 0 {
		return m.gatesReportTimer(wait)
	}
	k.working, k.want, k.made = true, of, m.o.Now()
	src, results, meters := m.src, g.Results[:of.results:of.results], g.Meters[:of.meters:of.meters]
	return m.do(src.ctx, "gates report", func(context.Context) tea.Msg {
		return gatesReportMsg{src, of, gates.Analyze(of.setup, results, meters, 0)}
	})
}

// gatesReportTimer asks again after a while. One is in flight.
func (m *Model) gatesReportTimer(wait time.Duration) tea.Cmd {
	k := &m.gate.reports
	if k.waiting || m.o.handFed {
		return nil
	}
	k.waiting = true
	src := m.src
	return m.do(src.ctx, "gates report clock", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return gatesTimeMsg{src}
	})
}

// gatesTimeMsg says that answers may be analysed again.
type gatesTimeMsg struct{ src *source }

func (t gatesTimeMsg) apply(m *Model) tea.Cmd {
	if t.src == m.gate.src {
		m.gate.reports.waiting = false
	}
	return nil
}

// gatesReportMsg is a report.
type gatesReportMsg struct {
	src    *source
	of     gateReportOf
	report *gates.Report
}

func (r gatesReportMsg) apply(m *Model) tea.Cmd {
	k, w := &m.gate.reports, &m.scene.Gates
	if r.src != m.gate.src {
		return nil
	}
	k.working = false
	if g := m.gateRun(); g != nil && g.Setup == r.of.setup { // else the person went on to another
		w.Report, k.have = r.report, r.of
		w.Stale = gateReportOfRun(g) != r.of
		m.scene.Touch()
	}
	return nil
}
