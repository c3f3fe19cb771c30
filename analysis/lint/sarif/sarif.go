// Package sarif writes findings as SARIF 2.1.0, which code hosts and editors show.
//
// Promises: the document is valid against the standard's schema; rules are the
// kinds that findings are of, in the order of the documentation; places are
// relative to the checkpoint, whose own place is given once; a finding keeps its
// fingerprint as long as its id, file and tensor stay.
package sarif

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"quantscope/analysis/lint"
)

// Version and schema of the standard.
const (
	Version = "2.1.0"
	Schema  = "https://json.schemastore.org/sarif-2.1.0.json"
)

// base is the name by which places refer to the checkpoint.
const base = "CHECKPOINT"

// Run is what is written of one lint.
type Run struct {
	Tool     string // version of the program
	Folder   string // absolute path of the checkpoint's folder, "" for one that lies in none
	Findings []lint.Finding
	Failed   bool // the gate
}

type document struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []run  `json:"runs"`
}

type run struct {
	Tool        tool                `json:"tool"`
	Invocations []invocation        `json:"invocations"`
	Bases       map[string]artifact `json:"originalUriBaseIds,omitempty"`
	Results     []result            `json:"results"`
	ColumnKind  string              `json:"columnKind"`
}

type tool struct {
	Driver driver `json:"driver"`
}

type driver struct {
	Name    string `json:"name"`
	Version string `json:"semanticVersion"`
	Rules   []rule `json:"rules"`
}

type text struct {
	Text string `json:"text"`
}

type rule struct {
	ID         string         `json:"id"`
	Short      text           `json:"shortDescription"`
	Full       text           `json:"fullDescription"`
	Help       text           `json:"help"`
	Default    configuration  `json:"defaultConfiguration"`
	Properties map[string]any `json:"properties"`
}

type configuration struct {
	Level string `json:"level"`
}

type invocation struct {
	Successful bool `json:"executionSuccessful"`
	ExitCode   int  `json:"exitCode"`
}

type artifact struct {
	URI  string `json:"uri"`
	Base string `json:"uriBaseId,omitempty"`
}

type result struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      text              `json:"message"`
	Locations    []location        `json:"locations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints"`
	Properties   map[string]any    `json:"properties,omitempty"`
}

type location struct {
	Physical *physical `json:"physicalLocation,omitempty"`
	Logical  []logical `json:"logicalLocations,omitempty"`
}

type physical struct {
	Artifact artifact `json:"artifactLocation"`
	Region   *region  `json:"region,omitempty"`
}

type region struct {
	StartLine int `json:"startLine"`
}

type logical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

// Write writes the document.
func Write(w io.Writer, r Run) error {
	rules, at := rulesOf(r.Findings)
	out := run{
		Tool:        tool{driver{Name: "quantscope lint", Version: r.Tool, Rules: rules}},
		Invocations: []invocation{{Successful: true, ExitCode: exitCode(r.Failed)}},
		Results:     []result{}, ColumnKind: "unicodeCodePoints",
	}
	if r.Folder != "" {
		out.Bases = map[string]artifact{base: {URI: (&url.URL{Scheme: "file", Path: strings.TrimSuffix(filepath.ToSlash(r.Folder), "/") + "/"}).String()}}
	}
	for i := range r.Findings {
		out.Results = append(out.Results, resultOf(&r.Findings[i], at, r.Folder != ""))
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(document{Schema, Version, []run{out}})
}

func exitCode(failed bool) int {
	if failed {
		return 1
	}
	return 0
}

// rulesOf are the kinds of the findings, in the order of the documentation, with
// the index of each.
func rulesOf(findings []lint.Finding) ([]rule, map[string]int) {
	seen := map[string]bool{}
	var kinds []lint.Kind
	for i := range findings {
		if id := findings[i].ID; !seen[id] {
			seen[id] = true
			kinds = append(kinds, lint.KindOf(id))
		}
	}
	order := map[string]int{}
	for i, k := range lint.Kinds() {
		order[k.ID] = i + 1
	}
	place := func(id string) int {
		if n := order[id]; n > 0 {
			return n
		}
		return len(order) + 1
	}
	slices.SortStableFunc(kinds, func(a, b lint.Kind) int {
		return cmp.Or(cmp.Compare(place(a.ID), place(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	rules, at := []rule{}, map[string]int{}
	for i, k := range kinds {
		at[k.ID] = i
		rules = append(rules, rule{
			ID: k.ID, Short: text{k.Title}, Full: text{k.Explanation}, Help: text{"A server: " + k.Server + " To do: " + k.Fix + "."},
			Default: configuration{level(k.Severity)}, Properties: map[string]any{"rule": k.Rule, "trigger": k.Trigger},
		})
	}
	return rules, at
}

// level is a severity in the standard's words.
func level(s lint.Severity) string {
	switch s {
	case lint.Error, lint.Warning, lint.Note:
		return string(s)
	}
	return "none"
}

func resultOf(f *lint.Finding, at map[string]int, inFolder bool) result {
	message := f.Message
	if message == "" {
		message = f.ID
	}
	x := result{RuleID: f.ID, RuleIndex: at[f.ID], Level: level(f.Severity), Message: text{message}}
	sum := sha256.Sum256([]byte(f.ID + "\x00" + f.File + "\x00" + f.Tensor))
	x.Fingerprints = map[string]string{"quantscopeFinding/v1": hex.EncodeToString(sum[:16])}
	var l location
	if f.File != "" {
		l.Physical = &physical{Artifact: artifactOf(f.File, inFolder)}
		if f.Line > 0 {
			l.Physical.Region = &region{f.Line}
		}
	}
	if f.Tensor != "" {
		l.Logical = []logical{{f.Tensor, "object"}}
	}
	if l.Physical != nil || l.Logical != nil {
		x.Locations = []location{l}
	}
	x.Properties = map[string]any{"fix": f.Fix}
	if f.Mend != "" {
		x.Properties["mend"] = f.Mend
	}
	if f.More > 0 {
		x.Properties["more"] = f.More
	}
	if len(f.Evidence) > 0 {
		e := map[string]string{}
		for _, v := range f.Evidence {
			e[v.What] = v.Value
		}
		x.Properties["evidence"] = e
	}
	return x
}

// artifactOf is the place of a file: relative to the checkpoint, or as a whole
// where its path is one.
func artifactOf(file string, inFolder bool) artifact {
	path := filepath.ToSlash(file)
	if !utf8.ValidString(path) {
		path = strings.ToValidUTF8(path, "\uFFFD")
	}
	if filepath.IsAbs(file) {
		return artifact{URI: (&url.URL{Scheme: "file", Path: path}).String()}
	}
	u := url.URL{Path: path} // a first part with a colon gets ./ before it
	a := artifact{URI: u.String()}
	if inFolder && !strings.HasPrefix(path, "../") {
		a.Base = base
	}
	return a
}
