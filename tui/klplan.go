package tui

import (
	"fmt"
	"math"
	"strings"

	"quantscope/quant/demo"
	"quantscope/views"
)

// planWords says in sentences what R would measure, and how long about.
func (m *Model) planWords() []string {
	y := m.yard()
	if unfinished(y) {
		done, of := y.Positions()
		return []string{fmt.Sprintf("R goes on with it: %s of %s positions are scored.", views.Thousands(done), views.Thousands(of))}
	}
	specs := m.variantSpecs()
	if len(specs) == 0 {
		return []string{"The session has no variants: c names candidates, which may be variants made on the fly (nvfp4+mse), checkpoints, exports or GGUF files."}
	}
	what := "R measures the session's variants " + strings.Join(specs, ", ")
	if len(specs) == 1 {
		what = "R measures " + specs[0]
	}
	plan := &m.kl.planned
	switch {
	case plan.known():
		n := int64(len(specs)) + 2 // the reference and the floor
		return []string{
			fmt.Sprintf("%s on %s: %s tokens.", what, strings.Join(plan.names, ", "), views.Thousands(plan.tokens)),
			"That takes " + about(m.klSeconds(plan.tokens*n)) + ".",
		}
	case plan.why != "":
		return []string{plan.why}
	case m.scene.State.Meta.SourcePath == demo.Label:
		return []string{what + "."}
	}
	seconds := m.klSeconds(1000 * (int64(len(specs)) + 2))
	return []string{
		what + ". It asks for corpora first: text, JSONL or files of token ids.",
		"That takes " + about(seconds) + " for each 1,000 tokens.",
	}
}

// klFlops is what a machine of two cores is taken to do in a second, where
// nothing was measured in this session yet; it is a guess on the slow side.
const klFlops = 60e9

// klSeconds is how long so many tokens of one model take: two operations a weight
// and token, at most, since not all experts see each token. A rate that was
// measured is better.
func (m *Model) klSeconds(tokens int64) float64 {
	if r := m.scene.KL.Progress.TokensPerSec; r > 0 {
		return float64(tokens) / r
	}
	weights := float64(m.scene.State.Meta.SourceBytes) / 2
	return 2 * weights * float64(tokens) / klFlops
}

// about writes a time that is not known well.
func about(seconds float64) string {
	switch {
	case !(seconds > 0) || math.IsInf(seconds, 0):
		return "a while"
	case seconds < 10:
		return "some seconds"
	case seconds < 90:
		return fmt.Sprintf("about %.0f seconds", 10*math.Ceil(seconds/10))
	case seconds < 5400:
		return fmt.Sprintf("about %.0f minutes", math.Ceil(seconds/60))
	}
	return fmt.Sprintf("about %.0f hours", math.Ceil(seconds/3600))
}
