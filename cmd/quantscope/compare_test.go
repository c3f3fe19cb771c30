package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/compare"
	"quantscope/sessions"
)

// measured makes two sessions of the demo: one of layer 2's routed experts, one
// of half of these and the attention of layer 1.
func measured(t *testing.T) (a, b string) {
	t.Helper()
	dir := t.TempDir()
	a, b = filepath.Join(dir, "a.qscope"), filepath.Join(dir, "b.qscope")
	for _, args := range [][]string{
		{"--variant", "nvfp4,nvfp4+mse", "--targets", "re:.*layers.2.mlp.experts.*_proj.*", "--session", a},
		{"--variant", "nvfp4,int4-g128", "--targets", `re:.*(layers.2.mlp.experts.\d\.|layers.1.self_attn).*_proj.*`, "--session", b},
	} {
		if o := command(t, append([]string{"quantize", "demo"}, args...)...); o.code != exitGood {
			t.Fatalf("%v: %s", args, o.err)
		}
	}
	return a, b
}

// An interrupted comparison prints nothing.
func TestCompareInterrupted(t *testing.T) {
	a, _ := measured(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, err bytes.Buffer
	if code := run(ctx, []string{"compare", a, "nvfp4", "nvfp4+mse"}, streams{in: strings.NewReader(""), out: &out, err: &err}); code != exitInterrupted || out.Len() > 0 {
		t.Errorf("exit %d, %d bytes, %s", code, out.Len(), err.String())
	}
}

// keyed is a JSON document, read by paths of keys: a.variant.
type keyed map[string]any

func (k keyed) get(path string) any {
	var v any = map[string]any(k)
	for _, key := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func comparison(t *testing.T, args ...string) keyed {
	t.Helper()
	o := command(t, append([]string{"compare", "--json"}, args...)...)
	if o.code != exitGood || o.err != "" {
		t.Fatalf("%v: exit %d: %s", args, o.code, o.err)
	}
	var doc keyed
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func (k keyed) want(t *testing.T, wants map[string]any) {
	t.Helper()
	for path, want := range wants {
		got := k.get(path)
		if f, ok := got.(float64); ok {
			if w, ok := want.(float64); ok && math.Abs(f-w) <= 1e-9*math.Abs(w) {
				continue
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func TestCompare(t *testing.T) {
	a, b := measured(t)
	st, err := savedState(a)
	if err != nil {
		t.Fatal(err)
	}
	mse, rtn := sessions.Summarize(st, 1), sessions.Summarize(st, 0)
	doc := comparison(t, a, "nvfp4", "nvfp4+mse")
	doc.want(t, map[string]any{
		"metric.name": "rel2", "a.variant": "nvfp4", "b.variant": "nvfp4+mse", "a.alone": 0, "tensors": 48, "pairs": 48, "wins": 48, "ties": 0, "losses": 0,
		"mean_a.value": float64(rtn.MeanRel2), "mean_b.value": float64(mse.MeanRel2),
		"mean_change.value": float64(mse.MeanRel2/rtn.MeanRel2) - 1,
		"wilcoxon.plus":     0, "wilcoxon.minus": 48 * 49 / 2, "size.change_bytes": 0, "size.a_bytes": 48 * (128*128*9/16 + 4),
		"receipt_a.checkpoint": "demo", "receipt_a.identity": st.Meta.SourceIdentity, "receipt_b.state": "finished",
	})
	if len(doc.get("worst").([]any)) != 0 || len(doc.get("layers").([]any)) != 1 || len(doc.get("projections").([]any)) != 3 {
		t.Errorf("worst %v, layers %v, projections %v", doc.get("worst"), doc.get("layers"), doc.get("projections"))
	}

	// A variant by another form of its name.
	comparison(t, a, "nvfp4+rtn", "nvfp4+mse").want(t, map[string]any{"a.variant": "nvfp4", "wins": 48})

	// Over other targets: ten experts of three projections are in both.
	doc = comparison(t, a, "nvfp4+mse", b, "int4-g128", "--metric", "cos", "--worst", "2")
	doc.want(t, map[string]any{
		"a.session": a, "b.session": b, "tensors": 30, "pairs": 30, "a.alone": 18, "b.alone": 4, "metric.relative": false,
		"losses": 30, "size.a_bytes": 30 * (128*128*9/16 + 4), "size.b_bytes": 30 * 128 * 128 * 17 / 32,
	})
	if worst := doc.get("worst").([]any); len(worst) != 2 {
		t.Errorf("worst %v", worst)
	}

	// A variant and itself, from two runs: every pair is equal, bit for bit.
	comparison(t, a, "nvfp4", b, "nvfp4").want(t, map[string]any{
		"pairs": 30, "ties": 30, "mean_change.value": 0, "mean_change.low": 0, "wilcoxon.p.why": "no pair differs",
	})

	o := command(t, "compare", a, "nvfp4+mse", b, "int4-g128")
	if o.code != exitGood {
		t.Fatal(o.err)
	}
	for _, want := range []string{
		"30; left out: 18 only in A's session, 4 only in B's session", "B worse           30 (100.00 %)", "smaller is better",
		"Wilcoxon signed-rank, two-sided", "and 20 more", "gate", "L2",
	} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in:\n%s", want, o.out)
		}
	}
}

// TestCompareIsDocumented: docs/commands.md names every key of the document.
func TestCompareIsDocumented(t *testing.T) {
	a, b := measured(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### compare")
	section, _, _ = strings.Cut(section, "\n### ")
	section += "`value` `low` `high` `why`" // of a statistic, which the page explains once
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if !strings.Contains(section, "`"+k+"`") && !strings.Contains(section, "`"+k+"[]`") {
					t.Errorf("docs/commands.md does not name the key %s of compare", k)
				}
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(map[string]any(comparison(t, a, "nvfp4+mse", b, "int4-g128")))
}

func TestCompareRefuses(t *testing.T) {
	a, b := measured(t)
	other := filepath.Join(t.TempDir(), "other.qscope")
	ck := filepath.Join(t.TempDir(), "ck")
	for _, args := range [][]string{
		{"synth", ck, "--layers", "2", "--experts", "2", "--hidden", "64", "--intermediate", "64"},
		{"quantize", ck, "--variant", "nvfp4", "--session", other},
	} {
		if o := command(t, args...); o.code != exitGood {
			t.Fatalf("%v: %s", args, o.err)
		}
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{a, "nvfp4"}, "compare takes a session and two of its variants"},
		{exitUsage, []string{a, "nvfp4", "nvfp4+sweep"}, a + `: it has no variant "nvfp4+sweep" (it has nvfp4, nvfp4+mse)`},
		{exitUsage, []string{other, "nvfp4", "nvfp4+mse"}, other + `: it has no variant "nvfp4+mse" (it has nvfp4)`},
		{exitUsage, []string{a, "nvfp4", b, "mxfp4"}, `no variant "mxfp4" (it has nvfp4, int4-g128)`},
		{exitUsage, []string{a, "nvfp4", "nvfp4", "--metric", "rel3"}, `--metric: metric "rel3" is not known (known: rel_l2, rel2,`},
		{exitUsage, []string{a, "nvfp4", "nvfp4", "--worst", "-1"}, "--worst -1: from 0 to 100000"},
		{exitBadInput, []string{a, "nvfp4", other, "nvfp4"}, other + ": cannot be compared with " + a + ": its source is " + ck},
		{exitBadInput, []string{a + "x", "nvfp4", "nvfp4"}, "no such file"},
		{exitBadInput, []string{filepath.Join(ck, "config.json"), "nvfp4", "nvfp4"}, "not a session"},
	} {
		o := command(t, append([]string{"compare"}, c.args...)...)
		o.refused(t, c.code)
		if !strings.Contains(o.err, c.want) {
			t.Errorf("%v: %q does not say %q", c.args, o.err, c.want)
		}
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"--with", a}, "--with joins two saved sessions"},
		{exitUsage, []string{ck, "--with", a}, ck + " is a checkpoint"},
		{exitBadInput, []string{a, "--with", other}, "cannot be compared with"},
		{exitBadInput, []string{a, "--with", a + "x"}, "no such file"},
	} {
		o := command(t, c.args...)
		o.refused(t, c.code)
		if !strings.Contains(o.err, c.want) {
			t.Errorf("%v: %q does not say %q", c.args, o.err, c.want)
		}
	}
}

// TestCompareWithoutEvidence: a session of which nothing was measured, and one of
// one tensor, have a document without invented figures.
func TestCompareWithoutEvidence(t *testing.T) {
	one := filepath.Join(t.TempDir(), "one.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4,mxfp4", "--targets", "re:.*layers.2.mlp.experts.3.up_proj.*", "--session", one); o.code != exitGood {
		t.Fatal(o.err)
	}
	doc := comparison(t, one, "nvfp4", "mxfp4")
	doc.want(t, map[string]any{"pairs": 1, "losses": 1, "wilcoxon.n": 1})
	if doc.get("mean_change.low") != nil || doc.get("median_change.low") != nil {
		t.Errorf("an interval of one pair: %v, %v", doc.get("mean_change"), doc.get("median_change"))
	}
	o := command(t, "compare", one, "nvfp4", "mxfp4")
	if o.code != exitGood || strings.Contains(o.out, "NaN") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}

	st, err := savedState(one)
	if err != nil {
		t.Fatal(err)
	}
	st.Records[1][0] = sessions.Record{} // as of a run that was broken off before it
	metric, err := sessions.MetricByName("rel2")
	if err != nil {
		t.Fatal(err)
	}
	in, err := sessions.Comparison(st, 0, st, 1, metric)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compare.Run(in, 5)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printComparison(streams{out: &out}, compareDocument{Report: r}, 5); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pairs             0; left out: 1 not measured yet", "B better          0\n", "mean              none: no tensor has a finite figure on both sides",
		"p                 none: no tensor has a finite figure on both sides", "distribution of changes: none", "worst regressions: none", "L2         0",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "NaN") {
		t.Errorf("NaN in:\n%s", out.String())
	}
}

// TestPrintTwoSessions: without a terminal --with prints both sessions as one.
func TestPrintTwoSessions(t *testing.T) {
	a, b := measured(t)
	o := command(t, a, "--with", b, "--json")
	var doc keyed
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil {
		t.Fatalf("%v: %s", err, o.err)
	}
	var names []string
	for _, v := range doc.get("variants").([]any) {
		k := keyed(v.(map[string]any))
		names = append(names, fmt.Sprint(k.get("variant"), "=", k.get("tensors")))
	}
	if got := strings.Join(names, ", "); got != "nvfp4=30, nvfp4+mse=30, nvfp4 @ b=30, int4-g128 @ b=30" {
		t.Errorf("variants %s", got)
	}
	if o := command(t, a, "--with", b); o.code != exitGood || !strings.Contains(o.out, "int4-g128 @ b") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

func TestLabelOf(t *testing.T) {
	for _, c := range [][3]string{
		{"/runs/b.qscope", "/runs/a.qscope", "b"}, {"/x/run.qscope", "/y/run.qscope", "x/run"}, {"/x/notes", "/x/a.qscope", "notes"},
	} {
		if got := labelOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s beside %s is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// Sign bias is compared by how far it is from 0, and is of codebooks alone.
func TestCompareSignBias(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4,code2+sym,code2+asym", "--targets", "re:.*layers.2.mlp.experts.*_proj.*", "--session", path); o.code != exitGood {
		t.Fatal(o.err)
	}
	for _, metric := range []string{"sign_bias", "row_bias"} {
		o := command(t, "compare", path, "code2+sym", "code2+asym", "--metric", metric, "--json")
		var doc compareDocument
		if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood {
			t.Fatalf("%s: exit %d, %v, %s", metric, o.code, err, o.err)
		}
		if doc.Pairs != 48 || doc.Losses <= 24 || doc.Metric.Diverging != (metric == "sign_bias") {
			t.Errorf("%s: %d losses of %d pairs, %+v", metric, doc.Losses, doc.Pairs, doc.Metric)
		}
	}
	if o := command(t, "compare", path, "code2+sym", "code2+asym", "--metric", "sign_bias"); !strings.Contains(o.out, "nearer to 0 is better") {
		t.Error(o.out)
	}
	if o := command(t, "compare", path, "nvfp4", "code2+asym", "--metric", "sign_bias"); o.code != exitGood || !strings.Contains(o.out, "48 without a finite figure") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}
