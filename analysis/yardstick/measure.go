package yardstick

import (
	"context"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick/kld"
	"quantscope/kernels"
)

// Options of a measurement.
type Options struct {
	Set     kernels.Set
	Threads int
	Mem     int64  // bound of hidden states, weights and logits; 0 for the default
	BF16    bool   // bf16 activations for all parties
	Half    bool   // score the second half of each chunk only, as llama.cpp does
	NoFloor bool   // leave out the ruler's floor
	Probe   bool   // measure output errors on real inputs
	Cache   string // folder of the reference's final hidden states; "" keeps none
	Seed    uint64 // of the bootstrap
	Program string

	Group      int              // tokens that go through the layers together; 0: as many as pay and memory allows
	CacheBytes int64            // bound of the folder Cache; 0 for 4 GiB
	Ceiling    float64          // see Setup
	Keep       string           // see Setup
	Targets    string           // see Setup
	Derived    []Derived        // rows of attribution among the candidates
	Calib      []*corpus.Corpus // what candidates were calibrated on; text that is also in a corpus is refused
	Base       *kld.Reader      // the reference's probabilities are of this file, and its texts (BaseCorpus) the only corpus; the floor is then the reference's weights against the file
	BaseOut    string           // file that the reference's log probabilities are written to, for llama-perplexity
	Warn       func(string)     // told of what is odd and does not stop the measurement: a damaged cache; may be nil

	Begin    func(*Setup)                 // called once, before any chunk
	Skip     func(corpus, chunk int) bool // chunks that are not to be scored, done already; nil: none
	Prior    []*Chunk                     // chunks of an earlier run of the same setup: skipped, and in the report
	Scored   func(*Chunk)                 // called for each chunk, in order, from one goroutine
	Progress func(Progress)               // from one goroutine
	Pause    func(context.Context) error  // called between groups of chunks; waits where the run is paused
}

// Derived says of one of the candidates given that it is a row of attribution.
type Derived struct {
	Row, Of int    // indices of candidates
	How     string // keep REGEX, head from LABEL, body from LABEL, only GROUP
	Part    string // the group that alone is Of's, where the row is one of a sum
}

// Progress is how far a measurement is.
type Progress struct {
	Stage         string // reference, candidates, scoring, checking, probing, bootstrap
	Party         int    // candidate that is at work, -1 the reference
	Layer, Layers int
	Done, Total   int64   // token·layers of all parties
	TokensPerSec  float64 // of one party through all its layers
	ETASeconds    float64
	Chunks, Of    int // scored
}

// Measure takes the corpora through the reference and all candidates in one pass
// and scores every position. Chunks of all corpora come in turn, so that early
// figures are of all of them. The order of chunks and every figure are the same for
// any number of threads, any memory and with or without a cache.
//
// A value of the reference that is not finite ends it with the layer, the chunk and
// the position; one of a candidate makes that candidate's rows NaN from there to
// the end of the chunk, and the others go on.
func Measure(ctx context.Context, ref *candidate.Candidate, cands []*candidate.Candidate, corpora []*corpus.Corpus, o Options) (*Report, error) {
	s, err := NewSetup(ref, cands, corpora, o)
	if err != nil {
		return nil, err
	}
	m, err := newMeasurement(ctx, s, ref, cands, o)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if o.Begin != nil {
		o.Begin(s)
	}
	if err := m.all(ctx); err != nil {
		return nil, err
	}
	sane, err := m.sanity(ctx)
	if err != nil {
		return nil, err
	}
	var probes []Probe
	if o.Probe {
		if probes, err = m.probe(ctx); err != nil {
			return nil, err
		}
	}
	m.meter.stage("bootstrap", -1)
	r, err := Analyze(ctx, s, m.chunks, o.Seed)
	if err != nil {
		return nil, err
	}
	r.Complete(sane, probes)
	if m.base != nil {
		r.Base = m.base.stats
		if m.base.r.Deep() {
			o.warn("%s: rows reach further than 16 nats below their largest entry, so it is not of llama.cpp itself and its own statistics are others", m.base.r.Path)
		}
	}
	return r, nil
}

// all measures group after group.
func (m *measurement) all(ctx context.Context) error {
	if err := m.createBase(); err != nil {
		return err
	}
	for _, g := range m.groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.o.Pause != nil {
			if err := m.o.Pause(ctx); err != nil {
				return err
			}
		}
		if err := m.group(ctx, g); err != nil {
			return err
		}
	}
	if m.out != nil {
		return m.out.w.Commit()
	}
	return nil
}
