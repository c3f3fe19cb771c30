package yardstick

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"quantscope/quant/tokenizer"
)

// Bounds of a report.
const (
	maxWorst  = 64
	maxPlaces = 32 // bins of positions in a chunk
)

// buckets are the upper ends of the confidence buckets: the probability of the
// reference's first choice. Each begins where the one before it ends, which it
// does not hold; the last holds 1.
var buckets = [...]float32{0.3, 0.6, 0.9, 0.99, 2}

var bucketNames = [...]string{"p < 0.3", "0.3 – 0.6", "0.6 – 0.9", "0.9 – 0.99", "p ≥ 0.99"}

// Analyze makes the report of what was scored so far. It does not touch weights.
// The order of the chunks does not matter, to the last bit.
//
// Means are over positions. Their standard errors are over chunks, since the
// positions of one text are not independent, and within corpora, since those were
// chosen and not drawn: with d the sum of a figure over a chunk's n positions, N
// positions in all and m the mean, r = d − m·n, and
//
//	se² = Σ_corpora C/(C−1)·Σ_chunks (r − r̄)² / N²
//
// over the C chunks of each corpus (the linearised variance of a ratio in a
// stratified cluster sample; Cochran, Sampling Techniques, 1977, sections 6.11 and
// 9A). Corpora with a single chunk are put together.
func Analyze(ctx context.Context, s *Setup, chunks []*Chunk, seed uint64) (*Report, error) {
	t, err := newTable(s, chunks)
	if err != nil {
		return nil, err
	}
	r := &Report{Setup: s, Positions: int64(t.positions), Of: s.Positions64(), Results: make([]Result, len(s.Candidates))}
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), max(len(s.Candidates), 1)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := newWork(t)
			for c := range next {
				if ctx.Err() == nil {
					r.Results[c] = t.result(w, c)
				}
			}
		}()
	}
	for c := range s.Candidates {
		next <- c
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.draw(seed)
	r.Pairs = t.pairs(r.Results)
	r.Attributed = t.attributed(r.Results)
	r.Gates = t.gates(r)
	return r, nil
}

// table is what was scored, in the order of corpora and chunks, and what is the
// same for all candidates.
type table struct {
	s         *Setup
	chunks    []*Chunk
	first     []int // by chunk: its first position in what follows; one more at the end
	positions int
	bucket    []uint8
	class     []uint8 // tokenizer.Classes, len of it where it is not known
	place     []uint8
	refP      []float64 // the reference's probability of the next token
	places    int
	width     int     // positions of a bin
	strata    [][]int // chunks by corpus
	weights   [][]float64
}

func newTable(s *Setup, chunks []*Chunk) (*table, error) {
	t := &table{s: s, chunks: slices.Clone(chunks)}
	slices.SortStableFunc(t.chunks, func(a, b *Chunk) int {
		return cmp.Or(cmp.Compare(a.Corpus, b.Corpus), cmp.Compare(a.Index, b.Index))
	})
	longest := 0
	for i, c := range t.chunks {
		if err := s.check(c); err != nil {
			return nil, err
		}
		if i > 0 && c.Corpus == t.chunks[i-1].Corpus && c.Index == t.chunks[i-1].Index {
			return nil, fmt.Errorf("yardstick: chunk %d of corpus %s is there twice", c.Index, s.Corpora[c.Corpus].Name)
		}
		t.first = append(t.first, t.positions)
		t.positions += len(c.Ref)
	}
	t.first = append(t.first, t.positions)
	for _, c := range s.Corpora {
		for _, ids := range c.IDs {
			longest = max(longest, len(ids)-1)
		}
	}
	for _, c := range t.chunks {
		longest = max(longest, c.First+len(c.Ref))
	}
	t.places = max(min(maxPlaces, longest), 1)
	t.width = max((longest+t.places-1)/t.places, 1)
	t.strata = byCorpus(t.chunks)
	t.sort()
	return t, nil
}

// check looks at the sizes of a chunk.
func (s *Setup) check(c *Chunk) error {
	if c == nil || c.Corpus < 0 || c.Corpus >= len(s.Corpora) || c.Index < 0 || c.First < 0 {
		return fmt.Errorf("yardstick: a chunk that is of none of the %d corpora", len(s.Corpora))
	}
	name := s.Corpora[c.Corpus].Name
	if len(c.Rows) != len(s.Candidates) {
		return fmt.Errorf("yardstick: chunk %d of corpus %s has scores of %d candidates, the setup has %d", c.Index, name, len(c.Rows), len(s.Candidates))
	}
	for i, rows := range c.Rows {
		if len(rows) != len(c.Ref) {
			return fmt.Errorf("yardstick: chunk %d of corpus %s has %d rows of %s and %d of the reference", c.Index, name, len(rows), s.Candidates[i].Label, len(c.Ref))
		}
	}
	if ids := s.Corpora[c.Corpus].IDs; ids != nil && (c.Index >= len(ids) || c.First+len(c.Ref) >= max(len(ids[c.Index]), 1)) {
		return fmt.Errorf("yardstick: chunk %d of corpus %s is not in it, or shorter there", c.Index, name)
	}
	return nil
}

// sort says of every position to which bucket, class and bin it belongs.
func (t *table) sort() {
	t.bucket, t.class, t.place = make([]uint8, t.positions), make([]uint8, t.positions), make([]uint8, t.positions)
	t.refP = make([]float64, t.positions)
	class := t.s.classes()
	inParallel(len(t.chunks), runtime.GOMAXPROCS(0), func(k int) {
		c := t.chunks[k]
		var ids []int32
		if all := t.s.Corpora[c.Corpus].IDs; all != nil {
			ids = all[c.Index]
		}
		for i := range c.Ref {
			at := t.first[k] + i
			t.refP[at] = math.Exp(-c.Ref[i].NLL)
			b := 0
			for b < len(buckets)-1 && c.Ref[i].MaxP >= buckets[b] {
				b++
			}
			t.bucket[at] = uint8(b)
			t.place[at] = uint8(min((c.First+i)/t.width, t.places-1))
			t.class[at] = uint8(len(tokenizer.Classes))
			if ids != nil {
				if k, ok := class[ids[c.First+i+1]]; ok {
					t.class[at] = k
				}
			}
		}
	})
}

// classes are those of the corpora's tokens, by what they stand for.
func (s *Setup) classes() map[int32]uint8 {
	out := make(map[int32]uint8, len(s.Texts))
	for id, text := range s.Texts {
		out[id] = uint8(tokenizer.TextClass(text))
	}
	for _, id := range s.Special {
		out[id] = uint8(tokenizer.Special)
	}
	return out
}

// byCorpus are the strata: chunks of one corpus, by index. Those of a corpus that
// has a single one cannot say how chunks of it vary: they are put together, and
// where one is left it joins the stratum before or after it.
func byCorpus(chunks []*Chunk) [][]int {
	var strata [][]int
	for i := range chunks {
		if i == 0 || chunks[i].Corpus != chunks[i-1].Corpus {
			strata = append(strata, nil)
		}
		last := len(strata) - 1
		strata[last] = append(strata[last], i)
	}
	var out [][]int
	var single []int
	for _, s := range strata {
		if len(s) == 1 {
			single = append(single, s[0])
		} else {
			out = append(out, s)
		}
	}
	switch {
	case len(single) > 1 || len(out) == 0 && len(single) == 1:
		out = append(out, single)
	case len(single) == 1:
		out[len(out)-1] = append(out[len(out)-1], single[0])
	}
	return out
}
