package diagnose

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick"
	"quantscope/quant/demo"
	"quantscope/quant/method"
)

func variant(t *testing.T, name string) method.Variant {
	t.Helper()
	v, err := method.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// demoRequest diagnoses a variant of the demo by so many chunks of its text, on some
// of its prose and code.
func demoRequest(t *testing.T, name string, chunks int) Request {
	t.Helper()
	ref, err := candidate.Open(t.Context(), demo.Label, candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ref.Close(); err != nil {
			t.Error(err)
		}
	})
	r := Request{Reference: ref, Variant: variant(t, name), For: calibrate.ForOptions{Dir: t.TempDir(), Threads: 2, Program: "test"}, Measure: yardstick.Options{Threads: 2, Seed: 1}}
	load := func(name string, chunks int, calib bool) *corpus.Corpus {
		list, err := corpus.Load(t.Context(), name, corpus.Options{Tokenizer: ref.Tokenizer, Chunks: chunks, Calib: calib})
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	r.For.Corpus = load(demo.Calibration, chunks, true)
	r.Eval = []*corpus.Corpus{load("prose", 8, false), load("code", 8, false)}
	return r
}

// With all of its text the demo's down projections are decided by it, and only a
// better solver would help; with one chunk most of their Hessians are singular,
// damping decides, and more text would. Arms with more calibrated are better where
// there is text for it.
func TestDiagnoseDemo(t *testing.T) {
	all, err := Run(t.Context(), demoRequest(t, "int4-g128+gptq", 0))
	if err != nil {
		t.Fatal(err)
	}
	one, err := Run(t.Context(), demoRequest(t, "int4-g128+gptq", 1))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := all.Found.Advice(), one.Found.Advice(); a != calibrate.BetterSolver || b != calibrate.MoreText {
		t.Errorf("%q with all text, %q with a chunk", a, b)
	}
	for _, r := range []*Report{all, one} {
		s := r.Found.Sentence()
		if !strings.HasPrefix(s, string(r.Found.Advice())+": down projections have ") || !strings.Contains(s, "for 128 columns; damping is ") || !strings.Contains(s, "of the divergence") {
			t.Errorf("%q", s)
		}
		if len(r.Arms) != 3 || r.Arms[0].Label != Baseline || r.Arms[1].Label != GateUp || r.Arms[2].Label != Full || r.Arms[0].Calibrated != 0 ||
			r.Arms[1].Calibrated != 2*64 || r.Arms[2].Calibrated > 3*64 || r.Arms[2].Calibrated <= 2*64 {
			t.Errorf("%+v", r.Arms)
		}
		if float64(r.Found.Full) != r.Arms[2].KL || float64(r.Found.Baseline) != r.Arms[0].KL || r.Arms[0].KL == r.Arms[1].KL || r.Arms[1].KL == r.Arms[2].KL {
			t.Errorf("%+v, %+v", r.Found, r.Arms)
		}
		if r.Baseline != "int4-g128" || r.Text.Name != "calib" || r.OfGateUp.Pair == nil || r.OfFull.Pair == nil || r.Beyond.Pair == nil {
			t.Errorf("%+v", r)
		}
	}
	if one.Found.Rank.Met() || !all.Found.Rank.Met() || all.Found.Rank.Need != 1024 {
		t.Errorf("rank bounds %+v, %+v", one.Found.Rank, all.Found.Rank)
	}
	if !(float64(one.Found.Downs.DampShare) > 10*float64(all.Found.Downs.DampShare)) || !(float64(all.Found.Downs.DampShare) < 0.2) {
		t.Errorf("damping is %v of the solution with a chunk, %v with all", one.Found.Downs.DampShare, all.Found.Downs.DampShare)
	}
	if all.OfGateUp.Verdict != yardstick.Better || all.OfFull.Verdict != yardstick.Better || all.Beyond.Verdict != yardstick.Better {
		t.Errorf("with all text: gate and up %v, full %v, full over gate and up %v", all.OfGateUp, all.OfFull, all.Beyond)
	}
	if !slices.ContainsFunc(one.Notes, func(s string) bool { return strings.HasPrefix(s, "full: ") && strings.Contains(s, "rank bound") }) {
		t.Errorf("notes %q", one.Notes)
	}
}

// A dense model's down projections have all tokens; it is said of them.
func TestDiagnoseDense(t *testing.T) {
	ref, err := candidate.Open(t.Context(), filepath.Join("..", "model", "testdata", "llama_tied"), candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	text := func(seed, chunks int) *corpus.Corpus {
		var data []byte
		for range chunks * 64 {
			seed = seed*1103515245 + 12345
			data = binary.LittleEndian.AppendUint32(data, uint32(seed>>16&0x7fff)%uint32(ref.Arch.Vocab))
		}
		path := filepath.Join(t.TempDir(), "text.ids")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		list, err := corpus.Load(t.Context(), path, corpus.Options{Vocab: ref.Arch.Vocab, Chunk: 64})
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	r := Request{
		Reference: ref, Variant: variant(t, "int4-g32+gptq"), Eval: []*corpus.Corpus{text(7, 4)},
		For: calibrate.ForOptions{Corpus: text(1, 8), Dir: t.TempDir(), Threads: 2}, Measure: yardstick.Options{Threads: 2},
	}
	rep, err := Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if d := &rep.Found.Downs; d.Matrices != len(ref.Arch.Layers) || d.Tokens != 8*64 || math.IsNaN(float64(d.DampShare)) || rep.Found.Advice() == calibrate.NoAdvice || rep.Found.Experts.Experts != 0 {
		t.Errorf("%+v", rep.Found)
	}
}

// What cannot be diagnosed is refused before anything is computed.
func TestDiagnoseRefuses(t *testing.T) {
	r := demoRequest(t, "int4-g128+gptq", 4)
	plain := r
	plain.Variant = variant(t, "int4-g128")
	if _, err := Run(t.Context(), plain); err == nil || !strings.Contains(err.Error(), "int4-g128 is not calibrated") {
		t.Errorf("%v", err)
	}
	own := r
	own.Eval = append(own.Eval, r.For.Corpus)
	if _, err := Run(t.Context(), own); !errors.Is(err, corpus.ErrOverlap) {
		t.Errorf("%v", err)
	}
	none := r
	none.Eval = nil
	if _, err := Run(t.Context(), none); err == nil || !strings.Contains(err.Error(), "no text to measure on") {
		t.Errorf("%v", err)
	}
}
