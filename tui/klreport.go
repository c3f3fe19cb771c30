package tui

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick"
	"quantscope/quant/demo"
	"quantscope/sessions"
	"quantscope/views"
)

// klReports computes what is said of the chunks of a measurement, outside the
// loop, one analysis at a time and no more than one a second while chunks come.
type klReports struct {
	have, want klReportOf // what the answer that is shown is of, and what was asked for
	working    bool
	waiting    bool // a timer runs until the next may begin
	made       time.Time
}

// klReportOf is what an analysis depends on.
type klReportOf struct {
	setup  *yardstick.Setup
	chunks int
	end    *sessions.YardEnd
	a, b   int // candidates that are compared
}

// klReportEvery is how often the chunks of a running measurement are analysed.
const klReportEvery = time.Second

// due says whether an analysis of that may begin now. If it is too early, it
// returns a timer's command instead.
func (r *klReports) due(m *Model, of klReportOf, moving bool) (bool, tea.Cmd) {
	if r.working || of == r.want || of.chunks == 0 {
		return false, nil
	}
	if wait := klReportEvery - m.o.Now().Sub(r.made); moving && of.setup == r.want.setup && wait > 0 {
		return false, r.timer(m, wait)
	}
	r.working, r.want, r.made = true, of, m.o.Now()
	return true, nil
}

// timer asks again after a while. One is in flight.
func (r *klReports) timer(m *Model, wait time.Duration) tea.Cmd {
	if r.waiting || m.o.handFed {
		return nil
	}
	r.waiting = true
	src := m.src
	return m.do(src.ctx, "report clock", func(ctx context.Context) tea.Msg {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return klTimeMsg{src, r}
	})
}

// klTimeMsg says that chunks may be analysed again.
type klTimeMsg struct {
	src *source
	of  *klReports
}

func (t klTimeMsg) apply(m *Model) tea.Cmd {
	if t.src == m.kl.src {
		t.of.waiting = false
	}
	return nil
}

// klMoving says whether more chunks of a measurement may come at any time.
func (m *Model) klMoving(y *sessions.Yard) bool {
	return y.End == nil && (m.scene.KL.Running || m.scene.Mode == sessions.Follow || m.scene.Mode == sessions.Live || m.scene.Mode == sessions.Replay)
}

// fetchReport computes the report of the measurement that is shown.
func (m *Model) fetchReport() tea.Cmd {
	k, w, y := &m.kl, &m.scene.KL, m.yard()
	if y == nil || w.Report != nil && w.Report.Setup != y.Setup {
		w.Report = nil
		m.scene.Touch()
	}
	if y == nil {
		return nil
	}
	of := klReportOf{setup: y.Setup, chunks: len(y.Chunks), end: y.End}
	if stale := w.Report != nil && k.reports.have != of; stale != w.Stale {
		w.Stale = stale
		m.scene.Touch()
	}
	if m.screen != ScreenKL {
		return nil
	}
	now, cmd := k.reports.due(m, of, m.klMoving(y))
	if !now {
		return cmd
	}
	src, chunks := m.src, y.Chunks[:of.chunks:of.chunks]
	return m.do(src.ctx, "KL", func(ctx context.Context) tea.Msg {
		rep, err := yardstick.Analyze(ctx, of.setup, chunks, of.setup.Seed)
		if rep != nil && of.end != nil {
			if rep.Probes == nil {
				rep.Probes = of.end.Probes
			}
			if rep.Sane == nil {
				rep.Sane = of.end.Sane
			}
		}
		return klReportMsg{src, of, rep, err}
	})
}

// klReportMsg is a report.
type klReportMsg struct {
	src    *source
	of     klReportOf
	report *yardstick.Report
	err    error
}

func (r klReportMsg) apply(m *Model) tea.Cmd {
	k, w := &m.kl, &m.scene.KL
	if r.src != k.src {
		return nil
	}
	k.reports.working = false
	y := m.yard()
	switch {
	case y == nil || y.Setup != r.of.setup: // the person went on to another
	case errors.Is(r.err, context.Canceled):
	case r.err != nil:
		w.Err = r.err.Error()
	default:
		w.Report, k.reports.have = r.report, r.of
		w.Stale = len(y.Chunks) != r.of.chunks
	}
	m.scene.Touch()
	return nil
}

// fetchCompared computes how the two sides of the Compare screen stand to each
// other in the newest measurement that has scored both.
func (m *Model) fetchCompared() tea.Cmd {
	k, sc := &m.kl, m.scene
	if m.screen != ScreenCompare || len(sc.State.Yards) == 0 {
		return nil
	}
	vs := sc.State.Variants
	if sc.Baseline >= len(vs) || sc.Variant >= len(vs) || sc.Baseline < 0 || sc.Variant < 0 || sc.Baseline == sc.Variant {
		return nil
	}
	a, b := &vs[sc.Baseline], &vs[sc.Variant]
	for i := len(sc.State.Yards) - 1; i >= 0; i-- {
		y := sc.State.Yards[i]
		of := klReportOf{setup: y.Setup, chunks: len(y.Chunks), end: y.End, a: partyOf(y.Setup, a), b: partyOf(y.Setup, b)}
		if of.a < 0 || of.b < 0 || of.chunks == 0 {
			continue
		}
		now, cmd := k.compared.due(m, of, m.klMoving(y))
		if !now {
			return cmd
		}
		src, chunks, names := m.src, y.Chunks[:of.chunks:of.chunks], [2]string{a.Name, b.Name}
		return m.do(src.ctx, "KL", func(ctx context.Context) tea.Msg {
			c, err := compareParties(ctx, of, chunks)
			if c != nil {
				c.A, c.B = names[0], names[1]
			}
			return klComparedMsg{src, c, err}
		})
	}
	return nil
}

// partyOf is the candidate that a variant is, -1 where there is none.
func partyOf(s *yardstick.Setup, v *sessions.Variant) int {
	if v.From != "" { // of another session
		return -1
	}
	for i := range s.Candidates {
		if c := &s.Candidates[i]; !c.Floor && c.Of < 0 && (c.Spec == v.Plain() || c.Label == v.Plain()) {
			return i
		}
	}
	return -1
}

// compareParties compares two candidates of a measurement as if it had no others.
func compareParties(ctx context.Context, of klReportOf, chunks []*yardstick.Chunk) (*views.KLCompared, error) {
	s := *of.setup
	s.Candidates = []yardstick.Party{of.setup.Candidates[of.a], of.setup.Candidates[of.b]}
	s.Candidates[0].Baseline, s.Candidates[1].Baseline = -1, 0
	two := make([]*yardstick.Chunk, 0, len(chunks))
	for _, c := range chunks {
		if of.a >= len(c.Rows) || of.b >= len(c.Rows) {
			continue
		}
		k := *c
		k.Rows = [][]yardstick.Row{c.Rows[of.a], c.Rows[of.b]}
		two = append(two, &k)
	}
	rep, err := yardstick.Analyze(ctx, &s, two, s.Seed)
	if err != nil {
		return nil, err
	}
	for i := range rep.Pairs {
		if p := rep.Pairs[i]; p.A == 0 && p.B == 1 {
			return &views.KLCompared{KLA: rep.Results[0].All.KL, KLB: rep.Results[1].All.KL, Pair: p}, nil
		}
	}
	return nil, nil
}

// klComparedMsg is how two variants stand to each other.
type klComparedMsg struct {
	src *source
	c   *views.KLCompared
	err error
}

func (c klComparedMsg) apply(m *Model) tea.Cmd {
	if c.src != m.kl.src {
		return nil
	}
	m.kl.compared.working = false
	if c.err == nil {
		m.scene.KL.Compared = c.c
		m.scene.Touch()
	}
	return nil
}

// demoSource is what corpora of the embedded checkpoint give as their source.
const demoSource = demo.Label

// klPlan is what R would measure on.
type klPlan struct {
	asked  bool
	names  []string
	tokens int64
	why    string // why there are no corpora
}

func (p *klPlan) known() bool { return len(p.names) > 0 }

// klPlanMsg brings the embedded corpora.
type klPlanMsg struct {
	src  *source
	plan klPlan
}

func (p klPlanMsg) apply(m *Model) tea.Cmd {
	if p.src == m.kl.src {
		m.kl.planned = p.plan
		m.scene.Touch()
	}
	return nil
}

// fetchPlan finds out what R would measure, once, and says it on the screen.
func (m *Model) fetchPlan() tea.Cmd {
	k, w := &m.kl, &m.scene.KL
	if m.screen != ScreenKL || w.Off != "" {
		return nil
	}
	if plan := m.planWords(); len(plan) != len(w.Plan) || len(plan) > 0 && plan[0] != w.Plan[0] {
		w.Plan = plan
		m.scene.Touch()
	}
	if k.planned.asked || m.scene.State.Meta.SourcePath != demo.Label {
		return nil
	}
	k.planned.asked = true
	src := m.src
	return m.do(src.ctx, "corpora", func(context.Context) tea.Msg {
		plan := klPlan{asked: true}
		all, err := corpus.Demo()
		if err != nil {
			plan.why = err.Error()
		}
		for _, c := range all {
			if !c.Calib {
				plan.names, plan.tokens = append(plan.names, c.Name), plan.tokens+c.Tokens()
			}
		}
		return klPlanMsg{src, plan}
	})
}
