package main

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/method"
)

// codesOf writes a folder of codes of the demo's routed experts: those of a plain
// int4 variant, said to be a calibrated one's, on a text.
func codesOf(t *testing.T, says, plain string, text *corpus.Corpus, change func(*codes.Matrix)) string {
	t.Helper()
	ref, err := candidate.Open(t.Context(), "demo", candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	src, err := ref.Source()
	if err != nil {
		t.Fatal(err)
	}
	matrices, _, err := candidate.SelectTargets(ref, "")
	if err != nil {
		t.Fatal(err)
	}
	v, err := method.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	m := codes.Manifest{
		Source: ref.Identity, Variant: says, Convention: "own", GlobalScale: "shared", Targets: "default: routed experts", Units: []string{"all"}, Damp: 0.01, Inputs: "sequential", Numerics: "1",
		Corpus: codes.Corpus{Name: text.Name, Source: text.Source, SHA256: hex.EncodeToString(text.SHA256[:]), Tokenizer: text.Tokenizer, Chunks: len(text.Chunks), Tokens: text.Tokens()},
	}
	var list []codes.Matrix
	for _, x := range matrices {
		w, err := src.Weight(t.Context(), model.Place{Kind: x.Role.Kind, Layer: x.Role.Layer, Expert: x.Role.Expert, Projection: x.Role.Projection})
		if err != nil {
			t.Fatal(err)
		}
		data, ok := w.Operand.Stored()
		if !ok {
			t.Fatalf("%s is not stored as a matrix", x.Name)
		}
		p, err := kernels.Best().Begin(v.Spec, data.Element, x.Rows, x.Cols, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Sizes(x.Rows)
		out := kernels.Output{Codes: make([]byte, s.Codes), Scales: make([]byte, s.Scales), Mins: make([]byte, s.Mins)}
		if err := p.Rows(data.Data, &out); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(); err != nil {
			t.Fatal(err)
		}
		k := codes.Matrix{Name: x.Name, Rows: x.Rows, Cols: x.Cols, Codes: out.Codes, Scales: out.Scales, Mins: out.Mins, Effective: says}
		if change != nil {
			change(&k)
		}
		m.Matrices, list = append(m.Matrices, x.Name), append(list, k)
		src.Release()
	}
	dir := filepath.Join(t.TempDir(), "codes")
	store, err := codes.Create(dir, m, text.Chunks)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put("all", list, nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// demoText is an embedded corpus.
func demoText(t *testing.T, name string) *corpus.Corpus {
	t.Helper()
	all, err := corpus.Demo()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c *corpus.Corpus) bool { return c.Name == name })
	return all[i]
}

// A calibrator that is wired out gives back the baseline's codes. Its baseline is
// measured although nobody asked for it, and the measurement fails; codes that are
// others pass, with the difference to the baseline in text and document.
func TestMeasureCodes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	short := func(args ...string) []string {
		return append([]string{"demo", "--corpus", "prose", "--chunks", "4", "--session", filepath.Join(t.TempDir(), "x.qscope")}, args...)
	}
	calib := demoText(t, "calib")
	idle := codesOf(t, "int4-g128+gptq", "int4-g128", calib, nil)
	d := measureDoc(t, exitCheckFailed, short("--candidate", "idle="+idle)...)
	if len(d.Candidates) != 2 || d.Candidates[0].Candidate != "idle" || d.Candidates[1].Candidate != "int4-g128" || !d.Candidates[1].Added || d.Candidates[0].Added ||
		d.Candidates[0].Gain == nil || d.Candidates[0].Gain.Verdict != "equal" || !strings.HasPrefix(d.Candidates[0].Calibrated, "calib (demo): 98304 tokens") {
		t.Errorf("%+v", d.Candidates)
	}
	failed := ""
	for _, g := range d.Gates {
		if !g.Passed {
			failed += g.Gate + ": " + g.Message
		}
	}
	if !strings.HasPrefix(failed, "fidelity: idle equals its baseline int4-g128 at every position") || !strings.Contains(failed, "ΔNLL 0 [0, 0]") {
		t.Errorf("failed gates: %q", failed)
	}

	other := codesOf(t, "int4-g128+gptq", "int4-g128+range", calib, nil)
	d = measureDoc(t, exitGood, short("--candidate", "other="+other, "--candidate", "int4-g128")...)
	if g := d.Candidates[0].Gain; len(d.Candidates) != 2 || d.Candidates[1].Added || g == nil || !(g.Low <= g.Gain && g.Gain <= g.High) || g.Gain == 0 || !strings.HasPrefix(g.Sentence, "other is ") {
		t.Errorf("%+v", d.Candidates)
	}
	o := command(t, append([]string{"measure", "--cache", "none"}, short("--candidate", "other="+other)...)...)
	for _, want := range []string{"KL gone [95 %]", "+ int4-g128", "against the baselines", "  other is ", "    calibrated on calib (demo): 98304 tokens in 256 chunks", "gate fidelity     passed  other differs from its baseline int4-g128"} {
		if o.code != exitGood || !strings.Contains(o.out, want) {
			t.Errorf("exit %d, no %q in\n%s%s", o.code, want, o.out, o.err)
		}
	}
}

// Codes that were chosen on the evaluation's own text, that fell back, that are of
// another checkpoint or that cannot be made end a measurement with a line.
func TestMeasureCodesRefused(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	prose := codesOf(t, "int4-g128+gptq", "int4-g128+range", demoText(t, "prose"), nil)
	fell := codesOf(t, "int4-g128+gptq", "int4-g128+range", demoText(t, "calib"), func(k *codes.Matrix) {
		if strings.Contains(k.Name, "layers.1.mlp.experts.7.down") {
			k.Effective, k.Why = "int4-g128", "no token of the calibration text was routed to it"
		}
	})
	ids := filepath.Join(t.TempDir(), "x.ids")
	if err := os.WriteFile(ids, make([]byte, 4*512), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		code int
		args []string
		says []string
	}{
		{"its own text", exitBadInput, []string{"demo", "--candidate", prose, "--corpus", "prose"}, []string{"evaluation text is in the calibration text", "prose"}},
		{"its own text in a mixture", exitBadInput, []string{"demo", "--candidate", "nvfp4", "--body-from", prose, "--corpus", "prose"}, []string{"evaluation text is in the calibration text"}},
		{"text that is named", exitBadInput, []string{"demo", "--candidate", "nvfp4+imatrix", "--calib", "code", "--corpus", "code", "--calib-chunks", "1"}, []string{"evaluation text is in the calibration text"}},
		{"fell back", exitCheckFailed, []string{"demo", "--candidate", "x=" + fell, "--corpus", "chat", "--chunks", "2"}, []string{"x: 1 tensor is not as asked", "no token of the calibration text was routed to it", "--allow-fallback"}},
		{"another checkpoint", exitBadInput, []string{"../../analysis/model/testdata/qwen3_moe", "--candidate", prose, "--corpus", ids}, []string{"holds codes of checkpoint"}},
		{"no text", exitUsage, []string{"../../analysis/model/testdata/qwen3_moe", "--candidate", "nvfp4+imatrix", "--corpus", ids}, []string{"needs a text to be calibrated on", "--calib"}},
		{"two texts", exitUsage, []string{"demo", "--candidate", "nvfp4+imatrix", "--calib", "calib", "--calib", "code", "--corpus", "prose"}, []string{"calibrated on one"}},
		{"chunks", exitUsage, []string{"demo", "--candidate", "nvfp4+imatrix", "--calib-chunks", "-1"}, []string{"--calib-chunks -1"}},
	} {
		o := command(t, append([]string{"measure", "--cache", "none", "--session", filepath.Join(t.TempDir(), "x.qscope")}, c.args...)...)
		line := strings.TrimSpace(o.err)
		if i := strings.LastIndex(line, "\n"); i >= 0 {
			line = line[i+1:]
		}
		for _, s := range c.says {
			if o.code != c.code || !strings.Contains(line, s) {
				t.Errorf("%s: exit %d, want %d: %q does not say %q", c.name, o.code, c.code, o.err, s)
			}
		}
	}
}

// A calibrated variant by its name is calibrated once, told of as it goes, held
// against its baseline, and found again by the next measurement; another text is
// another measurement of the same session.
func TestMeasureCalibrates(t *testing.T) {
	kept := t.TempDir()
	session := filepath.Join(t.TempDir(), "x.qscope")
	args := func(chunks string) []string {
		return []string{"demo", "--candidate", "int4-g128+gptq,nvfp4+imatrix", "--codes", kept, "--calib-chunks", chunks, "--corpus", "prose", "--chunks", "3", "--session", session, "--allow-fallback"}
	}
	folders := func() int {
		list, err := filepath.Glob(filepath.Join(kept, "*", "codes.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	d := measureDoc(t, exitGood, args("12")...)
	var labels []string
	for _, c := range d.Candidates {
		labels = append(labels, c.Candidate)
		if calibrated := strings.Contains(c.Candidate, "+"); c.Added == calibrated || calibrated != (c.Gain != nil && strings.HasPrefix(c.Calibrated, "calib (demo): 4608 tokens in 12 chunks")) {
			t.Errorf("%+v", c)
		}
	}
	if want := "int4-g128+gptq nvfp4+imatrix int4-g128 nvfp4"; strings.Join(labels, " ") != want || folders() != 2 {
		t.Errorf("%s, in %d folders", labels, folders())
	}
	again := measureDoc(t, exitGood, args("12")...)
	if again.Candidates[0].KLMean != d.Candidates[0].KLMean || folders() != 2 {
		t.Errorf("%v after %v, in %d folders", again.Candidates[0].KLMean, d.Candidates[0].KLMean, folders())
	}
	if other := measureDoc(t, exitGood, args("9")...); other.Candidates[0].KLMean == d.Candidates[0].KLMean || folders() != 4 {
		t.Errorf("the same %v of another text, in %d folders", other.Candidates[0].KLMean, folders())
	}
	if o := command(t, "sessions", "info", session); o.code != exitGood || strings.Count(o.out, "int4-g128+gptq") != 2 {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

// The folder that quantize leaves is measured as it is: its matrices of MTP layers,
// which the pass does not read, change neither its baseline nor what fell back.
func TestMeasureCodesOfQuantize(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "codes")
	if o := command(t, "quantize", "demo", "--variant", "int4-g128+gptq", "--calib-chunks", "12", "--codes", dir, "--session", filepath.Join(t.TempDir(), "q.qscope"), "--allow-fallback"); o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	d := measureDoc(t, exitGood, "demo", "--candidate", "mine="+dir, "--corpus", "prose", "--chunks", "3", "--session", filepath.Join(t.TempDir(), "m.qscope"), "--allow-fallback")
	if len(d.Candidates) != 2 || d.Candidates[0].Effective != "int4-g128+gptq" || d.Candidates[1].Candidate != "int4-g128" || !d.Candidates[1].Added || d.Candidates[0].Gain == nil || d.Candidates[0].Gain.Verdict == "equal" ||
		d.Candidates[0].BitsPerWeight != d.Candidates[1].BitsPerWeight {
		t.Errorf("%+v", d.Candidates)
	}
}

// The embedded calibration text is refused as text to measure on before an hour is
// spent on calibrating by it.
func TestMeasureOnCalibrationText(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "codes")
	o := command(t, "measure", "demo", "--candidate", "int4-g128+gptq", "--calib-chunks", "1", "--corpus", "calib", "--chunks", "1", "--codes", cache, "--session", filepath.Join(t.TempDir(), "s.qscope"))
	o.refused(t, exitBadInput)
	if _, err := os.Stat(cache); !errors.Is(err, os.ErrNotExist) || !strings.Contains(o.err, "evaluation text is in the calibration text") {
		t.Errorf("%v: %s", err, o.err)
	}
}
