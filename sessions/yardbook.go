package sessions

import (
	"fmt"
	"math"

	"quantscope/analysis/yardstick"
)

// yardBook knows the measurements of a session while its events are read in
// order, and what fits them. A file's numbers of measurements and the indices of
// State.Yards differ where the beginning of one is damaged.
type yardBook struct {
	at     map[int]int // by number in the file: index
	setups []*yardstick.Setup
	scored []map[[2]int]bool // by index: corpus and chunk
}

// place gives an event about a measurement its index, and is an error where it
// does not fit what came before. Other events are left alone.
func (b *yardBook) place(e *stored) error {
	switch e.Kind {
	case EventYard:
		if _, twice := b.at[e.yard]; twice {
			return fmt.Errorf("measurement %d began twice", e.yard)
		}
		if b.at == nil {
			b.at = map[int]int{}
		}
		b.at[e.yard] = len(b.setups)
		b.setups = append(b.setups, e.setup)
		b.scored = append(b.scored, map[[2]int]bool{})
		e.yard = len(b.setups) - 1
	case EventScore, EventYardEnd:
		i, ok := b.at[e.yard]
		if !ok {
			return fmt.Errorf("measurement %d has no beginning", e.yard)
		}
		e.yard = i
		if e.Kind == EventYardEnd {
			for _, p := range e.end.Probes {
				if p.Candidate < 0 || p.Candidate >= len(b.setups[i].Candidates) {
					return fmt.Errorf("a probe is of candidate %d of %d", p.Candidate, len(b.setups[i].Candidates))
				}
			}
			return nil
		}
		if err := checkChunk(b.setups[i], e.chunk); err != nil {
			return err
		}
		key := [2]int{e.chunk.Corpus, e.chunk.Index}
		if b.scored[i][key] {
			return fmt.Errorf("chunk %d of corpus %d is scored twice", key[1], key[0])
		}
		b.scored[i][key] = true
	}
	return nil
}

// checkChunk is an error where a chunk's scores do not fit the setup, or cannot
// be: the reference has numbers everywhere, and no divergence is negative.
func checkChunk(s *yardstick.Setup, c *yardstick.Chunk) error {
	switch {
	case c.Corpus < 0 || c.Corpus >= len(s.Corpora):
		return fmt.Errorf("corpus %d of %d", c.Corpus, len(s.Corpora))
	case c.Index < 0 || c.Index >= len(s.Corpora[c.Corpus].IDs):
		return fmt.Errorf("chunk %d of %d", c.Index, len(s.Corpora[c.Corpus].IDs))
	case len(c.Rows) != len(s.Candidates):
		return fmt.Errorf("rows of %d candidates, not %d", len(c.Rows), len(s.Candidates))
	}
	tokens := len(s.Corpora[c.Corpus].IDs[c.Index])
	if c.First < 0 || len(c.Ref) == 0 || c.First+len(c.Ref) > tokens-1 {
		return fmt.Errorf("positions %d to %d of a chunk of %d tokens", c.First, c.First+len(c.Ref)-1, tokens)
	}
	for i, r := range c.Ref {
		if math.IsNaN(r.NLL) || !(r.MaxP >= 0) {
			return fmt.Errorf("the reference has no number at position %d", c.First+i)
		}
	}
	for k, rows := range c.Rows {
		if len(rows) != len(c.Ref) {
			return fmt.Errorf("%d rows of candidate %d, not %d", len(rows), k, len(c.Ref))
		}
		for i, r := range rows {
			if r.KL < 0 || r.Reverse < 0 {
				return fmt.Errorf("a negative divergence of candidate %d at position %d", k, c.First+i)
			}
		}
	}
	return nil
}
