package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/demo"
)

// baseSession is the demo under one variant.
func baseSession(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "base.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--session", path, "--json"); o.code != exitGood {
		t.Fatal(o.err)
	}
	return path
}

func bakeoffJSON(t *testing.T, o outcome) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil {
		t.Fatalf("%v: %q %q", err, o.out, o.err)
	}
	return doc
}

// TestBakeoff: the document says what was drawn and what came out, every key of it is
// documented, and going on measures nothing anew.
func TestBakeoff(t *testing.T) {
	base := baseSession(t)
	session := filepath.Join(t.TempDir(), "sample.qscope")
	args := []string{"bakeoff", "demo", "--base", base, "--sample", "worst=6,random=12,layer=2=all,projection=down=5,expert=3=all", "--variant", "nvfp4+mse,int4-g128", "--session", session, "--seed", "7"}
	o := command(t, append(args, "--json")...)
	if o.code != exitGood {
		t.Fatalf("%d: %s", o.code, o.err)
	}
	doc := bakeoffJSON(t, o)
	levers := doc["levers"].([]any)
	if doc["base"] != "nvfp4" || doc["metric"] != "rel2" || doc["base_taken"] != doc["tensors"] || doc["base_run"] != 0.0 || len(levers) != 2 {
		t.Errorf("%v", o.out)
	}
	for i, sign := range []float64{-1, 1} {
		l := levers[i].(map[string]any)
		outcomes := l["outcomes"].([]any)
		whole := outcomes[len(outcomes)-1].(map[string]any)
		change := whole["mean_change"].(map[string]any)
		if len(outcomes) != 6 || whole["n"] != doc["tensors"] || change["value"].(float64)*sign <= 0 || change["low"].(float64) >= change["high"].(float64) || l["same_as_base"] != false {
			t.Errorf("%v", l)
		}
	}
	commands, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	var keys func(v any)
	keys = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if !strings.Contains(string(commands), "`"+k+"`") && !strings.Contains(string(commands), "`"+k+"[]`") {
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
	keys(doc)

	again := bakeoffJSON(t, command(t, append(args, "--json")...))
	for _, d := range []map[string]any{doc, again} {
		delete(d, "session")
	}
	a, _ := json.Marshal(doc)
	b, _ := json.Marshal(again)
	if string(a) != string(b) {
		t.Errorf("the same again differs:\n%s\n%s", a, b)
	}
	text := command(t, args...)
	for _, want := range []string{"worst: 6 of 240", "layer 2: 48 of 48", "in both", "nvfp4+mse has a lower rel2 than nvfp4", "mean change", "int4-g128 has a lower rel2 than nvfp4 on 0 of", "normal approximation with tie correction: sample\n", "exact: worst, random, layer 2, "} {
		if !strings.Contains(text.out, want) {
			t.Errorf("%q is not in:\n%s", want, text.out)
		}
	}
	other := args
	other[5] = "worst=7"
	command(t, other...).refused(t, exitUsage) // another sample into the same session
}

// TestBakeoffFellBack: on rows of 64 a group of 128 is one of 64, so the variant
// does nothing, which ends the command with code 1.
func TestBakeoffFellBack(t *testing.T) {
	dir := t.TempDir()
	if err := (demo.Synth{Layers: 1, Experts: 3, Hidden: 64, Intermediate: 64, Seed: 5}).Write(t.Context(), filepath.Join(dir, "ck"), nil); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "base.qscope")
	if o := command(t, "quantize", filepath.Join(dir, "ck"), "--variant", "int4-g128", "--session", base); o.code != exitGood {
		t.Fatal(o.err)
	}
	args := []string{"bakeoff", filepath.Join(dir, "ck"), "--base", base, "--sample", "random=5", "--variant", "int4-g64"}
	o := command(t, args...)
	if o.code != exitCheckFailed || !strings.Contains(o.err, "fell back? int4-g64") || !strings.Contains(o.out, "!! FELL BACK? int4-g64 equals int4-g128 exactly on all 5 tensors") {
		t.Errorf("%d %s\n%s", o.code, o.err, o.out)
	}
	if o := command(t, append(args, "--allow-fallback", "--json")...); o.code != exitGood || !strings.Contains(o.out, `"same_as_base": true`) {
		t.Errorf("%d %s", o.code, o.err)
	}
}

func TestBakeoffBadInput(t *testing.T) {
	base := baseSession(t)
	dir := t.TempDir()
	for name, seed := range map[string]uint64{"a": 1, "b": 2} {
		if err := (demo.Synth{Layers: 1, Experts: 2, Hidden: 64, Intermediate: 64, Seed: seed}).Write(t.Context(), filepath.Join(dir, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	synth := filepath.Join(dir, "a.qscope")
	if o := command(t, "quantize", filepath.Join(dir, "a"), "--variant", "nvfp4", "--session", synth); o.code != exitGood {
		t.Fatal(o.err)
	}
	nan := filepath.Join(dir, "nan.qscope")
	weights := filepath.Join("..", "..", "sessions", "testdata", "c22-nan-weights.safetensors")
	if o := command(t, "quantize", weights, "--targets", "*", "--variant", "nvfp4", "--session", nan); o.code != exitBadInput {
		t.Fatalf("%d %s", o.code, o.err)
	}
	ok := func(more ...string) []string {
		args := []string{"bakeoff", "demo", "--base", base, "--sample", "random=3", "--variant", "mxfp4"}
		return append(args, more...) // of a flag given twice the last counts
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no base", []string{"bakeoff", "demo", "--sample", "random=3", "--variant", "mxfp4"}, exitUsage, "--base"},
		{"no sample", []string{"bakeoff", "demo", "--base", base, "--variant", "mxfp4"}, exitUsage, "--sample"},
		{"no variant", []string{"bakeoff", "demo", "--base", base, "--sample", "random=3"}, exitUsage, "--variant"},
		{"two checkpoints", append(ok(), "demo"), exitUsage, "bakeoff takes one checkpoint"},
		{"an unknown variant", ok("--variant", "nvfp5"), exitUsage, "nvfp5"},
		{"the base itself", ok("--variant", "mxfp4,nvfp4+rtn"), exitUsage, "is the base variant"},
		{"an unknown stratum", ok("--sample", "best=3"), exitUsage, `stratum "best=3": not known (known: worst=K`},
		{"no such layer", ok("--sample", "layer=9=3"), exitBadInput, "no layer 9 (known: 1 to 5)"},
		{"too large", ok("--sample", "worst=241"), exitBadInput, "there are only 240"},
		{"an unknown metric", ok("--metric", "kl"), exitUsage, "known: rel2"},
		{"an unknown base variant", ok("--base-variant", "fp8"), exitUsage, `--base-variant "fp8" is not in ` + base + ` (known: nvfp4)`},
		{"no threads", ok("--threads", "0"), exitUsage, "at least one"},
		{"a base that is not there", ok("--base", base+".gone"), exitBadInput, "no such file"},
		{"a base that is no session", ok("--base", weights), exitBadInput, "not an SQLite file"},
		{"of another checkpoint", ok("--base", synth), exitBadInput, "it is of another checkpoint"},
		{"of other weights", append([]string{"bakeoff", filepath.Join(dir, "b"), "--base", synth}, "--sample", "random=3", "--variant", "mxfp4"), exitBadInput, "have the digest"},
		{"no such checkpoint", append([]string{"bakeoff", filepath.Join(dir, "c"), "--base", synth}, "--sample", "random=3", "--variant", "mxfp4"), exitBadInput, "no such file"},
		{"into a session of a whole run", ok("--session", base), exitUsage, "sample was none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := command(t, c.args...)
			o.refused(t, c.code)
			if !strings.Contains(o.err, c.says) {
				t.Errorf("%q does not say %q", o.err, c.says)
			}
		})
	}
	t.Run("not finite", func(t *testing.T) {
		o := command(t, "bakeoff", weights, "--base", nan, "--sample", "random=all", "--variant", "mxfp4")
		if o.code != exitGood || !strings.Contains(o.out, "1 tensor not measurable under nvfp4, in no stratum") || !strings.Contains(o.out, "too few tensors to say more") || strings.Contains(o.out, "NaN") {
			t.Errorf("%d %s\n%s", o.code, o.err, o.out)
		}
		command(t, "bakeoff", weights, "--base", nan, "--sample", "random=2", "--variant", "mxfp4").refused(t, exitBadInput)
	})
}
