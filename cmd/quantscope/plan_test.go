package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	recipes "quantscope/quant/plan"
)

func planned(t *testing.T, args ...string) (recipes.Plan, outcome) {
	t.Helper()
	o := command(t, append(append([]string{"plan"}, args...), "--json")...)
	var p recipes.Plan
	if err := json.Unmarshal([]byte(o.out), &p); err != nil {
		t.Fatalf("plan %v: %v: %s", args, err, o.err)
	}
	return p, o
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlanOfBuiltins(t *testing.T) {
	for _, name := range []string{"moe-nvfp4", "mixed-nvfp4-fp8", "int4-g128"} {
		p, o := planned(t, "demo", "--recipe", name)
		if o.code != 0 || len(p.Findings) != 0 || p.Recipe != name || !strings.HasPrefix(p.Source, "https://") {
			t.Errorf("%s: exit %d, %+v: %s", name, o.code, p.Findings, o.err)
		}
		text := command(t, "plan", "demo", "--recipe", name, "--ranks", "2", "--kv-tokens", "4Ki", "--bandwidth", "1.8TB/s")
		for _, want := range []string{"192 of 192 targeted: 4 layers × 16 experts × 3 projections; 1 MTP layer left alone", "left out MTP layers, 2.36 MB", "bf16 of 4096 tokens"} {
			if text.code != 0 || !strings.Contains(text.out, want) {
				t.Errorf("%s: %q is not in %s", name, want, text.out)
			}
		}
	}
	list := command(t, "plan", "--list")
	if list.code != 0 || strings.Count(list.out, "follows https://") < 6 {
		t.Errorf("exit %d: %s", list.code, list.out)
	}
}

// An error in a recipe is exit 1 with the report whole on standard output, unless it
// is accepted.
func TestPlanOfABrokenRecipe(t *testing.T) {
	path := writeText(t, "broken.yaml", "groups:\n  - scheme: nvfp4\n    targets: ['*.mlp.*']\n")
	p, o := planned(t, "demo", "--recipe", path)
	if o.code != 1 || !strings.Contains(o.err, "router-targeted") || p.Err() == nil || p.Recipe != "broken" {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
	if strings.Count(o.err, "\n") != 1 {
		t.Errorf("more than a line: %q", o.err)
	}
	_, o = planned(t, "demo", "--recipe", path, "--accept", "router-targeted")
	if o.code != 0 {
		t.Errorf("accepted, exit %d: %s", o.code, o.err)
	}
	if o := command(t, "plan", "demo", "--recipe", path); !strings.Contains(o.out, "error    router-targeted: groups[0].targets[0]") {
		t.Error(o.out)
	}
}

func TestPlanUsage(t *testing.T) {
	good := writeText(t, "good.yaml", "groups:\n  - scheme: nvfp4\n    targets: ['*.experts.*']\n")
	bad := writeText(t, "bad.yaml", "groups: 3\n")
	for _, c := range []struct {
		args []string
		code int
		part string
	}{
		{nil, 2, "one checkpoint"},
		{[]string{"demo"}, 2, "plan needs --recipe"},
		{[]string{"--list", "demo"}, 2, "takes no checkpoint"},
		{[]string{"demo", "--recipe", "moe-nvfp5"}, 2, "moe-nvfp4, mixed-nvfp4-fp8, int4-g128"},
		{[]string{"demo", "--recipe", good, "--variant", "nvfp4"}, 2, "exclude each other"},
		{[]string{"demo", "--recipe", good, "--targets", "*"}, 2, "--targets goes with --variant"},
		{[]string{"demo", "--recipe", good, "--ranks", "0"}, 2, "at least one"},
		{[]string{"demo", "--recipe", good, "--ranks", "5000"}, 2, "5000 ranks"},
		{[]string{"demo", "--recipe", good, "--layout", "gptq3"}, 2, "compressed-tensors"},
		{[]string{"demo", "--recipe", good, "--kv-format", "int4"}, 2, "bf16, f16, fp8"},
		{[]string{"demo", "--recipe", good, "--kv-tokens", "many"}, 2, "64Ki"},
		{[]string{"demo", "--recipe", good, "--bandwidth", "fast"}, 2, "1.8TB/s"},
		{[]string{"demo", "--recipe", good, "--loader", "Glm4MoeThing"}, 2, "ForCausalLM"},
		{[]string{"demo", "--recipe", good, "--accept", "routers"}, 2, "router-targeted"},
		{[]string{"demo", "--recipe", good, "--force"}, 2, "--force goes with --write"},
		{[]string{"demo", "--variant", "nvfp5"}, 2, "nvfp5"},
		{[]string{"demo", "--variant", "nvfp4", "--targets", "*.expert.*"}, 2, "nearest"},
		{[]string{"demo", "--recipe", bad}, 3, "bad.yaml:1: groups is a list"},
		{[]string{"model.gguf", "--recipe", good}, 3, "GGUF"},
		{[]string{filepath.Join(t.TempDir(), "none"), "--recipe", good}, 3, "none"},
	} {
		o := command(t, append([]string{"plan"}, c.args...)...)
		if o.code != c.code || !strings.Contains(o.err, c.part) || o.out != "" {
			t.Errorf("plan %v: exit %d, want %d with %q: %s%s", c.args, o.code, c.code, c.part, o.err, o.out)
		}
	}
}

// What is written is read back to the same plan, and a file keeps its comments.
func TestPlanWrites(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"--recipe", "mixed-nvfp4-fp8"}, {"--variant", "nvfp4+mse"}, {"--variant", "nvfp4", "--targets", "*.mlp.*"}} {
		out := filepath.Join(dir, strings.Join(args[1:2], "")+".yaml")
		first, o := planned(t, append([]string{"demo", "--write", out, "--force"}, args...)...)
		second, again := planned(t, "demo", "--recipe", out)
		if o.code != 0 || again.code != 0 || first.BytesAfter != second.BytesAfter || first.Targeted != second.Targeted || first.Ignored != second.Ignored {
			t.Errorf("%v: %d and %d bytes, %s%s", args, first.BytesAfter, second.BytesAfter, o.err, again.err)
		}
	}
	path := writeText(t, "own.yaml", "# why these\nname: own # short\ngroups:\n  - scheme: nvfp4 # for now W4A16\n    targets: ['*.layers.[1-4].mlp.experts.*']\n")
	out := filepath.Join(dir, "copy.yaml")
	if _, o := planned(t, "demo", "--recipe", path, "--write", out); o.code != 0 {
		t.Fatal(o.err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := planned(t, "demo", "--recipe", out)
	want := "# why these\nsource: '" + p.Identity + "'\nname: own # short\n"
	if !strings.HasPrefix(string(text), want) || !strings.Contains(string(text), "# for now W4A16") {
		t.Errorf("%s", text)
	}
	if o := command(t, "plan", "demo", "--recipe", path, "--write", out); o.code != 2 || !strings.Contains(o.err, "--force") {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
}

// Attention is a quarter of the parameters of that checkpoint's linear maps, and a
// recipe that names weights as a Linear has them reaches nothing else.
func TestPlanOfFusedExperts(t *testing.T) {
	path := writeText(t, "linear.yaml", "groups:\n  - scheme: nvfp4\n    targets: ['*.weight']\n")
	p, o := planned(t, caseDir(t, "C26"), "--recipe", path)
	var text string
	for _, f := range p.Findings {
		if f.ID == recipes.FusedMissed {
			text = f.Message
		}
	}
	if o.code != 1 || !strings.Contains(text, "reaches 25.0 % of the parameters of linear maps; 75.0 % stand in 2 3-D tensors") {
		t.Errorf("exit %d: %q", o.code, text)
	}
}

// No head is counted that is not there, though the config says that the embedding is
// none.
func TestPlanOfAMissingHead(t *testing.T) {
	p, o := planned(t, caseDir(t, "C38"), "--variant", "fp8", "--targets", "*")
	const stored = (64*16 + 16) * 2 // embedding and norm
	if p.Before.WeightsBytes != stored || p.BytesBefore != stored || p.DecodeBefore.BytesPerToken != 2*(16+16) {
		t.Errorf("%+v, a token reads %+v", p.Before, p.DecodeBefore)
	}
	expected(t, caseDir(t, "C38")).mentions(t, o.out)
}

// Sizes of heads stand in a nested config, or follow from others: 4 heads of 8 in the
// one, 2 of 8 in the other, which stores keys alone.
func TestPlanOfGeometry(t *testing.T) {
	for dir, want := range map[string]int64{"nested": 2 * 4 * 8 * 2 * 1000, "old": 2 * 2 * 8 * 2 * 1000} {
		p, o := planned(t, filepath.Join(caseDir(t, "C40"), dir), "--recipe", "int4-g128", "--kv-tokens", "1k", "--ranks", "2")
		if o.code != 0 || p.After.KVBytes*2 != want {
			t.Errorf("%s: exit %d, %d bytes on each of two: %s", dir, o.code, p.After.KVBytes, o.err)
		}
		for _, f := range p.Findings {
			if f.ID == recipes.RankHeads {
				t.Errorf("%s: %+v", dir, f)
			}
		}
	}
}
