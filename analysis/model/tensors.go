package model

import "quantscope/quant/topology"

// Tensor is a tensor that a layer's arithmetic reads: the one list of them, which the
// reading of weights, plans of memory and whoever asks what a layer needs go by.
type Tensor struct {
	At    Place
	Param string // weight; another parameter of the place
	Rows  int    // outputs of a linear map; 0 of a vector
	Cols  int    // its inputs; values of a vector
	// Input names what a linear map reads by the first map in the layer that reads the
	// same: q for k and v, the router for gate and up of every expert and of the shared
	// one.
	Input Place
	// Told is the place of the first map that is told as reading Input.
	Told Place
	// Heads says how rows fall into heads of Width rows each, of which the first Rotary
	// are turned; 0 where they do not. Of a map of o's kind it is the columns that do.
	Heads, Width, Rotary int
	// Table is looked up by token, and is no linear map.
	Table bool
	// Mixes says that it makes coefficients of residual streams: in f32 in every peer
	// and never quantized. Its input is not told.
	Mixes bool
	// Times is how many inputs of its columns are told of each token, one after the
	// other, where a map is applied to parts of what it reads: a group of its outputs to
	// each part, or all of them to each stream. 0 is one.
	Times int
}

// Linear says whether it is a linear map whose input is told.
func (t *Tensor) Linear() bool { return t.Rows > 0 && !t.Table && !t.Mixes }

// tensors gathers them.
type tensors struct {
	spec *Spec
	l    *Layer
	list []Tensor
	told map[Place]Place // by input
}

// Tensors are those of a layer, in the order in which a text meets linear maps;
// routed experts one after the other. Biases, which linear maps have where they are
// stored, are not among them, nor is an MTP layer's own head.
func (l *Layer) Tensors(s *Spec) []Tensor {
	t := &tensors{spec: s, l: l, told: map[Place]Place{}}
	h := s.Hidden
	if l.MTP {
		entryTensors(t)
	}
	for _, n := range []string{l.In, l.PostAttn, l.PreMLP, l.PostMLP} {
		if n != "" {
			t.vector(normAt(l, n), "weight", h)
		}
	}
	if n := s.mixed(); s.Hyper != nil {
		for _, name := range partNames {
			t.mixes(l.Index, name, n, 3)
		}
	}
	l.mixer().tensors(t)
	l.mlpTensors(t)
	perLayerTensors(t)
	if l.Scalar {
		t.vector(mixingAt(l, "layer_scalar"), "weight", 1)
	}
	return t.list
}

// Tensors are those that the pass reads beside the layers: the embedding, the final
// norm, the head where it is not the embedding.
func (s *Spec) Tensors() []Tensor {
	t := &tensors{spec: s, l: &Layer{Index: -1}, told: map[Place]Place{}}
	embedding := Place{Kind: topology.Embedding, Layer: -1, Expert: -1}
	t.list = append(t.list, Tensor{At: embedding, Param: "weight", Rows: s.Vocab, Cols: s.Hidden, Table: true})
	perLayerOuter(t)
	if s.Hyper != nil {
		t.mixes(-1, "hc_head", s.Streams, 1)
	}
	t.vector(finalNormAt, "weight", s.Hidden)
	if !s.Tied {
		t.matrix(Place{Kind: topology.Head, Layer: -1, Expert: -1}, s.Vocab, s.Hidden)
	}
	return t.list
}

// mlpTensors are those behind the mixer.
func (l *Layer) mlpTensors(t *tensors) {
	m := l.MoE
	if m == nil || l.Beside != nil {
		t.gated(l.MLP.Inner, func(p string) Place { return l.mlp(topology.MLP, p) })
	}
	if m == nil {
		return
	}
	if n := l.Beside; n != nil {
		for _, name := range []string{n.PostMLP, n.Pre, n.Post} {
			t.vector(normAt(l, name), "weight", t.spec.Hidden)
		}
	}
	t.matrix(router(l), m.Experts, t.spec.Hidden)
	if m.OwnNorm {
		t.vector(router(l), "scale", t.spec.Hidden)
	}
	if m.ExpertScale {
		t.vector(router(l), "per_expert_scale", m.Experts)
	}
	if m.Correction != "" {
		t.vector(router(l), m.Correction, m.Experts)
	}
	if m.ByToken {
		t.vector(router(l), tokenExperts, t.spec.Vocab*m.TopK)
	}
	for e := range m.Experts {
		t.gated(m.Inner, func(p string) Place { return expert(l, e, p) })
	}
	if m.Shared > 0 {
		t.gated(m.Shared, func(p string) Place { return l.mlp(topology.SharedExpert, p) })
		if m.SharedGate {
			t.matrix(sharedGate(l), 1, t.spec.Hidden)
		}
	}
}

// matrix is a linear map of the layer.
func (t *tensors) matrix(at Place, rows, cols int) *Tensor {
	in := InputOf(at, t.l.Behind())
	if _, ok := t.told[in]; !ok {
		if t.told[in] = at; in == ExpertsInput(t.l.Index) {
			t.told[in] = in
		}
	}
	t.list = append(t.list, Tensor{At: at, Param: "weight", Rows: rows, Cols: cols, Input: in, Told: t.told[in]})
	return &t.list[len(t.list)-1]
}

// heads is matrix for rows that fall into heads.
func (t *tensors) heads(at Place, heads, width, rotary, cols int) {
	m := t.matrix(at, heads*width, cols)
	m.Heads, m.Width, m.Rotary = heads, width, rotary
}

// vector is a tensor of n values.
func (t *tensors) vector(at Place, param string, n int) {
	t.list = append(t.list, Tensor{At: at, Param: param, Cols: n})
}

func (t *tensors) gated(inner int, place func(string) Place) {
	t.matrix(place("gate"), inner, t.spec.Hidden)
	t.matrix(place("up"), inner, t.spec.Hidden)
	t.matrix(place("down"), t.spec.Hidden, inner)
}

// readsAsQ are projections of a mixer that read the normed states of its layer, as q
// does, by which that input is named.
var readsAsQ = map[string]bool{"k": true, "v": true, "qkv": true, "q_a": true, "kv_a": true, "qkv_a": true, "g": true,
	"qkvz": true, "ba": true, "z": true, "b": true, "a": true,
	"kv": true, "compressor.kv": true, "compressor.gate": true, "indexer.weights": true, "indexer.compressor.kv": true, "indexer.compressor.gate": true}

// InputOf is the input that a linear map reads, named by one place: q, k and v
// share one, which is called q's, and so do other projections of the normed states
// into a mixer, in low-rank attention q_a (or q) and kv_a; and so do gate and up,
// which is called gate's. In a layer of experts the router stands for all that read the
// normed states: gate and up of every expert, over all tokens, and of the shared
// expert, and the shared expert's gate. Every other map has its own: o, q_b, kv_b, and
// down, of an expert over the tokens routed to it.
//
// b says what the layer has. In a layer of experts alone, what stands as its MLP is
// taken for the shared expert; where an MLP stands beside the experts it has an input
// of its own, and so have the router and all experts together, see ExpertsInput.
func InputOf(p Place, b Behind) Place {
	switch p.Kind {
	case topology.Attention:
		if readsAsQ[p.Projection] {
			p.Projection = "q"
		} else if p.Projection == "indexer.q_b" {
			p.Projection = "q_b"
		}
	case topology.MLP, topology.SharedExpert, topology.Expert:
		switch p.Projection {
		case "gate", "up", "gate_up":
			switch {
			case b == BehindBoth && p.Kind == topology.Expert:
				return ExpertsInput(p.Layer)
			case b == BehindExperts || p.Kind != topology.MLP:
				return Place{Kind: topology.Router, Layer: p.Layer, Expert: -1}
			}
			p.Projection = "gate"
		}
	case topology.Router:
		p.Projection = ""
	}
	return p
}

// Behind is what a layer has behind its mixer.
type Behind uint8

// Kinds of layers by what is behind the mixer.
const (
	BehindMLP     Behind = iota
	BehindExperts        // experts, which read what the router and a shared expert read
	BehindBoth           // an MLP, a router and experts, each with an input of its own
)

// Behind is what the layer has.
func (l *Layer) Behind() Behind {
	switch {
	case l.Beside != nil:
		return BehindBoth
	case l.MoE != nil:
		return BehindExperts
	}
	return BehindMLP
}
