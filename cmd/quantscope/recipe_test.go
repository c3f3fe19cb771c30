package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mixedRecipe is int4 attention beside NVFP4 experts; what it leaves is said.
const mixedRecipe = `name: by-hand
groups:
  - scheme: int4-g128
    targets: ["re:model\\.layers\\.[0-4]\\.self_attn\\.[qkvo]_proj\\.weight"]
  - scheme: nvfp4
    methods: [mse]
    targets: ["*.layers.[1-4].mlp.experts.*"]
ignore: ["*.layers.5.*"]
`

func recipeIn(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestQuantizeRecipe: a recipe is measured, written and verified as one variant, and
// what ran of what was requested is told by share of parameters.
func TestQuantizeRecipe(t *testing.T) {
	for name, c := range map[string]struct {
		recipe, layout string
		groups         []string
	}{
		"recipe:mixed-nvfp4-fp8": {"mixed-nvfp4-fp8", "modelopt", []string{"nvfp4", "fp8-channel"}},
		"recipe:by-hand":         {recipeIn(t, mixedRecipe), "compressed-tensors", []string{"int4-g128", "nvfp4+mse"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			session, out := filepath.Join(dir, "s.qscope"), filepath.Join(dir, "out")
			o := command(t, "quantize", "demo", "--recipe", c.recipe, "--session", session, "--out", out, "--layout", c.layout, "--json")
			if o.code != exitGood {
				t.Fatalf("exit %d: %s", o.code, o.err)
			}
			var doc quantizeDocument
			if err := json.Unmarshal([]byte(o.out), &doc); err != nil {
				t.Fatal(err)
			}
			if len(doc.Variants) != 1 || doc.Variants[0].Variant != name || doc.Targets != name || doc.Export == nil || doc.Export.State != "whole" {
				t.Fatalf("%s", o.out)
			}
			v := doc.Variants[0]
			var names []string
			tensors, share := 0, 0.0
			for _, g := range v.Recipe.Groups {
				names = append(names, g.Variant)
				tensors += g.Tensors
				share += g.ShareParams
			}
			for _, want := range c.groups {
				if !slices.Contains(names, want) {
					t.Errorf("groups %q, want %q", names, c.groups)
				}
			}
			if int64(tensors) != v.Tensors || v.Pending != 0 || v.Kept != 0 || !(share > 0.2 && share < 1) || len(v.Recipe.SHA256) != 64 || len(v.Recipe.Schemes) < 3 {
				t.Errorf("%+v", v.Recipe)
			}
			sum := 0.0
			for _, e := range v.EffectiveShares {
				if e.Requested != e.Effective {
					t.Errorf("%+v fell back", e)
				}
				sum += e.ShareParams
			}
			if math.Abs(sum-1) > 1e-12 || len(v.EffectiveShares) != len(c.groups) {
				t.Errorf("%+v", v.EffectiveShares)
			}

			o = command(t, "verify", "demo", out, "--session", session, "--json")
			var rep struct {
				OK         bool
				Recipe     string `json:"recipe"`
				Checked    int64  `json:"quantized_checked"`
				Reproduced int64  `json:"quantized_reproduced"`
				Compared   int64  `json:"records_compared"`
				From       string `json:"variant_from"`
				Groups     []struct{ Modules, Reproduced int }
			}
			if err := json.Unmarshal([]byte(o.out), &rep); err != nil || o.code != exitGood {
				t.Fatalf("%d: %v: %s %s", o.code, err, o.out, o.err)
			}
			if !rep.OK || "recipe:"+rep.Recipe != name || rep.Reproduced != v.Tensors || rep.Checked != v.Tensors || rep.Compared != v.Tensors || rep.From != "config" || len(rep.Groups) != len(c.groups) {
				t.Errorf("%s", o.out)
			}

			// As text, with the table of what ran; and gone on with by what the session holds.
			o = command(t, session)
			for _, want := range append(c.groups, "requested", "effective", "of parameters", name) {
				if !strings.Contains(o.out, want) {
					t.Errorf("%q is not in %s", want, o.out)
				}
			}
			o = command(t, "quantize", "demo", "--recipe", c.recipe, "--session", session, "--out", out+"2", "--layout", c.layout)
			if o.code != exitGood || !strings.Contains(o.out, "out2: "+c.layout) {
				t.Errorf("%d: %s%s", o.code, o.out, o.err)
			}
			again := command(t, "quantize", "demo", "--recipe", c.recipe, "--session", session, "--variant", "nvfp4", "--json")
			if again.code == exitGood { // the layout's convention may differ from the default
				if err := json.Unmarshal([]byte(again.out), &doc); err != nil || len(doc.Variants) != 2 {
					t.Errorf("%v: %s", err, again.out)
				}
			} else if !strings.Contains(again.err, "was") {
				t.Errorf("%d: %s", again.code, again.err)
			}
		})
	}
}

// TestMeasureRecipes: built-in names and files are candidates.
func TestMeasureRecipes(t *testing.T) {
	o := command(t, "measure", "demo", "--candidate", "recipe:mixed-nvfp4-fp8", "--candidate", "moe-nvfp4", "--candidate", recipeIn(t, mixedRecipe), "--corpus", "prose", "--chunks", "1", "--cache", "none", "--json")
	var doc struct {
		Candidates []struct {
			Candidate string  `json:"candidate"`
			Bits      float64 `json:"bits_per_weight"`
			KL        float64 `json:"kl_mean"`
		}
	}
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
		t.Fatalf("%d: %v: %s", o.code, err, o.err)
	}
	session := filepath.Join(t.TempDir(), "s.qscope")
	if o := command(t, "quantize", "demo", "--recipe", recipeIn(t, mixedRecipe), "--session", session); o.code != exitGood {
		t.Fatalf("%d: %s", o.code, o.err)
	}
	if o := command(t, "measure", "demo", "--session", session, "--candidate", "recipe:by-hand", "--corpus", "prose", "--chunks", "1", "--cache", "none"); o.code != exitGood || !strings.Contains(o.out, "recipe:by-hand") {
		t.Errorf("the session's recipe: %d: %s%s", o.code, o.out, o.err)
	}
	n := 0
	for _, c := range doc.Candidates {
		if strings.Contains(c.Candidate, "nvfp4") || strings.HasSuffix(c.Candidate, "r.yaml") {
			if n++; !(c.KL > 0 && c.KL < 1) || !(c.Bits > 4 && c.Bits < 16) {
				t.Errorf("%+v", c)
			}
		}
	}
	if n != 3 {
		t.Errorf("%s", o.out)
	}
}

// TestRecipeUsage: each refusal is one line that names what is wrong and the choices.
func TestRecipeUsage(t *testing.T) {
	good := recipeIn(t, mixedRecipe)
	session := filepath.Join(t.TempDir(), "s.qscope")
	if o := command(t, "quantize", "demo", "--recipe", good, "--session", session); o.code != exitGood {
		t.Fatalf("%d: %s", o.code, o.err)
	}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"quantize", "demo", "--recipe", "none-such"}, exitUsage, []string{"none-such", "moe-nvfp4", "mixed-nvfp4-fp8"}},
		{[]string{"quantize", "demo", "--recipe", t.TempDir()}, exitUsage, []string{"is no file"}},
		{[]string{"quantize", "demo", "--recipe", recipeIn(t, "groups:\n  - scheme: nvfp5\n    targets: [a]\n")}, exitBadInput, []string{"r.yaml:2", "nvfp5"}},
		{[]string{"quantize", "demo", "--recipe", recipeIn(t, "groups: [")}, exitBadInput, []string{"r.yaml"}},
		{[]string{"quantize", "demo", "--recipe", recipeIn(t, "name: x\ngroups:\n  - {scheme: nvfp4, targets: [\"*.experts.*\"]}\n  - {scheme: fp8, targets: [\"*.experts.3.*\"]}\n")}, exitBadInput, []string{"\"x\"", "overlap"}},
		{[]string{"quantize", "demo", "--recipe", recipeIn(t, "name: x\ngroups:\n  - {scheme: int4-g128, methods: [gptq], targets: [\"*.mlp.experts.*\"]}\n")}, exitBadInput, []string{"group 1", "int4-g128+gptq", "calibrated"}},
		{[]string{"quantize", "demo", "--recipe", good, "--recipe", good}, exitUsage, []string{"by-hand"}},
		{[]string{"quantize", "demo", "--recipe", good, "--variant", "nvfp4", "--out", filepath.Join(t.TempDir(), "o"), "--layout", "modelopt"}, exitUsage, []string{"one variant", "nvfp4, recipe:by-hand"}},
		{[]string{"quantize", "demo", "--recipe", good, "--out", filepath.Join(t.TempDir(), "o"), "--layout", "quantscope"}, exitBadInput, []string{"quantscope", "nvfp4"}},
		{[]string{"quantize", "demo", "--recipe", good, "--from-codes", "x"}, exitUsage, []string{"--recipe and --from-codes"}},
		{[]string{"quantize", "demo", "--recipe", recipeIn(t, strings.Replace(mixedRecipe, "[mse]", "[sweep]", 1)), "--session", session}, exitUsage, []string{"recipe by-hand", "sha256"}},
		{[]string{"quantize", filepath.Join(caseDir(t, "C26")), "--recipe", recipeIn(t, "name: linear\ngroups:\n  - {scheme: nvfp4, targets: [\"*proj.weight\"]}\n")}, exitBadInput, []string{"25.0 %", "3-D", "gate_up_proj"}},
		{[]string{session, "--recipe", good}, exitUsage, []string{"--recipe", "saved session"}},
	} {
		o := command(t, c.args...)
		o.refused(t, c.code)
		for _, w := range c.want {
			if !strings.Contains(o.err, w) {
				t.Errorf("%q: %q is not in %s", c.args, w, o.err)
			}
		}
	}
}

// TestWorkbenchTakesRecipes: without a terminal the workbench is a plain run.
func TestWorkbenchTakesRecipes(t *testing.T) {
	o := command(t, "demo", "--recipe", "moe-nvfp4", "--session", filepath.Join(t.TempDir(), "s.qscope"))
	if o.code != exitGood || !strings.Contains(o.out, "recipe:moe-nvfp4") || strings.Contains(o.out, "nvfp4+mse_ge1") {
		t.Errorf("%d: %s%s", o.code, o.out, o.err)
	}
}

// TestNaNWeightsLeaveTheExportMarked is case C22: the error names file, tensor and
// position, the clean tensor is measured, and the output is marked incomplete.
func TestNaNWeightsLeaveTheExportMarked(t *testing.T) {
	dir := caseDir(t, "C22")
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Error expectation `json:"quantize_error"`
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want.Error.MustMention) == 0 {
		t.Fatalf("%v: %s", err, data)
	}
	for name, args := range map[string][]string{
		"variant": {"--targets", "*", "--variant", "nvfp4"},
		"recipe":  {"--recipe", recipeIn(t, "name: x\ngroups:\n  - {scheme: nvfp4, targets: [\"*.gate_proj.weight\"]}\n  - {scheme: nvfp4, methods: [mse], targets: [\"*.up_proj.weight\"]}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			o := command(t, append([]string{"quantize", dir, "--out", out, "--layout", "modelopt", "--json"}, args...)...)
			if o.code != exitBadInput {
				t.Fatalf("exit %d: %s", o.code, o.err)
			}
			want.Error.mentions(t, o.err)
			if !strings.Contains(o.err, "[3,17]") || !strings.Contains(o.err, "[0,5]") || !strings.Contains(o.err, "is incomplete") {
				t.Errorf("%s", o.err)
			}
			var doc quantizeDocument
			if err := json.Unmarshal([]byte(o.out), &doc); err != nil || doc.Export.State != "incomplete" || doc.Variants[0].Tensors != 1 || doc.Variants[0].Failed != 1 {
				t.Errorf("%v: %s", err, o.out)
			}
			if left, err := filepath.Glob(filepath.Join(out, "incomplete-export*")); err != nil || len(left) == 0 {
				t.Errorf("%v: the output is not marked", err)
			}
			if _, err := os.Stat(filepath.Join(out, "config.json")); err == nil {
				t.Error("the output has a config")
			}
		})
	}
}
