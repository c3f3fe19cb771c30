package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/gguf"
)

// readDocument reads what a command printed with --json.
func readDocument(t *testing.T, o outcome) *ggufDocument {
	t.Helper()
	var d struct {
		ggufDocument
		Variants []struct {
			Variant, Effective, WorstTensor string
			MeanRelL2                       any `json:"mean_rel_l2"`
			BitsPerWeight                   any `json:"bits_per_weight"`
			Tensors                         int
		}
		Tensors []struct {
			Tensor, Requested, Effective, Kept string
			RelL2                              any `json:"rel_l2"`
		}
	}
	if err := json.Unmarshal([]byte(o.out), &d); err != nil {
		t.Fatalf("%v: %s %s", err, o.out, o.err)
	}
	out := d.ggufDocument
	for _, v := range d.Variants {
		out.Variants = append(out.Variants, ggufVariant{Variant: v.Variant, Effective: v.Effective, Tensors: v.Tensors})
	}
	for _, x := range d.Tensors {
		out.Tensors = append(out.Tensors, ggufTensor{Tensor: x.Tensor, Requested: x.Requested, Effective: x.Effective, Kept: x.Kept})
	}
	return &out
}

// The demo becomes a GGUF file that measures as near to it as 8 bits are, with the
// document that is promised.
func TestQuantizeGGUF(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demo.gguf")
	o := command(t, "quantize", "demo", "--layout", "gguf", "--variant", "q8_0", "--out", out, "--json")
	if o.code != exitGood {
		t.Fatalf("%d: %s", o.code, o.err)
	}
	d := readDocument(t, o)
	if d.State != "written" || d.Layout != "gguf" || d.Arch != "glm4moe" || d.Variants[0].Variant != "q8_0" || d.Variants[0].Effective != "q8_0" || len(d.Fallbacks) != 0 || !strings.Contains(o.err, "writing  100 %") {
		t.Errorf("%+v, %s", d.Variants, o.err)
	}
	if info, err := os.Stat(out); err != nil || info.Size() != d.Bytes {
		t.Errorf("%v, %d bytes", err, d.Bytes)
	}
	m := command(t, "measure", "demo", "--candidate", out, "--corpus", "prose", "--chunks", "2", "--cache", "none", "--no-floor", "--json")
	var report struct {
		Candidates []struct {
			KL   float64 `json:"kl_mean"`
			Bits float64 `json:"bits_per_weight"`
		}
	}
	if err := json.Unmarshal([]byte(m.out), &report); err != nil || len(report.Candidates) != 1 {
		t.Fatalf("%v: %s %s", err, m.out, m.err)
	}
	if c := report.Candidates[0]; c.KL <= 0 || c.KL > 2e-3 || math.Abs(c.Bits-8.5) > 0.1 {
		t.Errorf("%+v", c)
	}
	for _, args := range [][]string{{"inspect", out}, {"inspect", out, "--tensors"}, {"inspect", out, "--tensor", "blk.1.ffn_up_exps.weight"}} {
		if o := command(t, args...); o.code != exitGood || o.out == "" {
			t.Errorf("%v: %d %s", args, o.code, o.err)
		}
	}
	// What is quantized is taken only when that is said.
	o = command(t, "quantize", out, "--layout", "gguf", "--variant", "q4_0", "--out", out+"2")
	if o.code != exitBadInput || !strings.Contains(o.err, "--allow-requantize") || strings.Count(o.err, "\n") != 1 {
		t.Errorf("%d: %s", o.code, o.err)
	}
	if o = command(t, "quantize", out, "--layout", "gguf", "--variant", "q4_0", "--out", out+"2", "--allow-requantize", "--threads", "1", "--mem", "64MiB"); o.code != exitGood {
		t.Errorf("%d: %s", o.code, o.err)
	}
	if o = command(t, "quantize", out, "--layout", "gguf", "--variant", "q4_0", "--out", out+"2", "--allow-requantize"); o.code != exitBadInput || !strings.Contains(o.err, "exists already") {
		t.Errorf("%d: %s", o.code, o.err)
	}
}

// Rows of 128 are no blocks of 256: nothing is written unless that is accepted, and
// the share says how much of the model it is.
func TestQuantizeGGUFFallsBack(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "demo.gguf")
	o := command(t, "quantize", "demo", "--layout", "gguf", "--variant", "q4_k", "--out", out, "--json")
	d := readDocument(t, o)
	if left, _ := os.ReadDir(dir); o.code != exitCheckFailed || d.State != "refused" || len(d.Fallbacks) == 0 || len(left) != 0 {
		t.Fatalf("%d: %s, left %v", o.code, o.err, left)
	}
	for _, word := range []string{"128", "256", "q4_k", "q5_0", "--allow-fallback"} {
		if !strings.Contains(o.err, word) {
			t.Errorf("%q does not mention %s", o.err, word)
		}
	}
	o = command(t, "quantize", "demo", "--layout", "gguf", "--variant", "q4_k", "--out", out, "--json", "--allow-fallback")
	d = readDocument(t, o)
	if o.code != exitGood || d.Variants[0].Effective != "mixed" || !slices.ContainsFunc(d.Tensors, func(x ggufTensor) bool { return x.Requested == "q4_k" && x.Effective == "q5_0" }) {
		t.Errorf("%d: %+v", o.code, d.Variants)
	}
	var fell, share float64
	for _, f := range d.Fallbacks {
		fell += f.Share
	}
	for _, x := range d.Types {
		if x.Requested == "q4_k" && x.Effective == "q5_0" {
			share = x.Share
		}
	}
	if math.Abs(fell-share) > 1e-9 || share < 0.9 {
		t.Errorf("%g fell back, %g in the table", fell, share)
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x, _ := f.Lookup("blk.1.ffn_up_exps.weight")
	if x.Type.String() != "Q5_0" {
		t.Errorf("%s", x.Type)
	}
	text := command(t, "quantize", "demo", "--layout", "gguf", "--variant", "q4_k", "--dry-run", "--allow-fallback")
	if text.code != exitGood || !strings.Contains(text.out, "requested") || !strings.Contains(text.out, "fallback ") || !strings.Contains(text.out, "dry run") {
		t.Errorf("%d: %s%s", text.code, text.out, text.err)
	}
}

// What cannot be meant is a usage error that says what can.
func TestQuantizeGGUFUsage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.gguf")
	list := filepath.Join(t.TempDir(), "types")
	if err := os.WriteFile(list, []byte("attn_q=q8_0\nffn_down=q77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gg := []string{"quantize", "demo", "--layout", "gguf"}
	for _, c := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--out", out}, exitUsage, "--variant TYPE: f32"}, {[]string{"--variant", "q4_k"}, exitUsage, "--out FILE"},
		{[]string{"--variant", "q4_q", "--out", out}, exitUsage, "iq4_nl"}, {[]string{"--variant", "nvfp4,q4_k", "--out", out}, exitUsage, "known are"},
		{[]string{"--variant", "q4_k+imatrix", "--out", out}, exitUsage, "--imatrix FILE"}, {[]string{"--variant", "q4_k", "--imatrix", list, "--out", out}, exitUsage, "q4_k"},
		{[]string{"--variant", "q4_k+imatrix", "--imatrix", list, "--out", out}, exitBadInput, "types"},
		{[]string{"--variant", "q8_0", "--out", filepath.Dir(out)}, exitUsage, "is a folder"}, {[]string{"--variant", "q8_0", "--out", filepath.Join(out, "x", "y")}, exitBadInput, "no such file"},
		{[]string{"--variant", "q8_0", "--out", out, "--targets", "*"}, exitUsage, "--targets"}, {[]string{"--variant", "q8_0", "--out", out, "--session", "x"}, exitUsage, "--session"},
		{[]string{"--variant", "q8_0", "--out", out, "--tensor-type", "x=q9"}, exitUsage, "--tensor-type"}, {[]string{"--variant", "q8_0", "--out", out, "--tensor-type-file", list}, exitBadInput, "line 2"},
		{[]string{"--variant", "q8_0", "--out", out, "--tensor-type", "nothing=q4_0"}, exitBadInput, "matches no tensor"}, {[]string{"--variant", "q8_0", "--out", out, "--output-tensor-type", "x"}, exitUsage, "--output-tensor-type"},
		{[]string{"--variant", "q8_0", "--out", out, "--gguf-blocks", "x"}, exitUsage, "swapped, plain"}, {[]string{"--variant", "q8_0", "--out", out, "--threads", "0"}, exitUsage, "--threads"},
	} {
		o := command(t, append(slices.Clone(gg), c.args...)...)
		if o.code != c.code || !strings.Contains(o.err, c.say) || strings.Count(o.err, "\n") != 1 {
			t.Errorf("%v: %d, %q; want %d and %q", c.args, o.code, o.err, c.code, c.say)
		}
	}
	for _, flag := range []string{"--dry-run", "--allow-requantize", "--no-tokenizer"} {
		if o := command(t, "quantize", "demo", flag); o.code != exitUsage || !strings.Contains(o.err, "--layout gguf") {
			t.Errorf("%s: %d %s", flag, o.code, o.err)
		}
	}
	if o := command(t, "inspect", "demo", "--gguf-blocks", "plain"); o.code != exitUsage || !strings.Contains(o.err, "is none") {
		t.Errorf("%d %s", o.code, o.err)
	}
	if o := command(t, "quantize", filepath.Join("..", "..", "quant", "gguf", "testdata", "cases", "C17-partial-row", "q4_k-320.gguf"), "--layout", "gguf", "--variant", "q8_0", "--dry-run"); o.code != exitBadInput || !strings.Contains(o.err, "320") {
		t.Errorf("%d %s", o.code, o.err)
	}
}

// Files of GGUF that are odd or broken, through the command (C10 to C17).
func TestInspectGGUFCases(t *testing.T) {
	dir := filepath.Join("..", "..", "quant", "gguf", "testdata", "cases")
	for file, c := range map[string]struct {
		code int
		say  []string
	}{
		"C10-unknown-type/unknown-42.gguf": {exitGood, []string{"type 42", "unknown", "80.00 %", "256 B of weights (32.00 bits each)", "without 1 tensor of unknown size"}}, "C11-version-endian/v1.gguf": {exitBadInput, []string{"v1.gguf", "version 1"}},
		"C11-version-endian/big-endian-v3.gguf": {exitGood, []string{"big-endian"}}, "C12-lengths/string-length.gguf": {exitBadInput, []string{"string-length.gguf", "length"}},
		"C12-lengths/array-count.gguf": {exitBadInput, []string{"array-count.gguf", "count"}}, "C12-lengths/key-length.gguf": {exitBadInput, []string{"key-length.gguf", "length"}},
		"C13-alignment/align-128.gguf": {exitGood, []string{"alignment 128"}}, "C13-alignment/align-zero.gguf": {exitBadInput, []string{"align-zero.gguf", "alignment"}},
		"C14-split/tiny-Q4-00001-of-00003.gguf": {exitBadInput, []string{"tiny-Q4-00002-of-00003.gguf", "missing"}}, "C15-gguf-names/duplicate-tensor.gguf": {exitBadInput, []string{"blk.0.attn_q.weight", "duplicate"}},
		"C15-gguf-names/nested-arrays.gguf": {exitGood, []string{"3000 in all"}}, "C16-mxfp4-blocks/mxfp4.gguf": {exitGood, []string{"MXFP4"}}, "C17-partial-row/q4_k-320.gguf": {exitBadInput, []string{"blk.0.ffn_down.weight", "320", "256"}},
	} {
		o := command(t, "inspect", filepath.Join(dir, filepath.FromSlash(file)))
		if o.code != c.code || len(o.out) > 1<<16 {
			t.Errorf("%s: %d, %d bytes, %s", file, o.code, len(o.out), o.err)
		}
		for _, word := range c.say {
			if !strings.Contains(o.out+o.err, word) {
				t.Errorf("%s: %q is not said: %s%s", file, word, o.out, o.err)
			}
		}
	}
	if o := command(t, "inspect", filepath.Join(dir, "C10-unknown-type", "unknown-42.gguf"), "--tensor", "blk.0.ffn_down.weight"); o.code != exitBadInput || !strings.Contains(o.err, "type 42") {
		t.Errorf("%d %s", o.code, o.err)
	}
}

// An export in another layout becomes a GGUF file that holds what the export decodes
// to: in F32 nothing is between the two.
func TestQuantizedCheckpointToGGUF(t *testing.T) {
	dir := t.TempDir()
	export, out := filepath.Join(dir, "export"), filepath.Join(dir, "out.gguf")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--targets", "*", "--out", export, "--layout", "modelopt", "--session", filepath.Join(dir, "s.qscope")); o.code != exitGood {
		t.Fatalf("%d: %s", o.code, o.err)
	}
	if o := command(t, "quantize", export, "--layout", "gguf", "--variant", "f32", "--out", out); o.code != exitBadInput || !strings.Contains(o.err, "--allow-requantize") {
		t.Errorf("%d: %s", o.code, o.err)
	}
	if o := command(t, "quantize", export, "--layout", "gguf", "--variant", "f32", "--out", out, "--allow-requantize"); o.code != exitGood {
		t.Fatalf("%d: %s", o.code, o.err)
	}
	m := command(t, "measure", export, "--candidate", out, "--corpus", "prose", "--chunks", "1", "--cache", "none", "--no-floor", "--json")
	var report struct {
		Candidates []struct {
			KL any `json:"kl_mean"`
		}
	}
	if err := json.Unmarshal([]byte(m.out), &report); err != nil || len(report.Candidates) != 1 {
		t.Fatalf("%v: %s %s", err, m.out, m.err)
	}
	if kl, ok := report.Candidates[0].KL.(float64); !ok || math.Abs(kl) > 1e-9 {
		t.Errorf("KL is %v", report.Candidates[0].KL)
	}
}
