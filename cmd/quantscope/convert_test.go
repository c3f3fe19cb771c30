package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/layout/layouttest"
)

// Bad command lines of convert, and what cannot be done: one line, nothing written.
func TestConvertRefuses(t *testing.T) {
	packed, _ := layouttest.Demo(t, layouttest.Form{Bits: 4, Group: 32, Sym: true})
	dst := filepath.Join(t.TempDir(), "dst")
	for _, c := range []struct {
		args    []string
		code    int
		mention string
	}{
		{[]string{packed}, exitUsage, "convert SRC DST"},
		{[]string{packed, dst}, exitUsage, "compressed-tensors, gptq, quantscope, modelopt"},
		{[]string{packed, dst, "--layout", "gguf2"}, exitUsage, `"gguf2"`},
		{[]string{packed, dst, "--layout", "quantscope", "--zero-points", "v3"}, exitUsage, "v1, v2"},
		{[]string{packed, dst, "--layout", "quantscope", "--packing", "loose"}, exitUsage, "dense, padded"},
		{[]string{packed, dst, "--layout", "compressed-tensors", "--threads", "0"}, exitUsage, "--threads 0"},
		{[]string{filepath.Join(packed, "none"), dst, "--layout", "compressed-tensors"}, exitBadInput, "no such file"},
		{[]string{"demo", dst, "--layout", "compressed-tensors"}, exitBadInput, "nothing to convert"},
		{[]string{packed, dst, "--layout", "modelopt"}, exitBadInput, "cannot be said in layout modelopt"},
		{[]string{packed, packed, "--layout", "compressed-tensors"}, exitUsage, "never writes into it"},
	} {
		o := command(t, append([]string{"convert"}, c.args...)...)
		o.refused(t, c.code)
		if !strings.Contains(o.err, c.mention) {
			t.Errorf("%v: %q does not say %q", c.args, o.err, c.mention)
		}
	}
	if _, err := os.Stat(dst); err == nil {
		t.Error("something was written")
	}
}

// The demo as GPTQ goes to compressed-tensors and back; the table and the document say so.
func TestConvertDemo(t *testing.T) {
	packed, _ := layouttest.Demo(t, layouttest.Form{Bits: 4, Group: 32, Sym: true})
	dst := filepath.Join(t.TempDir(), "dst")
	o := command(t, "convert", packed, dst, "--layout", "compressed-tensors", "--json")
	var doc convertDocument
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
		t.Fatalf("%v: exit %d, %s", err, o.code, o.err)
	}
	if !doc.OK || doc.From != "gptq" || doc.To != "compressed-tensors" || doc.Modules == 0 || doc.CodesEqual != doc.Modules || doc.Values.Equal == 0 || doc.Untouched.Tensors != doc.Untouched.Identical || len(doc.Groups) != 1 {
		t.Errorf("%+v", doc)
	}
	checkDocumented(t, o.out)
	back := filepath.Join(t.TempDir(), "back")
	o = command(t, "convert", dst, back, "--layout", "gptq")
	if o.code != exitGood || !strings.HasSuffix(o.out, "\nok\n") || !strings.Contains(o.out, "have the source's, every one of") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
	// the same command once more finds it whole
	if again := command(t, "convert", dst, back, "--layout", "gptq", "--resume"); again.code != exitGood || !strings.Contains(again.out, "whole already") {
		t.Errorf("exit %d: %s%s", again.code, again.out, again.err)
	}
}

// What is said of many modules is said once.
func TestConvertNotes(t *testing.T) {
	o := command(t, "convert", exported(t, "modelopt", "fp8"), filepath.Join(t.TempDir(), "dst"), "--layout", "compressed-tensors")
	if o.code != exitGood || strings.Count(o.out, "\nnote") != 1 || !strings.Contains(o.out, "240 modules have none, the first model.layers.1.mlp.experts.0.down_proj: ") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

// checkDocumented wants docs/commands.md to name every key of a document.
func checkDocumented(t *testing.T, document string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatal(err)
	}
	var keys func(v any)
	keys = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if !strings.Contains(string(data), "`"+k+"`") && !strings.Contains(string(data), "`"+k+"[]`") {
					t.Errorf("docs/commands.md does not name the key %s", k)
				}
				keys(x)
			}
		case []any:
			for _, x := range v {
				keys(x)
			}
		}
	}
	keys(v)
}

// A conversion of a recipe's export is held against the records of the session too.
func TestVerifyOfConvertedRecipe(t *testing.T) {
	dir := t.TempDir()
	session, out, dst := filepath.Join(dir, "s.qscope"), filepath.Join(dir, "out"), filepath.Join(dir, "dst")
	if o := command(t, "quantize", "demo", "--recipe", "mixed-nvfp4-fp8", "--session", session, "--out", out, "--layout", "compressed-tensors"); o.code != exitGood {
		t.Fatal(o.err)
	}
	if o := command(t, "convert", out, dst, "--layout", "modelopt"); o.code != exitGood {
		t.Fatal(o.err)
	}
	o := command(t, "verify", "demo", dst, "--session", session)
	if o.code != exitGood || !strings.Contains(o.out, "made again  228 equal bit for bit") || !strings.Contains(o.out, "records     228") || strings.Contains(o.out, "not known here") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

// What was converted is still its source's: codes are made again as they were
// before, under the reciprocal of a second-level scale, and a wrong one is found.
func TestVerifyOfConverted(t *testing.T) {
	for _, c := range []struct{ from, to, variant string }{
		{"compressed-tensors", "modelopt", "nvfp4+mse_ge1"},
		{"modelopt", "compressed-tensors", "nvfp4"},
	} {
		dir := exported(t, c.from, c.variant)
		for i, to := range []string{c.to, c.from} { // there, and back
			dst := filepath.Join(t.TempDir(), "dst")
			if o := command(t, "convert", dir, dst, "--layout", to); o.code != exitGood {
				t.Fatalf("%s to %s: exit %d: %s", dir, to, o.code, o.err)
			}
			dir = dst
			o := command(t, "verify", "demo", dir, "--json")
			var doc struct {
				OK         bool   `json:"ok"`
				Variant    string `json:"variant"`
				All        int    `json:"quantized_tensors"`
				Reproduced int    `json:"quantized_reproduced"`
				Problems   []any  `json:"problems"`
			}
			if err := json.Unmarshal([]byte(o.out), &doc); err != nil {
				t.Fatalf("%v: %s%s", err, o.out, o.err)
			}
			if !doc.OK || o.code != exitGood || doc.All == 0 || doc.Variant != c.variant || i == 0 && doc.Reproduced != doc.All {
				t.Errorf("%s to %s and on, step %d: exit %d, %d of %d made again by %s, %d problems: %v", c.from, c.to, i, o.code, doc.Reproduced, doc.All, doc.Variant, len(doc.Problems), doc.Problems)
			}
		}
	}
}
