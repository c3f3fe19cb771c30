package main

import (
	"fmt"
	"math"

	"quantscope/analysis/gates"
	"quantscope/analysis/tier"
	"quantscope/sessions"
)

// tierDocument is the --json output of tier.
type tierDocument struct {
	Session    string            `json:"session"`
	Setup      *tier.Setup       `json:"setup"`
	Budgets    []tierBudget      `json:"budgets"`
	Curve      *tier.Curve       `json:"curve"`
	Verdict    string            `json:"verdict"`
	Arms       []tierMeasured    `json:"arms"`       // all cold and all hot, where they were measured or asked
	Ends       []tierEnd         `json:"ends"`       // whether no budget is all cold, and a whole one all hot
	KL         *tierKL           `json:"kl"`         // on what it was measured
	Suite      *tierSuite        `json:"suite"`      // what was asked
	Acceptance []gatesAcceptance `json:"acceptance"` // of drafts, by probe and arm, where the suite measures it
	Problems   []string          `json:"problems"`   // what makes the exit code 1
	maps       map[string]string
}

// tierBudget is a run at one budget, and what its map does.
type tierBudget struct {
	tierMeasured
	*tier.Result
	Label    string        `json:"label"`
	Bytes    int64         `json:"bytes"`
	Share    float64       `json:"share"`
	File     string        `json:"file,omitempty"` // of the map
	Controls []tierControl `json:"controls"`
}

// tierControl is another map of as many bytes.
type tierControl struct {
	tierMeasured
	Name string  `json:"name"`
	Hits float64 `json:"hits"`
	File string  `json:"file,omitempty"`
}

// tierMeasured is what a map does to the model; null where that was not measured.
type tierMeasured struct {
	Candidate     string           `json:"candidate"`
	BitsPerWeight *sessions.Figure `json:"bits_per_weight"`
	KLMean        *sessions.Figure `json:"kl_mean"`
	KLStderr      *sessions.Figure `json:"kl_stderr"`
	KLP99         *sessions.Figure `json:"kl_p99"`
	Top1          *sessions.Figure `json:"top1"`
	Content       string           `json:"content,omitempty"`
	Probes        []tierProbe      `json:"probes"`
	Passed        int              `json:"passed"`
	Answers       int              `json:"answers"`
}

type tierProbe struct {
	Probe  string `json:"probe"`
	Passed int    `json:"passed"`
	Passes int    `json:"passes"`
}

// tierEnd is one of the two budgets that must equal an arm.
type tierEnd struct {
	Budget  string `json:"budget"`
	Arm     string `json:"arm"`
	Content bool   `json:"content"` // the same weights, by what decides them
	KL      string `json:"kl"`      // equal, differs, not measured
	Answers string `json:"answers"` // equal, differs, not asked
}

// OK says whether nothing differs.
func (e *tierEnd) OK() bool { return e.KL != differs && e.Answers != differs }

const (
	equal       = "equal"
	differs     = "differs"
	notMeasured = "not measured"
	notAsked    = "not asked"
)

// tierKL is what KL was measured on.
type tierKL struct {
	Positions int64           `json:"positions"`
	Floor     sessions.Figure `json:"floor"`
	Corpora   []string        `json:"corpora"`
}

// tierSuite is what was asked.
type tierSuite struct {
	Suite    string `json:"suite"`
	SHA256   string `json:"suite_sha256"`
	Baseline int    `json:"baseline_passed"` // of the checkpoint itself
	Answers  int    `json:"answers"`
	Placebo  int    `json:"placebo_passed"` // of the checkpoint, asked again; -1: it was not
}

// tierOf is the document of a run.
func tierOf(run *tierRun) *tierDocument {
	d := &tierDocument{
		Session: run.session, Setup: run.setup, Curve: run.end.Curve, Verdict: run.end.Verdict,
		Budgets: []tierBudget{}, Arms: []tierMeasured{}, Ends: []tierEnd{}, Problems: []string{}, Acceptance: []gatesAcceptance{}, maps: run.maps,
	}
	d.measuredOn(run)
	for _, r := range run.end.Results {
		b := run.setup.Budgets[r.Budget]
		row := tierBudget{Result: r, Label: b.Label, Bytes: b.Bytes, Share: b.Share, File: run.maps[b.Label], Controls: []tierControl{}, tierMeasured: run.measured(tierLabel(b.Label, ""))}
		for _, c := range r.Controls {
			row.Controls = append(row.Controls, tierControl{Name: c.Name, Hits: c.Hits, File: run.maps[b.Label+"#"+c.Name], tierMeasured: run.measured(tierLabel(b.Label, c.Name))})
		}
		d.Budgets = append(d.Budgets, row)
	}
	for _, arm := range []string{run.setup.Cold, run.setup.Hot} {
		if m := run.measured(arm); m.KLMean != nil || len(m.Probes) > 0 {
			d.Arms = append(d.Arms, m)
		}
	}
	for i := range d.Budgets {
		b := &d.Budgets[i]
		switch {
		case b.Coverage == 0:
			d.end(run, b, run.setup.Cold)
		case b.Coverage == 1 && run.setup.Hot != tier.Source:
			d.end(run, b, run.setup.Hot)
		}
	}
	return d
}

func (d *tierDocument) measuredOn(run *tierRun) {
	if run.kl != nil {
		d.KL = &tierKL{Positions: run.kl.Positions, Floor: sessions.Figure(math.NaN()), Corpora: []string{}}
		for _, c := range run.kl.Setup.Corpora {
			d.KL.Corpora = append(d.KL.Corpora, c.Name)
		}
		for i, c := range run.kl.Setup.Candidates {
			if c.Floor {
				d.KL.Floor = sessions.Figure(run.kl.Results[i].All.KL)
			}
		}
	}
	if run.gates != nil {
		d.Acceptance = acceptanceDocs(run.gates)
		s := run.gates.Setup
		d.Suite = &tierSuite{Suite: s.Suite, SHA256: s.SHA256, Placebo: -1}
		for i := range s.Arms {
			passed, of := run.passed(i)
			switch s.Arms[i].Role {
			case gates.Baseline:
				d.Suite.Baseline, d.Suite.Answers = passed, of
			case gates.Placebo:
				d.Suite.Placebo = passed
			}
		}
	}
}

// passed counts what an arm of the gates passed.
func (run *tierRun) passed(arm int) (passed, of int) {
	for i := range run.gates.Rows {
		if r := &run.gates.Rows[i]; r.Arm == arm {
			passed, of = passed+r.Passed, of+r.All
		}
	}
	return passed, of
}

// measured is what is known of a candidate by its label.
func (run *tierRun) measured(label string) tierMeasured {
	m := tierMeasured{Candidate: label, Probes: []tierProbe{}}
	if run.kl != nil {
		for i, c := range run.kl.Setup.Candidates {
			if c.Label == label && i < len(run.kl.Results) {
				a := &run.kl.Results[i].All
				m.KLMean, m.KLStderr, m.KLP99, m.Top1 = figure(a.KL), figure(a.KLErr), figure(a.P99), figure(a.Top1)
				m.BitsPerWeight, m.Content = figure(c.BitsPerWeight), c.Content
			}
		}
	}
	if run.gates == nil {
		return m
	}
	s := run.gates.Setup
	for arm := range s.Arms {
		if s.Arms[arm].Label != label || s.Arms[arm].Role == gates.Placebo {
			continue
		}
		for i := range run.gates.Rows {
			if r := &run.gates.Rows[i]; r.Arm == arm {
				m.Probes = append(m.Probes, tierProbe{s.Probes[r.Probe].ID, r.Passed, r.All})
			}
		}
		m.Passed, m.Answers = run.passed(arm)
	}
	return m
}

func figure(x float64) *sessions.Figure {
	f := sessions.Figure(x)
	return &f
}

// end holds a budget against the arm that it must equal.
func (d *tierDocument) end(run *tierRun, b *tierBudget, arm string) {
	e := tierEnd{Budget: b.Label, Arm: arm, KL: notMeasured, Answers: notAsked}
	m := run.measured(arm)
	if m.KLMean != nil && b.KLMean != nil {
		e.KL = differs
		if math.Float64bits(float64(*m.KLMean)) == math.Float64bits(float64(*b.KLMean)) && *m.KLP99 == *b.KLP99 && *m.Top1 == *b.Top1 {
			e.KL = equal
		}
		e.Content = m.Content != "" && m.Content == b.Content
	}
	if same, asked := run.sameAnswers(arm, b.Candidate); asked {
		if e.Answers = differs; same {
			e.Answers = equal
		}
	}
	if !e.OK() {
		d.Problems = append(d.Problems, fmt.Sprintf("%s and %s must be the same: KL %s, answers %s", b.Candidate, arm, e.KL, e.Answers))
	}
	d.Ends = append(d.Ends, e)
}

// sameAnswers holds the texts of two arms against each other, those without a nonce
// and without sampling.
func (run *tierRun) sameAnswers(a, b string) (same, asked bool) {
	if run.answers == nil {
		return false, false
	}
	s := run.answers.Setup
	arm := func(label string) int {
		for i := range s.Arms {
			if s.Arms[i].Label == label && s.Arms[i].Role != gates.Placebo {
				return i
			}
		}
		return -1
	}
	x, y := arm(a), arm(b)
	if x < 0 || y < 0 {
		return false, false
	}
	texts := map[gates.Key]string{}
	for _, r := range run.answers.Results {
		if r.Arm == x && !s.Probes[r.Probe].Timed {
			k := r.Key()
			k.Arm = 0
			texts[k] = wordsOf(r)
		}
	}
	same = true
	for _, r := range run.answers.Results {
		if r.Arm == y && !s.Probes[r.Probe].Timed {
			k := r.Key()
			k.Arm = 0
			same = same && texts[k] == wordsOf(r)
			asked = true
		}
	}
	return same, asked
}

func wordsOf(r *gates.Result) string {
	out := ""
	for i := range r.Answer.Replies {
		out += r.Answer.Replies[i].Text + "\x00"
	}
	return out
}

// verdict turns what must not be into an error.
func (d *tierDocument) verdict() error {
	switch n := len(d.Problems); {
	case n == 0:
		return nil
	case n == 1:
		return checkFailed(fmt.Errorf("tier: %s", d.Problems[0]))
	default:
		return checkFailed(fmt.Errorf("tier: %s (and %d more)", d.Problems[0], n-1))
	}
}
