package lint

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/layout"
)

var update = flag.Bool("update", false, "write docs/lint.md anew from the table of kinds")

const (
	docBegin = "<!-- kinds: written by go test ./analysis/lint -update -->\n"
	docEnd   = "<!-- end of kinds -->\n"
)

// document is the part of docs/lint.md that follows from the table.
func document() string {
	var b strings.Builder
	help := map[string]string{}
	for _, list := range [][]Rule{Rules(), ggufRules()} {
		for _, r := range list {
			if help[r.ID] == "" {
				help[r.ID] = r.Help
			}
		}
	}
	rule := ""
	for _, k := range Kinds() {
		if k.Rule != rule {
			rule = k.Rule
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n", rule, help[rule])
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s: %s. %s\n\n", k.ID, k.Severity, k.Title, k.Explanation)
		fmt.Fprintf(&b, "- A server: %s\n- To do: %s.\n- Looked at: %s.\n", k.Server, k.Fix, k.Trigger)
		if k.Mend != "" {
			fmt.Fprintf(&b, "- `quantscope mend` repairs it: step `%s`.\n", k.Mend)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// docs/lint.md has every kind as the table has it.
func TestDocumentation(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "lint.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), docBegin)
	now, tail, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks of the kinds", path)
	}
	want := document()
	if *update {
		if err := os.WriteFile(path, []byte(head+docBegin+want+docEnd+tail), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if now != want {
		t.Errorf("%s is not what the table of kinds says: go test ./analysis/lint -update", path)
	}
}

// A kind says everything, once, and ids and rules are stable words.
func TestKindsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	var rules []string
	for _, list := range [][]Rule{Rules(), ggufRules(), folderRules()} {
		for _, r := range list {
			rules = append(rules, r.ID)
		}
	}
	for _, k := range Kinds() {
		if seen[k.ID] {
			t.Errorf("%s stands twice", k.ID)
		}
		seen[k.ID] = true
		if strings.Trim(k.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || !slices.Contains(rules, k.Rule) || k.Severity.rank() < 0 {
			t.Errorf("%+v", k)
		}
		for _, s := range []string{k.Title, k.Explanation, k.Server, k.Fix, k.Trigger} {
			if s == "" || strings.TrimSpace(s) != s {
				t.Errorf("%s: %q", k.ID, s)
			}
		}
		if !strings.HasSuffix(k.Explanation, ".") || !strings.HasSuffix(k.Server, ".") || strings.HasSuffix(k.Fix, ".") {
			t.Errorf("%s: sentences end with a period, the fix does not", k.ID)
		}
		if k.Mend != "" && !slices.Contains([]string{MendGraft, MendIgnore, MendProcessors, MendTokenizer, MendTemplate}, k.Mend) {
			t.Errorf("%s: %s is no step of mend", k.ID, k.Mend)
		}
	}
	for _, id := range []string{
		layout.Undeclared, layout.Ignored, layout.NotQuantized, layout.Contradicts, layout.ConfigsDisagree, layout.UnmatchedPattern, layout.UnreadPattern,
		layout.Incomplete, layout.UnknownForm, layout.Mislabelled, layout.NoGroupIndex, layout.GroupRange, layout.ZeroPointZero, layout.NotMiddle,
	} {
		if !seen[id] {
			t.Errorf("%s of package layout has no kind", id)
		}
	}
	if err := CheckIDs([]string{"scale-zero", "scale-zeros"}); err == nil || !strings.Contains(err.Error(), "scale-nonfinite") {
		t.Errorf("an unknown id: %v", err)
	}
}

// An id that no table has is an error of its layout, not silence.
func TestUnknownIDsAreErrors(t *testing.T) {
	if k := KindOf("something-new"); k.Severity != Error || k.Rule != ruleQuantization || k.Server == "" {
		t.Errorf("%+v", k)
	}
}
