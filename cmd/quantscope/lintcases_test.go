package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/lint"
)

// findingCase is the part of expect.json about findings.
type findingCase struct {
	expectation
	Findings []struct {
		Tensor string
		expectation
	}
	NotNamed []string `json:"not_named"`
	Clean    []string
}

func findingCaseOf(t *testing.T, dir string) (e findingCase) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// C20, C37, C38, C39: the gate fails, each finding says what expect.json wants, and
// nothing is said of what is right.
func TestFindingCases(t *testing.T) {
	const layouts = "../../quant/layout/testdata/cases/"
	for _, dir := range []string{caseDir(t, "C20"), layouts + "C37-ignore-list", caseDir(t, "C38"), caseDir(t, "C39")} {
		e := findingCaseOf(t, dir)
		if e.Kind != "finding" {
			t.Fatalf("%s: kind %s", dir, e.Kind)
		}
		o := command(t, "lint", dir)
		if o.code != exitCheckFailed {
			t.Errorf("%s: exit %d: %s", dir, o.code, o.err)
		}
		e.mentions(t, o.out)
		d := linted(t, dir)
		for _, want := range e.Findings {
			i := slices.IndexFunc(d.Findings, func(f lint.Finding) bool {
				said := strings.ToLower(strings.Join([]string{f.File, f.Tensor, f.Message}, " "))
				return !slices.ContainsFunc(want.MustMention, func(w string) bool { return !strings.Contains(said, strings.ToLower(w)) })
			})
			if i < 0 {
				t.Errorf("%s: no finding mentions %q", dir, want.MustMention)
				continue
			}
			f := d.Findings[i]
			want.mentions(t, strings.Join([]string{f.File, f.Tensor, f.Message, f.Explanation, fmt.Sprint(f.Evidence)}, " "))
		}
		for _, name := range slices.Concat(e.NotNamed, e.Clean) {
			if strings.Contains(o.out, name) {
				t.Errorf("%s: %s is right, and named: %s", dir, name, o.out)
			}
		}
	}
}

// C24: the experts that differ, with their ratios.
func TestGlobalScaleCase(t *testing.T) {
	dir := censusCase("C24-gate-up-scales")
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Pairs     int
		Differing []struct {
			Expert int
			Ratio  float64 `json:"ratio_up_over_gate"`
		}
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	d := linted(t, dir)
	i := slices.IndexFunc(d.Findings, func(f lint.Finding) bool { return f.ID == "globals-differ" })
	if i < 0 || !d.Failed {
		t.Fatalf("%+v", d)
	}
	said := d.Findings[i].Message
	if !strings.Contains(said, fmt.Sprintf("%d of %d blocks", len(e.Differing), e.Pairs)) {
		t.Error(said)
	}
	for _, x := range e.Differing {
		if want := fmt.Sprintf("expert %d up/gate %.6g", x.Expert, x.Ratio); !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
}

// C36: a token list that begins twice is found in a folder that has no weights.
func TestBeginTwiceCase(t *testing.T) {
	dir := caseDir(t, "C36")
	o := command(t, "lint", filepath.Join(dir, "bos"))
	if o.code != exitCheckFailed {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
	expected(t, dir).PerDir["bos"].mentions(t, o.out)
	for _, w := range []string{"tokens.jsonl", "positions 0 and 1", "id 1", "3 of 3 lists"} {
		if !strings.Contains(o.out, w) {
			t.Errorf("no %q in %s", w, o.out)
		}
	}
}

// C40: sizes that are nested, and a rope without its original length, are derived
// and said; neither shapes nor heads are called wrong.
func TestGeometryCase(t *testing.T) {
	dir := caseDir(t, "C40")
	for _, sub := range []string{"nested", "old"} {
		d := linted(t, filepath.Join(dir, sub))
		original := 0
		for _, f := range d.Findings {
			if f.ID == "attention-geometry" || f.ID == "head-dim-mixed" || f.ID == "config-value" {
				t.Errorf("%s: %+v", sub, f)
			}
			if f.ID == "rope-original-missing" {
				original++
			}
		}
		if want := map[string]int{"old": 1}[sub]; original != want {
			t.Errorf("%s: %d findings about the original length, want %d", sub, original, want)
		}
	}
}

// C22: with --weights, NaN and infinity of plain weights are counted with their
// places, and the clean matrix is not named; inspect says the same of the tensor.
func TestNaNWeightsCase(t *testing.T) {
	if o := command(t, "inspect", caseDir(t, "C22"), "--tensor", "model.layers.7.mlp.gate_proj.weight"); !strings.Contains(o.out, "NaN 1, infinite 1, zero 0") || !strings.Contains(o.out, "non-finite at [0,5] [3,17]\n") {
		t.Error(o.out, o.err)
	}
	d := linted(t, caseDir(t, "C22"), "--weights")
	var named []string
	for _, f := range d.Findings {
		if f.ID != "weight-nonfinite" {
			continue
		}
		named = append(named, f.Tensor)
		for _, w := range []string{"1 NaN and 1 infinite", "NaN [3,17]", "Inf [0,5]"} {
			if !strings.Contains(f.Message, w) {
				t.Errorf("no %q in %s", w, f.Message)
			}
		}
	}
	if !slices.Equal(named, []string{"model.layers.7.mlp.gate_proj.weight"}) || !d.Failed {
		t.Errorf("%q", named)
	}
}

// Every case's folder in the repository is the same everywhere, and docs/cases.md
// names a test that there is for each of C01 to C40.
func TestCasesAreListed(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir(filepath.Join("..", ".."), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(strings.TrimSpace(cells[1]), "C") {
			rows[strings.TrimSpace(cells[1])] = cells[3]
		}
	}
	for i := 1; i <= 40; i++ {
		id := fmt.Sprintf("C%02d", i)
		row, ok := rows[id]
		if !ok || !strings.Contains(row, "Test") {
			t.Errorf("docs/cases.md names no test of %s", id)
		}
		for word := range strings.FieldsSeq(strings.NewReplacer("`", " ", ",", " ", "(", " ").Replace(row)) {
			if strings.HasPrefix(word, "Test") && !strings.Contains(tests.String(), "func "+word+"(") {
				t.Errorf("%s: there is no test %s", id, word)
			}
		}
	}
}
