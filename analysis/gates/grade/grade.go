package grade

import (
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/suite"
)

// Answer is what one case brought: a reply for each turn that was asked.
type Answer struct {
	Replies []chat.Reply `json:"replies"`
	Error   string       `json:"error,omitempty"` // why the conversation ended early; "" where it did not
	Kind    chat.Kind    `json:"kind,omitempty"`  // of the error
}

// Verdict is what a grader says.
type Verdict struct {
	Passed bool   `json:"passed"`
	Reason string `json:"reason"` // one line; of a pass, what was found
	Fault  Fault  `json:"fault,omitempty"`
	// Figures are counts and measures: replacement (U+FFFD and invalid sequences),
	// control (control characters but tab and line ends), runes, script_share, repeat
	// (longest loop's share), and what the grader adds. Never NaN.
	Figures map[string]float64 `json:"figures,omitempty"`
	Marks   []Mark             `json:"marks,omitempty"` // what to look at
}

// Fault is the kind of a failure.
type Fault string

// Kinds of failures.
const (
	Erred       Fault = "error"       // no answer came
	Empty       Fault = "empty"       // nothing, or white space
	Truncated   Fault = "truncated"   // at its budget
	Replacement Fault = "replacement" // characters that are none
	Malformed   Fault = "malformed"   // a call that is none: no JSON, cut, no name
	Loop        Fault = "loop"
	WrongScript Fault = "script"
	Different   Fault = "different" // from the baseline's
	WrongAnswer Fault = "wrong"
)

// Mark is a place in a reply that a verdict speaks of, in bytes.
type Mark struct {
	Turn  int    `json:"turn"`
	At    [2]int `json:"at"`
	Fault Fault  `json:"fault"`
}

// Grade holds an answer against what its case wants. base is the baseline's answer
// to the same case, for probes that ask for it; nil is none, and then such a probe's
// answers fail with that reason.
func Grade(p *suite.Probe, c *suite.Case, a *Answer, base *Answer) Verdict {
	return Verdict{Reason: "grade: not there", Fault: Erred}
}
