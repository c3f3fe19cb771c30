package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/verify"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// exportDemo writes the demo quantized, every matrix under its own global scale
// as a session measures it.
func exportDemo(t testing.TB, variant, layout string) string {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	sel, err := recipe.Select(model, "")
	if err != nil {
		t.Fatal(err)
	}
	v, err := method.Parse(variant)
	if err == nil {
		v.Spec.Convention, err = export.DefaultConvention(layout, v.Scheme)
	}
	if err != nil {
		t.Fatal(err)
	}
	plan, err := export.NewPlan(ck, model, sel.Matrices, v, export.Settings{Layout: layout, Globals: export.PerTensor})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	w, err := export.Create(t.Context(), plan, dir, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set := kernels.Best()
	for i := range plan.Matrices {
		storeMatrix(t, ck, plan, w, set, i)
	}
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func storeMatrix(t testing.TB, ck *checkpoint.Checkpoint, plan *export.Plan, w *export.Writer, set kernels.Set, i int) {
	t.Helper()
	m := &plan.Matrices[i]
	src, ok := ck.Lookup(m.Tensor)
	if !ok {
		t.Fatalf("%s is not there", m.Tensor)
	}
	matrix := kernels.Matrix{Element: kernels.BF16, Rows: m.Rows, Cols: m.Cols, Data: make([]byte, 2*m.Rows*m.Cols)}
	if err := ck.ReadAt(t.Context(), src, m.Offset, matrix.Data); err != nil {
		t.Fatal(err)
	}
	amax, err := set.AbsMax(matrix)
	if err != nil {
		t.Fatal(err)
	}
	pass, err := set.Begin(plan.Spec, matrix.Element, m.Rows, m.Cols, amax)
	if err != nil {
		t.Fatal(err)
	}
	n := pass.Sizes(m.Rows)
	o := kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
	if err := pass.Rows(matrix.Data, &o); err != nil {
		t.Fatal(err)
	}
	if err := w.Store(i, 0, &o, pass.Global()); err != nil {
		t.Fatal(err)
	}
	if _, err := pass.Finish(); err != nil {
		t.Fatal(err)
	}
}

// The demo's export is proven against the demo and against the session that
// measured it; one wrong byte fails it, by name.
func TestVerifyCommand(t *testing.T) {
	dir := exportDemo(t, "nvfp4", "modelopt")
	session := filepath.Join(t.TempDir(), "demo.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4,nvfp4+mse", "--session", session); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	o := command(t, "verify", "demo", dir, "--session", session, "--json")
	var rep verify.Report
	if err := json.Unmarshal([]byte(o.out), &rep); err != nil || o.code != exitGood {
		t.Fatalf("exit %d, %v: %s %s", o.code, err, o.out, o.err)
	}
	if !rep.OK || rep.QuantizedChecked != 240 || rep.QuantizedReproduced != 240 || rep.RecordsCompared != 240 || rep.Variant != "nvfp4" || rep.From != "config" {
		t.Errorf("%+v", rep)
	}
	if o := command(t, "verify", "demo", dir); o.code != exitGood || !strings.HasSuffix(o.out, "\nok\n") || !strings.Contains(o.out, "240 equal bit for bit, by nvfp4 (modelopt; as the config says)") {
		t.Errorf("%+v", o)
	}
	shard := filepath.Join(dir, "model-00001-of-00002.safetensors")
	data, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(shard, data, 0o666); err != nil {
		t.Fatal(err)
	}
	o = command(t, "verify", "demo", dir)
	if o.code != exitCheckFailed || !strings.Contains(o.out, "model-00001-of-00002.safetensors") || !strings.HasSuffix(o.out, "\n1 problem\n") {
		t.Errorf("%+v", o)
	}
	o = command(t, "verify", "demo", dir, "--json")
	if err := json.Unmarshal([]byte(o.out), &rep); err != nil || o.code != exitCheckFailed || rep.OK || len(rep.Problems) != 1 {
		t.Errorf("exit %d, %v: %s", o.code, err, o.out)
	}
}

func TestVerifyRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{{"verify"}, {"verify", "demo"}, {"verify", "a", "b", "c"}, {"verify", "demo", dir, "--threads", "0"}} {
		o := command(t, args...)
		o.refused(t, exitUsage)
	}
	for _, args := range [][]string{{"verify", filepath.Join(dir, "gone"), dir}, {"verify", "demo", filepath.Join(dir, "gone")}, {"verify", "demo", dir}, {"verify", "demo", dir, "--session", filepath.Join(dir, "gone")}} {
		o := command(t, args...)
		o.refused(t, exitBadInput)
	}
	// A session of another checkpoint, and one without the variant.
	session := filepath.Join(dir, "other.qscope")
	if o := command(t, "quantize", filepath.Join(caseDir(t, "C21"), "outlier.safetensors"), "--targets", "*", "--variant", "nvfp4", "--session", session); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	o := command(t, "verify", "demo", dir, "--session", session)
	o.refused(t, exitBadInput)
	if !strings.Contains(o.err, "of another checkpoint") {
		t.Errorf("%s", o.err)
	}
}

func TestVerifyLine(t *testing.T) {
	got := verifyLine(verify.Progress{Done: 3e9, Total: 9e9}, 2*time.Second)
	if want := "verifying  3 GB of 9 GB  1.5 GB/s  ETA 0:04"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Every key of the document is in docs/commands.md.
func TestVerifyKeysAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(verify.Report{})
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(doc), "### verify\n")
	if !ok {
		t.Fatal("docs/commands.md has no section of verify")
	}
	section, _, _ = strings.Cut(section, "\n### ")
	for k := range keys {
		if !strings.Contains(section, "`"+k+"`") && !strings.Contains(section, "`"+k+"[]`") {
			t.Errorf("docs/commands.md does not name the key %s of verify", k)
		}
	}
}

// A variant that cannot have made the output is a mistake of usage, not a note.
func TestVerifyAVariantOfAnotherFormat(t *testing.T) {
	dir := exportDemo(t, "nvfp4", export.ModelOpt)
	got := command(t, "verify", "demo", dir, "--variant", "fp8")
	got.refused(t, exitUsage)
	if !strings.Contains(got.err, "nothing in "+dir+" is stored as fp8") {
		t.Errorf("code %d, %q, %q", got.code, got.out, got.err)
	}
}

// Names of tensors reach a terminal without control characters.
func TestVerifyPrintsCleanNames(t *testing.T) {
	var out strings.Builder
	rep := &verify.Report{
		QuantizedChecked: 1, WorstTensor: "\x1b[31mw", Notes: []string{"of \x1b[2J"},
		Problems: []verify.Problem{{ID: verify.TensorChanged, File: "f", Tensor: "a\x1b]0;b", Message: "m"}},
	}
	if err := printVerified(streams{out: &out}, rep); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(out.String(), 0x1b) || !strings.Contains(out.String(), "␛]0;b") {
		t.Errorf("%q", out.String())
	}
}
