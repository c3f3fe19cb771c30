package model

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// random is a Source of random bf16 weights for any Spec: the same seed and
// place, the same weights. With seeds of their own, layers differ from those of
// another source.
type random struct {
	spec  *Spec
	seed  uint64
	seeds map[int]uint64 // by layer, where it is another

	shared *randomShared
	lent   [][]byte // what was given since the last Release
}

type randomShared struct {
	mu         sync.Mutex
	kept       map[string][]byte // where weights are made once
	reads      map[Place]int
	tensors    map[vectorAt]Tensor // of the spec
	live, peak atomic.Int64
}

func newRandom(spec *Spec, seed uint64) *random {
	return &random{spec: spec, seed: seed, shared: &randomShared{reads: map[Place]int{}}}
}

// keep makes every weight once, so that a benchmark does not measure how.
func (s *random) keep() *random { s.shared.kept = map[string][]byte{}; return s }

// with is the same source with other weights in one layer.
func (s *random) with(layer int, seed uint64) *random {
	c := newRandom(s.spec, s.seed)
	c.seeds = maps.Clone(s.seeds)
	if c.seeds == nil {
		c.seeds = map[int]uint64{}
	}
	c.seeds[layer] = seed
	return c
}

func (s *random) Fork() Source {
	return &random{spec: s.spec, seed: s.seed, seeds: s.seeds, shared: s.shared}
}

// Release makes NaN of what it gave, so that a use after it is seen.
func (s *random) Release() {
	for _, data := range s.lent {
		s.shared.live.Add(-int64(len(data)))
		for i := 0; i < len(data) && s.shared.kept == nil; i++ {
			data[i] = 0xff
		}
	}
	s.lent = s.lent[:0]
}

func (s *random) of(layer int) uint64 {
	if v, ok := s.seeds[layer]; ok {
		return v
	}
	return s.seed
}

func (s *random) LayerOrigin(layer int) any { return fmt.Sprint(s.of(layer), " ", layer) }
func (s *random) WeightOrigin(p Place) any  { return fmt.Sprint(s.of(p.Layer), " ", p) }
func (s *random) rng(p Place) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", p)
	return rand.New(rand.NewPCG(s.of(p.Layer), h.Sum64()))
}

// tensor is what the spec says of a place.
func (s *random) tensor(p Place, param string) Tensor {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if s.shared.tensors == nil {
		s.shared.tensors = map[vectorAt]Tensor{}
		note := func(list []Tensor) {
			for _, t := range list {
				s.shared.tensors[vectorAt{t.At, t.Param}] = t
			}
		}
		note(s.spec.Tensors())
		for _, layers := range [][]Layer{s.spec.Layers, s.spec.MTP} {
			for i := range layers {
				note(layers[i].Tensors(s.spec))
			}
		}
	}
	t, ok := s.shared.tensors[vectorAt{p, param}]
	if !ok {
		panic("no such tensor: " + p.String() + " " + param)
	}
	return t
}

func (s *random) Weight(_ context.Context, p Place) (Weight, error) {
	t := s.tensor(p, "weight")
	rows, cols := t.Rows, t.Cols
	data := s.data(p, rows, cols)
	s.lent = append(s.lent, data)
	live := s.shared.live.Add(int64(len(data)))
	for {
		peak := s.shared.peak.Load()
		if live <= peak || s.shared.peak.CompareAndSwap(peak, live) {
			break
		}
	}
	s.shared.mu.Lock()
	s.shared.reads[p]++
	s.shared.mu.Unlock()
	return Weight{Rows: rows, Cols: cols, Operand: kernels.StoredOperand(kernels.Matrix{Element: kernels.BF16, Rows: rows, Cols: cols, Data: data})}, nil
}

func (s *random) data(p Place, rows, cols int) []byte {
	key := fmt.Sprint(s.of(p.Layer), p)
	s.shared.mu.Lock()
	data := s.shared.kept[key]
	s.shared.mu.Unlock()
	if data != nil {
		return data
	}
	data = make([]byte, 2*rows*cols)
	rng, width := s.rng(p), float32(math.Sqrt(3/float64(cols))/(1<<15)) // uniform, of variance 1/cols
	var bits uint64
	for i := range rows * cols {
		if i%4 == 0 {
			bits = rng.Uint64()
		}
		binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(float32(int16(bits))*width)>>16))
		bits >>= 16
	}
	if s.shared.kept != nil {
		s.shared.mu.Lock()
		s.shared.kept[key] = data
		s.shared.mu.Unlock()
	}
	return data
}

func (s *random) Vector(_ context.Context, p Place, param string) ([]float32, error) {
	n := s.tensor(p, param).Cols
	v, rng := make([]float32, n), s.rng(p)
	for i := range v {
		v[i] = float32(1 + 0.1*rng.NormFloat64())
	}
	return v, nil
}

func (s *random) Rows(_ context.Context, p Place, rows []int32, dst []float32) error {
	h := s.tensor(p, "weight").Cols
	table := uint64(len(p.Projection)) << 32
	for k, row := range rows {
		rng := rand.New(rand.NewPCG(s.of(-1), table|uint64(row)))
		for i := range h {
			dst[k*h+i] = float32(rng.NormFloat64())
		}
	}
	return nil
}

func (s *random) Has(p Place, param string) bool {
	return param == "weight" && p.Kind != topology.Head && p.Projection != "shared_head.head" && (p.Kind != topology.Embedding || p.Layer < 0)
}

// llamaSpec is a dense model.
func llamaSpec(layers, hidden, heads, kvHeads, dim, inner, vocab int) *Spec {
	s := &Spec{Family: "llama", Hidden: hidden, Vocab: vocab, MaxPositions: 8192, Norm: Norm{Eps: 1e-5}, EmbedScale: 1, Tied: true}
	for i := range layers {
		s.Layers = append(s.Layers, Layer{
			Index: i, In: inputNorm, PreMLP: postAttnNorm, Norm: s.Norm, MLP: FeedForward{Inner: inner},
			Attn: Attention{
				Heads: heads, KVHeads: kvHeads, Dim: dim, VDim: dim, Scale: float32(1 / math.Sqrt(float64(dim))),
				Rope: Rope{Dim: dim, Theta: 10000, Attention: 1},
			},
		})
	}
	return s
}

// moeSpec is llamaSpec with experts in all layers but the first.
func moeSpec(layers, hidden, heads, kvHeads, dim, inner, experts, topK, vocab int) *Spec {
	s := llamaSpec(layers, hidden, heads, kvHeads, dim, inner, vocab)
	for i := range s.Layers[1:] {
		s.Layers[i+1].MoE = &MoE{
			FeedForward: FeedForward{Inner: inner}, Experts: experts, TopK: topK, Scores: SigmoidScores, Correction: "e_score_correction_bias",
			Groups: 1, TopGroups: 1, Normalize: true, Scaling: 1, Shared: inner,
		}
	}
	return s
}

// lendingSpec is llamaSpec with experts beside the MLP, embeddings of the layers' own and
// keys and values that the last two layers borrow of the two before them.
func lendingSpec(layers, hidden, heads, kvHeads, dim, inner, vocab, own int) *Spec {
	s := llamaSpec(layers, hidden, heads, kvHeads, dim, inner, vocab)
	s.PerLayer = &PerLayer{Dim: own, Vocab: vocab, Act: GELUTanh}
	for i := range s.Layers {
		l := &s.Layers[i]
		l.Beside, l.Scalar = &Beside{"post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"}, true
		l.MoE = &MoE{FeedForward: FeedForward{Inner: inner / 2}, Experts: 6, TopK: 2, Groups: 1, TopGroups: 1, Normalize: true, Scaling: 1, OwnNorm: true, ExpertScale: true}
		switch a := &l.Attn; {
		case i >= layers-2:
			a.Borrows, a.Lender = true, i-2
		case i >= layers-4:
			a.LendsTo = i + 2
		}
	}
	return s
}

// smolLM2 has the shape of SmolLM2-135M.
func smolLM2() *Spec { return llamaSpec(30, 576, 9, 3, 64, 1536, 49152) }

// texts are chunks of random tokens.
func texts(spec *Spec, seed uint64, lengths ...int) [][]int32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	var chunks [][]int32
	for _, n := range lengths {
		c := make([]int32, n)
		for i := range c {
			c[i] = rng.Int32N(int32(spec.Vocab))
		}
		chunks = append(chunks, c)
	}
	return chunks
}
