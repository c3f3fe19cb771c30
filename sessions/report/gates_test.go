package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
	"quantscope/sessions"
)

// gateRun is a finished run of gates: the baseline, a candidate that fails every
// third answer with broken text, and the baseline again.
func gateRun(cases int) *sessions.GateRun {
	p := suite.Probe{ID: "calls<script>", Group: "tools", About: "Calls in Korean.", Grader: "call", Passes: 1, Need: 1}
	for i := range cases {
		p.Cases = append(p.Cases, suite.Case{ID: fmt.Sprintf("case %d", i), Turns: []suite.Turn{{User: "first"}, {User: hostile}}})
	}
	g := &sessions.GateRun{
		Setup: &gates.Setup{
			Suite: "small" + hostile, SHA256: strings.Repeat("ab", 32), Probes: []suite.Probe{p}, Program: "test", Set: "ref",
			Arms:  []gates.Arm{{Label: "bf16", Spec: "demo", Role: gates.Baseline}, {Label: "nvfp4" + hostile, Spec: "nvfp4", Role: gates.Candidate}, {Label: "bf16 again", Spec: "demo", Role: gates.Placebo}},
			Texts: &gates.Texts{Name: "prose", SHA256: strings.Repeat("cd", 32), Top: 20},
		},
		Settings: map[string]string{sessions.GateSpeculate: "2"}, End: &gates.End{State: "finished"},
	}
	for arm := range g.Setup.Arms {
		for c := range cases {
			r := &gates.Result{Arm: arm, Case: c, Answer: grade.Answer{Replies: []chat.Reply{{Text: "ok"}, {Text: "서울 is " + hostile, ToolCalls: []chat.ToolCall{{Name: "weather", Arguments: `{"city": "서울"}`}}}}}, Verdict: grade.Verdict{Passed: true, Reason: "as wanted"}}
			if arm == 1 && c%3 == 0 {
				r.Answer.Replies[1].Text = "서\xec\x9a\x00\x1b[31m\u202e\ufffd\ufffd"
				r.Verdict = grade.Verdict{Fault: grade.Replacement, Reason: "2 characters\nthat are none", Figures: map[string]float64{"replacement": 2}}
			}
			g.Results = append(g.Results, r)
		}
		id := &chat.Identity{Kind: "process", Engine: "quantscope", Version: "test", Model: hostile, Content: strings.Repeat("12", 32), Speculative: 2}
		g.Opened = append(g.Opened, id)
		m := &gates.Meter{Arm: arm, Identity: *id, Tokens: 500, Seconds: 2, Arm1: &through.Arm{Positions: 100, PPL: 4.5, MedianRank: 1, Seen: 0.97, SE: math.NaN()}}
		if arm == 1 {
			m.Counted = &chat.Counters{Generated: 500, Drafts: 100, Drafted: 200, Accepted: 120}
			m.Pair = &through.Pair{Positions: 100, KL: 0.0123, SE: 0.001, Top1: 0.9}
			m.Checks = []gates.Check{{ID: gates.CheckRank, Arm: 1, State: gates.CheckFailed, Message: "the median rank is 400, which no model of this text has"}}
		}
		g.Meters = append(g.Meters, m)
	}
	return g
}

// Gates are a part of the page: checks first, n of m with intervals, what was
// accepted only with length and speed, failing answers beside the baseline's with
// all that cannot be seen made visible. Whatever a model wrote stays text.
func TestGates(t *testing.T) {
	st := fixture(2, 2, "nvfp4")
	st.Gates = []*sessions.GateRun{gateRun(12)}
	html := write(t, build(t, st, Options{}))
	for _, want := range []string{
		"Does it still behave?", "Can the measurement be believed?", "✗\u00a0failed", "The median rank is 400", "✓ 12/12", "✗ 8/12", "[0.39, 0.86], 4 with U&#43;FFFD", "calls&lt;script&gt;", "Against the baseline",
		"60.00 %", "2.20", "250.0", "≥ 0.0123", "a lower bound", "never to be held against KL over the whole vocabulary", "Asked with speculate 2.", "4 shown", "the baseline passes",
		`<b class="odd" title="not UTF-8">⟨EC⟩⟨9A⟩</b>`, `<b class="odd" title="control">␀␛</b>[31m`, "⟨U&#43;202E⟩", "<b class=\"odd\" title=\"U&#43;FFFD\">\ufffd\ufffd</b>", "2 characters that are none", `weather {&#34;city&#34;: &#34;서울&#34;}`,
		"Finished: 36 of 36 answers, 1 probe, suite sha256 abababababab.", "program test, kernel set ref", "case 3", "121212121212",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(html, "alert(1)</script>\"'><img") || strings.Contains(html, "<script>alert") || strings.ContainsAny(html, "\x00\x1b\u202e") {
		t.Error("something that a model wrote is not text")
	}
	if i, j := strings.Index(html, "Can the measurement be believed?"), strings.Index(html, "Answers that pass"); i < 0 || i > j {
		t.Error("checks do not come first")
	}
	if again := write(t, build(t, st, Options{})); again != html {
		t.Error("the same session gives another page")
	}
}

// Of many failing answers, and of a long one, a part is shown and the rest is said.
func TestManyFailing(t *testing.T) {
	st := fixture(1, 1, "nvfp4")
	g := gateRun(300)
	g.End = nil
	long := strings.Repeat("가", 5000)
	for _, r := range g.Results {
		if !r.Verdict.Passed {
			r.Answer.Replies[1].Text, r.Answer.Replies[1].ToolCalls = "begins "+long+" ends", nil
		}
	}
	g.Results = g.Results[:len(g.Results)-300] // the baseline again is still to come
	st.Gates = []*sessions.GateRun{g}
	html := write(t, build(t, st, Options{}))
	for _, want := range []string{"40 shown", "60 failing answers are in the session and not here.", "begins 가가", "⟨3512 characters left out⟩", "가가 ends", "Unfinished: 600 of 900 answers"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(html, "가"); n > mostFailing*mostShown {
		t.Errorf("%d characters of long answers", n)
	}
}

// A session of served models has a page of its gates alone.
func TestServedReport(t *testing.T) {
	st := &sessions.State{Meta: sessions.Meta{SourcePath: "http://127.0.0.1:8000/v1", Family: sessions.Served, Summary: "models behind servers"}, Gates: []*sessions.GateRun{gateRun(3)}, Progress: sessions.Progress{State: sessions.RunIdle, Variant: -1}}
	html := write(t, build(t, st, Options{Pricing: true}))
	for _, want := range []string{"<h1>127.0.0.1:8000</h1>", "9 of 9 answers", "1 run of gates", "no checkpoint", "Does it still behave?", "Receipt"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, not := range []string{"Worst tensors", "Verdict</h2>", "0 of 0 measured"} {
		if strings.Contains(html, not) {
			t.Errorf("the page says %q", not)
		}
	}
}

func TestVisible(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "plain\n\ttext": "plain\n\ttext", "a\x00b": "a[␀]b", "\r\n": "[␍]\n", "\x7f\u0085": "[␡⟨U+0085⟩]", "\xff\xfe": "[⟨FF⟩⟨FE⟩]", "\ufffd\xff": "[\ufffd][⟨FF⟩]",
		"\u200b\u202e": "[⟨U+200B⟩⟨U+202E⟩]", "👩‍👩‍👧 نمی\u200cخواهم தமிழ்": "👩‍👩‍👧 نمی\u200cخواهم தமிழ்", "\ufeff\U000E0041\u2028\ufdd0": "[⟨U+FEFF⟩⟨U+E0041⟩⟨U+2028⟩⟨U+FDD0⟩]",
	} {
		var b strings.Builder
		for _, p := range visible(s) {
			if p.Odd != "" {
				b.WriteString("[" + p.Text + "]")
			} else {
				b.WriteString(p.Text)
			}
		}
		if b.String() != want {
			t.Errorf("%q becomes %q, not %q", s, b.String(), want)
		}
	}
}
