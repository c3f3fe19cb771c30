package main

import (
	"fmt"
	"math"

	"quantscope/analysis/gates"
	"quantscope/sessions"
	"quantscope/views"
)

// gatesAcceptance is what drafting brought an arm over a probe that measures it. What is
// not known is "NaN" as in all figures here, never 0.
type gatesAcceptance struct {
	Arm        string                  `json:"arm"`
	Probe      string                  `json:"probe"`
	K          *int                    `json:"k"`
	Rate       sessions.Figure         `json:"rate"` // accepted over drafted tokens
	RateLow    sessions.Figure         `json:"rate_low"`
	RateHigh   sessions.Figure         `json:"rate_high"`
	Length     sessions.Figure         `json:"length"` // tokens a step, the main model's own included
	LengthLow  sessions.Figure         `json:"length_low"`
	LengthHigh sessions.Figure         `json:"length_high"`
	Delta      sessions.Figure         `json:"delta"` // of rates, to the control
	DeltaLow   sessions.Figure         `json:"delta_low"`
	DeltaHigh  sessions.Figure         `json:"delta_high"`
	Noise      sessions.Figure         `json:"placebo_delta"` // how far the placebo is from the control; "NaN": not measured
	Steps      int64                   `json:"steps"`         // that drafted
	Drafted    int64                   `json:"drafted"`
	Accepted   int64                   `json:"accepted"`
	Tokens     int                     `json:"tokens"`
	Wanted     int                     `json:"tokens_wanted"`
	Prompts    []gatesAcceptancePrompt `json:"prompts"`
	Verdict    gates.AcceptanceVerdict `json:"verdict"`
	Sentence   string                  `json:"sentence"`
}

// gatesAcceptancePrompt is one greedy text, in blocks of so many tokens; one block where
// steps are not told.
type gatesAcceptancePrompt struct {
	Case     string  `json:"case"`
	Block    int     `json:"block_tokens"`
	Drafted  []int64 `json:"drafted"`
	Accepted []int64 `json:"accepted"`
}

func acceptanceDocs(rep *gates.Report) []gatesAcceptance {
	out := []gatesAcceptance{}
	for i := range rep.Acceptance {
		x := &rep.Acceptance[i]
		p := &rep.Setup.Probes[x.Probe]
		fig := func(v float64) sessions.Figure { return sessions.Figure(v) }
		g := gatesAcceptance{
			Arm: rep.Setup.Arms[x.Arm].Label, Probe: p.ID, Rate: fig(x.Rate), RateLow: fig(x.RateLow), RateHigh: fig(x.RateHigh),
			Length: fig(x.Length), LengthLow: fig(x.LengthLow), LengthHigh: fig(x.LengthHigh), Delta: fig(x.Delta), DeltaLow: fig(x.DeltaLow), DeltaHigh: fig(x.DeltaHigh),
			Noise: fig(x.Noise), Steps: x.Drafts, Drafted: x.Drafted, Accepted: x.Accepted, Tokens: x.Tokens, Wanted: x.AllTokens,
			Prompts: []gatesAcceptancePrompt{}, Verdict: x.Verdict, Sentence: x.Text,
		}
		if x.K >= 0 {
			k := x.K
			g.K = &k
		}
		for c, blocks := range x.Blocks {
			if len(blocks) == 0 {
				continue
			}
			q := gatesAcceptancePrompt{Case: p.Cases[c].ID, Block: x.Size}
			for _, b := range blocks {
				q.Drafted, q.Accepted = append(q.Drafted, b.Drafted), append(q.Accepted, b.Accepted)
			}
			g.Prompts = append(g.Prompts, q)
		}
		out = append(out, g)
	}
	return out
}

// acceptanceLines are a table of acceptance, and what cannot be told of it. Every arm has
// a row: one of which nothing is known says so.
func acceptanceLines(t *textReport, list []gatesAcceptance) {
	for i := 0; i < len(list); {
		first := &list[i]
		t.line("")
		t.line("%s: acceptance of drafts, %s greedy tokens an arm, 95 %% intervals over prompts and stretches of %d tokens", views.Clean(first.Probe), thousands(int64(first.Wanted)), first.block())
		var rows [][]string
		var loud []string
		for ; i < len(list) && list[i].Probe == first.Probe; i++ {
			x := &list[i]
			rows = append(rows, x.row())
			switch x.Verdict {
			case gates.AcceptanceUnknown, gates.AcceptanceShort, gates.AcceptanceOtherK, gates.AcceptanceNoisy:
				loud = append(loud, fmt.Sprintf("  ? %s: %s", views.Clean(x.Arm), views.Clean(x.Sentence)))
			}
		}
		t.table([]string{"arm", ">k", ">accepted %", ">length", ">Δ points", ">steps", "verdict"}, rows)
		noise := "noise not measured: there is no placebo"
		if v := float64(first.Noise); !math.IsNaN(v) {
			noise = fmt.Sprintf("the placebo is %.1f points from the control", 100*v)
		}
		t.line("%s; Δ is over the same prompts, and one beyond its interval and the placebo's is below or above", noise)
		for _, l := range loud {
			t.line("%s", l)
		}
	}
}

func (x *gatesAcceptance) block() int {
	for _, p := range x.Prompts {
		return p.Block
	}
	return 0
}

func (x *gatesAcceptance) row() []string {
	k := "?"
	if x.K != nil {
		k = fmt.Sprint(*x.K)
	}
	band := func(format string, scale float64, v, low, high sessions.Figure) string {
		if math.IsNaN(float64(v)) {
			return ""
		}
		text := fmt.Sprintf(format, scale*float64(v))
		if math.IsNaN(float64(low)) {
			return text + " [?]"
		}
		return text + fmt.Sprintf(" ["+format+", "+format+"]", scale*float64(low), scale*float64(high))
	}
	rate := band("%.1f", 100, x.Rate, x.RateLow, x.RateHigh)
	if rate == "" {
		rate = "unknown"
	}
	return []string{views.Clean(x.Arm), k, rate, band("%.3f", 1, x.Length, x.LengthLow, x.LengthHigh), band("%+.1f", 100, x.Delta, x.DeltaLow, x.DeltaHigh), thousands(x.Steps), string(x.Verdict)}
}

// junit is an arm's acceptance as a test: it fails where it is below the
// control's, and is skipped with the reason where it cannot be told.
func (x *gatesAcceptance) junit(class string) junitCase {
	k := junitCase{Class: class, Name: views.Clean(x.Probe) + " rate"}
	text := views.Clean(x.Sentence)
	switch x.Verdict {
	case gates.AcceptanceBelow:
		k.Failure = &junitMessage{Type: "regression", Message: text}
	case gates.AcceptanceUnknown, gates.AcceptanceShort, gates.AcceptanceOtherK, gates.AcceptanceNoisy:
		k.Skipped = &junitMessage{Type: string(x.Verdict), Message: text}
	default:
		k.Out = text
	}
	return k
}
