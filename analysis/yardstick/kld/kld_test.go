package kld

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// readF32 reads a file of f32, or fails.
func readF32(t *testing.T, path string) []float32 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

func open(t *testing.T, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// compare scores all rows of a base file against logits in their order, and
// writes the running lines to w.
func compare(t *testing.T, r *Reader, logits []float32, w *strings.Builder) *Statistics {
	t.Helper()
	var s Statistics
	var row Row
	for c := range r.Chunks {
		for i := range r.Rows() {
			if err := r.Row(c, i, &row); err != nil {
				t.Fatal(err)
			}
			s.Add(Compare(&row, logits[:r.Vocab], r.Tokens[c][r.First()+i+1]))
			logits = logits[r.Vocab:]
		}
		w.WriteString(s.Running(c+1) + "\n")
	}
	if len(logits) != 0 {
		t.Fatalf("%d logits are left over", len(logits))
	}
	return &s
}

// The logits that llama-perplexity scored give the digits that it printed.
func TestStatisticsAreThoseOfLlamaPerplexity(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "printed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, filepath.Join("testdata", "base.kld"))
	if r.NCtx != 32 || r.Vocab != 301 || r.Rows() != 15 || r.First() != 16 || r.Deep() {
		t.Errorf("layout %+v, rows %d from %d on, deep %t", r.Layout, r.Rows(), r.First(), r.Deep())
	}
	var got strings.Builder
	got.WriteString(RunningHeader + "\n")
	s := compare(t, r, readF32(t, filepath.Join("testdata", "candidate.f32")), &got)
	got.WriteString("\n")
	if err := s.Print(&got); err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	if len(g) != len(w) {
		t.Errorf("%d lines, want %d", len(g), len(w))
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("line %d:\n%q, want\n%q", i+1, g[i], w[i])
		}
	}
}

// C35: a base file and the logits of a candidate, as safetensors.
func TestCaseC35(t *testing.T) {
	var want struct {
		Tolerance float64 `json:"tolerance_rel"`
		Rows      int     `json:"scored_rows"`
		KL        float64 `json:"mean_kl"`
		Max       float64 `json:"max_kl"`
		Base      float64 `json:"ppl_base"`
		Candidate float64 `json:"ppl_candidate"`
		Top       float64 `json:"same_top"`
	}
	text, err := os.ReadFile(filepath.Join("testdata", "c35", "expect.json"))
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, filepath.Join("testdata", "c35", "base.kld"))
	ck, err := checkpoint.Open(filepath.Join("testdata", "c35", "candidate.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	x, _ := ck.Lookup("logits")
	raw, logits := make([]byte, 4*x.Elements()), make([]float32, x.Elements())
	if err := errors.Join(ck.ReadAt(context.Background(), x, 0, raw), checkpoint.DecodeF32(logits, x.DType, raw)); err != nil {
		t.Fatal(err)
	}
	var s Statistics
	var row Row
	largest := 0.0
	for c := range r.Chunks {
		for i := range r.Rows() {
			if err := r.Row(c, i, &row); err != nil {
				t.Fatal(err)
			}
			at := c*r.NCtx + r.First() + i
			score := Compare(&row, logits[at*r.Vocab:][:r.Vocab], r.Tokens[c][r.First()+i+1])
			largest = max(largest, score.KL)
			s.Add(score)
		}
	}
	near := func(what string, got, want float64) {
		if !(math.Abs(got/want-1) <= 1e-4) {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("mean KL", s.KL().Value, want.KL)
	near("largest KL", largest, want.Max)
	near("perplexity of the base", s.PPLBase().Value, want.Base)
	near("perplexity", s.PPL().Value, want.Candidate)
	near("same top", s.SameTop().Value, want.Top)
	if s.Count != want.Rows {
		t.Errorf("%d rows, want %d", s.Count, want.Rows)
	}
	if err := s.Print(new(strings.Builder)); !errors.Is(err, ErrTooFew) {
		t.Errorf("statistics of %d positions: %v", s.Count, err)
	}
}

// The logits that llama-perplexity made a base file of give the same file, byte
// for byte, and the perplexity that the file itself amounts to.
func TestWriterMakesTheSameFile(t *testing.T) {
	path := filepath.Join("testdata", "base.kld")
	r := open(t, path)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	logits := readF32(t, filepath.Join("testdata", "base.f32"))
	out := filepath.Join(t.TempDir(), "again.kld")
	w, err := Create(out, r.Vocab, r.Tokens)
	if err != nil {
		t.Fatal(err)
	}
	var row Row
	for c := r.Chunks - 1; c >= 0; c-- { // in any order
		for i := range r.Rows() {
			nll, err := w.Row(c, i, logits[(c*r.Rows()+i)*r.Vocab:][:r.Vocab])
			if err == nil {
				err = r.Row(c, i, &row)
			}
			if err != nil {
				t.Fatal(err)
			}
			next := r.Tokens[c][r.First()+i+1]
			if d := nll + float64(row.LogProb(next)); math.Abs(d) > float64(row.Scale) && row.Codes[next] > 0 {
				t.Errorf("chunk %d, row %d: −ln p is %g and %g in the file", c, i, nll, -row.LogProb(next))
			}
		}
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there before it is whole: %v", err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	w.Abandon() // does nothing any more
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, the first that differs at %d", len(got), len(want), firstDifference(got, want))
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
