package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestBiasDocument: the document has the figures that the text has, of every candidate
// and layer, and the session holds the same.
func TestBiasDocument(t *testing.T) {
	session := filepath.Join(t.TempDir(), "bias.qscope")
	args := []string{"bias", "demo", "--candidate", "code2,code2+sym", "--candidate", "nvfp4", "--corpus", "prose", "--corpus", "code", "--chunks", "2", "--session", session}
	o := command(t, append(args, "--json")...)
	if o.code != exitGood {
		t.Fatalf("exit %d: %s", o.code, o.err)
	}
	var d biasDocument
	if err := json.Unmarshal([]byte(o.out), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Candidates) != 4 || !d.Candidates[3].Floor || d.Layers != 5 || len(d.MoE) != 4 || d.Session != session {
		t.Fatalf("%d candidates, %d layers, experts in %v, session %s", len(d.Candidates), d.Layers, d.MoE, d.Session)
	}
	if d.Corpora[0].Chunks != 2 || d.Corpora[0].Tokens != 768 || d.Positions != 1536 {
		t.Errorf("corpora %+v at %d positions", d.Corpora, d.Positions)
	}
	for _, c := range d.Candidates[:3] {
		if c.Weights == nil || c.Weights.Tensors != 192 || len(c.Tensors) != 192 || c.Stream == nil || c.Divergence == nil || len(c.Depth) != 6 {
			t.Fatalf("%s: %+v", c.Candidate, c)
		}
		if c.Depth[0].Layer != -1 || c.Depth[0].Attention != nil || c.Depth[2].Weights == nil || c.Depth[2].MLP == nil {
			t.Errorf("%s: depth %+v", c.Candidate, c.Depth)
		}
		if !(c.Stream.RelL2 > 0.01 && c.Divergence.KL > 0.01 && c.Weights.RelL2 > 0.05 && c.Stream.Null > 0) {
			t.Errorf("%s: stream %+v, divergence %+v", c.Candidate, c.Stream, c.Divergence)
		}
	}
	if books := d.Candidates[1].Weights.Books; len(books) != 1 || books[0].Tensors != 192 || books[0].Values[0] != -books[0].Values[3] {
		t.Errorf("codebooks of code2+sym: %+v", books)
	}
	if len(d.Pairs) != 1 || d.Pairs[0].A != "code2" || d.Pairs[0].B != "code2+sym" || d.Pairs[0].Layers != 4 || d.Pairs[0].Chunks != 4 {
		t.Errorf("pairs %+v", d.Pairs)
	}

	again := command(t, append(args, "--part", "mlp")...)
	if again.code != exitGood {
		t.Fatalf("exit %d: %s", again.code, again.err)
	}
	for _, want := range []string{
		"what MLP or experts add: relative error, and beside it sign bias", "−4 −1 1 4 ×192", "bf16 activations (floor)",
		"prose: 2 chunks, 768 tokens", "at about equal weight error (", d.Pairs[0].Sentence[:40], "residual stream after the last layer, and predictions",
	} {
		if !strings.Contains(again.out, want) {
			t.Errorf("%q is not in\n%s", want, again.out)
		}
	}
	run, err := lastBias(session)
	if err != nil {
		t.Fatal(err)
	}
	if text, now := string(mustJSON(t, biasOf(session, run.Analyze()))), strings.TrimSpace(o.out); text != compactJSON(t, now) {
		t.Error("the second look in the session is not the first: the same request has other figures")
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compactJSON(t *testing.T, text string) string {
	t.Helper()
	var d biasDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return string(mustJSON(t, d))
}

// TestBiasRefuses: what cannot be meant is a usage error that says so, and no session
// is left.
func TestBiasRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"bias"}, exitUsage, "one checkpoint"},
		{[]string{"bias", "demo"}, exitUsage, "--candidate"},
		{[]string{"bias", "demo", "--candidate", "nvfp5"}, exitUsage, "nvfp5"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--part", "stream"}, exitUsage, "residual, attention, mlp"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--activations", "f64"}, exitUsage, "f32, bf16"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--chunks", "-1"}, exitUsage, "--chunks"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--threads", "0"}, exitUsage, "--threads"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--mem", "1kB"}, exitUsage, "one chunk takes"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--mem", "much"}, exitUsage, "--mem"},
		{[]string{"bias", "demo", "--candidate", "nvfp4", "--corpus", "nowhere.txt"}, exitBadInput, "nowhere"},
		{[]string{"bias", "nowhere", "--candidate", "nvfp4"}, exitBadInput, "nowhere"},
	} {
		o := command(t, c.args...)
		if o.code != c.code || !strings.Contains(o.err, c.want) || o.out != "" {
			t.Errorf("%v: exit %d, want %d, with %q in %q", c.args, o.code, c.code, c.want, o.err)
		}
	}
}
