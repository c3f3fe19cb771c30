package main

import (
	"fmt"
	"strings"

	"quantscope/sessions"
)

// biasRunLine is a look at biases through depth in a list.
type biasRunLine struct {
	Reference  string            `json:"reference"`
	Candidates []string          `json:"candidates"`
	State      sessions.RunState `json:"state"`
}

func biasRunLineOf(b *sessions.BiasRun) biasRunLine {
	l := biasRunLine{Reference: b.Setup.Reference.Label, Candidates: []string{}, State: sessions.RunInterrupted}
	for _, c := range b.Setup.Candidates {
		l.Candidates = append(l.Candidates, c.Label)
	}
	if b.End != nil {
		l.State = sessions.RunState(b.End.State)
	}
	return l
}

// tierRunLine is a run of a hot tier in a list.
type tierRunLine struct {
	Hot      string            `json:"hot"`
	Cold     string            `json:"cold"`
	Workload string            `json:"workload"`
	Budgets  []string          `json:"budgets"`
	State    sessions.RunState `json:"state"`
}

func tierRunLineOf(t *sessions.TierRun) tierRunLine {
	l := tierRunLine{Hot: t.Setup.Hot, Cold: t.Setup.Cold, Workload: t.Setup.Workload.Name, Budgets: []string{}, State: sessions.RunInterrupted}
	for _, b := range t.Setup.Budgets {
		l.Budgets = append(l.Budgets, b.Label)
	}
	if t.End != nil {
		l.State = sessions.RunState(t.End.State)
	}
	return l
}

// looks says in a few words what looks at biases and runs of hot tiers there are.
func (l *sessionLine) looks() (words []string) {
	for _, b := range l.Biases {
		words = append(words, fmt.Sprintf("biases of %s (%s)", counted(len(b.Candidates), "candidate", "candidates"), b.State))
	}
	for _, t := range l.Tiers {
		words = append(words, fmt.Sprintf("hot tier of %s (%s)", counted(len(t.Budgets), "budget", "budgets"), t.State))
	}
	return words
}

// lookLines are a line on each look at biases and each run of a hot tier, with the word
// that stands before it.
func lookLines(st *sessions.State) (lines [][2]string) {
	for _, b := range st.Biases {
		l := biasRunLineOf(b)
		lines = append(lines, [2]string{"biases", fmt.Sprintf("%s against %s: %s, %d of %d candidates with a KL", strings.Join(l.Candidates, ", "), l.Reference, l.State, len(b.Divergences), len(l.Candidates))})
	}
	for _, t := range st.Tiers {
		l := tierRunLineOf(t)
		lines = append(lines, [2]string{"hot tier", fmt.Sprintf("%s over %s at %s, workload %s: %s, %s", l.Hot, l.Cold, strings.Join(l.Budgets, ", "), l.Workload, l.State, counted(len(t.Windows), "window", "windows"))})
	}
	return lines
}
