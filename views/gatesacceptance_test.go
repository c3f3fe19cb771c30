package views

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// acceptedRun is a run of gates whose arms draft well, badly, and nothing that is told.
func acceptedRun() *sessions.GateRun {
	s := &gates.Setup{Suite: "twobit", Path: "twobit", SHA256: strings.Repeat("5f", 32), Program: "test", Set: "ref", Arms: []gates.Arm{
		{Label: "bf16", Spec: "demo", Role: gates.Baseline}, {Label: "nvfp4", Spec: "nvfp4", Role: gates.Candidate}, {Label: "code2+sym", Spec: "code2+sym", Role: gates.Candidate},
		{Label: "served", Spec: "http://gpu:8000", Role: gates.Candidate}, {Label: "bf16 again", Spec: "demo", Role: gates.Placebo},
	}}
	p := suite.Probe{ID: "acceptance", Group: "acceptance", About: "Three texts of 512 greedy tokens.", Grader: "acceptance", Measure: true, Passes: 1, Need: 1, Set: suite.Settings{MaxTokens: 512, MayTruncate: true, Concurrency: 1}}
	for _, id := range []string{"honey", "miller", "article"} {
		p.Cases = append(p.Cases, suite.Case{ID: id, Prompt: "The " + id})
	}
	s.Probes = []suite.Probe{p}
	g := &sessions.GateRun{Setup: s, AtUS: 1000, End: &gates.End{State: "finished"}}
	for arm := range s.Arms {
		for c := range p.Cases {
			seed := uint64(arm % 4)
			if arm == 4 {
				seed = 0
			}
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			d := &chat.Drafts{K: 1}
			for at := 1; at < 512; {
				kept := 0
				if r.Float64() < []float64{0.9, 0.86, 0.5, 0, 0.9}[arm]-0.4*float64(at/448) {
					kept = 1
				}
				d.Note(1, kept)
				at += 1 + kept
			}
			if arm == 3 {
				d = nil
			}
			reply := chat.Reply{Text: "text of " + p.Cases[c].ID, Finish: chat.FinishLength, CompletionTokens: 512, Drafts: d}
			g.Results = append(g.Results, &gates.Result{Arm: arm, Case: c, Answer: grade.Answer{Replies: []chat.Reply{reply}}, Verdict: grade.Verdict{Passed: true, Reason: "512 tokens"}})
		}
		k := 1
		if arm == 3 {
			k = -1
		}
		g.Meters = append(g.Meters, &gates.Meter{Arm: arm, Identity: chat.Identity{Model: strings.TrimSuffix(s.Arms[arm].Label, " again"), Engine: "quantscope", Speculative: k}, Tokens: 1536, Seconds: 2})
	}
	return g
}

func acceptedScene(t testing.TB, change func(*sessions.GateRun)) *Scene {
	s := sceneIn(t, viewstest.Demo(), termenv.Ascii)
	g := acceptedRun()
	if change != nil {
		change(g)
	}
	s.State.Gates = []*sessions.GateRun{g}
	s.Gates = GatesWork{Report: g.Analyze(), Runs: -1, Progress: gates.Progress{Arm: -1, Probe: -1}}
	return s
}

// The table has rates with intervals, ↓ below and ? where it is not known; the arms'
// part and the case have the stretches.
func TestAcceptanceGolden(t *testing.T) {
	for _, size := range paneSizes {
		for name, keys := range map[string][]string{"table": {"right", "right"}, "unknown": {"right", "right", "right"}, "case": {"right", "enter", "enter"}, "arms": {"right", "right", "shift+tab"}} {
			t.Run(size.name+" "+name, func(t *testing.T) {
				p := NewGates(acceptedScene(t, nil))
				p.SetSize(size.w, size.h)
				for _, k := range keys {
					hit(p, k)
				}
				checkSize(t, p.View(), size.w, size.h)
				checkGolden(t, p.Title()+"\n"+p.View())
			})
		}
	}
}

// A rate that is not known is a ?, never 0; one without steps says so.
func TestAcceptanceIsNeverMadeUp(t *testing.T) {
	p := NewGates(acceptedScene(t, func(g *sessions.GateRun) { g.Results[0].Answer.Replies[0].Drafts.BySteps = nil }))
	p.SetSize(160, 40)
	view := p.View()
	row := ""
	for _, line := range strings.Split(view, "\n") {
		if strings.Contains(line, "acceptance") && strings.Contains(line, "?") && row == "" {
			row = line
		}
	}
	if !strings.Contains(row, "↓") || strings.Contains(row, "0 %–") || strings.Contains(view, "NaN") {
		t.Errorf("the row is %q in\n%s", row, view)
	}
	hit(p, "enter")
	hit(p, "enter")
	if v := p.View(); !strings.Contains(v, "by step it is not told") {
		t.Errorf("steps that are not told:\n%s", v)
	}
	for _, c := range []struct {
		blocks []chat.Block
		want   string
	}{
		{[]chat.Block{{Drafted: 32, Accepted: 32}, {}, {Drafted: 32}, {Drafted: 30, Accepted: 15}}, bars[len(bars)-1] + "·" + bars[0] + bars[len(bars)/2]},
		{nil, ""},
	} {
		if got := acceptanceTrack(c.blocks); got != c.want {
			t.Errorf("%v: %q, want %q", c.blocks, got, c.want)
		}
	}
	if got := fmt.Sprint(acceptanceShare(nil), acceptanceRange(nil)); got != "?" {
		t.Errorf("of nothing: %q", got)
	}
}
