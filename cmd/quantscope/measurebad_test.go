package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/yardstick"
	"quantscope/quant/checkpoint"
)

// demoFolder is a copy of the demo that can be changed.
func demoFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "quant", "demo", "data", "model"))); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, 0o755))
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// spoilWeight writes bf16 into a tensor of a folder, from an element on.
func spoilWeight(t *testing.T, dir, tensor string, element int64, bits ...uint16) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := ck.Lookup(tensor)
	if !ok {
		t.Fatalf("no %s", tensor)
	}
	path, at := filepath.Join(dir, filepath.Base(ck.Files[x.File].Name)), x.Offset+2*element
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := binary.Append(nil, binary.LittleEndian, bits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(text, at); err != nil {
		t.Fatal(err)
	}
}

const bf16NaN = 0x7fc0

// A weight that is not a number fails its candidate by name, position by position,
// while the others are measured; the document and the session stay valid.
func TestMeasureNaNWeight(t *testing.T) {
	bad := demoFolder(t)
	spoilWeight(t, bad, "model.layers.2.self_attn.o_proj.weight", 5, bf16NaN)
	session := filepath.Join(t.TempDir(), "kl.qscope")
	d := measureDoc(t, exitCheckFailed, "demo", "--candidate", "bad="+bad, "--candidate", "nvfp4", "--corpus", "prose", "--chunks", "1", "--session", session)
	if c := d.Candidates[0]; c.NaN != 383 || !math.IsNaN(float64(c.KLMean)) {
		t.Errorf("%+v", c)
	}
	if c := d.Candidates[1]; c.NaN != 0 || !(c.KLMean > 0.01) {
		t.Errorf("%+v", c)
	}
	named := false
	for _, g := range d.Gates {
		named = named || g.Gate == "finite" && g.Candidate == "bad" && !g.Passed && strings.Contains(g.Message, "position 0")
	}
	if !named {
		t.Errorf("%+v", d.Gates)
	}
	st, err := savedState(session)
	if err != nil || len(st.Yards) != 1 || !math.IsNaN(st.Yards[0].Chunks[0].Rows[0][0].KL) {
		t.Errorf("the session: %v", err)
	}
	if o := command(t, "measure", "demo", "--candidate", "bad="+bad, "--candidate", "nvfp4", "--corpus", "prose", "--chunks", "1", "--session", session); o.code != exitCheckFailed || !strings.Contains(o.out, "bad (383 NaN, 0 ∞)") {
		t.Errorf("exit %d: %s", o.code, o.out)
	}

	o := command(t, "measure", bad, "--candidate", "nvfp4", "--corpus", "prose", "--chunks", "1", "--cache", "none")
	if o.code != exitBadInput || o.out != "" || !strings.Contains(o.err, "layer 2") || !strings.Contains(o.err, "position 0") {
		t.Errorf("as the reference: exit %d: %s%s", o.code, o.out, o.err)
	}
}

// What cannot be measured is refused in one line that names it, with nothing on
// standard output and no session.
func TestMeasureRefuses(t *testing.T) {
	other := otherTokenizer(t)
	missing := demoFolder(t)
	index := filepath.Join(missing, "model.safetensors.index.json")
	for _, f := range []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
		path := filepath.Join(missing, f)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.Replace(b, []byte(`"model.layers.3.mlp.experts.7.up_proj.weight"`), []byte(`"model.layers.3.mlp.experts.7.xx_proj.weight"`), 1)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(short, []byte("In the beginning."), 0o600); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.qscope")
	if err := os.WriteFile(text, []byte("no session"), 0o600); err != nil {
		t.Fatal(err)
	}
	small := filepath.Join("..", "..", "analysis", "model", "testdata", "llama_tied")
	if _, err := os.Stat(small); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		code int
		says []string
		args []string
	}{
		{"no candidate", exitUsage, []string{"--candidate"}, []string{"demo"}},
		{"an unknown variant", exitUsage, []string{"nvfp5", "known"}, []string{"demo", "--candidate", "nvfp5"}},
		{"a file that is not there", exitBadInput, []string{"none.gguf"}, []string{"demo", "--candidate", "./none.gguf"}},
		{"a reference that is not there", exitBadInput, []string{"nowhere"}, []string{"./nowhere", "--candidate", "nvfp4"}},
		{"two of one name", exitUsage, []string{"nvfp4"}, []string{"demo", "--candidate", "nvfp4", "--candidate", "nvfp4"}},
		{"another tokenizer", exitBadInput, []string{"tokenizers differ"}, []string{"demo", "--candidate", other}},
		{"another model", exitBadInput, []string{"1024"}, []string{"demo", "--candidate", small}},
		{"a tensor that is missing", exitBadInput, []string{"model.layers.3.mlp.experts.7.up_proj"}, []string{"demo", "--candidate", missing}},
		{"an untied head that is missing", exitBadInput, []string{"lm_head", "tie_word_embeddings"}, []string{caseDir(t, "C38"), "--candidate", "nvfp4"}},
		{"a text shorter than a chunk", exitBadInput, []string{"512"}, []string{"demo", "--candidate", "nvfp4", "--corpus", short}},
		{"no text", exitBadInput, []string{"no.txt"}, []string{"demo", "--candidate", "nvfp4", "--corpus", "no.txt"}},
		{"calibration text in the corpus", exitBadInput, []string{"calibration", "windows"}, []string{"demo", "--candidate", "nvfp4", "--corpus", "prose", "--calib", "prose"}},
		{"kept tensors that there are not", exitUsage, []string{"no.such"}, []string{"demo", "--candidate", "nvfp4", "--keep", "no.such.*"}},
		{"arithmetic that there is not", exitUsage, []string{"f16", "bf16"}, []string{"demo", "--candidate", "nvfp4", "--activations", "f16"}},
		{"a ceiling that is none", exitUsage, []string{"--ceiling"}, []string{"demo", "--candidate", "nvfp4", "--ceiling", "inf"}},
		{"a corpus twice", exitBadInput, []string{"prose", "twice"}, []string{"demo", "--candidate", "nvfp4", "--corpus", "demo", "--corpus", "prose"}},
		{"a base in no folder", exitEnvironment, []string{"gone"}, []string{"demo", "--candidate", "nvfp4", "--write-kl-base", filepath.Join(t.TempDir(), "gone", "x.kld")}},
		{"a base that is a folder", exitEnvironment, []string{"not a regular file"}, []string{"demo", "--candidate", "nvfp4", "--write-kl-base", t.TempDir(), "--force"}},
		{"a base that is there", exitUsage, []string{"--force"}, []string{"demo", "--candidate", "nvfp4", "--write-kl-base", short}},
		{"no size", exitUsage, []string{"--mem"}, []string{"demo", "--candidate", "nvfp4", "--mem", "much"}},
		{"no session", exitBadInput, []string{"text.qscope", "not an SQLite file"}, []string{"demo", "--candidate", "nvfp4", "--session", text}},
		{"a session with no export", exitBadInput, []string{"no whole export"}, []string{"demo", "--candidate", exportless(t)}},
		{"corpora beside a base", exitUsage, []string{"--kl-base"}, []string{"demo", "--candidate", "nvfp4", "--kl-base", short, "--corpus", "prose"}},
		{"a base that is none", exitBadInput, []string{"short.txt"}, []string{"demo", "--candidate", "nvfp4", "--kl-base", short}},
	} {
		o := command(t, append([]string{"measure", "--cache", "none"}, c.args...)...)
		if o.code != c.code || o.out != "" || strings.Count(o.err, "\n") != 1 || strings.Contains(o.err, "panic") {
			t.Errorf("%s: exit %d, want %d: %q %q", c.name, o.code, c.code, o.out, o.err)
		}
		for _, s := range c.says {
			if !strings.Contains(o.err, s) {
				t.Errorf("%s: %q is not in %q", c.name, s, o.err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "quantscope", "sessions", "*")); len(left) > 0 {
			t.Errorf("%s: leaves %v", c.name, left)
		}
	}
}

// otherTokenizer is the demo with the ids of two bytes exchanged.
func otherTokenizer(t *testing.T) string {
	t.Helper()
	dir := demoFolder(t)
	path := filepath.Join(dir, "tokenizer.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Model map[string]any `json:"model"`
	}
	var all map[string]any
	if err := errors.Join(json.Unmarshal(b, &doc), json.Unmarshal(b, &all)); err != nil {
		t.Fatal(err)
	}
	vocab := doc.Model["vocab"].(map[string]any)
	vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
	all["model"] = doc.Model
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// exportless is a session of the demo that wrote no checkpoint.
func exportless(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--targets", "*.layers.1.mlp.experts.0.*", "--session", path); o.code != exitGood {
		t.Fatal(o.err)
	}
	return path
}

// An export measures as the variant that it was made by, and so does the session
// that made it; figures come from a cache as from a pass, and states of another
// checkpoint in the cache are not used.
func TestMeasureExport(t *testing.T) {
	dir := t.TempDir()
	out, session, cache := filepath.Join(dir, "out"), filepath.Join(dir, "run.qscope"), filepath.Join(dir, "cache")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4+mse", "--session", session, "--out", out, "--layout", "modelopt"); o.code != exitGood {
		t.Fatal(o.err)
	}
	args := []string{"demo", "--candidate", "nvfp4+mse", "--candidate", "out=" + out, "--candidate", "session=" + session, "--corpus", "multi", "--chunks", "1", "--cache", cache}
	first := measureDoc(t, exitGood, args...)
	for _, c := range first.Candidates[1:] {
		if c.KLMean != first.Candidates[0].KLMean || c.KLMax != first.Candidates[0].KLMax {
			t.Errorf("%s: %v, the variant %v", c.Candidate, c.KLMean, first.Candidates[0].KLMean)
		}
	}
	files, err := filepath.Glob(filepath.Join(cache, "*.qhid"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is kept: %v", err)
	}
	if again := measureDoc(t, exitGood, args...); again.Candidates[0].KLMean != first.Candidates[0].KLMean || again.Floor.KLMean != first.Floor.KLMean {
		t.Errorf("from the cache %v, %v", again.Candidates[0].KLMean, first.Candidates[0].KLMean)
	}
	// States of a changed checkpoint, under the name that the demo's have.
	other := demoFolder(t)
	spoilWeight(t, other, "model.layers.0.input_layernorm.weight", 0, 0x4000)
	elsewhere := filepath.Join(dir, "elsewhere")
	measureDoc(t, exitGood, other, "--candidate", "nvfp4", "--corpus", "multi", "--chunks", "1", "--cache", elsewhere)
	wrong, err := filepath.Glob(filepath.Join(elsewhere, "*.qhid"))
	if err != nil || len(wrong) != len(files) {
		t.Fatalf("%v, %v", wrong, err)
	}
	b, err := os.ReadFile(wrong[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	o := command(t, append([]string{"measure", "--json"}, args...)...)
	var d measureJSON
	switch err := json.Unmarshal([]byte(o.out), &d); {
	case o.code == exitBadInput && strings.Contains(o.err, filepath.Base(files[0])):
	case err == nil && d.Candidates[0].KLMean == first.Candidates[0].KLMean && strings.Contains(o.err, filepath.Base(files[0])):
	default:
		t.Errorf("states of another checkpoint: exit %d, KL %v, want %v: %s", o.code, d.Candidates, first.Candidates[0].KLMean, o.err)
	}
}

// The sentence of a pair says what its interval allows, and no more.
func TestPairSentence(t *testing.T) {
	nan := math.NaN()
	for want, p := range map[string]yardstick.Pair{
		"b is better than a by 0.00410 [0.00360, 0.00460] nats a token, on 72 of 72 chunks":      {DKL: -0.0041, Low: -0.0046, High: -0.0036, Chunks: 72, Wins: 72},
		"b is worse than a by 0.00410 [0.00360, 0.00460] nats a token, better on 3 of 72 chunks": {DKL: 0.0041, Low: 0.0036, High: 0.0046, Chunks: 72, Wins: 3},
		"b and a are not told apart: 1.0e-04 [-2.0e-04, 4.0e-04] nats a token, over 72 chunks":   {DKL: 0.0001, Low: -0.0002, High: 0.0004, Chunks: 72},
		"b equals a at every position":                                                    {Equal: true, Chunks: 72},
		"b and a are not compared: they have one chunk":                                   {DKL: 0.1, Low: nan, High: nan, Chunks: 1, Why: "they have one chunk"},
		"b is better than a by 0.10000 [0.05000, 0.20000] nats a token, on 1 of 2 chunks": {DKL: -0.1, Low: -0.2, High: -0.05, Chunks: 2, Wins: 1},
	} {
		if got := pairSentence("a", "b", &p); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{"a\nb\tc": "a⏎b⇥c", "\x00\x1b[31m\x7f": "␀␛[31m␡", "a\u202eb\u200d": "a‹U+202E›b‹U+200D›", "é😀": "é😀", "\u009b": "‹U+009B›"} {
		if got := visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
