package main

import (
	"cmp"
	"slices"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
	"quantscope/sessions"
)

// gatesDocument is the --json output of gates.
type gatesDocument struct {
	Session     string       `json:"session"`
	Suite       string       `json:"suite"`
	SuitePath   string       `json:"suite_path"`
	SuiteSHA256 string       `json:"suite_sha256"`
	Program     string       `json:"program"`
	KernelSet   string       `json:"kernel_set"`
	State       string       `json:"state"`
	Arms        []gatesArm   `json:"arms"`
	Checks      []gatesCheck `json:"checks"`
	Probes      []gatesProbe `json:"probes"`
	Pairs       []gatesPair  `json:"pairs"`

	Acceptance []gatesAcceptance `json:"acceptance"` // of probes that measure it, in their order, of all arms
	Fails      []gatesFail       `json:"fails"`
	Failing    []gatesAnswer     `json:"failing"`
	Corpus     *gatesCorpus      `json:"corpus"`
}

// gatesArm is who answered, and what it counted.
type gatesArm struct {
	Candidate   string            `json:"candidate"`
	Spec        string            `json:"spec"`
	Role        gates.Role        `json:"role"`
	Identity    *chat.Identity    `json:"identity"`
	Fingerprint string            `json:"fingerprint"`
	Answers     int               `json:"answers"`
	Tokens      int64             `json:"tokens"`
	Seconds     sessions.Figure   `json:"seconds"`
	TokensPerS  sessions.Figure   `json:"tokens_per_s"`
	Speculation *gatesSpeculation `json:"speculation"` // null where nothing is drafted, or not all of it is told
	LogProbs    *through.Arm      `json:"log_probabilities"`
	LowerBound  *through.Pair     `json:"kl_lower_bound"`
}

// gatesSpeculation is acceptance, which says nothing without the other two.
type gatesSpeculation struct {
	K              int             `json:"k"`
	Acceptance     sessions.Figure `json:"acceptance"`
	AcceptedLength sessions.Figure `json:"accepted_length"` // tokens a step of the main model
	TokensPerS     sessions.Figure `json:"tokens_per_s"`
	Drafts         int64           `json:"drafts"`
	Drafted        int64           `json:"drafted"`
	Accepted       int64           `json:"accepted"`
	ByPosition     []int64         `json:"accepted_by_position"`
}

type gatesCheck struct {
	ID        string                     `json:"id"`
	Candidate string                     `json:"candidate,omitempty"` // "": of the whole run
	State     gates.CheckState           `json:"state"`
	Message   string                     `json:"message"`
	Figures   map[string]sessions.Figure `json:"figures,omitempty"`
}

// gatesProbe is what an arm answered to a probe: passed of passes.
type gatesProbe struct {
	Suite       string          `json:"suite"`
	Probe       string          `json:"probe"`
	Group       string          `json:"group"`
	Candidate   string          `json:"candidate"`
	Passed      int             `json:"passed"`
	Passes      int             `json:"passes"` // answers that were graded
	All         int             `json:"all"`
	Low         sessions.Figure `json:"low"` // of the share, 95 %
	High        sessions.Figure `json:"high"`
	Need        sessions.Figure `json:"need"`
	OK          bool            `json:"ok"`
	Errors      int             `json:"errors"`
	Empty       int             `json:"empty"`
	Truncated   int             `json:"truncated"`
	Replacement int             `json:"replacement"`
	Events      int             `json:"replacement_events"`
	Malformed   int             `json:"malformed"`
	Tokens      int64           `json:"tokens"`
	Seconds     sessions.Figure `json:"seconds"`

	probe, arm int
}

type gatesPair struct {
	Probe     string          `json:"probe"` // "": all in sum
	Candidate string          `json:"candidate"`
	Baseline  string          `json:"baseline"`
	Both      int             `json:"both"`
	OnlyBase  int             `json:"only_baseline"`
	OnlyArm   int             `json:"only_candidate"`
	Neither   int             `json:"neither"`
	Cases     int             `json:"cases"`
	Diff      sessions.Figure `json:"difference"` // of shares
	P         sessions.Figure `json:"p"`
	Adjusted  sessions.Figure `json:"p_adjusted"` // over all probes of the arm
	Low       sessions.Figure `json:"difference_low"`
	High      sessions.Figure `json:"difference_high"`
	Band      sessions.Figure `json:"band"`
	Noise     *int            `json:"placebo_discordant"` // null without a placebo
	Better    bool            `json:"better"`
	Worse     bool            `json:"worse"`
	Sentence  string          `json:"sentence"`
}

type gatesFail struct {
	Kind      gates.FailKind `json:"kind"`
	Probe     string         `json:"probe,omitempty"`
	Candidate string         `json:"candidate,omitempty"`
	Message   string         `json:"message"`
}

// gatesAnswer is an answer that did not pass.
type gatesAnswer struct {
	Candidate string          `json:"candidate"`
	Probe     string          `json:"probe"`
	Case      string          `json:"case"`
	Pass      int             `json:"pass"`
	Fault     grade.Fault     `json:"fault"`
	Reason    string          `json:"reason"`
	Prompt    string          `json:"prompt"` // of the last turn that was asked
	Output    string          `json:"output"` // to it
	Calls     []chat.ToolCall `json:"calls,omitempty"`
}

type gatesCorpus struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Chunks int    `json:"chunks"`
	Top    int    `json:"top"`
}

// gatesOf is the document of a run. Of each arm's failing answers the first show are
// in it.
func gatesOf(path string, rep *gates.Report, run *sessions.GateRun, show int) *gatesDocument {
	s := rep.Setup
	d := &gatesDocument{
		Session: path, Suite: s.Suite, SuitePath: s.Path, SuiteSHA256: s.SHA256, Program: s.Program, KernelSet: s.Set, State: string(sessions.RunRunning),
		Arms: []gatesArm{}, Checks: []gatesCheck{}, Probes: []gatesProbe{}, Pairs: []gatesPair{}, Fails: []gatesFail{}, Failing: []gatesAnswer{},
	}
	if run.End != nil {
		d.State = run.End.State
	}
	if t := s.Texts; t != nil {
		d.Corpus = &gatesCorpus{Name: t.Name, SHA256: t.SHA256, Chunks: len(t.IDs), Top: t.Top}
	}
	label := func(arm int) string {
		if arm < 0 || arm >= len(s.Arms) {
			return ""
		}
		return s.Arms[arm].Label
	}
	probe := func(i int) string {
		if i < 0 || i >= len(s.Probes) {
			return ""
		}
		return s.Probes[i].ID
	}
	for i := range s.Arms {
		d.Arms = append(d.Arms, gatesArmOf(rep, i))
	}
	for _, c := range rep.Checks {
		g := gatesCheck{ID: c.ID, Candidate: label(c.Arm), State: c.State, Message: c.Message}
		for name, v := range c.Figures {
			if g.Figures == nil {
				g.Figures = map[string]sessions.Figure{}
			}
			g.Figures[name] = sessions.Figure(v)
		}
		d.Checks = append(d.Checks, g)
	}
	for _, r := range rep.Rows {
		p := &s.Probes[r.Probe]
		d.Probes = append(d.Probes, gatesProbe{
			Suite: s.Suite, Probe: p.ID, Group: p.Group, Candidate: label(r.Arm), Passed: r.Passed, Passes: r.Of, All: r.All,
			Low: sessions.Figure(r.Low), High: sessions.Figure(r.High), Need: sessions.Figure(p.Need), OK: r.OK,
			Errors: r.Erred, Empty: r.Empty, Truncated: r.Truncated, Replacement: r.Replacement, Events: r.Events, Malformed: r.Malformed,
			Tokens: r.Tokens, Seconds: sessions.Figure(r.Seconds), probe: r.Probe, arm: r.Arm,
		})
	}
	for _, p := range rep.Pairs {
		g := gatesPair{
			Probe: probe(p.Probe), Candidate: label(p.Arm), Baseline: label(s.Baseline()), Both: p.Both, OnlyBase: p.OnlyBase, OnlyArm: p.OnlyArm, Neither: p.Neither,
			Cases: p.Cases, Diff: sessions.Figure(p.Difference), P: sessions.Figure(p.P), Adjusted: sessions.Figure(p.Adjusted), Low: sessions.Figure(p.Low), High: sessions.Figure(p.High), Band: sessions.Figure(p.Band), Better: p.Better, Worse: p.Worse, Sentence: p.Verdict,
		}
		if p.Noise >= 0 {
			n := p.Noise
			g.Noise = &n
		}
		d.Pairs = append(d.Pairs, g)
	}
	d.Acceptance = acceptanceDocs(rep)
	for _, x := range rep.Fails {
		d.Fails = append(d.Fails, gatesFail{Kind: x.Kind, Probe: probe(x.Probe), Candidate: label(x.Arm), Message: x.Message})
	}
	d.failing(s, run.Results, show)
	return d
}

func gatesArmOf(rep *gates.Report, i int) gatesArm {
	a := rep.Setup.Arms[i]
	g := gatesArm{Candidate: a.Label, Spec: a.Spec, Role: a.Role}
	for _, r := range rep.Rows {
		if r.Arm == i {
			g.Answers += r.Of
		}
	}
	for _, m := range rep.Meters {
		if m.Arm != i {
			continue
		}
		who := m.Identity
		g.Identity, g.Fingerprint, g.Tokens, g.Seconds = &who, m.Print.Text, m.Tokens, sessions.Figure(m.Seconds)
		rate := m.Rate()
		g.TokensPerS = sessions.Figure(rate)
		if s, ok := m.Speculation(); ok {
			g.Speculation = &gatesSpeculation{
				K: s.K, Acceptance: sessions.Figure(s.Acceptance), AcceptedLength: sessions.Figure(s.Length), TokensPerS: sessions.Figure(rate),
				Drafts: m.Counted.Drafts, Drafted: m.Counted.Drafted, Accepted: m.Counted.Accepted, ByPosition: m.Counted.ByPosition,
			}
		}
		g.LogProbs, g.LowerBound = m.Arm1, m.Pair
	}
	return g
}

// failing takes in the first failing answers of each arm, of different probes before
// more of one.
func (d *gatesDocument) failing(s *gates.Setup, results []*gates.Result, show int) {
	for arm := range s.Arms {
		var list []*gates.Result
		seen := map[int]int{}
		rank := map[*gates.Result]int{}
		for _, r := range results {
			if r.Arm == arm && !r.Verdict.Passed {
				rank[r] = seen[r.Probe]
				seen[r.Probe]++
				list = append(list, r)
			}
		}
		slices.SortStableFunc(list, func(a, b *gates.Result) int {
			return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a.Probe, b.Probe))
		})
		for _, r := range list[:min(show, len(list))] {
			d.Failing = append(d.Failing, gatesAnswerOf(s, r))
		}
	}
}

func gatesAnswerOf(s *gates.Setup, r *gates.Result) gatesAnswer {
	p := &s.Probes[r.Probe]
	c := &p.Cases[r.Case]
	a := gatesAnswer{Candidate: s.Arms[r.Arm].Label, Probe: p.ID, Case: c.ID, Pass: r.Pass, Fault: r.Verdict.Fault, Reason: r.Verdict.Reason, Prompt: lastPrompt(c, len(r.Answer.Replies))}
	if n := len(r.Answer.Replies); n > 0 {
		a.Output, a.Calls = r.Answer.Replies[n-1].Text, r.Answer.Replies[n-1].ToolCalls
	}
	return a
}

// lastPrompt is what was asked last, when so many replies came.
func lastPrompt(c *suite.Case, replies int) string {
	if len(c.Turns) == 0 {
		return c.Prompt
	}
	return c.Turns[min(max(replies-1, 0), len(c.Turns)-1)].User
}
