package yardstick

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick/kld"
)

// base writes the demo's log probabilities of some chunks, and gives the report of
// the measurement that did.
func writeBase(t *testing.T, ref *candidate.Candidate, cands []*candidate.Candidate, o Options) (*kld.Reader, *Report) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo.kld")
	o.BaseOut = path
	r, err := Measure(context.Background(), ref, cands, texts(t, 2, 64, "prose", "chat"), o)
	if err != nil {
		t.Fatal(err)
	}
	file, err := kld.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file, r
}

func TestBaseFile(t *testing.T) {
	ref := reference(t)
	cands := []*candidate.Candidate{variant(t, ref, "nvfp4")}
	var row, same kld.Row
	for _, half := range []bool{false, true} {
		file, direct := writeBase(t, ref, cands, Options{Half: half})
		if file.Chunks != 4 || file.NCtx != 64 || file.Vocab != 1024 {
			t.Fatalf("%+v", file.Layout)
		}
		into := &same
		if half {
			into = &row
		}
		if err := file.Row(3, 17, into); err != nil {
			t.Fatal(err)
		}
		if !half { // the file has the second halves all the same
			continue
		}
		if !reflect.DeepEqual(row, same) {
			t.Error("the file depends on which positions are scored")
		}
		r, err := Measure(context.Background(), ref, cands, []*corpus.Corpus{BaseCorpus(file, -1)}, Options{Base: file})
		if err != nil {
			t.Fatal(err)
		}
		got, want := r.Results[0].All, direct.Results[0].All
		// 16 bits over at most 16 nats are steps of 1/4096: ln p is off by 1/8192 at most.
		if got.Positions != 4*31 || math.Abs(got.RefNLL-want.RefNLL) > 1.0/8192 || math.Abs(got.KL-want.KL) > 1e-3 || math.Abs(got.NLL-want.NLL) > 1e-12 {
			t.Errorf("from the file: %+v, directly: %+v", got, want)
		}
		// 1,024 tokens below e^-16 of the largest have 1.2e-4 of the mass at most, and the
		// file does not say how they share it.
		if ruler := r.Results[1].All; !r.Setup.Candidates[1].Floor || ruler.KL > 5e-5 || ruler.KL <= 0 {
			t.Errorf("the reference's own weights against its file: %g", ruler.KL)
		}
		st := r.Base[0]
		if st.Count != 4*31 || math.Abs(st.KL().Value-got.KL) > 1e-3 || math.Abs(st.LogPPLBase().Value-got.RefNLL) > 1e-3 || math.Abs(st.LogPPL().Value-got.NLL) > 1e-5 {
			t.Errorf("statistics: %d positions, KL %+v, ln PPL %+v", st.Count, st.KL(), st.LogPPL())
		}
		if s := r.Sane; !s.Deterministic || !s.Moved {
			t.Errorf("%+v", s)
		}
		if r.Setup.Reference.Kind != FileKind || r.Setup.Positions != "half" {
			t.Errorf("%+v", r.Setup.Reference)
		}
	}
}

func TestBaseFileOfOtherTokens(t *testing.T) {
	ref := reference(t)
	file, _ := writeBase(t, ref, nil, Options{Half: true})
	whole := BaseCorpus(file, 7)
	if whole.Chunks[2][0] != 7 || file.Tokens[2][0] == 7 || whole.BOS != "replace" {
		t.Errorf("begin token %d, in the file %d", whole.Chunks[2][0], file.Tokens[2][0])
	}
	other := BaseCorpus(file, -1)
	other.Chunks[1][5]++
	short := BaseCorpus(file, -1)
	short.Chunks = short.Chunks[:3]
	for want, c := range map[string]*corpus.Corpus{"chunk 1: tokens differ at position 5": other, "4 chunks": short} {
		_, err := Measure(context.Background(), ref, nil, []*corpus.Corpus{c}, Options{Base: file})
		if !errors.Is(err, ErrTokens) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	file.Vocab = 1000
	if _, err := NewSetup(ref, nil, []*corpus.Corpus{BaseCorpus(file, -1)}, Options{Base: file}); !errors.Is(err, ErrVocabulary) {
		t.Errorf("another vocabulary: %v", err)
	}
}

func TestBaseFileIsWholeOrNotThere(t *testing.T) {
	ref := reference(t)
	path := filepath.Join(t.TempDir(), "demo.kld")
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Measure(ctx, ref, nil, texts(t, 2, 64, "prose", "chat"), Options{BaseOut: path, Group: 64, Scored: func(*Chunk) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	_, err = Measure(context.Background(), ref, nil, texts(t, 2, 64, "prose"), Options{BaseOut: path, Skip: func(int, int) bool { return false }})
	if err == nil || !strings.Contains(err.Error(), "goes on") {
		t.Error(err)
	}
}

// Rows that are damaged are named once: the first of them, in a line.
func TestBaseFileOfDamagedRows(t *testing.T) {
	ref := reference(t)
	file, _ := writeBase(t, ref, nil, Options{})
	b, err := os.ReadFile(file.Path)
	if err != nil {
		t.Fatal(err)
	}
	row := (len(b) - 20 - 4*4*64) / (4 * file.Rows())
	for i := 3; i < 9; i++ {
		b[20+4*4*64+i*row+4+3] ^= 0x40 // the exponent of a minimum
	}
	if err := os.WriteFile(file.Path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Measure(t.Context(), ref, nil, []*corpus.Corpus{BaseCorpus(file, -1)}, Options{Base: file})
	if !errors.Is(err, kld.ErrFormat) || !strings.Contains(err.Error(), "row 3 of chunk 0") || strings.Count(err.Error(), "row ") != 1 {
		t.Error(err)
	}
}
