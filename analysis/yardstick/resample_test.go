package yardstick

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"quantscope/analysis/stats"
)

// leveled is two candidates whose difference over each chunk of each corpus is a
// level drawn from the normal distribution, but for what differs within the chunk.
func leveled(r *rand.Rand, within float64, corpora ...leveledCorpus) (*Setup, []*Chunk) {
	s := &Setup{Candidates: []Party{{Baseline: -1, Of: -1}, {Baseline: -1, Of: -1}}}
	var chunks []*Chunk
	for c, of := range corpora {
		s.Corpora = append(s.Corpora, CorpusRef{Name: string(rune('x' + c))})
		for k := range of.chunks {
			level := of.mean + of.deviation*r.NormFloat64()
			chunk := &Chunk{Corpus: c, Index: k, Ref: make([]RefRow, 8), Rows: [][]Row{make([]Row, 8), make([]Row, 8)}}
			for i := range chunk.Ref {
				chunk.Rows[0][i].KL = 10
				chunk.Rows[1][i].KL = 10 + level + within*r.NormFloat64()
			}
			chunks = append(chunks, chunk)
		}
	}
	return s, chunks
}

type leveledCorpus struct {
	chunks          int
	mean, deviation float64
}

// Intervals of 95 % hold the truth about as often, also of few chunks and where
// one corpus varies more than the other; they leave out 0 where p is below 0.05.
// The standard error of a share is 1.1 %.
func TestIntervalCoverage(t *testing.T) {
	const samples = 400
	for _, corpora := range [][]leveledCorpus{
		{{6, 0, 0.3}, {6, 1, 0.3}},
		{{2, 0.5, 0.3}},
		{{3, 0.5, 0.3}},
		{{5, 0.5, 0.3}},
		{{3, 0, 0.6}, {3, 1, 0.1}},
		{{1, 0.5, 0.3}, {1, 0.5, 0.3}, {1, 0.5, 0.3}},
	} {
		r := rand.New(rand.NewPCG(3, 9))
		held := 0
		for range samples {
			s, chunks := leveled(r, 0.2, corpora...)
			p, err := ComparePair(context.Background(), s, chunks, 0, 1, r.Uint64())
			if err != nil {
				t.Fatal(err)
			}
			if p.Low <= 0.5 && p.High >= 0.5 {
				held++
			}
			if out := p.Low > 0 || p.High < 0; out != (p.P < 0.05) {
				t.Errorf("%v: %+v", corpora, p)
			}
		}
		if share := float64(held) / samples; share < 0.89 || share > 0.98 {
			t.Errorf("%v: intervals of 95 %% held the truth in %.1f %%", corpora, 100*share)
		}
	}
}

// Without a difference, two chunks do not make one: both are on the same side of 0
// one time in two.
func TestNoDifferenceOfFewChunks(t *testing.T) {
	const samples = 400
	r := rand.New(rand.NewPCG(4, 9))
	told := 0
	for range samples {
		s, chunks := leveled(r, 0, leveledCorpus{2, 0, 1})
		p, err := ComparePair(context.Background(), s, chunks, 0, 1, r.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		if p.P < 0.05 {
			told++
		}
	}
	if share := float64(told) / samples; share > 0.12 {
		t.Errorf("%.1f %% of pairs without a difference were told apart at 5 %%", 100*share)
	}
}

// The same difference everywhere is one without an interval's width.
func TestSameDifferenceEverywhere(t *testing.T) {
	s, chunks := leveled(rand.New(rand.NewPCG(1, 1)), 0, leveledCorpus{4, 0.5, 0})
	p, err := ComparePair(context.Background(), s, chunks, 0, 1, 1)
	if err != nil || p.Low != 0.5 || p.High != 0.5 || !(p.P < 0.01) {
		t.Errorf("%+v, %v", p, err)
	}
}

// Intervals by resampling are as wide as standard errors say, also where corpora
// have few chunks and differ in how many.
func TestIntervalsAndStandardErrorsAgree(t *testing.T) {
	s, chunks := leveled(rand.New(rand.NewPCG(5, 5)), 0.3, leveledCorpus{3, 5, 3}, leveledCorpus{30, 9, 1})
	for _, c := range chunks {
		for i := range c.Rows[0] {
			c.Rows[0][i].KL, c.Rows[1][i].KL = 0, c.Rows[1][i].KL-10
		}
	}
	p, err := ComparePair(context.Background(), s, chunks, 0, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	all := analyze(t, s, chunks).Results[1].All
	// Satterthwaite over what the two corpora add to the variance of the sum.
	var v [2]float64
	for c, of := range [][]*Chunk{chunks[:3], chunks[3:]} {
		var mean float64
		levels := make([]float64, len(of))
		for k, x := range of {
			for i := range x.Ref {
				levels[k] += x.Rows[1][i].KL
			}
			mean += levels[k] / float64(len(of))
		}
		for _, l := range levels {
			v[c] += (l - mean) * (l - mean) * float64(len(of)) / float64(len(of)-1)
		}
	}
	df := (v[0] + v[1]) * (v[0] + v[1]) / (v[0]*v[0]/2 + v[1]*v[1]/29)
	width := (p.High - p.Low) / (2 * stats.StudentQuantile(0.975, df))
	if math.Abs(width/all.KLErr-1) > 0.08 || math.Abs(p.DKL-all.KL) > 1e-12 {
		t.Errorf("%g by resampling, %g by formula, %.1f degrees of freedom", width, all.KLErr, df)
	}
}
