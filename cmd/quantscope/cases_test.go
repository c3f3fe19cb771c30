package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// outcome is what a command line did.
type outcome struct {
	code     int
	out, err string
}

// command runs the program in this process, without a terminal and with a state
// folder of its own.
func command(t *testing.T, args ...string) outcome {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	var out, err bytes.Buffer
	code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &err})
	return outcome{code, out.String(), err.String()}
}

// expectation is the part of a case's expect.json that the tests here read.
type expectation struct {
	ID      string                 `json:"id"`
	Kind    string                 `json:"kind"`
	PerFile map[string]expectation `json:"per_file"`
	PerDir  map[string]expectation `json:"per_dir"`
	Tensors map[string]struct {
		DType  string  `json:"dtype"`
		Shape  []int64 `json:"shape"`
		Count  *int64  `json:"count"`
		NBytes int64   `json:"nbytes"`
		Exact  []any   `json:"exact"`
	} `json:"tensors"`
	TensorsUsed    int        `json:"tensors_used"`
	MustMention    []string   `json:"must_mention"`
	MustMentionAny [][]string `json:"must_mention_any"`
}

func caseDir(t *testing.T, id string) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "cases", id+"-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("case %s: %v %v", id, dirs, err)
	}
	return dirs[0]
}

func expected(t *testing.T, dir string) expectation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e expectation
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e expectation) mentions(t *testing.T, text string) {
	t.Helper()
	low := strings.ToLower(text)
	for _, m := range e.MustMention {
		if !strings.Contains(low, strings.ToLower(m)) {
			t.Errorf("%q is not mentioned in %q", m, text)
		}
	}
	for _, any := range e.MustMentionAny {
		if !slices.ContainsFunc(any, func(m string) bool { return strings.Contains(low, strings.ToLower(m)) }) {
			t.Errorf("none of %q is mentioned in %q", any, text)
		}
	}
}

// refused asserts the rules that hold for every error.
func (o outcome) refused(t *testing.T, code int) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit %d, want %d (%s)", o.code, code, o.err)
	}
	if o.out != "" {
		t.Errorf("standard output holds %q", o.out)
	}
	if strings.Count(o.err, "\n") != 1 || !strings.HasSuffix(o.err, "\n") {
		t.Errorf("not one line: %q", o.err)
	}
	for _, word := range []string{"panic", "goroutine", ".go:"} {
		if strings.Contains(o.err, word) {
			t.Errorf("the message speaks of %q: %q", word, o.err)
		}
	}
}

// Every broken file is refused by every command that opens a checkpoint.
func TestBrokenFiles(t *testing.T) {
	for _, id := range []string{"C01", "C02", "C03", "C04", "C05", "C09"} {
		dir := caseDir(t, id)
		e := expected(t, dir)
		if e.Kind != "error" || len(e.PerFile) == 0 {
			t.Fatalf("%s: expect.json is not of an error per file", id)
		}
		for file, want := range e.PerFile {
			for _, args := range [][]string{{"inspect"}, {"inspect", "--json"}, {"lint"}, {"quantize"}, {"quantize", "--json"}, {}} {
				t.Run(id+"/"+file+"/"+strings.Join(args, " "), func(t *testing.T) {
					start := time.Now()
					o := command(t, append(args, filepath.Join(dir, file))...)
					o.refused(t, exitBadInput)
					want.mentions(t, o.err)
					if d := time.Since(start); d > 5*time.Second {
						t.Errorf("took %v", d)
					}
				})
			}
		}
	}
}

func TestIndexCases(t *testing.T) {
	dir := caseDir(t, "C08")
	e := expected(t, dir)
	t.Run("absent", func(t *testing.T) {
		for _, args := range [][]string{{"inspect"}, {"quantize"}, {"lint"}} {
			o := command(t, append(args, filepath.Join(dir, "absent"))...)
			o.refused(t, exitBadInput)
			e.PerDir["absent"].mentions(t, o.err)
		}
	})
	t.Run("leftover", func(t *testing.T) {
		want := e.PerDir["leftover"]
		o := command(t, "inspect", "--json", filepath.Join(dir, "leftover"))
		var r struct {
			Tensors  int
			Findings []struct{ File, Tensor, Message string }
		}
		if err := json.Unmarshal([]byte(o.out), &r); err != nil || o.code != exitGood {
			t.Fatalf("exit %d, %v, %s", o.code, err, o.err)
		}
		if r.Tensors != want.TensorsUsed || len(r.Findings) == 0 {
			t.Errorf("%d tensors and %d findings, want %d and some", r.Tensors, len(r.Findings), want.TensorsUsed)
		}
		plain := command(t, "inspect", filepath.Join(dir, "leftover"))
		want.mentions(t, plain.out)
		gate := command(t, "lint", filepath.Join(dir, "leftover"))
		if gate.code != exitCheckFailed {
			t.Errorf("lint exits %d", gate.code)
		}
		want.mentions(t, gate.out)
		run := command(t, "quantize", "--variant", "nvfp4", filepath.Join(dir, "leftover"), "--targets", "*")
		want.mentions(t, run.out+run.err)
		if !strings.Contains(gate.out, "model-00001-of-00002.safetensors") {
			t.Errorf("the shard is not named: %s", gate.out)
		}
	})
}

// C06 and C07: dtypes, shapes and sizes as listed, exact values as printed.
func TestListedTensors(t *testing.T) {
	for id, file := range map[string]string{"C06": "dtypes.safetensors", "C07": "layout.safetensors"} {
		dir := caseDir(t, id)
		e := expected(t, dir)
		path := filepath.Join(dir, file)
		o := command(t, "inspect", "--json", "--tensors", path)
		if o.code != exitGood {
			t.Fatalf("%s: exit %d: %s", id, o.code, o.err)
		}
		var r struct {
			List []struct {
				Name, DType     string
				Shape           []int64
				Elements, Bytes int64
			}
		}
		if err := json.Unmarshal([]byte(o.out), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.List) != len(e.Tensors) {
			t.Errorf("%s: %d tensors listed, want %d", id, len(r.List), len(e.Tensors))
		}
		for _, got := range r.List {
			want, ok := e.Tensors[got.Name]
			if !ok || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || got.Bytes != want.NBytes || (want.Count != nil && got.Elements != *want.Count) {
				t.Errorf("%s: %+v, want %+v", id, got, want)
			}
			if want.Exact == nil {
				continue
			}
			o := command(t, "inspect", "--json", "--tensor", got.Name, path)
			var v struct{ First []string }
			if err := json.Unmarshal([]byte(o.out), &v); err != nil {
				t.Fatalf("%v: %s", err, o.err)
			}
			for i, x := range want.Exact {
				text, isText := x.(string)
				if !isText {
					text = map[any]string{true: "true", false: "false"}[x]
				}
				if v.First[i] != text {
					t.Errorf("%s: %s[%d] is printed as %s, want %s", id, got.Name, i, v.First[i], text)
				}
			}
		}
	}
}

// C20: three NaN scales fail the gate, and the clean layer is not named.
func TestNaNScales(t *testing.T) {
	dir := caseDir(t, "C20")
	path := filepath.Join(dir, "model.safetensors")
	o := command(t, "lint", path)
	if o.code != exitCheckFailed {
		t.Errorf("lint exits %d: %s", o.code, o.err)
	}
	for _, want := range []string{"model.safetensors", "model.layers.4.self_attn.o_proj.weight_scale", "3 of", "NaN", "[0,3]", "[5,0]", "[7,1]"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("lint does not mention %q: %s", want, o.out)
		}
	}
	if strings.Contains(o.out, "model.layers.5") {
		t.Errorf("lint names the clean layer: %s", o.out)
	}
	if o := command(t, "inspect", path); o.code != exitGood {
		t.Errorf("inspect exits %d: %s", o.code, o.err)
	}
}

type quantized struct {
	State    string
	Variants []struct {
		Variant, Effective, Worst_tensor                      string
		Tensors, Failed, Scales_clamped_low, Zero_blocks      int64
		Mean_rel2, Mean_rel_l2, Cos_min, Cos_max              any
		Deep_blocks, Shallow_blocks, Deep_l2, Worst_over_mean any
	}
	Failed, Findings []struct{ Variant, Tensor, Message string }
}

func quantizedCase(t *testing.T, args ...string) quantized {
	t.Helper()
	o := command(t, append([]string{"quantize", "--json"}, args...)...)
	if o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	if strings.Contains(o.out, "NaN,") || strings.Contains(o.out, "Infinity,") {
		t.Errorf("a bare NaN or Infinity: %s", o.out)
	}
	var q quantized
	if err := json.Unmarshal([]byte(o.out), &q); err != nil {
		t.Fatalf("%v: %s", err, o.out)
	}
	return q
}

// C19: all-zero matrices are measured, finite, and reported.
func TestAllZeroMatrices(t *testing.T) {
	q := quantizedCase(t, "--variant", "nvfp4", "--targets", "*", filepath.Join(caseDir(t, "C19"), "zeros.safetensors"))
	v := q.Variants[0]
	if v.Tensors != 3 || v.Failed != 0 || v.Zero_blocks != 8+5+2 {
		t.Errorf("%+v", v)
	}
	for _, name := range []string{"experts.0.down_proj.weight", "experts.2.down_proj.weight"} {
		if !slices.ContainsFunc(q.Findings, func(f struct{ Variant, Tensor, Message string }) bool {
			return f.Tensor == name && strings.Contains(f.Message, "zero")
		}) {
			t.Errorf("%s is not reported as all zero: %+v", name, q.Findings)
		}
	}
}

// C21: underflowing block scales are counted and the rule is named.
func TestScaleUnderflow(t *testing.T) {
	q := quantizedCase(t, "--variant", "nvfp4", "--targets", "*", filepath.Join(caseDir(t, "C21"), "outlier.safetensors"))
	if q.Variants[0].Scales_clamped_low != 14 {
		t.Errorf("%+v", q.Variants[0])
	}
	if !slices.ContainsFunc(q.Findings, func(f struct{ Variant, Tensor, Message string }) bool {
		return strings.Contains(f.Message, "14 of 16") && strings.Contains(f.Message, "2⁻⁹")
	}) {
		t.Errorf("the underflow is not reported: %+v", q.Findings)
	}
}

// C41: names in every script come through listings whole.
func TestWideNames(t *testing.T) {
	dir := caseDir(t, "C41")
	var e struct{ Widths map[string]any }
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	o := command(t, "inspect", "--tensors", filepath.Join(dir, "model.safetensors"))
	if o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	for name := range e.Widths {
		if !strings.Contains(o.out, name) {
			t.Errorf("%s is not listed whole", name)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"--nonsense"}, {"bench", "--read", "demo"}, {"inspect"}, {"inspect", "a", "b"}, {"quantize"}, {"quantize", "demo", "--variant", "nvfp5"},
		{"quantize", "demo", "--variant", "nvfp4+magic"}, {"quantize", "demo", "--threads", "0"}, {"quantize", "demo", "--mem", "lots"},
		{"check-pair", "1"}, {"check-pair", "x", "y"}, {"check-pair", "0.1", "7"}, {"replay", "x.qscope", "--speed", "65"},
		{"--theme", "bogus"}, {"replay", "x.qscope", "--speed", "NaN"}, {"completion", "bogus"}, {"completion"},
		{"sessions", "frobnicate"}, {"sessions", "export", "x.qscope", "--format", "xlsx"}, {"synth"}, {"synth", "d", "--layers", "0"},
	} {
		o := command(t, args...)
		o.refused(t, exitUsage)
	}
	for _, c := range []struct{ args, want string }{
		{"quantise demo", `"quantise" is no command: quantize?`},
		{"demo demo.qscope", `"demo" is no command`},
		{"sessions list a b", "one folder, or none"},
		{"quantize demo --threads x", `--threads "x": want a whole number`},
		{"replay x.qscope --speed fast", `--speed "fast": want a number`},
		{"synth d --seed -1", `--seed "-1": want a whole number, 0 or more`},
		{"inspect demo --json=perhaps", `--json "perhaps": want true or false`},
		{"synth testdata", "testdata is there already and not empty"},
		{"sessions export x.qscope --canonical --out x.csv", "--canonical writes jsonl"},
		{"sessions export x.qscope --canonical --gates", "--canonical is of tap records"},
	} {
		o := command(t, strings.Fields(c.args)...)
		o.refused(t, exitUsage)
		if !strings.Contains(o.err, c.want) || strings.Contains(o.err, "strconv") {
			t.Errorf("%s: %s", c.args, o.err)
		}
	}
	if o := command(t, "quantize", "demo", "--variant", "nvfp4+magic"); !strings.Contains(o.err, "mse_ge1") {
		t.Errorf("the known methods are not listed: %s", o.err)
	}
}

func TestMissingInputs(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	for _, args := range [][]string{{gone}, {"inspect", gone}, {"quantize", gone}, {"lint", gone}, {"replay", gone}, {"sessions", "info", gone}, {"sessions", "list", gone}, {"sessions", "export", gone, "--format", "csv"}} {
		o := command(t, args...)
		o.refused(t, exitBadInput)
		if o.err != "quantscope: "+gone+": no such file or directory\n" {
			t.Errorf("%v: %s", args, o.err)
		}
	}
}

// demo is a checkpoint wherever one is wanted, and a session nowhere.
func TestDemoIsNoSession(t *testing.T) {
	for _, args := range []string{"analyze demo", "price demo", "compare demo nvfp4 mxfp4", "replay demo", "sessions info demo"} {
		o := command(t, strings.Fields(args)...)
		o.refused(t, exitBadInput)
		if !strings.Contains(o.err, "quantize demo --session FILE") {
			t.Errorf("%s: %s", args, o.err)
		}
	}
}

// What a run is to do says nothing to a session that is saved already.
func TestSavedSessionTakesNoRunFlags(t *testing.T) {
	session := filepath.Join(t.TempDir(), "s.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--targets", "*.layers.1.mlp.experts.0.*", "--session", session); o.code != exitGood {
		t.Fatal(o.err)
	}
	for _, more := range [][]string{{"--variant", "mxfp4"}, {"--targets", "*"}, {"--threads", "1"}, {"--mem", "1GiB"}, {"--session", session}, {"--with", session, "--variant", "mxfp4"}} {
		o := command(t, append([]string{session}, more...)...)
		o.refused(t, exitUsage)
		if !strings.Contains(o.err, "is a saved session") {
			t.Errorf("%v: %s", more, o.err)
		}
	}
}

// One of a thing is not "1 things".
func TestOneOfAThing(t *testing.T) {
	if o := command(t, "quantize", "demo", "--targets", "lm_head.weight", "--variant", "nvfp4"); o.code != exitGood || !strings.Contains(o.out, "lm_head.weight: 1 matrix\n") {
		t.Errorf("%+v", o)
	}
	for n, want := range []string{"0 matrices", "1 matrix", "2 matrices"} {
		if got := counted(n, "matrix", "matrices"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCheckPairCommand(t *testing.T) {
	if o := command(t, "check-pair", "0.0951", "0.99549"); o.code != exitGood || !strings.Contains(o.out, "consistent") {
		t.Errorf("%+v", o)
	}
	o := command(t, "check-pair", "--json", "0.00905", "0.99549")
	var p struct{ Verdict, Hint string }
	if err := json.Unmarshal([]byte(o.out), &p); err != nil || o.code != exitCheckFailed || o.err != "" {
		t.Fatalf("%v %+v", err, o)
	}
	if p.Verdict != "impossible" || !strings.Contains(p.Hint, "rel2") {
		t.Errorf("%+v", p)
	}
}

// The records of a session come out as data, and a file in the way is kept.
func TestExportCommand(t *testing.T) {
	dir := t.TempDir()
	session := filepath.Join(dir, "demo.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4,nvfp4+mse", "--session", session); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	if o := command(t, "sessions", "export", session); o.code != exitGood || strings.Count(o.out, "\n") != 480 {
		t.Errorf("exit %d, %d lines of JSONL: %s", o.code, strings.Count(o.out, "\n"), o.err)
	}
	for _, format := range []string{"jsonl", "csv", "parquet"} {
		out := filepath.Join(dir, "records."+format)
		if o := command(t, "sessions", "export", session, "--out", out); o.code != exitGood {
			t.Errorf("%s: %+v", format, o)
		}
		o := command(t, "sessions", "export", session, "--out", out)
		o.refused(t, exitUsage)
		if !strings.Contains(o.err, "--force") {
			t.Errorf("the way out is not named: %s", o.err)
		}
		if o := command(t, "sessions", "export", session, "--out", out, "--force", "--json"); o.code != exitGood || !strings.Contains(o.out, `"bytes"`) {
			t.Errorf("%s: %+v", format, o)
		}
	}
	o := command(t, "quantize", "demo", "--session", filepath.Join(dir, "missing", "x.qscope"))
	o.refused(t, exitEnvironment)
	if !strings.Contains(o.err, "no such folder") {
		t.Errorf("the folder is not named: %s", o.err)
	}
	if o := command(t, "sessions", "info", session); !strings.Contains(o.out, "identity") || !strings.Contains(o.out, "created") {
		t.Errorf("%+v", o)
	}
}

// A lone file without a config has nothing declared, so nothing is missing.
func TestLoneFilePassesTheGate(t *testing.T) {
	o := command(t, "lint", filepath.Join(caseDir(t, "C07"), "layout.safetensors"))
	if o.code != exitGood || !strings.Contains(o.out, "warning") {
		t.Errorf("%+v", o)
	}
}
