package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
)

// prices is a session of the demo under variants of two sizes.
func prices(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4,nvfp4+mse,int4-g128", "--session", path); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	return path
}

// pricesOf is the document of a run.
func pricesOf(t *testing.T, args ...string) (d struct {
	Pricing    landscape.Pricing
	Elements   int64
	Range      priceRange
	Answer     *priceAnswer
	Recipe     *recipeWritten
	WithRecipe *recipePriced `json:"with_recipe"`
}) {
	t.Helper()
	o := command(t, append(append([]string{"price"}, args...), "--json")...)
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || o.code != exitGood || o.err != "" {
		t.Fatalf("%v: exit %d, %v: %s", args, o.code, err, o.err)
	}
	return d
}

func TestPrice(t *testing.T) {
	session := prices(t)
	o := command(t, "price", session)
	if o.code != exitGood || o.err != "" {
		t.Fatalf("%+v", o)
	}
	for _, want := range []string{
		"measured  720 of 720", "bits/weight", "5 to 95 %", "240      16.0000  0.000000", "rel2 ■ ─  random ▲ ╌", "too little to pay",
		"amax: never beats the controls", "a budget can be 2088960 to 7864320 bytes",
	} {
		if !strings.Contains(o.out, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
	for _, bad := range []string{"NaN", "\x1b", "%!"} {
		if strings.Contains(o.out, bad) {
			t.Errorf("the text holds %q", bad)
		}
	}
	d := pricesOf(t, session)
	if len(d.Pricing.Curves) != 7 || len(d.Pricing.Verdicts) != 4 || d.Pricing.Base != "nvfp4" || d.Pricing.Protect != "source" || d.Answer != nil {
		t.Errorf("%d curves, %d verdicts, %s and %s", len(d.Pricing.Curves), len(d.Pricing.Verdicts), d.Pricing.Base, d.Pricing.Protect)
	}
	for _, c := range d.Pricing.Curves {
		first, last := c.Points[0], c.Points[len(c.Points)-1]
		if first.Bytes != 2212800 || last.Bytes != 7864320 || math.Abs(first.MeanRel2-0.009049) > 1e-6 || last.MeanRel2 != 0 {
			t.Errorf("%s from %+v to %+v", c.Name, first, last)
		}
	}
	if same := pricesOf(t, session, "--base", "nvfp4+rtn", "--protect", "nvfp4+mse", "--by", "layer"); same.Pricing.By != "layer" || same.Pricing.Protect != "nvfp4+mse" {
		t.Errorf("%s by %s", same.Pricing.Protect, same.Pricing.By)
	}
}

func TestPriceOfBudget(t *testing.T) {
	session := prices(t)
	out := filepath.Join(t.TempDir(), "best.yaml")
	d := pricesOf(t, session, "--budget", "5bpw", "--recipe", out)
	a := d.Answer
	if a == nil || !a.Exact || a.Gap != 0 || a.Bytes > 5*d.Elements/8 || a.Bytes < 5*d.Elements/8-20000 || len(a.Controls) != 3 || !a.Beats || a.Sentence == "" {
		t.Fatalf("%+v", a)
	}
	for _, c := range a.Controls {
		if p := c.Points[0]; p.MeanRel2 < a.Value || p.Bytes > a.Bytes {
			t.Errorf("%s: %+v; the answer has %v", c.Name, p, a.Value)
		}
	}
	text := command(t, "price", session, "--budget", "5bpw").out
	for _, want := range []string{"the best within 2457600 bytes", "the least that this size allows", fmt.Sprintf("%.6g", a.Value), "reversed", a.Sentence} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
	data, err := os.ReadFile(out)
	if err != nil || int64(len(data)) != d.Recipe.Bytes || d.Recipe.Patterns == 0 {
		t.Fatalf("%+v, %v", d.Recipe, err)
	}

	// The recipe costs and loses what the answer did.
	r := pricesOf(t, session, "--with-recipe", out).WithRecipe
	if r == nil || r.Bytes != a.Bytes || r.MeanRel2 != a.Error || len(r.Notes) != 1 || r.AtBytes == nil || r.AtBytes.Value != a.Value {
		t.Errorf("%+v", r)
	}
	if text := command(t, "price", session, "--with-recipe", out).out; !strings.Contains(text, "group 1   nvfp4+mse") || !strings.Contains(text, "the best within as many bytes") {
		t.Error(text)
	}

	again := command(t, "price", session, "--budget", "6bpw", "--recipe", out)
	again.refused(t, exitUsage)
	if now, err := os.ReadFile(out); err != nil || string(now) != string(data) || !strings.Contains(again.err, "--force") {
		t.Errorf("%v: %s", err, again.err)
	}
	if o := command(t, "price", session, "--budget", "6bpw", "--recipe", out, "--force"); o.code != exitGood {
		t.Errorf("%+v", o)
	}
	if now, err := os.ReadFile(out); err != nil || string(now) == string(data) {
		t.Errorf("not overwritten, %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), "*")); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPriceRefuses(t *testing.T) {
	session := prices(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong := file("wrong.yaml", "groups:\n  - scheme: nvfp5\n    targets: ['*']\n")
	other := file("other.yaml", "groups:\n  - scheme: fp8\n    targets: ['*']\n")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "takes one session file", nil},
		{exitBadInput, "no such file", []string{filepath.Join(dir, "none.qscope")}},
		{exitBadInput, wrong, []string{wrong}},
		{exitUsage, "it has: nvfp4, nvfp4+mse, int4-g128, source", []string{session, "--base", "fp8"}},
		{exitUsage, "it has: nvfp4, nvfp4+mse", []string{session, "--arms", "nvfp4,mxfp4", "--budget", "5bpw"}},
		{exitUsage, "--arms says what the answer", []string{session, "--arms", "nvfp4"}},
		{exitUsage, "--objective says what the answer", []string{session, "--objective", "weighted"}},
		{exitUsage, "are both nvfp4", []string{session, "--protect", "nvfp4"}},
		{exitUsage, "known: tensor, fused, expert, layer, projection", []string{session, "--by", "shard"}},
		{exitUsage, "known: mean, weighted", []string{session, "--objective", "max", "--budget", "5bpw"}},
		{exitUsage, "such as 4.6bpw", []string{session, "--budget", "small"}},
		{exitUsage, "4.6bpw, 4.6GiB?", []string{session, "--budget", "4.6"}},
		{exitUsage, "at most 10000", []string{session, "--repeats", "10001"}},
		{exitUsage, "is below the least: these variants take 2088960 to 7864320 bytes", []string{session, "--budget", "2MB"}},
		{exitUsage, "is above the most", []string{session, "--budget", "16.5bpw"}},
		{exitUsage, "needs --budget", []string{session, "--recipe", filepath.Join(dir, "r.yaml")}},
		{exitUsage, "--force goes with --recipe", []string{session, "--force"}},
		{exitUsage, "--repeats 1", []string{session, "--repeats", "1"}},
		{exitUsage, "quantizes nothing", []string{session, "--budget", "16bpw", "--recipe", filepath.Join(dir, "r.yaml")}},
		{exitEnvironment, "session", []string{session, "--budget", "5bpw", "--recipe", session, "--force"}},
		{exitBadInput, "wrong.yaml:2:", []string{session, "--with-recipe", wrong}},
		{exitBadInput, `"fp8" was not measured (measured: nvfp4, nvfp4+mse, int4-g128, source)`, []string{session, "--with-recipe", other}},
		{exitBadInput, "no such file", []string{session, "--with-recipe", filepath.Join(dir, "none.yaml")}},
	} {
		o := command(t, append([]string{"price"}, c.args...)...)
		o.refused(t, c.code)
		if !strings.Contains(o.err, c.want) {
			t.Errorf("%v: %q does not say %q", c.args, o.err, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "r.yaml")); err == nil {
		t.Error("a refused answer was written")
	}
}

// One tensor: every list is the same, and nothing is drawn of their differences.
func TestPriceOfOneTensor(t *testing.T) {
	session := filepath.Join(t.TempDir(), "one.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--targets", "re:.*layers.2.mlp.experts.3.up_proj.*", "--session", session); o.code != exitGood {
		t.Fatal(o.err)
	}
	o := command(t, "price", session, "--budget", "5bpw")
	if o.code != exitGood || !strings.Contains(o.out, "no list is more than 0.01 % of all error from random ones") || !strings.Contains(o.out, "the answer does not beat its controls") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
	d := pricesOf(t, session, "--budget", "16bpw")
	if d.Answer.Error != 0 || d.Answer.Bound != 0 || d.Answer.Gap != 0 || !d.Answer.Exact || d.Answer.Beats {
		t.Errorf("%+v", d.Answer)
	}
	for _, c := range d.Pricing.Against {
		if c.Beats || c.Worse {
			t.Errorf("%+v", c)
		}
	}
}

// spoil writes a NaN into the first weight of the tensors whose name contains
// part, in every shard of a folder.
func spoil(t *testing.T, dir, part string) {
	t.Helper()
	shards, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(shards) == 0 {
		t.Fatalf("%v, %v", shards, err)
	}
	for _, path := range shards {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := binary.LittleEndian.Uint64(data)
		header := map[string]json.RawMessage{}
		if err := json.Unmarshal(data[8:8+n], &header); err != nil {
			t.Fatal(err)
		}
		for name, raw := range header {
			var entry struct {
				Offsets [2]uint64 `json:"data_offsets"`
			}
			if !strings.Contains(name, part) {
				continue
			}
			if err := json.Unmarshal(raw, &entry); err != nil {
				t.Fatal(err)
			}
			binary.LittleEndian.PutUint16(data[8+n+entry.Offsets[0]:], 0x7fc0)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Tensors with NaN weights have no figures: they keep the source, and it is
// said. Where no tensor has any, there is nothing to price.
func TestPriceWithoutFigures(t *testing.T) {
	for part, code := range map[string]int{".experts.1.up_proj": exitGood, ".experts.": exitBadInput} {
		dir := t.TempDir()
		ck, session := filepath.Join(dir, "model"), filepath.Join(dir, "s.qscope")
		if o := command(t, "synth", ck, "--layers", "2", "--experts", "4", "--hidden", "64", "--intermediate", "32"); o.code != exitGood {
			t.Fatalf("%+v", o)
		}
		spoil(t, ck, part)
		command(t, "quantize", ck, "--variant", "nvfp4", "--session", session, "--targets", "*.experts.*")
		if code == exitBadInput {
			o := command(t, "price", session)
			o.refused(t, code)
			if !strings.Contains(o.err, "no tensor has finite figures") {
				t.Error(o.err)
			}
			continue
		}
		d := pricesOf(t, session, "--budget", "8bpw")
		if d.Pricing.LeftOut == 0 || d.Answer.Fixed != d.Pricing.LeftOut || len(d.Answer.Notes) == 0 || !strings.Contains(d.Answer.Notes[0], "keep the source's weights") {
			t.Errorf("%d left out, %d fixed, %q", d.Pricing.LeftOut, d.Answer.Fixed, d.Answer.Notes)
		}
	}
}

// docs/commands.md names every key of the document.
func TestPriceIsDocumented(t *testing.T) {
	session := prices(t)
	file := filepath.Join(t.TempDir(), "r.yaml")
	command(t, "price", session, "--budget", "6bpw", "--recipe", file)
	o := command(t, "price", session, "--budget", "5bpw", "--with-recipe", file, "--recipe", file+"2", "--json")
	var doc any
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil {
		t.Fatalf("%v: %s", err, o.err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if !strings.Contains(string(text), "`"+k+"`") && !strings.Contains(string(text), "`"+k+"[]`") {
					t.Errorf("docs/commands.md does not name the key %s", k)
				}
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc)
}
