package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/quant/gguf"
	"quantscope/quant/lockfile"
)

// ggufOf is a small golden model.
func ggufOf(name string) string {
	return filepath.Join("..", "..", "analysis", "candidate", "testdata", "gguf", name+".gguf")
}

func imatrixOf(name string) string {
	return filepath.Join("..", "..", "quant", "gguf", "testdata", "imatrix", name)
}

// calibrationDoc runs a command and reads its document.
func calibrationDoc(t *testing.T, args ...string) calibrationDocument {
	t.Helper()
	o := command(t, append(args, "--json")...)
	var d calibrationDocument
	if err := json.Unmarshal([]byte(o.out), &d); o.code != 0 || err != nil {
		t.Fatalf("%v: exit %d, %v, %s", args, o.code, err, o.err)
	}
	return d
}

// What is measured is told, the same from the run and from its file, and every
// token of each layer is counted once for each expert that it chose.
func TestCalibrate(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demo.calib")
	d := calibrationDoc(t, "calibrate", "demo", "--out", out, "--chunks", "3")
	if d.Kind != "calibration" || d.Through != "reference" || !d.Hessians || d.Corpus.Tokens != 1152 || d.Corpus.Chunks != 3 || d.Inputs != 107 || d.Measured > d.Inputs || len(d.Layers) != 5 || d.Columns != 384 {
		t.Errorf("%+v", d)
	}
	if r := d.Rank; r.Inner != 128 || r.Experts != 16 || r.TopK != 2 || r.Need != 1024 || !r.Met || r.Tokens != 1152 {
		t.Errorf("rank bound %+v", r)
	}
	inactive, deficient := 0, 0
	for _, l := range d.Layers {
		sum := int64(0)
		for e, n := range l.Expert {
			sum += n
			if (n == 0) != contains(l.Inactive, e) || (n > 0 && n < 128) != contains(l.Deficient, e) {
				t.Errorf("layer %d: expert %d of %d tokens", l.Layer, e, n)
			}
		}
		if sum != 2*l.Tokens || l.Columns != 128 || l.MTP != (l.Layer == 5) || l.Tokens != map[bool]int64{false: 1152, true: 1149}[l.MTP] {
			t.Errorf("layer %d: %d tokens of %d", l.Layer, sum, l.Tokens)
		}
		inactive, deficient = inactive+len(l.Inactive), deficient+len(l.Deficient)
	}
	if s := d.Experts; s.Experts != 80 || s.Inactive != inactive || s.Deficient != deficient || deficient == 0 || d.Inputs-d.Measured != inactive {
		t.Errorf("spread %+v, %d and %d", d.Experts, inactive, deficient)
	}
	if info := calibrationDoc(t, "calibrate", "info", out); !reflect.DeepEqual(info, d) {
		t.Errorf("info %+v, want %+v", info, d)
	}
	text := command(t, "calibrate", "info", out).out
	for _, want := range []string{"1,152 tokens in 3 chunks", "rank bound", "met", "   L1  ", "   M5  ", "!", "Hessians and second moments", "× none"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	again := command(t, "calibrate", "demo", "--out", out)
	if again.code != exitUsage || !strings.Contains(again.err, "is there already") {
		t.Errorf("over a file: %+v", again)
	}
	// To llama.cpp: what both names know, with the moments of the file.
	im := filepath.Join(t.TempDir(), "imatrix.gguf")
	if o := command(t, "calibrate", "convert", out, "--imatrix", im, "--json"); o.code != 0 || !strings.Contains(o.out, `"unnamed": []`) && !strings.Contains(o.out, "head") {
		t.Errorf("%+v", o)
	}
	m, err := gguf.ReadImatrix(im)
	if err != nil || m.ChunkCount != 3 || m.ChunkSize != 384 || m.Datasets[0] != "demo calib" {
		t.Fatalf("%+v, %v", m, err)
	}
	if i := calibrationDoc(t, "calibrate", "info", im); i.Kind != "imatrix" || i.Measured != d.Measured && i.Measured != d.Measured-1 || len(i.Layers) != 5 || !reflect.DeepEqual(i.Layers[0].Expert, d.Layers[0].Expert) {
		t.Errorf("info of an imatrix: %+v", i)
	}
}

func contains(list []int, x int) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// A single chunk leaves experts short of tokens: the bound says so in numbers, and
// the map shows which. It is a warning: the file is there.
func TestCalibrateTooFewTokens(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demo.calib")
	o := command(t, "calibrate", "demo", "--out", out, "--chunks", "1", "--moments")
	if o.code != 0 {
		t.Fatal(o)
	}
	for _, want := range []string{"384 tokens, and experts of 128 inner channels, 2 of 16 a token, need 1024: not met", "!", "second moments"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in %s", want, o.out)
		}
	}
}

// Through a variant the inputs of what it quantizes are measured, behind its
// quantized layers: the first layer's are the checkpoint's own, the last one's not.
func TestCalibrateThrough(t *testing.T) {
	dir := t.TempDir()
	d := calibrationDoc(t, "calibrate", "demo", "--out", filepath.Join(dir, "through"), "--chunks", "2", "--through", "int4-g128+gptq")
	if d.Through != "int4-g128+gptq" || !d.Hessians || d.Inputs != 68 || len(d.Layers) != 4 {
		t.Errorf("%+v", d)
	}
	calibrationDoc(t, "calibrate", "demo", "--out", filepath.Join(dir, "own"), "--chunks", "2")
	through, own := openMoments(t, filepath.Join(dir, "through")), openMoments(t, filepath.Join(dir, "own"))
	for place, same := range map[string]bool{"layer 1 router": true, "layer 4 router": false} {
		at, err := calibrate.ParsePlace(place)
		if err != nil {
			t.Fatal(err)
		}
		a, err := through.Moments(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		b, err := own.Moments(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(a, b) != same {
			t.Errorf("%s: the same as the checkpoint's is %t", place, !same)
		}
	}
}

func openMoments(t *testing.T, path string) *calibrate.File {
	t.Helper()
	f, err := calibrate.OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A GGUF model is measured on a text of its tokenizer, and ids; with --imatrix
// alone nothing else is left.
func TestCalibrateGGUF(t *testing.T) {
	dir := t.TempDir()
	ids := filepath.Join(dir, "ids.jsonl")
	var b bytes.Buffer
	for range 4 {
		b.WriteString(`{"ids":[` + strings.Repeat("5,9,17,33,2,7,", 7) + "1]}\n")
	}
	if err := os.WriteFile(ids, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "imatrix.gguf")
	d := calibrationDoc(t, "calibrate", ggufOf("qwen3_moe"), "--corpus", ids, "--imatrix", out)
	if d.File != "" || d.Imatrix != out || d.Hessians || d.Corpus.Tokens != 4*43 {
		t.Errorf("%+v", d)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
	m, err := gguf.ReadImatrix(out)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := gguf.ReadImatrix(imatrixOf("qwen3_moe.gguf"))
	if err != nil || len(golden.Entries) != len(m.Entries) {
		t.Errorf("%d entries, llama.cpp has %d, %v", len(m.Entries), len(golden.Entries), err)
	}
	// The older format, whose counts are of chunks, for a llama.cpp of today.
	now := filepath.Join(dir, "now.gguf")
	if o := command(t, "calibrate", "convert", imatrixOf("mixtral.dat"), "--imatrix", now, "--chunk", "64"); o.code != 0 {
		t.Fatal(o)
	}
	if m, err := gguf.ReadImatrix(now); err != nil || m.Legacy || m.Entries[0].Counts[0] != 384 {
		t.Errorf("%+v, %v", m, err)
	}
}

// What cannot be is refused with its exit code, in one line that says why.
func TestCalibrateRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("text"), []byte("not a file of moments, whatever it is called"), 0o666); err != nil {
		t.Fatal(err)
	}
	calibrationDoc(t, "calibrate", "demo", "--out", file("good"), "--chunks", "1", "--moments")
	raw, err := os.ReadFile(file("good"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("short"), raw[:len(raw)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	raw[bytes.Index(raw, []byte("glm4"))] = 'G'
	if err := os.WriteFile(file("changed"), raw, 0o666); err != nil {
		t.Fatal(err)
	}
	begun(t, file("half"))
	begun(t, file("held"))
	lock, err := lockfile.Acquire(filepath.Join(file("held.parts"), "lock"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "--out is wanted", []string{"demo"}},
		{exitUsage, "takes one checkpoint", nil},
		{exitUsage, "--chunk 1", []string{"demo", "--out", file("x"), "--chunk", "1"}},
		{exitUsage, "--threads 0", []string{"demo", "--out", file("x"), "--threads", "0"}},
		{exitUsage, "--targets goes with --through", []string{"demo", "--out", file("x"), "--targets", "all"}},
		{exitUsage, "--moments goes with --out", []string{"demo", "--imatrix", file("x"), "--moments"}},
		{exitUsage, "--through: ", []string{"demo", "--out", file("x"), "--through", "int5"}},
		{exitUsage, "is not calibrated", []string{"demo", "--out", file("x"), "--through", "nvfp4+mse"}},
		{exitUsage, "needs Hessians", []string{"demo", "--out", file("x"), "--through", "nvfp4+gptq", "--moments"}},
		{exitUsage, "--mem is too little", []string{"demo", "--out", file("x"), "--mem", "1MiB"}},
		{exitUsage, "--corpus is wanted", []string{ggufOf("qwen3_moe"), "--out", file("x")}},
		{exitUsage, "names 5 corpora: prose, code, multi, math, chat", []string{"demo", "--out", file("x"), "--corpus", "demo"}},
		{exitUsage, "whose number of chunks is 256, and 1 is asked for", []string{"demo", "--out", file("half"), "--chunks", "1"}},
		{exitEnvironment, "held by process", []string{"demo", "--out", file("held")}},
		{exitUsage, "they are two files", []string{"demo", "--out", file("x"), "--imatrix", file("x")}},
		{exitBadInput, "evaluation text is in the calibration text", []string{"demo", "--out", file("x"), "--eval", "prose", "--eval", "calib"}},
		{exitBadInput, "no such file", []string{file("nothing"), "--out", file("x")}},
		{exitBadInput, "no such file", []string{"demo", "--out", file("x"), "--corpus", file("no.txt")}},
		{exitEnvironment, "there is no folder", []string{"demo", "--out", filepath.Join(dir, "no", "x")}},
		{exitBadInput, "neither GGUF nor the older imatrix format", []string{"info", file("text")}},
		{exitBadInput, file("short"), []string{"info", file("short")}},
		{exitBadInput, "is damaged", []string{"info", file("changed")}},
		{exitBadInput, "no such file", []string{"info", file("nothing")}},
		{exitUsage, "--imatrix is wanted", []string{"convert", file("good")}},
		{exitUsage, "is there already", []string{"convert", file("good"), "--imatrix", file("text")}},
	} {
		o := command(t, append([]string{"calibrate"}, c.args...)...)
		last := strings.TrimSpace(o.err)
		last = last[strings.LastIndexByte(last, '\n')+1:]
		if o.code != c.code || !strings.Contains(last, c.want) {
			t.Errorf("calibrate %v: exit %d, want %d: %q, want %q", c.args, o.code, c.code, last, c.want)
		}
		if o.out != "" {
			t.Errorf("calibrate %v: printed %q", c.args, o.out)
		}
	}
	if _, err := os.Stat(file("x.parts")); err == nil {
		t.Error("a refused run left a folder")
	}
}

// begun breaks a measurement off in one of its first layers; of a short text it could
// be at its end before progress is shown.
func begun(t *testing.T, path string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	stopper := &stopAt{text: "looking", stop: stop, to: &errs}
	code := run(ctx, []string{"calibrate", "demo", "--out", path}, streams{in: strings.NewReader(""), out: &out, err: stopper, live: true})
	if code != exitInterrupted || !strings.Contains(errs.String(), "kept in "+path+".parts; the same command goes on") {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if _, err := os.Stat(path + ".parts"); err != nil {
		t.Fatal(err)
	}
}

// stopAt ends a run when it writes a text.
type stopAt struct {
	text string
	stop func()
	to   *bytes.Buffer
}

func (s *stopAt) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.stop()
	}
	return s.to.Write(p)
}
