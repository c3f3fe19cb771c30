package yardstick

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
)

// Errors of parties that cannot be compared, and of a reference that cannot be
// measured against.
var (
	ErrVocabulary = errors.New("vocabularies differ")
	ErrTokenizer  = errors.New("tokenizers differ")
	ErrTokens     = errors.New("tokens differ")
	ErrReference  = errors.New("reference is not finite")
	ErrCache      = errors.New("hidden-state cache")
)

// maxParties bounds the candidates of one measurement.
const maxParties = 1024

// NewSetup describes a measurement, checks that the parties can be compared and
// adds the floor after the candidates given. Errors name the two sides and what
// differs.
//
// Where numbers of logits differ, all are restricted to the tokens that the
// reference's tokenizer has and renormalised over them, and a note says so;
// columns are never padded. Without a tokenizer, or with one that has more tokens
// than somebody has logits, they cannot be compared.
func NewSetup(ref *candidate.Candidate, cands []*candidate.Candidate, corpora []*corpus.Corpus, o Options) (*Setup, error) {
	if len(cands) > maxParties {
		return nil, fmt.Errorf("yardstick: %d candidates; at most %d go into one measurement", len(cands), maxParties)
	}
	s := &Setup{
		Reference: party(ref), Activations: activations(o.BF16), Positions: "all", Keep: o.Keep, Targets: o.Targets,
		KernelSet: o.kernels().Name, Program: o.Program, Ceiling: o.Ceiling, Seed: o.Seed,
	}
	if o.Half {
		s.Positions = "half"
	}
	if o.Base != nil {
		if err := s.fromFile(o.Base, corpora); err != nil {
			return nil, err
		}
	}
	for _, c := range cands {
		p := party(c)
		note, err := sameTokens(ref, c)
		if err != nil {
			return nil, err
		}
		p.Tokenizer = note
		s.Candidates = append(s.Candidates, p)
	}
	if err := s.baselines(cands); err != nil {
		return nil, err
	}
	if err := s.derive(o.Derived); err != nil {
		return nil, err
	}
	if !o.NoFloor {
		s.Candidates = append(s.Candidates, floor(party(ref), o))
	}
	if err := s.restrict(ref); err != nil {
		return nil, err
	}
	if err := s.addCorpora(ref, cands, corpora, o); err != nil {
		return nil, err
	}
	s.addTexts(ref)
	return s, nil
}

// kernels is the set to compute with.
func (o *Options) kernels() kernels.Set {
	if o.Set.Name == "" {
		return kernels.Best()
	}
	return o.Set
}

func (o *Options) warn(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

func activations(bf16 bool) string {
	if bf16 {
		return "bf16"
	}
	return "f32"
}

func party(c *candidate.Candidate) Party {
	p := Party{
		Label: c.Label, Spec: c.Spec, Path: c.Path, Kind: c.Kind, Identity: c.Identity, Content: c.Content, TokenizerID: c.TokenizerID,
		BitsPerWeight: c.BitsPerWeight, Bytes: c.Bytes, Effective: c.Effective, Schemes: c.Schemes,
		Fallbacks: c.Fallbacks, Findings: c.Findings, Baseline: -1, Of: -1,
		Calibrated: c.Calibrated, Added: c.Added,
	}
	if c.Arch != nil {
		p.Vocab = c.Arch.Vocab
	}
	if p.Label == "" {
		p.Label = c.Spec
	}
	return p
}

// floor is the reference's own weights under the other arithmetic: what a
// difference of rounding alone does to the figures. Where the reference is a file it
// is its weights as candidates are measured.
func floor(ref Party, o Options) Party {
	p := ref
	p.Label = activations(!o.BF16) + " activations (floor)"
	if o.Base != nil {
		p.Label = ref.Label + " (floor)"
	}
	p.Spec, p.Floor = "floor", true
	return p
}

// baselines finds the candidates that others are calibrated from.
func (s *Setup) baselines(cands []*candidate.Candidate) error {
	for i, c := range cands {
		if c.Baseline == "" {
			continue
		}
		s.Candidates[i].Baseline = slices.IndexFunc(cands, func(b *candidate.Candidate) bool { return b.Presents(c.Baseline) })
		if s.Candidates[i].Baseline == i {
			return fmt.Errorf("yardstick: %s is its own baseline", s.Candidates[i].Label)
		}
	}
	return nil
}

// derive marks the rows of attribution.
func (s *Setup) derive(rows []Derived) error {
	n := len(s.Candidates)
	for _, d := range rows {
		if d.Row < 0 || d.Row >= n || d.Of < 0 || d.Of >= n || d.Row == d.Of {
			return fmt.Errorf("yardstick: row %d cannot be derived from candidate %d of %d", d.Row, d.Of, n)
		}
		p := &s.Candidates[d.Row]
		p.Of, p.Derived, p.Part = d.Of, d.How, d.Part
	}
	return nil
}

// restrict decides how many tokens are compared.
func (s *Setup) restrict(ref *candidate.Candidate) error {
	least, most := s.Reference.Vocab, s.Reference.Vocab
	var other *Party
	for i := range s.Candidates {
		p := &s.Candidates[i]
		if p.Vocab != s.Reference.Vocab && other == nil {
			other = p
		}
		least, most = min(least, p.Vocab), max(most, p.Vocab)
	}
	tokens := 0
	if ref.Tokenizer != nil {
		tokens = ref.Tokenizer.Vocab()
	}
	n, note, err := commonVocabulary(s.Reference.Vocab, least, most, tokens)
	if err != nil {
		if other != nil {
			err = fmt.Errorf("%s and %s: %w", s.Reference.Label, other.Label, err)
		}
		return err
	}
	s.VocabRef = n
	if note != "" {
		s.Notes = append(s.Notes, note)
	}
	return nil
}

// commonVocabulary is how many of the first tokens are compared where a reference
// has so many logits, candidates have from least to most, and the tokenizer has
// so many tokens, 0 where there is none.
func commonVocabulary(ref, least, most, tokens int) (n int, note string, err error) {
	other := least
	if other == ref {
		other = most
	}
	switch {
	case least <= 0:
		return 0, "", fmt.Errorf("%w: a party has no logits", ErrVocabulary)
	case least == most:
		return ref, "", nil
	case tokens == 0:
		return 0, "", fmt.Errorf("%w: %d logits against %d, and no tokenizer says how many tokens are real", ErrVocabulary, ref, other)
	case tokens > least:
		return 0, "", fmt.Errorf("%w: %d logits against %d, and the tokenizer has %d tokens", ErrVocabulary, ref, other, tokens)
	}
	return tokens, fmt.Sprintf("%d logits against %d: both sides are restricted to the tokenizer's %d tokens and renormalised over them", ref, other, tokens), nil
}

// addCorpora takes corpora in, after looking at every id.
func (s *Setup) addCorpora(ref *candidate.Candidate, cands []*candidate.Candidate, corpora []*corpus.Corpus, o Options) error {
	if len(corpora) == 0 {
		return errors.New("yardstick: no corpus to measure on")
	}
	calib, err := calibrationTexts(cands, o.Calib)
	if err != nil {
		return err
	}
	for i, c := range corpora {
		if slices.ContainsFunc(corpora[:i], func(b *corpus.Corpus) bool { return b.Name == c.Name }) {
			return fmt.Errorf("yardstick: two corpora are named %s", c.Name)
		}
		if k := slices.IndexFunc(corpora[:i], func(b *corpus.Corpus) bool { return b.SHA256 == c.SHA256 && len(b.Chunks) == len(c.Chunks) }); k >= 0 {
			return fmt.Errorf("corpora %s and %s hold the same tokens, which would count twice", corpora[k].Name, c.Name)
		}
		note, err := madeFor(ref, cands, c)
		if err != nil {
			return err
		}
		if note != "" {
			s.Notes = append(s.Notes, note)
		}
		var scored int
		for k, chunk := range c.Chunks {
			for j, id := range chunk {
				if id < 0 || int(id) >= s.VocabRef {
					return fmt.Errorf("corpus %s: token %d at position %d of chunk %d is outside the %d tokens that are compared", c.Name, id, j, k, s.VocabRef)
				}
			}
			scored += Scored(len(chunk), s.half())
		}
		if scored == 0 {
			return fmt.Errorf("corpus %s: none of its %d chunks has a token to predict", c.Name, len(c.Chunks))
		}
		if err := disjoint(c, calib); err != nil {
			return err
		}
		s.Corpora = append(s.Corpora, CorpusRef{
			Name: c.Name, Source: c.Source, SHA256: hex.EncodeToString(c.SHA256[:]), Tokenizer: c.Tokenizer,
			BOS: c.BOS, Chunking: c.Chunking, Incomparable: c.Incomparable(), IDs: c.Chunks,
		})
	}
	return nil
}

// addTexts keeps what the corpora's tokens stand for.
func (s *Setup) addTexts(ref *candidate.Candidate) {
	if ref.Tokenizer == nil {
		return
	}
	s.Texts = map[int32]string{}
	for _, c := range s.Corpora {
		for _, chunk := range c.IDs {
			for _, id := range chunk {
				if _, ok := s.Texts[id]; ok {
					continue
				}
				s.Texts[id] = string(ref.Tokenizer.Bytes(id))
				if ref.Tokenizer.Special(id) {
					s.Special = append(s.Special, id)
				}
			}
		}
	}
	slices.SortFunc(s.Special, func(a, b int32) int { return cmp.Compare(a, b) })
}
