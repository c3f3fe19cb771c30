package grade

import "quantscope/analysis/gates/chat"

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
	// Figures are counts and measures, over all turns: replacement (U+FFFD and invalid
	// sequences, in reasoning and calls too), cut (1: the budget cut the last character
	// in two, which is not counted as replacement), control (control characters but tab
	// and line ends), runes, repeat (longest loop's share of its turn), malformed (1:
	// something was begun as a call and is none), and what the grader adds, such as
	// script_share. Never NaN.
	Figures map[string]float64 `json:"figures,omitempty"`
	Marks   []Mark             `json:"marks,omitempty"` // what to look at
}

// Fault is the kind of a failure.
type Fault string

// Kinds of failures.
const (
	Erred       Fault = "error"       // no answer came
	Empty       Fault = "empty"       // nothing, or white space
	Truncated   Fault = "truncated"   // at its budget, or broken off
	Replacement Fault = "replacement" // characters that are none
	Malformed   Fault = "malformed"   // a call that is none: no JSON, cut, no name
	Loop        Fault = "loop"
	WrongScript Fault = "script"
	Different   Fault = "different" // from the baseline's
	Bleeding    Fault = "bleeding"  // an earlier answer said again
	Collapse    Fault = "collapse"  // answers grow short
	WrongAnswer Fault = "wrong"
)

// Mark is a place in a reply that a verdict speaks of, in bytes.
type Mark struct {
	Turn  int    `json:"turn"`
	At    [2]int `json:"at"`
	Fault Fault  `json:"fault"`
}
