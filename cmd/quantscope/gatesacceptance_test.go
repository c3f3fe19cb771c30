package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
	"quantscope/sessions"
)

// acceptedFixture is the fixture with a probe that measures acceptance: of the baseline,
// of a candidate whose drafts are not told, and of the placebo.
func acceptedFixture() (*gates.Report, *sessions.GateRun) {
	rep, run := gatesFixture()
	rep.Setup.Probes = append(rep.Setup.Probes, suite.Probe{ID: "acceptance", Group: "acceptance", Grader: "acceptance", Measure: true, Passes: 1, Need: 1, Cases: []suite.Case{{ID: "honey", Prompt: "x"}, {ID: "miller", Prompt: "y"}}})
	for arm := range rep.Setup.Arms {
		rep.Rows = append(rep.Rows, gates.Row{Probe: 2, Arm: arm, Passed: 2, Of: 2, All: 2, Low: 0.342, High: 1, OK: true})
	}
	nan := math.NaN()
	rep.Acceptance = []gates.Acceptance{
		{Probe: 2, Arm: 0, K: 1, Prompts: 2, AllPrompts: 2, Tokens: 256, AllTokens: 256, Drafts: 140, Drafted: 140, Accepted: 112, Rate: 0.8, RateLow: 0.7, RateHigh: 0.9, Length: 1.8, LengthLow: 1.7, LengthHigh: 1.9,
			Delta: nan, DeltaLow: nan, DeltaHigh: nan, Noise: 0, Verdict: gates.AcceptanceControl, Text: "as it is", Size: 64, Blocks: [][]chat.Block{{{Drafts: 40, Drafted: 40, Accepted: 30}, {Drafts: 30, Drafted: 30, Accepted: 26}}, {{Drafts: 70, Drafted: 70, Accepted: 56}}}},
		{Probe: 2, Arm: 1, K: -1, AllPrompts: 2, AllTokens: 256, Rate: nan, RateLow: nan, RateHigh: nan, Length: nan, LengthLow: nan, LengthHigh: nan, Delta: nan, DeltaLow: nan, DeltaHigh: nan, Noise: 0,
			Verdict: gates.AcceptanceUnknown, Text: "acceptance is unknown: not told\x1b[1m", Size: 64, Blocks: make([][]chat.Block, 2)},
		{Probe: 2, Arm: 2, K: 1, Prompts: 2, AllPrompts: 2, Tokens: 256, AllTokens: 256, Drafts: 140, Drafted: 140, Accepted: 70, Rate: 0.5, RateLow: 0.4, RateHigh: 0.6, Length: 1.5, LengthLow: 1.4, LengthHigh: 1.6,
			Delta: -0.3, DeltaLow: -0.4, DeltaHigh: -0.2, Noise: 0, Verdict: gates.AcceptanceBelow, Text: "below: it is", Size: 64, Blocks: [][]chat.Block{{{Drafts: 70, Drafted: 70, Accepted: 35}}, {{Drafts: 70, Drafted: 70, Accepted: 35}}}},
	}
	return rep, run
}

// Acceptance is printed with its intervals; what is not known says so in words and is no
// number in JSON; a rate below the baseline's fails its case of JUnit.
func TestAcceptanceSaid(t *testing.T) {
	rep, run := acceptedFixture()
	d := gatesOf("s.qscope", rep, run, 0)
	var b strings.Builder
	if err := printGates(&b, rep, d); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, want := range []string{
		"acceptance: acceptance of drafts, 256 greedy tokens an arm, 95 % intervals over prompts and stretches of 64 tokens",
		"80.0 [70.0, 90.0]  1.800 [1.700, 1.900]", "control", "-30.0 [-40.0, -20.0]", "the placebo is 0.0 points from the control",
		"? bad␛[31m: acceptance is unknown: not told␛[1m", "unknown",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Acceptance []map[string]any `json:"acceptance"`
	}
	if err := json.Unmarshal(raw, &back); err != nil || len(back.Acceptance) != 3 {
		t.Fatalf("%v, %d", err, len(back.Acceptance))
	}
	for _, key := range []string{"arm", "rate", "rate_low", "rate_high", "length", "length_low", "length_high", "delta", "delta_low", "delta_high", "steps", "tokens", "verdict", "k", "prompts"} {
		for i, x := range back.Acceptance {
			if _, ok := x[key]; !ok {
				t.Errorf("arm %d has no %s", i, key)
			}
		}
	}
	unknown := back.Acceptance[1]
	for _, key := range []string{"rate", "length", "delta"} {
		if unknown[key] != "NaN" {
			t.Errorf("what is not known: %s is %v", key, unknown[key])
		}
	}
	if unknown["k"] != nil || unknown["verdict"] != "unknown" || len(back.Acceptance[0]["prompts"].([]any)) != 2 {
		t.Errorf("%v", unknown)
	}
	cases := map[string]string{}
	for _, s := range junitOf(d).Suites {
		for _, c := range s.Cases {
			if c.Name != "acceptance rate" {
				continue
			}
			switch {
			case c.Failure != nil:
				cases[s.Name] = "fails: " + c.Failure.Message
			case c.Skipped != nil:
				cases[s.Name] = "skipped: " + c.Skipped.Message
			default:
				cases[s.Name] = c.Out
			}
		}
	}
	if cases["bf16"] != "as it is" || cases["bf16 again"] != "fails: below: it is" || cases["bad␛[31m"] != "skipped: acceptance is unknown: not told␛[1m" {
		t.Errorf("%q", cases)
	}
}
