package bias

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
)

// ErrReference is wrapped by the error about a reference whose values are not finite.
var ErrReference = errors.New("reference is not finite")

// Options of a run.
type Options struct {
	Set     kernels.Set
	Threads int
	Mem     int64 // bytes; 0: 2 GiB, more where one chunk needs it
	BF16    bool
	Program string
	NoFloor bool // leave out the reference under the other activations

	Pause    func(context.Context) error // asked between matrices and between layers; may be nil
	Progress func(Progress)              // may be nil; from any goroutine
}

// Progress is where a run stands.
type Progress struct {
	Stage     string // weights, passing, heads
	Candidate int    // -1: all
	Layer     int
	Done, Of  int64 // matrices; layers of candidates, the embeddings being one; positions of candidates
	Seconds   float64
	Tokens    int64 // that go through the layers
}

// Sink takes results as they come, from one goroutine, in an order that does not
// depend on threads: weights of each candidate, layer by layer and then of all; rows
// layer by layer, of each the candidates in order, of each attention, mlp, residual;
// divergences. Where a text does not fit into memory at once, rows come while the last
// part of it goes through the layers. Any may be nil.
type Sink struct {
	Weights    func(*Weights) error
	Row        func(*Row) error
	Divergence func(*Divergence) error
}

func (s Sink) weights(w *Weights) error {
	if s.Weights == nil {
		return nil
	}
	return s.Weights(w)
}

func (s Sink) row(r *Row) error {
	if s.Row == nil {
		return nil
	}
	return s.Row(r)
}

func (s Sink) divergence(d *Divergence) error {
	if s.Divergence == nil {
		return nil
	}
	return s.Divergence(d)
}

// running is a run while it runs.
type running struct {
	setup   *Setup
	o       Options
	sink    Sink
	set     kernels.Set
	threads int
	mem     int64
	parties []*party
	chunks  [][]int32 // of all corpora, in order
	corpora []int     // of each chunk its corpus
	begun   time.Time

	groups [][2]int // chunks that go through the layers together: from, to
	budget model.Budget
	flows  [][][]*flow // by candidate, layer from the embeddings on, and part
	scores []*score    // by candidate
}

// Run looks at the candidates of a setup, which are those that it was made of. Errors
// name candidate, layer and tensor. A value of the reference that is not finite ends
// it; positions where a candidate is not finite are counted.
func Run(ctx context.Context, s *Setup, ref *candidate.Candidate, candidates []*candidate.Candidate, corpora []*corpus.Corpus, o Options, sink Sink) error {
	if s.Draws != draws || s.Seed != seed {
		return fmt.Errorf("bias: a setup with %d draws from seed %d, and this program makes %d from %d", s.Draws, s.Seed, draws, seed)
	}
	of, err := parties(s, ref, candidates, o)
	if err != nil {
		return err
	}
	r := &running{
		setup: s, o: o, sink: sink, set: o.kernels(), threads: o.Threads, mem: o.Mem, parties: of, begun: time.Now(),
	}
	defer r.release()
	if r.threads <= 0 {
		r.threads = runtime.GOMAXPROCS(0)
	}
	for i, c := range corpora {
		for _, ids := range c.Chunks {
			if len(ids) > 0 {
				r.chunks, r.corpora = append(r.chunks, ids), append(r.corpora, i)
			}
		}
	}
	if err := r.plan(); err != nil {
		return err
	}
	if err := r.weights(ctx); err != nil {
		return err
	}
	for g := range r.groups {
		if err := r.pass(ctx, g); err != nil {
			return err
		}
	}
	for c, k := range r.scores {
		if err := r.sink.divergence(k.divergence(c)); err != nil {
			return err
		}
	}
	return nil
}

// release gives back what sources hold.
func (r *running) release() {
	for _, p := range r.parties {
		p.src.Release()
	}
}

func (r *running) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.o.Pause == nil {
		return nil
	}
	return r.o.Pause(ctx)
}

func (r *running) progress(p Progress) {
	if r.o.Progress == nil {
		return
	}
	p.Seconds, p.Tokens = time.Since(r.begun).Seconds(), r.setup.Positions
	r.o.Progress(p)
}

// defaultMem bounds hidden states, weights and logits where nothing else is said.
const defaultMem = 2 << 30

// Of the memory the pass has half, and up to three quarters where even one chunk needs
// that; codes that candidates keep, heads and logits share the rest.
const (
	passShare = 4
	passMost  = 6
	ofShares  = 8
)

// plan lays out which chunks go through the layers together.
func (r *running) plan() error {
	longest := 0
	for _, ids := range r.chunks {
		longest = max(longest, len(ids))
	}
	spec := r.parties[0].spec
	w := model.Workload{
		Chunk: longest, Parties: len(r.parties), Threads: r.threads,
		PerRow: 2*4*int64(spec.Hidden) + 48, // what the reference's parts added, and the sums of a row
	}
	for _, p := range r.parties {
		w.Bits = max(w.Bits, p.own.BitsPerWeight)
	}
	if r.mem <= 0 {
		r.mem = defaultMem
	}
	// Every candidate has sums of every part of every layer, by draw.
	held := 8 * int64(spec.Width()*(1+len(spec.Layers))+2*spec.Hidden*len(spec.Layers)) * (draws + 1) * int64(len(r.parties)-1)
	var err error
	r.budget, err = model.Plan(spec, w, (r.mem-held)/ofShares*passShare)
	var small *model.MemoryError
	if errors.As(err, &small) {
		if need := (small.Need+passMost-1)/passMost*ofShares + held; need > r.mem {
			if r.o.Mem > 0 {
				return &model.MemoryError{Need: need, Have: r.mem}
			}
			r.mem = need
		}
		r.budget, err = model.Plan(spec, w, small.Need)
	}
	if err != nil {
		return err
	}
	tokens := 0
	for i, ids := range r.chunks {
		if i == 0 || tokens+len(ids) > r.budget.Tokens {
			r.groups, tokens = append(r.groups, [2]int{i, i}), 0
		}
		r.groups[len(r.groups)-1][1] = i + 1
		tokens += len(ids)
	}
	n := len(r.parties) - 1
	r.flows, r.scores = make([][][]*flow, n), make([]*score, n)
	for c := range n {
		r.scores[c] = newScore(r.corpora)
		for l := range len(spec.Layers) + 1 {
			parts := []*flow{nil, nil, newFlow(spec.Width())} // of several streams, all channels of all of them
			if l > 0 {
				parts[0], parts[1] = newFlow(spec.Hidden), newFlow(spec.Hidden)
			}
			r.flows[c] = append(r.flows[c], parts)
		}
	}
	return nil
}
