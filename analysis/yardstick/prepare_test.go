package yardstick

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/quant/tokenizer"
)

// words makes a tokenizer of so many tokens t0, t1, …, changed by change.
func words(t *testing.T, n int, change func(vocab map[string]int)) *tokenizer.Tokenizer {
	t.Helper()
	vocab := map[string]int{}
	for i := range n {
		vocab["t"+string(rune('a'+i%26))+string(rune('a'+i/26))] = i
	}
	if change != nil {
		change(vocab)
	}
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": []any{},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}, "byte_fallback": false},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, "decoder": map[string]any{"type": "ByteLevel"},
	})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// bare is a candidate without weights.
func bare(label string, vocab int, tok *tokenizer.Tokenizer) *candidate.Candidate {
	c := candidate.Candidate{Label: label, Spec: label, Arch: &model.Spec{Vocab: vocab}, Tokenizer: tok}
	if tok != nil {
		c.TokenizerID = tok.Identity()
	}
	return candidate.Of(c, func() (model.Source, error) { return nil, errors.New("none") }, nil)
}

func numbers(ids ...int32) []*corpus.Corpus {
	return []*corpus.Corpus{{Name: "x", Chunks: [][]int32{ids}}}
}

func TestVocabulariesOfCandidates(t *testing.T) {
	tok := words(t, 100, nil)
	ref := bare("ref", 152, tok)
	s, err := NewSetup(ref, []*candidate.Candidate{bare("c", 136, tok), bare("d", 152, tok)}, numbers(1, 2, 3), Options{})
	if err != nil || s.VocabRef != 100 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "152 logits against 136") {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := NewSetup(ref, []*candidate.Candidate{bare("d", 152, tok)}, numbers(1, 2, 3), Options{}); err != nil || s.VocabRef != 152 || len(s.Notes) != 0 {
		t.Errorf("the same width: %+v, %v", s, err)
	}
	_, err = NewSetup(bare("ref", 152, nil), []*candidate.Candidate{bare("c", 136, nil)}, numbers(1, 2, 3), Options{})
	if !errors.Is(err, ErrVocabulary) || !strings.Contains(err.Error(), "ref and c") {
		t.Errorf("without a tokenizer: %v", err)
	}
	_, err = NewSetup(bare("ref", 152, tok), []*candidate.Candidate{bare("c", 90, tok)}, numbers(1, 2, 3), Options{})
	if !errors.Is(err, ErrVocabulary) || !strings.Contains(err.Error(), "152 logits against 90, and the tokenizer has 100") {
		t.Errorf("fewer logits than tokens: %v", err)
	}
	_, err = NewSetup(ref, []*candidate.Candidate{bare("c", 136, tok)}, numbers(1, 120, 3), Options{})
	if err == nil || !strings.Contains(err.Error(), "token 120 at position 1 of chunk 0") {
		t.Errorf("an id of the padding: %v", err)
	}
}

func TestTokenizersOfCandidates(t *testing.T) {
	tok := words(t, 100, nil)
	ref := bare("ref", 128, tok)
	swapped := words(t, 100, func(v map[string]int) { v["tba"], v["tca"] = v["tca"], v["tba"] })
	_, err := NewSetup(ref, []*candidate.Candidate{bare("c", 128, swapped)}, numbers(1, 2), Options{})
	if !errors.Is(err, ErrTokenizer) || !strings.Contains(err.Error(), "ref and c") || !strings.Contains(err.Error(), "id 1") {
		t.Errorf("ids that stand for other tokens: %v", err)
	}
	// Tokens beyond those that both have are padding.
	s, err := NewSetup(ref, []*candidate.Candidate{bare("c", 128, words(t, 110, nil))}, numbers(1, 2), Options{})
	if err != nil || !strings.Contains(s.Candidates[0].Tokenizer, "110") {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = NewSetup(ref, []*candidate.Candidate{bare("c", 128, nil)}, numbers(1, 2), Options{})
	if err != nil || !strings.Contains(s.Candidates[0].Tokenizer, "not known") {
		t.Errorf("%+v, %v", s, err)
	}
	foreign := numbers(1, 2)
	foreign[0].Tokenizer = strings.Repeat("ab", 32)
	if _, err := NewSetup(ref, nil, foreign, Options{}); !errors.Is(err, ErrTokenizer) || !strings.Contains(err.Error(), "corpus x") {
		t.Errorf("a corpus of another tokenizer: %v", err)
	}
	all, err := corpus.Demo()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSetup(ref, nil, all[:1], Options{}); !errors.Is(err, ErrTokenizer) {
		t.Errorf("a corpus of the demo for another vocabulary: %v", err)
	}
}

func TestSetupOfTheDemo(t *testing.T) {
	ref := reference(t)
	cands := []*candidate.Candidate{variant(t, ref, "nvfp4"), variant(t, ref, "mine=nvfp4+mse"), variant(t, ref, "fp8")}
	s, err := NewSetup(ref, cands, texts(t, 2, 64, "prose", "multi"), Options{Seed: 9, Derived: []Derived{{Row: 2, Of: 0, How: "keep all"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Candidates) != 4 || s.Candidates[1].Label != "mine" || s.Candidates[1].Baseline != 0 || s.Candidates[0].Baseline != -1 ||
		s.Candidates[2].Of != 0 || s.Candidates[2].Derived != "keep all" || !s.Candidates[3].Floor || s.Candidates[3].Label != "bf16 activations (floor)" {
		t.Errorf("%+v", s.Candidates)
	}
	if s.VocabRef != 1024 || s.Activations != "f32" || s.Positions64() != 4*63 || s.Seed != 9 || len(s.Texts) < 50 {
		t.Errorf("%+v", s)
	}
	if s, err := NewSetup(ref, cands[:1], texts(t, 1, 64, "prose"), Options{BF16: true, Half: true}); err != nil || s.Candidates[1].Label != "f32 activations (floor)" || s.Positions64() != 31 {
		t.Errorf("%+v, %v", s, err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Setup
	if err := json.Unmarshal(data, &back); err != nil || len(back.Texts) != len(s.Texts) {
		t.Errorf("%v", err)
	}
}

func TestSetupsThatAreRefused(t *testing.T) {
	ref := reference(t)
	calib := texts(t, 1, 128, "prose")
	twice := append(texts(t, 1, 64, "prose"), texts(t, 1, 64, "prose")...)
	for want, f := range map[string]func() error{
		"no corpus": func() error { _, err := NewSetup(ref, nil, nil, Options{}); return err },
		"two corpora are named prose": func() error {
			_, err := NewSetup(ref, nil, twice, Options{})
			return err
		},
		"has a token to predict": func() error { _, err := NewSetup(ref, nil, numbers(1), Options{}); return err },
		"calibration": func() error {
			_, err := NewSetup(ref, nil, texts(t, 2, 64, "prose"), Options{Calib: calib})
			return err
		},
		"row 3 cannot be derived": func() error {
			_, err := NewSetup(ref, nil, texts(t, 2, 64, "prose"), Options{Derived: []Derived{{Row: 3}}})
			return err
		},
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	all, err := corpus.Demo()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSetup(ref, nil, all[:2], Options{Calib: all[5:]}); err != nil {
		t.Errorf("the demo's calibration text is in its evaluation: %v", err)
	}
}

// TestRulersFloor holds the forward pass against transformers' logits on two texts
// of the demo: what this program and that one differ by is the ruler's error.
func TestRulersFloor(t *testing.T) {
	ref := reference(t)
	ck := open(t, "../../model/testdata/demo_logits.safetensors")
	all, err := corpus.Demo()
	if err != nil {
		t.Fatal(err)
	}
	src, err := ref.Source()
	if err != nil {
		t.Fatal(err)
	}
	defer src.Release()
	o := Options{}
	var sum float64
	var n int
	for _, c := range all {
		x, ok := ck.Lookup(c.Name + ".logits")
		if !ok {
			continue
		}
		chunks, length, vocab := int(x.Shape[0]), int(x.Shape[1]), int(x.Shape[2])
		want := convert[float32](array(t, ck, x.Name))
		for k := range chunks {
			ids := c.Chunks[k][:length]
			h, err := model.Run(context.Background(), ref.Arch, []model.Source{src}, [][]int32{ids}, model.Options{Set: o.kernels()})
			if err != nil {
				t.Fatal(err)
			}
			head, err := model.NewHead(context.Background(), ref.Arch, src, model.Options{Set: o.kernels()})
			if err != nil {
				t.Fatal(err)
			}
			got, err := head.Logits(nil, h[0].X, length)
			if err != nil {
				t.Fatal(err)
			}
			for i := range length {
				s := Compare(o.kernels(), want[(k*length+i)*vocab:][:vocab], got[i*vocab:][:vocab], -1)
				sum += s.KL
				n++
				if s.TopP != s.TopQ {
					t.Errorf("%s chunk %d position %d: token %d, want %d", c.Name, k, i, s.TopQ, s.TopP)
				}
			}
			src.Release()
		}
	}
	if n != 512 || !(sum/float64(n) < 1e-7) {
		t.Errorf("mean KL against transformers' logits over %d positions: %g", n, sum/float64(n))
	}
}
