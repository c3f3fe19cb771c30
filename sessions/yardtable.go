package sessions

import (
	"context"
	"math"

	"quantscope/analysis/yardstick"
)

// putYard writes what a measurement is of.
func (in *inserts) putYard(ctx context.Context, e *stored) error {
	s := e.setup
	if _, err := in.yard.ExecContext(ctx, e.yard, e.Seq, string(RunRunning), s.Reference.Label, s.Reference.Identity, s.Activations,
		s.Positions, s.KernelSet, s.Program, s.Positions64()); err != nil {
		return err
	}
	for i, c := range s.Candidates {
		floor := 0
		if c.Floor {
			floor = 1
		}
		if _, err := in.candidate.ExecContext(ctx, e.yard, i, c.Label, c.Spec, string(c.Kind), c.Path, c.Identity, c.Effective,
			c.BitsPerWeight, c.Bytes, floor, orNull(c.Baseline), orNull(c.Of), c.Derived); err != nil {
			return err
		}
	}
	for i, c := range s.Corpora {
		tokens := 0
		for _, k := range c.IDs {
			tokens += len(k)
		}
		if _, err := in.corpus.ExecContext(ctx, e.yard, i, c.Name, c.Source, c.SHA256, len(c.IDs), tokens, c.BOS); err != nil {
			return err
		}
	}
	return nil
}

// putScores writes a chunk's figures, a row for each candidate.
func (in *inserts) putScores(ctx context.Context, e *stored) error {
	c := e.chunk
	for k, rows := range c.Rows {
		s := chunkFigures(c, rows)
		if _, err := in.score.ExecContext(ctx, e.yard, k, c.Corpus, c.Index, e.Seq, len(rows), s.finite, s.nan, s.infinite,
			s.kl, s.klMax, s.reverse, s.nll, s.refNLL, s.top1); err != nil {
			return err
		}
	}
	return nil
}

// chunkSums are the figures of one chunk under one candidate. Means over nothing
// are NaN, which SQLite keeps as NULL.
type chunkSums struct {
	finite, nan, infinite    int64   // positions
	kl, klMax, reverse       float64 // over those with a finite divergence; klMax over all with a number
	nll, refNLL, top1, count float64 // over those with a number
}

func chunkFigures(c *yardstick.Chunk, rows []yardstick.Row) chunkSums {
	var s chunkSums
	for i, r := range rows {
		if math.IsNaN(r.KL) {
			s.nan++
			continue
		}
		s.count++
		s.nll += r.NLL
		s.refNLL += c.Ref[i].NLL
		s.klMax = max(s.klMax, r.KL)
		if r.Top == c.Ref[i].Top {
			s.top1++
		}
		if math.IsInf(r.KL, 1) {
			s.infinite++
			continue
		}
		s.finite++
		s.kl += r.KL
		s.reverse += r.Reverse
	}
	s.kl /= float64(s.finite)
	s.reverse /= float64(s.finite)
	s.nll /= s.count
	s.refNLL /= s.count
	s.top1 /= s.count
	if s.count == 0 {
		s.klMax = math.NaN()
	}
	return s
}
