package yardstick

import (
	"fmt"

	"quantscope/kernels"
)

// Logits are those of somebody else's forward pass over one list of tokens: row i
// is of position i, which predicts token i+1.
type Logits struct {
	Label   string
	Tokens  []int32
	Columns int       // of a row
	Values  []float32 // a row for every token but the last
}

// ScoreLogits scores candidates by logits that were made elsewhere. tokens is how
// many the tokenizer has, 0 where that is not known; widths that differ are dealt
// with as in NewSetup. Lists of tokens that differ are refused with the first
// position and both ids.
func ScoreLogits(set kernels.Set, ref Logits, cands []Logits, tokens int) (*Setup, *Chunk, error) {
	s := &Setup{
		Reference: Party{Label: ref.Label, Vocab: ref.Columns, Baseline: -1, Of: -1}, Activations: "given", Positions: "all",
		KernelSet: set.Name, Corpora: []CorpusRef{{Name: "tokens", IDs: [][]int32{ref.Tokens}}},
	}
	if err := ref.check(); err != nil {
		return nil, nil, err
	}
	least, most := ref.Columns, ref.Columns
	for i := range cands {
		c := &cands[i]
		if err := c.check(); err != nil {
			return nil, nil, err
		}
		if err := SameTokens(ref.Tokens, c.Tokens); err != nil {
			return nil, nil, fmt.Errorf("%s and %s: %w", ref.Label, c.Label, err)
		}
		least, most = min(least, c.Columns), max(most, c.Columns)
		s.Candidates = append(s.Candidates, Party{Label: c.Label, Vocab: c.Columns, Baseline: -1, Of: -1})
	}
	n, note, err := commonVocabulary(ref.Columns, least, most, tokens)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", ref.Label, err)
	}
	s.VocabRef = n
	if note != "" {
		s.Notes = append(s.Notes, note)
	}
	rows := len(ref.Tokens) - 1
	c := &Chunk{Ref: make([]RefRow, rows), Rows: make([][]Row, len(cands))}
	for i := range c.Rows {
		c.Rows[i] = make([]Row, rows)
	}
	for i := range rows {
		target := ref.Tokens[i+1]
		if target < 0 || int(target) >= n {
			return nil, nil, fmt.Errorf("%s: token %d at position %d is outside the %d tokens that are compared", ref.Label, target, i+1, n)
		}
		p := ref.Values[i*ref.Columns:][:n]
		var reduced kernels.LogitRow
		if c.Ref[i], reduced = refRow(set, p, target); !reduced.OK {
			return nil, nil, fmt.Errorf("%s: %w: the logits of position %d are no numbers", ref.Label, ErrReference, i)
		}
		for k := range cands {
			c.Rows[k][i] = row(set, p, cands[k].Values[i*cands[k].Columns:][:n], reduced, target)
		}
	}
	return s, c, nil
}

func (l *Logits) check() error {
	rows := len(l.Tokens) - 1
	if rows < 1 || l.Columns < 1 {
		return fmt.Errorf("%s: %d tokens with rows of %d logits", l.Label, len(l.Tokens), l.Columns)
	}
	if len(l.Values)/l.Columns != rows || len(l.Values)%l.Columns != 0 {
		return fmt.Errorf("%s: %d logits where %d rows of %d are expected", l.Label, len(l.Values), rows, l.Columns)
	}
	return nil
}
