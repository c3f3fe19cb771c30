package calibrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
)

func reference(t *testing.T, path string) *candidate.Candidate {
	t.Helper()
	c, err := candidate.Open(t.Context(), path, candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// embedded is the demo's text for calibration, so many chunks of it.
func embedded(t *testing.T, ref *candidate.Candidate, chunks int) *corpus.Corpus {
	t.Helper()
	list, err := corpus.Load(t.Context(), demo.Calibration, corpus.Options{Tokenizer: ref.Tokenizer, Chunks: chunks, Calib: true})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// madeUp is a text of ids for a vocabulary.
func madeUp(t *testing.T, vocab, chunks, length int) *corpus.Corpus {
	t.Helper()
	var lines strings.Builder
	state := uint32(1)
	for range chunks {
		ids := make([]int32, length)
		for i := range ids {
			state = state*1664525 + 1013904223
			ids[i] = int32(state>>8) % int32(vocab)
		}
		text, err := json.Marshal(map[string][]int32{"ids": ids})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	path := filepath.Join(t.TempDir(), "ids.jsonl")
	if err := os.WriteFile(path, []byte(lines.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	list, err := corpus.Load(t.Context(), path, corpus.Options{Vocab: vocab, Calib: true})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

func variant(t *testing.T, name string) method.Variant {
	t.Helper()
	v, err := method.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// allCodes are those of a folder by name, with what they are.
func allCodes(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, err := codes.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := map[string]string{}
	for _, u := range s.Manifest().Units {
		list, _, err := s.Unit(u)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range list {
			out[k.Name] = k.Effective + string(k.Codes) + string(k.Scales) + string(k.Mins)
		}
	}
	return out
}

// Codes are made once and found again, by any program; what was broken off is gone on
// with and comes to the same; another text, damping or choice of projections has codes
// of its own.
func TestForCandidate(t *testing.T) {
	ref := reference(t, demo.Label)
	dir := t.TempDir()
	runs := 0
	o := calibrate.ForOptions{
		Corpus: embedded(t, ref, 6), Dir: dir, Threads: 2, Program: "1",
		Progress: func(v string, p calibrate.Progress) {
			if v != "int4-g128+gptq" || p.Done > p.Units {
				t.Errorf("%s: %+v", v, p)
			}
			runs++
		},
	}
	v := variant(t, "int4-g128+gptq")
	make := func(o calibrate.ForOptions, targets string) (path string, ran bool) {
		t.Helper()
		runs = 0
		s, err := calibrate.ForCandidate(o)(t.Context(), ref, v, targets)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Whole() {
			t.Error("not all units are there")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return s.Dir(), runs > 0
	}
	first, ran := make(o, "")
	if !ran || filepath.Dir(first) != dir || !strings.HasPrefix(filepath.Base(first), "int4-g128+gptq-") {
		t.Errorf("%s, %t", first, ran)
	}
	o.Program, o.Threads, o.Mem = "2", 1, 512<<20
	if again, ran := make(o, ""); ran || again != first {
		t.Errorf("made again, in %s", again)
	}
	seen := map[string]bool{first: true}
	for name, change := range map[string]func(*calibrate.ForOptions) string{
		"another text":    func(o *calibrate.ForOptions) string { o.Corpus = embedded(t, ref, 5); return "" },
		"another damping": func(o *calibrate.ForOptions) string { o.Damp = 0.1; return "" },
		"gate and up":     func(o *calibrate.ForOptions) string { o.Only = []string{"gate", "up"}; return "" },
		"other targets":   func(*calibrate.ForOptions) string { return "*layers.1.*experts.[0-3].*" },
	} {
		other := o
		if dir, ran := make(other, change(&other)); !ran || seen[dir] {
			t.Errorf("%s: %t, %s", name, ran, dir)
		} else {
			seen[dir] = true
		}
	}

	o.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	broken := o
	broken.Pause = func(ctx context.Context) error {
		if done := len(unitsIn(t, o.Dir)); done == 2 {
			cancel()
		}
		return ctx.Err()
	}
	if _, err := calibrate.ForCandidate(broken)(ctx, ref, v, ""); !errors.Is(err, context.Canceled) {
		t.Fatalf("broken off: %v", err)
	}
	before := unitsIn(t, o.Dir)
	if len(before) != 2 {
		t.Fatalf("%d units are there", len(before))
	}
	var out *calibrate.Outcome
	o.Outcome = func(got *calibrate.Outcome) { out = got }
	second, _ := make(o, "")
	for path, at := range before {
		if info, err := os.Stat(path); err != nil || info.ModTime().UnixNano() != at {
			t.Errorf("%s was made again: %v", path, err)
		}
	}
	if !maps.Equal(allCodes(t, first), allCodes(t, second)) {
		t.Error("a run that was broken off came to other codes")
	}
	made := out
	if _, _ = make(o, ""); out == made || out.Calibrated != made.Calibrated || out.Changed != made.Changed || out.Downs.DampShare != made.Downs.DampShare {
		t.Errorf("codes that are there came to %+v, making them to %+v", out, made)
	}
}

// unitsIn are the files of units in all folders of a folder, and when they were
// written.
func unitsIn(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "unit-*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		out[f] = info.ModTime().UnixNano()
	}
	return out
}

// What a candidate presents of codes are the weights that the run went on with, bit
// for bit.
func TestCandidateIsWhatTheRunHad(t *testing.T) {
	ref := reference(t, demo.Label)
	for _, name := range []string{"int4-g128+gptq", "nvfp4+imatrix"} {
		v := variant(t, name)
		matrices, _, err := candidate.SelectTargets(ref, "linear")
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "codes")
		j, err := calibrate.Prepare(t.Context(), calibrate.Setup{
			Reference: ref, Variant: v, Targets: "linear", Matrices: matrices, Corpus: embedded(t, ref, 4), Codes: dir, Set: kernels.Best(), Threads: 2, Program: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		had := map[model.Place][]float32{}
		out, err := j.Run(t.Context(), calibrate.Sink{Matrix: func(r calibrate.Result) error {
			w, err := candidate.CodedWeight(kernels.Best(), v.Spec, &r.Codes)
			if err != nil {
				return err
			}
			role := matrices[r.Matrix].Role
			at := model.Place{Kind: role.Kind, Layer: role.Layer, Expert: role.Expert, Projection: role.Projection}
			had[at] = make([]float32, w.Rows*w.Cols)
			return kernels.Best().ExpandRows(had[at], w.Operand, 0)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Store.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := candidate.Parse(t.Context(), ref, dir, candidate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		src, err := c.Source()
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range had {
			w, err := src.Weight(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, w.Rows*w.Cols)
			if err := kernels.Best().ExpandRows(got, w.Operand, 0); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
				t.Errorf("%s: %s: other weights", name, at)
			}
			src.Release()
		}
		if len(had) != len(matrices) || len(c.Fallbacks) != len(out.Fallbacks) {
			t.Errorf("%s: %d of %d matrices, fallbacks %v", name, len(had), len(matrices), c.Fallbacks)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Dense models and mixtures of experts, as checkpoints and as GGUF files, are
// calibrated alike; blocks of GGUF types are expanded first.
func TestForCandidateOfFamilies(t *testing.T) {
	for _, path := range []string{
		"../model/testdata/llama_tied", "../model/testdata/qwen3_moe", "../model/testdata/gpt_oss", "../model/testdata/deepseek_v3", "../model/testdata/gemma3_text",
		"../candidate/testdata/gguf/llama_tied.gguf", "../candidate/testdata/gguf/mixtral.gguf", "../candidate/testdata/gguf/mixed.gguf",
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			ref := reference(t, path)
			text := madeUp(t, ref.Arch.Vocab, 6, 96)
			for _, spec := range []string{"int4-g32+gptq@linear", "nvfp4+imatrix"} {
				var out *calibrate.Outcome
				o := candidate.Options{Calibrate: calibrate.ForCandidate(calibrate.ForOptions{
					Corpus: text, Dir: t.TempDir(), Threads: 2, Outcome: func(got *calibrate.Outcome) { out = got },
				})}
				c, err := candidate.Parse(t.Context(), ref, spec, o)
				if err != nil {
					t.Fatalf("%s: %v", spec, err)
				}
				if out.Calibrated == 0 || out.Gate() != nil || c.Baseline == "" || c.Calibrated == "" || len(c.Fallbacks) != len(out.Fallbacks) {
					t.Errorf("%s: %+v, %d fallbacks", spec, out, len(c.Fallbacks))
				}
				if m := out.All; float64(m.Out2) >= float64(m.BaseOut2) {
					t.Errorf("%s: an output error of %v, %v before", spec, m.Out2, m.BaseOut2)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Without a text, without targets and without a folder there is an error that says
// what is missing.
func TestForCandidateRefuses(t *testing.T) {
	ref := reference(t, "../model/testdata/qwen3_moe")
	v := variant(t, "int4-g32+gptq")
	if _, err := calibrate.ForCandidate(calibrate.ForOptions{Dir: t.TempDir()})(t.Context(), ref, v, ""); !errors.Is(err, calibrate.ErrNoText) || !strings.Contains(err.Error(), "--calib") {
		t.Errorf("no text: %v", err)
	}
	text := madeUp(t, ref.Arch.Vocab, 2, 64)
	var no *recipe.NoMatchError
	if _, err := calibrate.ForCandidate(calibrate.ForOptions{Corpus: text, Dir: t.TempDir()})(t.Context(), ref, v, "nothing"); !errors.As(err, &no) {
		t.Errorf("no targets: %v", err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if _, err := calibrate.ForCandidate(calibrate.ForOptions{Corpus: text})(t.Context(), ref, v, ""); err == nil || !strings.Contains(err.Error(), "there is no folder to keep its codes in") {
		t.Errorf("no folder: %v", err)
	}
}

// A calibration that fits its text and makes the model worse elsewhere was given the
// wrong text, however little is damping.
func TestAdviceOfOtherText(t *testing.T) {
	downs := calibrate.Means{Matrices: 64, Tokens: 1266.5, Columns: 128, Deficient: 11, DampShare: 0.036}
	for _, c := range []struct {
		base, full calibrate.Float
		damp       calibrate.Float
		advice     calibrate.Advice
		says       string
	}{
		{0.036, 0.046, 0.036, calibrate.OtherText, "text of more kinds is wanted; the divergence is 27.8 % above the baseline's; calibrating"},
		{0.036, 0.036, 0.036, calibrate.BetterSolver, "more of it would change little; calibrating"},
		{0.036, 0.061, 0.66, calibrate.MoreText, "Hessians are singular; the divergence is 69.4 % above the baseline's; calibrating"},
		{calibrate.Float(math.NaN()), 0.046, 0.036, calibrate.BetterSolver, "more of it would change little"},
	} {
		d := calibrate.Diagnostic{Downs: downs, Baseline: c.base, GateUp: 0.036, Full: c.full}
		d.Downs.DampShare = c.damp
		if d.Advice() != c.advice || !strings.Contains(d.Sentence(), c.says) {
			t.Errorf("%v, %v, %v: %q: %s", c.base, c.full, c.damp, d.Advice(), d.Sentence())
		}
	}
}
