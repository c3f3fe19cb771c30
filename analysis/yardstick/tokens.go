package yardstick

import (
	"fmt"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/quant/demo"
	"quantscope/quant/tokenizer"
)

// sameTokens compares the tokenizers of the reference and a candidate. What is
// measured are ids that the reference's tokenizer made, so an id must stand for the
// same token on both sides; where only the rules differ that split a text, a note
// says so. Tokens beyond those that both have are padding.
func sameTokens(ref, c *candidate.Candidate) (note string, err error) {
	switch {
	case ref.Tokenizer == nil && c.Tokenizer == nil:
		return "neither side has a tokenizer to compare", nil
	case c.Tokenizer == nil:
		return "its tokenizer is not known" + because(c.TokenizerErr), nil
	case ref.Tokenizer == nil:
		return "the reference's tokenizer is not known" + because(ref.TokenizerErr), nil
	case ref.TokenizerID != "" && ref.TokenizerID == c.TokenizerID:
		return "", nil
	}
	d := tokenizer.Compare(ref.Tokenizer, c.Tokenizer)
	if d.Vocabulary && int(d.First) < min(ref.Tokenizer.Vocab(), c.Tokenizer.Vocab()) {
		return "", fmt.Errorf("%w: %s and %s: %s", ErrTokenizer, ref.Label, c.Label, d.Text)
	}
	return d.Text, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// madeFor checks that a corpus holds ids of a party's tokenizer.
func madeFor(ref *candidate.Candidate, cands []*candidate.Candidate, c *corpus.Corpus) (note string, err error) {
	if c.Tokenizer == "" || ref.TokenizerID == "" || c.Tokenizer == ref.TokenizerID {
		return "", nil
	}
	for _, k := range cands { // one whose ids are the reference's
		if k.TokenizerID == c.Tokenizer {
			return "", nil
		}
	}
	if c.Behaviour != "" && ref.Tokenizer != nil && c.Behaviour == ref.Tokenizer.Behaviour() {
		return fmt.Sprintf("corpus %s was made by a tokenizer that is written differently from the reference's, with the same tokens and the same ids for trial texts", c.Name), nil
	}
	if c.Source == demo.Label && ref.Tokenizer != nil {
		own, err := corpus.DemoTokenizer()
		if err != nil {
			return "", err
		}
		d := tokenizer.Compare(own, ref.Tokenizer)
		if !d.Vocabulary || int(d.First) >= min(own.Vocab(), ref.Tokenizer.Vocab()) {
			return fmt.Sprintf("corpus %s was made by the demo's tokenizer, the reference has %s", c.Name, d.Text), nil
		}
		return "", fmt.Errorf("%w: corpus %s and %s: %s", ErrTokenizer, c.Name, ref.Label, d.Text)
	}
	return "", fmt.Errorf("%w: corpus %s was made by tokenizer %.12s…, %s has %.12s…", ErrTokenizer, c.Name, c.Tokenizer, ref.Label, ref.TokenizerID)
}

// SameTokens says where two lists of tokens part that should be one text.
func SameTokens(a, b []int32) error {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Errorf("%w at position %d: %d against %d", ErrTokens, i, a[i], b[i])
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("%w at position %d: %d tokens against %d", ErrTokens, min(len(a), len(b)), len(a), len(b))
	}
	return nil
}

// calibrationTexts are those given and those that candidates say they were
// calibrated on, each once.
func calibrationTexts(cands []*candidate.Candidate, given []*corpus.Corpus) ([]*corpus.Corpus, error) {
	all := slices.Clone(given)
	for _, c := range cands {
		own, err := c.CalibrationTexts()
		if err != nil {
			return nil, err
		}
		for _, k := range own {
			if !slices.ContainsFunc(all, func(o *corpus.Corpus) bool { return o.SHA256 == k.SHA256 && len(o.Chunks) == len(k.Chunks) }) {
				all = append(all, k)
			}
		}
	}
	return all, nil
}

// disjoint refuses a corpus that shares text with what somebody was calibrated on.
func disjoint(c *corpus.Corpus, calib []*corpus.Corpus) error {
	for _, k := range calib {
		r, err := corpus.Overlap(c, k)
		if err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			return err
		}
	}
	return nil
}
