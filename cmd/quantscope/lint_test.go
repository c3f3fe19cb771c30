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

// What flags cannot mean is refused with the words that they can.
func TestLintUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"lint", "lint takes one checkpoint"}, {"lint demo demo", "lint takes one checkpoint"},
		{"lint demo --fail-on bad", `--fail-on "bad" is none of error, warning, note, never`},
		{"lint demo --ignore scale-zero,scales", `"scales" is the id of no finding (known: index-unlisted`},
		{"lint demo --most -1", "--most -1"}, {"lint demo --json --sarif -", "both write to standard output"},
		{"lint demo --zero-points v9", "--zero-points"}, {"lint testdata/cases/C36-token-streams/bos --from demo", "--from is for checkpoints of safetensors"},
	} {
		o := command(t, strings.Fields(c.args)...)
		o.refused(t, exitUsage)
		if !strings.Contains(o.err, c.want) {
			t.Errorf("%s: %s", c.args, o.err)
		}
	}
	gone := filepath.Join(t.TempDir(), "gone")
	for _, args := range [][]string{{"--from", gone}, {"--log", gone}, {"--recipe", gone}} {
		o := command(t, append([]string{"lint", "demo"}, args...)...)
		o.refused(t, exitBadInput)
	}
	for _, flag := range []string{"--from", "--recipe", "--sarif"} { // as a variable that is not set leaves it
		command(t, "lint", "demo", flag, "").refused(t, exitUsage)
	}
	bad := filepath.Join(t.TempDir(), "recipe.yaml")
	if err := os.WriteFile(bad, []byte("groups: 7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, "lint", "demo", "--recipe", bad).refused(t, exitBadInput)
	o := command(t, "lint", "demo", "--sarif", filepath.Join(gone, "x.sarif"))
	o.refused(t, exitEnvironment)
}

// --fail-on says at which severity the gate fails, --ignore leaves findings out,
// --most lists fewer.
func TestLintGate(t *testing.T) {
	dir := filepath.Join(caseDir(t, "C20"))
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, exitCheckFailed}, {[]string{"--fail-on", "never"}, exitGood}, {[]string{"--ignore", "scale-nonfinite"}, exitGood},
		{[]string{"--ignore", "scale-nonfinite", "--fail-on", "warning"}, exitCheckFailed}, {[]string{"--ignore", "scale-nonfinite,config-missing,layers-missing", "--fail-on", "note"}, exitGood},
	} {
		if o := command(t, append([]string{"lint", dir}, c.args...)...); o.code != c.code || o.err != "" {
			t.Errorf("%v: exit %d, want %d: %s%s", c.args, o.code, c.code, o.out, o.err)
		}
	}
	e := editOf(t, exported(t, "modelopt", "nvfp4"))
	for name := range e.tensors {
		if strings.HasSuffix(name, "down_proj.weight_scale_2") {
			e.number(name, 1)
		}
	}
	broken := e.write()
	for most, want := range map[string]int{"3": 3, "0": 80} {
		d := linted(t, broken, "--most", most)
		ones := 0
		more := 0
		for _, f := range d.Findings {
			if f.ID == "scale-ones" {
				ones++
				more += f.More
			}
		}
		if ones != want || ones+more != 80 {
			t.Errorf("--most %s: %d listed, %d more", most, ones, more)
		}
	}
}

// --rules lists every kind; with --json the whole table.
func TestLintRules(t *testing.T) {
	o := command(t, "lint", "--rules")
	var d struct{ Kinds []lint.Kind }
	if err := json.Unmarshal([]byte(command(t, "lint", "--rules", "--json").out), &d); err != nil || o.code != exitGood {
		t.Fatalf("%v: %+v", err, o)
	}
	for _, k := range d.Kinds {
		if !strings.Contains(o.out, k.ID) || k.Explanation == "" {
			t.Errorf("%+v", k)
		}
	}
	if len(d.Kinds) != len(lint.Kinds()) || len(d.Kinds) < 60 {
		t.Errorf("%d kinds", len(d.Kinds))
	}
}

// SARIF is written whole, with the place of the checkpoint and the gate's verdict.
func TestLintSARIF(t *testing.T) {
	out := filepath.Join(t.TempDir(), "lint.sarif")
	dir := caseDir(t, "C20")
	if o := command(t, "lint", dir, "--sarif", out); o.code != exitCheckFailed || !strings.Contains(o.out, "scale-nonfinite") {
		t.Fatalf("%+v", o)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{`"version": "2.1.0"`, `"ruleId": "scale-nonfinite"`, `"exitCode": 1`, `"uri": "model.safetensors"`, `"fullyQualifiedName": "model.layers.4.self_attn.o_proj.weight_scale"`, "file://" + filepath.ToSlash(abs) + "/"} {
		if !strings.Contains(string(text), w) {
			t.Errorf("no %s in %s", w, text)
		}
	}
	if o := command(t, "lint", dir, "--sarif", out); o.code != exitCheckFailed {
		t.Errorf("over an earlier report: %+v", o)
	}
	other := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(other, []byte(`{"version": "2.1.0"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, "lint", dir, "--sarif", other).refused(t, exitUsage)
	command(t, "lint", dir, "--sarif", filepath.Dir(other)).refused(t, exitUsage)
	if kept, err := os.ReadFile(other); err != nil || string(kept) != `{"version": "2.1.0"}` {
		t.Errorf("holds %q, %v", kept, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	o := command(t, "lint", "demo", "--sarif", "-")
	var doc map[string]any
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
		t.Errorf("%v: %+v", err, o)
	}
}

// What a log says is a finding with its line, however it is buried; what
// llama-quantize wrote against what it was asked for is a table.
func TestLintLogs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "run.log")
	text := "\x1b[32mINFO\x1b[0m start\nCalibrating:   3%|▎| 1/32 [00:00<00:10]\rWARNING imatrix_mse: all zeros. Falling back to uniform MSE.\rCalibrating: 100%|█| 32/32 [00:01<00:00, 32.00it/s] and a long end of the line\n"
	if err := os.WriteFile(log, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	llama := "../../analysis/lint/logs/testdata/llama-quantize.log"
	d := linted(t, "demo", "--log", log, "--log", llama)
	i := slices.IndexFunc(d.Findings, func(f lint.Finding) bool { return f.ID == "log-uniform-observer" })
	if i < 0 || d.Findings[i].Line != 2 || d.Findings[i].File != log || !strings.Contains(fmt.Sprint(d.Findings[i].Evidence), "written over") || !d.Failed {
		t.Errorf("%+v", d.Findings)
	}
	fell := 0.0
	for _, s := range d.Effective {
		if s.By == llama && s.Differs {
			fell += s.Share
		}
	}
	if fell < 0.09 || fell > 0.1 { // 3,096,576 of 32,295,168 parameters that the excerpt lists
		t.Errorf("%v of the parameters fell back: %+v", fell, d.Effective)
	}
	if o := command(t, "lint", "demo", "--log", llama); !strings.Contains(o.out, "requested  effective") || !strings.Contains(o.out, "differs, as blk.0.attn_k.weight") {
		t.Errorf("%s", o.out)
	}
}

// A recipe is held against what is stored, matrix by matrix.
func TestLintRecipe(t *testing.T) {
	dir := exported(t, "modelopt", "nvfp4")
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "recipe.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	d := linted(t, dir, "--recipe", write("groups:\n- targets: ['*.mlp.experts.*']\n  scheme: nvfp4\n"))
	if len(d.Findings) != 0 || len(d.Effective) != 2 || d.Effective[0].Requested != "nvfp4" || d.Effective[0].Tensors != 240 || d.Effective[0].Differs {
		t.Errorf("%+v %+v", d.Findings, d.Effective)
	}
	d = linted(t, dir, "--recipe", write("groups:\n- targets: ['*.mlp.experts.*.down_proj.weight']\n  scheme: fp8\n- targets: ['*.self_attn.q_proj.weight']\n  scheme: nvfp4\nignore: ['*.nothing']\n"))
	var said []string
	for _, f := range d.Findings {
		said = append(said, f.ID+" "+f.Message)
	}
	text := strings.Join(said, "\n")
	for _, w := range []string{"80 matrices, 25.3 % of the parameters, were asked to be fp8 and are nvfp4, the first model.layers.1.mlp.experts.0.down_proj.weight", "6 matrices, 1.9 % of the parameters, were asked to be nvfp4 and are BF16", "160 matrices, 50.5 % of the parameters, were asked to be kept and are nvfp4", `recipe-pattern-unmatched "*.nothing" of ignore matches nothing`} {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in %s", w, text)
		}
	}
	if !d.Failed {
		t.Error("a recipe that was not followed passes")
	}
}

// A GGUF file, and one under another name, are linted as such.
func TestLintGGUF(t *testing.T) {
	dir := "../../quant/gguf/testdata/cases/"
	for file, want := range map[string][]string{
		"C10-unknown-type/unknown-42.gguf": {"gguf-type-unknown", "blk.0.ffn_down.weight", "type 42"}, "C16-mxfp4-blocks/mxfp4.gguf": {"0 findings"}, "C13-alignment/align-128.gguf": {"findings"},
	} {
		o := command(t, "lint", dir+file)
		if o.code == exitBadInput {
			t.Errorf("%s: %s", file, o.err)
		}
		for _, w := range want {
			if !strings.Contains(o.out, w) {
				t.Errorf("%s: no %q in %s", file, w, o.out)
			}
		}
	}
	for _, file := range []string{"C11-version-endian/v1.gguf", "C12-lengths/key-length.gguf", "C14-split/tiny-Q4-00001-of-00003.gguf", "C17-partial-row/q4_k-320.gguf"} {
		command(t, "lint", dir+file).refused(t, exitBadInput)
	}
}
