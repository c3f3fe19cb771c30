package lint

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of finding: what is the same for all of them.
type Kind struct {
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"` // the usual one; a finding may have another, as its explanation says
	Title    string   `json:"title"`    // what is wrong, in a phrase
	// Explanation says why it matters, Server what a server does with it, Fix what
	// to do and Trigger what was looked at.
	Explanation string `json:"explanation"`
	Server      string `json:"server"`
	Fix         string `json:"fix"`
	Trigger     string `json:"trigger"`
	Mend        string `json:"mend,omitempty"` // the step of mend that repairs it
}

// Steps of mend that findings name.
const (
	MendGraft      = "graft-mtp"
	MendIgnore     = "ignore-mtp"
	MendProcessors = "processors"
	MendTokenizer  = "tokenizer"
	MendTemplate   = "chat-template"
)

// kindTables hold the kinds by rule; a rule's kinds stand together.
var kindTables = [][]Kind{fileKinds, structureKinds, scaleKinds, quantizationKinds, keptKinds, sideKinds, tokenizerKinds, sourceKinds, weightKinds, effectiveKinds, ggufKinds, logKinds}

// allKinds is every kind, in the order of the rules, and kindAt where each is.
var allKinds, kindAt = func() ([]Kind, map[string]int) {
	all, at := slices.Concat(kindTables...), map[string]int{}
	for i := range all {
		at[all[i].ID] = i
	}
	return all, at
}()

// Kinds lists every kind of finding, in the order of the rules.
func Kinds() []Kind { return slices.Clone(allKinds) }

// KindOf is the kind of an id. What a reader of layouts finds and no table here
// knows is an error of the rule quantization.
func KindOf(id string) Kind {
	if i, ok := kindAt[id]; ok {
		return allKinds[i]
	}
	return Kind{
		ID: id, Rule: ruleQuantization, Severity: Error, Title: "something of the quantization does not fit",
		Explanation: "What is stored and what the quantization config says of it do not fit together.",
		Server:      "It refuses the checkpoint, or reads it as something else.",
		Fix:         "write the quantization config anew from what is stored",
		Trigger:     "headers against the quantization config",
	}
}

// CheckIDs refuses ids that no finding has, and lists the known ones.
func CheckIDs(ids []string) error {
	for _, id := range ids {
		if _, ok := kindAt[id]; !ok {
			known := make([]string, len(allKinds))
			for i := range allKinds {
				known[i] = allKinds[i].ID
			}
			return fmt.Errorf("%q is the id of no finding (known: %s)", id, strings.Join(known, ", "))
		}
	}
	return nil
}

// Ids that more than one file here names; those of layouts are package layout's.
const (
	idMTPNotIndexed   = "mtp-not-indexed"
	idMTPNotIgnored   = "mtp-not-ignored"
	idMTPDropped      = "mtp-dropped"
	idRouterIgnored   = "router-not-ignored"
	idFusedExperts    = "fused-experts-unquantized"
	idWeightsMissing  = "weights-missing"
	idQuantUnreadable = "quantization-unreadable"
	idScaleNonFinite  = "scale-nonfinite"
	idScaleZero       = "scale-zero"
	idScaleOnes       = "scale-ones"
	idZeroMatrix      = "zero-matrix"
	idE8M0Float       = "e8m0-as-float"
	idGlobals         = "globals-differ"
	idInputScale      = "input-scale-missing"
	idW4A8            = "nvfp4-fp8-activations"
)

// kind is one in one line of a table.
func kind(id, rule string, s Severity, title, why, server, fix, trigger string) Kind {
	return Kind{ID: id, Rule: rule, Severity: s, Title: title, Explanation: why, Server: server, Fix: fix, Trigger: trigger}
}

// mended is a kind that a step of mend repairs.
func mended(k Kind, step string) Kind {
	k.Mend = step
	return k
}
