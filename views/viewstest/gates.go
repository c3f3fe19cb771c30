package viewstest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/analysis/gates/through"
	"quantscope/analysis/stats"
	"quantscope/sessions"
)

// GateArms are the candidates of a made-up run of gates; the last one garbles text.
var GateArms = []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "int4-g128", "fused scale"}

// gateTexts are answers in scripts that are hard to lay out, by probe.
var gateTexts = map[string][]string{
	"scripts/korean": {"모든 사람은 태어날 때부터 자유롭고, 존엄과 권리에 있어서 평등하다.", "사람은 이성과 양심을 부여받았으며"},
	"scripts/arabic": {"يولد جميع الناس أحراراً متساوين في الكرامة والحقوق", "وقد وهبوا عقلاً وضميراً"},
	"scripts/tamil":  {"மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்", "அவர்கள் மதிப்பிலும் உரிமைகளிலும் சமமானவர்கள்"},
	"scripts/emoji":  {"👩‍👩‍👧 family, 🏳️‍🌈 flag, 👍🏽 thumb, 🇰🇷 Korea", "1️⃣ one, ❤️ heart, 🧑🏿‍🚀 astronaut"},
}

// GateSetup is what such a run asks: probes in groups, of one pass and of three, with
// tools, without chat template, and in many turns; cases are so many of each.
func GateSetup(arms []string, cases int) *gates.Setup {
	s := &gates.Setup{Suite: "demo", Path: "demo", SHA256: strings.Repeat("5f", 32), Program: "test", Set: "ref", Timeout: 5 * time.Minute}
	s.Arms = append(s.Arms, gates.Arm{Label: "bf16", Spec: "demo", Role: gates.Baseline})
	for _, name := range arms {
		spec := name
		if name == "fused scale" {
			spec = "nvfp4"
		}
		s.Arms = append(s.Arms, gates.Arm{Label: name, Spec: spec, Role: gates.Candidate})
	}
	s.Arms = append(s.Arms, gates.Arm{Label: "bf16 again", Spec: "demo", Role: gates.Placebo})
	for _, p := range []suite.Probe{
		{ID: "arithmetic", Group: "arithmetic", About: "Sums and word problems in several steps.", Grader: "number"},
		{ID: "facts/greedy", Group: "facts", About: "Short facts that the model was taught.", Grader: "exact"},
		{ID: "facts/sampled", Group: "facts", About: "The same at temperature 0.7: greedy answers may hide what sampling shows.", Grader: "exact", Passes: 3, Like: "facts/greedy"},
		{ID: "needle", Group: "needle", About: "A passphrase in up to seven sentences.", Grader: "needle"},
		{ID: "tools/ascii", Group: "tools", About: "One call with the right name and arguments.", Grader: "call"},
		{ID: "tools/korean", Group: "tools", About: "Calls with arguments in Hangul.", Grader: "call"},
		{ID: "scripts/korean", Group: "scripts", About: "A text goes on in Hangul without characters that are none.", Grader: "script"},
		{ID: "scripts/arabic", Group: "scripts", About: "The same in Arabic.", Grader: "script"},
		{ID: "scripts/tamil", Group: "scripts", About: "The same in Tamil.", Grader: "script"},
		{ID: "scripts/emoji", Group: "scripts", About: "Emoji and code-switching.", Grader: "script"},
		{ID: "turns", Group: "turns", About: "Seven turns: answers neither shrink nor repeat earlier ones.", Grader: "coherence"},
	} {
		p.Passes, p.Need = max(p.Passes, 1), 0.9
		p.Set = suite.Settings{MaxTokens: 48, Concurrency: 1, Seed: 7}
		for i := range cases {
			p.Cases = append(p.Cases, gateCase(&p, i))
		}
		s.Probes = append(s.Probes, p)
	}
	return s
}

func gateCase(p *suite.Probe, i int) suite.Case {
	c := suite.Case{ID: fmt.Sprintf("%d", i+1)}
	switch {
	case p.Group == "scripts":
		c.Prompt = gateTexts[p.ID][0]
	case p.Group == "turns":
		for t := range 7 {
			c.Turns = append(c.Turns, suite.Turn{User: fmt.Sprintf("Turn %d: what did I ask before?", t+1)})
		}
	case p.Group == "tools":
		c.Turns = []suite.Turn{{User: "What is the weather in 서울?"}}
		c.Tools = []chat.Tool{{Name: "get_weather"}}
	default:
		c.Turns = []suite.Turn{{User: fmt.Sprintf("What is %d + %d?", 17+i, 25+3*i)}}
	}
	return c
}

// Gates is a made-up run in which answers are there of the first share of what
// there is to ask.
func Gates(arms []string, cases int, share float64) *sessions.GateRun {
	s := GateSetup(arms, cases)
	g := &sessions.GateRun{Setup: s, AtUS: 1000}
	want := int(share * float64(s.Answers()))
	for arm := range s.Arms {
		before := len(g.Results)
		for probe := range s.Probes {
			p := &s.Probes[probe]
			for c := range p.Cases {
				for pass := range p.Passes {
					if len(g.Results) == want {
						return g
					}
					g.Results = append(g.Results, gateResult(s, gates.Key{Arm: arm, Probe: probe, Case: c, Pass: pass}))
				}
			}
		}
		g.Meters = append(g.Meters, gateMeter(s, arm, g.Results[before:]))
	}
	g.End = &gates.End{State: "finished"}
	return g
}

// gateResult is one answer: the baseline is right, candidates are now and then
// wrong, and the last of them garbles multi-byte text.
func gateResult(s *gates.Setup, k gates.Key) *gates.Result {
	p, arm := &s.Probes[k.Probe], &s.Arms[k.Arm]
	r := &gates.Result{Arm: k.Arm, Probe: k.Probe, Case: k.Case, Pass: k.Pass, Seed: p.Set.Seed + uint64(k.Pass)}
	u := unit(k.Arm*7919 + k.Probe*104729 + k.Case*31 + k.Pass)
	fault := arm.Label == "fused scale"
	wrong := arm.Role == gates.Candidate && u < 0.04+0.02*float64(k.Arm)
	reply := chat.Reply{Finish: chat.FinishStop, PromptTokens: 20, CompletionTokens: 4, CachedTokens: -1, Model: strings.TrimSuffix(arm.Label, " again"), Total: 90 * time.Millisecond}
	v := grade.Verdict{Passed: true, Reason: "as wanted", Figures: map[string]float64{"replacement": 0, "runes": 20}}
	switch {
	case p.Group == "scripts":
		reply.Text, reply.CompletionTokens = gateTexts[p.ID][1], 30
		if fault && u < 0.7 {
			runes := []rune(reply.Text)
			cut := len(string(runes[:4]))
			reply.Text = reply.Text[:cut] + "\ufffd\xff\x00\x1b[31m" + reply.Text[cut:]
			v = grade.Verdict{Reason: "2 characters that are none, the first at byte " + fmt.Sprint(cut), Fault: grade.Replacement,
				Figures: map[string]float64{"replacement": 2, "control": 2}, Marks: []grade.Mark{{At: [2]int{cut, cut + 4}, Fault: grade.Replacement}}}
			reply.Invalid = 1
		}
	case p.Group == "tools":
		reply.Finish = chat.FinishTools
		reply.ToolCalls = []chat.ToolCall{{ID: "1", Name: "get_weather", Arguments: `{"city": "서울"}`}}
		if fault && u < 0.5 {
			reply.ToolCalls, reply.Finish = nil, chat.FinishStop
			reply.Text = `<tool_call>{"name": "get_weather", "arguments": {"city": "서�"`
			v = grade.Verdict{Reason: "the call is no JSON: unexpected end", Fault: grade.Malformed, Figures: map[string]float64{"replacement": 1}}
		}
	case p.Group == "turns":
		var rs []chat.Reply
		for t := range p.Cases[k.Case].Turns {
			one := reply
			one.Text = fmt.Sprintf("Answer %d.\nYou asked about turn %d.\tThat is all.", t+1, t)
			rs = append(rs, one)
		}
		r.Answer.Replies = rs
		if wrong {
			v = grade.Verdict{Reason: "turn 3 repeats 12 words of turn 1", Fault: grade.Loop, Marks: []grade.Mark{{Turn: 2, At: [2]int{0, 8}, Fault: grade.Loop}}}
		}
	default:
		reply.Text = fmt.Sprintf("The answer is %d.", 42+4*k.Case)
		switch {
		case wrong && k.Case%3 == 0:
			reply.Text = ""
			v = grade.Verdict{Reason: "the answer is empty", Fault: grade.Empty}
		case wrong && k.Case%3 == 1:
			reply.Text, reply.Finish = strings.Repeat("and so on ", 12), chat.FinishLength
			v = grade.Verdict{Reason: "cut off at 48 tokens", Fault: grade.Truncated}
		case wrong:
			reply.Text = "The answer is 7."
			v = grade.Verdict{Reason: fmt.Sprintf("says 7, wanted %d", 42+4*k.Case), Fault: grade.WrongAnswer, Marks: []grade.Mark{{At: [2]int{14, 15}, Fault: grade.WrongAnswer}}}
		case arm.Label == "int4-g128" && k.Case == 1 && k.Pass == 0 && p.ID == "needle":
			v = grade.Verdict{Reason: "no answer came: timed out", Fault: grade.Erred}
			r.Answer = grade.Answer{Error: "http://127.0.0.1:8000: no answer within 5m0s", Kind: chat.Timeout}
			r.Verdict = v
			return r
		}
	}
	if r.Answer.Replies == nil {
		r.Answer.Replies = []chat.Reply{reply}
	}
	r.Verdict = v
	return r
}

func gateMeter(s *gates.Setup, arm int, results []*gates.Result) *gates.Meter {
	m := &gates.Meter{Arm: arm, Seconds: 12.5 + float64(arm), Identity: chat.Identity{
		Kind: "process", At: "demo", Model: strings.TrimSuffix(s.Arms[arm].Label, " again"), Engine: "quantscope", Version: "0.1.0", Spec: s.Arms[arm].Spec, Effective: s.Arms[arm].Spec,
		Content: strings.Repeat("ab12", 16), Speculative: 2, MaxTokens: 4096,
	}}
	for _, r := range results {
		for i := range r.Answer.Replies {
			m.Tokens += int64(max(r.Answer.Replies[i].CompletionTokens, 0))
		}
	}
	m.Counted = &chat.Counters{Prompt: 900, Generated: m.Tokens, Steps: m.Tokens / 2, Drafts: m.Tokens / 2, Drafted: m.Tokens, Accepted: m.Tokens * 5 / 8,
		ByPosition: []int64{m.Tokens * 3 / 8, m.Tokens / 4}, CacheQueries: -1, CacheHits: -1, Seconds: 10, Speculative: 2}
	m.Arm1 = &through.Arm{Positions: 1270, NLL: 2.08 + 0.01*float64(arm), SE: 0.02, PPL: math.Exp(2.08 + 0.01*float64(arm)), MedianRank: 1, Seen: 0.91, Top: 20}
	if arm > 0 {
		m.Pair = &through.Pair{Positions: 1270, KL: 0.012 * float64(arm), SE: 0.0008, Top1: 0.93, DeltaNLL: 0.01 * float64(arm), DeltaSE: 0.004}
	}
	return m
}

// GatesReport is what can be said of the answers of a run, worked out plainly, with
// checks in every state.
func GatesReport(g *sessions.GateRun) *gates.Report {
	s := g.Setup
	r := &gates.Report{Setup: s, Meters: g.Meters}
	n := len(s.Arms)
	r.Rows = make([]gates.Row, len(s.Probes)*n)
	passed := map[gates.Key]bool{}
	there := map[gates.Key]bool{}
	for probe := range s.Probes {
		for arm := range n {
			row := &r.Rows[probe*n+arm]
			row.Probe, row.Arm, row.All = probe, arm, s.Probes[probe].Answers()
		}
	}
	for _, a := range g.Results {
		row := &r.Rows[a.Probe*n+a.Arm]
		row.Of++
		there[a.Key()] = true
		if a.Verdict.Passed {
			row.Passed++
			passed[a.Key()] = true
		}
		switch a.Verdict.Fault {
		case grade.Erred:
			row.Erred++
		case grade.Empty:
			row.Empty++
		case grade.Truncated:
			row.Truncated++
		case grade.Malformed:
			row.Malformed++
		}
		if k := int(a.Verdict.Figures["replacement"]); k > 0 {
			row.Replacement, row.Events = row.Replacement+1, row.Events+k
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Low, row.High = stats.Wilson(row.Passed, max(row.Of, 1), 0.95)
		row.OK = row.Of == row.All && float64(row.Passed) >= s.Probes[row.Probe].Need*float64(row.All)
		if row.Of == row.All && !row.OK {
			r.Fails = append(r.Fails, gates.Fail{Kind: gates.FailNeed, Probe: row.Probe, Arm: row.Arm,
				Message: fmt.Sprintf("%s passes %d of %d of %s, %.0f %% are needed", s.Arms[row.Arm].Label, row.Passed, row.All, s.Probes[row.Probe].ID, 100*s.Probes[row.Probe].Need)})
		}
	}
	for probe := -1; probe < len(s.Probes); probe++ {
		for arm := 1; arm < n; arm++ {
			if s.Arms[arm].Role != gates.Candidate {
				continue
			}
			p := gates.Pair{Probe: probe, Arm: arm, Band: 0.06, P: math.NaN()}
			for k := range there {
				if k.Arm != arm || probe >= 0 && k.Probe != probe || !there[gates.Key{Probe: k.Probe, Case: k.Case, Pass: k.Pass}] {
					continue
				}
				base, is := passed[gates.Key{Probe: k.Probe, Case: k.Case, Pass: k.Pass}], passed[k]
				switch {
				case base && is:
					p.Both++
				case base:
					p.OnlyBase++
				case is:
					p.OnlyArm++
				default:
					p.Neither++
				}
			}
			all := p.Both + p.Neither + p.OnlyBase + p.OnlyArm
			if all == 0 {
				continue
			}
			if d := p.OnlyBase + p.OnlyArm; d > 0 {
				p.P = stats.BinomTest(p.OnlyArm, d, 0.5)
			}
			p.Worse = p.P < 0.05 && p.OnlyBase > p.OnlyArm
			p.Better = p.P < 0.05 && p.OnlyArm > p.OnlyBase
			word := "no difference shown"
			if p.Worse {
				word = "worse"
			}
			p.Verdict = fmt.Sprintf("%s: %d of %d against %d of %d, p %.3g; %d cases tell a difference from 0.060 up", word, p.Both+p.OnlyArm, all, p.Both+p.OnlyBase, all, p.P, all)
			if p.Worse && probe >= 0 {
				r.Fails = append(r.Fails, gates.Fail{Kind: gates.FailRegression, Probe: probe, Arm: arm, Message: s.Arms[arm].Label + ", " + s.Probes[probe].ID + ": " + p.Verdict})
			}
			r.Pairs = append(r.Pairs, p)
		}
	}
	r.Pairs = append(r.Pairs[min(n-2, len(r.Pairs)):], r.Pairs[:min(n-2, len(r.Pairs))]...) // all in sum comes last
	r.Checks = []gates.Check{
		{ID: gates.CheckNonce, Arm: -1, State: gates.CheckPassed, Message: "66 timed requests had 66 different nonces", Figures: map[string]float64{"requests": 66, "nonces": 66}},
		{ID: gates.CheckPlacebo, Arm: -1, State: gates.CheckPassed, Message: "bf16 differs from itself in 0 of 130 verdicts and 0 of 130 texts"},
		{ID: gates.CheckChanged, Arm: 2, State: gates.CheckFailed, Message: "nvfp4+mse answers as bf16 does, log probabilities included, to 12 of 12 fixed prompts: the change did not land"},
		{ID: gates.CheckMatchedK, Arm: -1, State: gates.CheckIdle, Message: "no arm drafts tokens"},
		{ID: gates.CheckCached, Arm: 1, State: gates.CheckUnknown, Message: "the server does not tell how many tokens of a prompt it remembered, nor the time to the first token"},
		{ID: gates.CheckEmpty, Arm: -1, State: gates.CheckPassed, Message: "3 of 780 outputs are empty"},
		{ID: gates.CheckRank, Arm: 0, State: gates.CheckPassed, Message: "median rank of the true next token 1"},
	}
	return r
}
