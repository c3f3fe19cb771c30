package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// alignData is a file of the tests of package align.
func alignData(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", "analysis", "align", "testdata"}, parts...)...)
}

// C18 and C25 through the command: every value is the master's, and rows that were
// put back are said to be.
func TestCompareCases(t *testing.T) {
	for _, tt := range []struct {
		master, candidate string
		says              []string
		undone            float64
	}{
		{alignData("cases", "C18-head-order", "hf"), alignData("cases", "C18-head-order", "model-F16.gguf"), []string{
			"all values are equal", "q_proj: rotary rows of 4 heads of 8: halves stand as pairs: put back", "k_proj: rotary rows of 2 heads of 8: halves stand as pairs: put back",
		}, 2},
		{alignData("cases", "C25-two-conventions", "multiplier"), alignData("cases", "C25-two-conventions", "divisor"), []string{"all values are equal"}, 0},
		{"demo", "demo", []string{"all values are equal"}, 0},
	} {
		o := command(t, "compare", tt.master, tt.candidate, "--max-rel-l2", "0")
		for _, want := range append(tt.says, "ok: no tensor is farther than 0") {
			if o.code != exitGood || !strings.Contains(o.out, want) {
				t.Errorf("%s: exit %d, no %q in\n%s%s", tt.candidate, o.code, want, o.out, o.err)
			}
		}
		o = command(t, "compare", tt.master, tt.candidate, "--json")
		var doc keyed
		if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.err != "" {
			t.Fatalf("%v: %s%s", err, o.out, o.err)
		}
		doc.want(t, map[string]any{"ok": true, "matrices.max_abs_diff": 0.0, "matrices.different": 0.0, "matrices.undone": tt.undone, "others.different": 0.0})
	}
}

// A smoothed candidate is measured after undoing that; a limit is a check; as stored
// it is far off.
func TestCompareSmoothed(t *testing.T) {
	master, awq := alignData("awq", "master"), alignData("awq", "awq")
	o := command(t, "compare", master, awq, "--max-rel-l2", "0.12", "--worst", "2")
	for _, want := range []string{"ok: no tensor is farther than 0.12", "k_proj", "smoothing undone: s in [0.319, 3.14], from input_layernorm", "mlp.up_proj: rows were divided by s in"} {
		if o.code != exitGood || !strings.Contains(o.out, want) {
			t.Errorf("exit %d, no %q in\n%s%s", o.code, want, o.out, o.err)
		}
	}
	o = command(t, "compare", master, awq, "--max-rel-l2", "0.12", "--as-stored", "--json")
	var doc struct {
		OK      bool     `json:"ok"`
		Over    []string `json:"over"`
		Tensors []struct {
			Undone []string `json:"undone"`
		} `json:"tensors"`
	}
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitCheckFailed || doc.OK || len(doc.Over) < 18 {
		t.Errorf("exit %d: %v, %d over", o.code, err, len(doc.Over))
	}
	for _, x := range doc.Tensors {
		if len(x.Undone) > 0 {
			t.Errorf("as stored: %q", x.Undone)
		}
	}
}

// Bad command lines and files, one line each, and an interrupted comparison.
func TestCompareFilesBad(t *testing.T) {
	a, _ := measured(t)
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"demo"}, "compare takes a session and two of its variants, twice a session and a variant, or two checkpoints"},
		{exitUsage, []string{a, "demo"}, "is a session: compare takes a session and two of its variants"},
		{exitUsage, []string{"demo", "demo", "--metric", "cos"}, "--metric is of sessions"},
		{exitUsage, []string{"demo", "demo", "--max-rel-l2", "-1"}, "--max-rel-l2 -1: want 0 or more"},
		{exitUsage, []string{"demo", "demo", "--max-rel-l2", "NaN"}, "--max-rel-l2 NaN: want 0 or more"},
		{exitUsage, []string{"demo", "demo", "--threads", "0"}, "--threads 0"},
		{exitUsage, []string{"demo", "demo", "--worst", "-1"}, "--worst -1"},
		{exitUsage, []string{"demo", "demo", "--zero-points", "v3"}, "--zero-points"},
		{exitUsage, []string{a, "nvfp4", "nvfp4+mse", "--as-stored"}, "--as-stored is of two checkpoints"},
		{exitBadInput, []string{"demo", "nowhere"}, "nowhere"},
		{exitBadInput, []string{"demo", alignData("cases", "C18-head-order", "expect.json")}, "expect.json"},
		{exitBadInput, []string{alignData("cases", "C18-head-order", "hf"), alignData("cases", "C25-two-conventions", "divisor")}, "have no tensor in common"},
	} {
		o := command(t, append([]string{"compare"}, tt.args...)...)
		if o.code != tt.code || !strings.Contains(o.err, tt.want) || strings.Count(o.err, "\n") != 1 || o.out != "" {
			t.Errorf("%v: exit %d, %q, want %d and %q", tt.args, o.code, o.err, tt.code, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, err bytes.Buffer
	if code := run(ctx, []string{"compare", "demo", "demo"}, streams{in: strings.NewReader(""), out: &out, err: &err}); code != exitInterrupted || out.Len() > 0 {
		t.Errorf("exit %d, %d bytes, %s", code, out.Len(), err.String())
	}
}
