package gguf

import (
	"fmt"
	"math"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Model is a GGUF file as a model: what its metadata amount to as a config.json,
// and its tensors under the names that checkpoints for transformers have, in
// their order of rows, with experts apart.
type Model struct {
	*File
	Config   []byte // config.json
	Weights  []Weight
	Topology *topology.Model // Tensors and Roles are parallel to Weights; dtypes are F32 where values are coded

	places map[topology.Role]int // index in Weights
}

// OpenModel opens a file, or all parts of one, as a model.
func OpenModel(path string) (*Model, error) { return OpenModelWith(path, Options{}) }

// OpenModelWith is OpenModel where more is known of the file than it says.
func OpenModelWith(path string, o Options) (*Model, error) {
	f, err := OpenWith(path, o)
	if err != nil {
		return nil, err
	}
	m, err := NewModel(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return m, nil
}

// NewModel takes an opened file for a model. An architecture, a key or a tensor
// that is not known is refused by its name.
func NewModel(f *File) (*Model, error) {
	c, a, geo, err := newConfig(f)
	if err != nil {
		return nil, err
	}
	m := &Model{File: f, places: map[topology.Role]int{}}
	if m.Config, err = c.JSON(); err != nil {
		return nil, &checkpoint.FileError{File: f.Path, Reason: "config", Err: err}
	}
	if err := m.weights(c, a, geo); err != nil {
		return nil, err
	}
	named := make([]topology.Named, len(m.Weights))
	for i := range m.Weights {
		named[i] = m.named(&m.Weights[i])
	}
	if m.Topology, err = topology.FromConfig(m.Config, named); err != nil {
		return nil, &checkpoint.FileError{File: f.Path, Reason: "topology", Err: err}
	}
	for i, r := range m.Topology.Roles {
		if r.Kind == topology.Unknown {
			return nil, &checkpoint.FileError{File: f.Path, Tensor: m.Stored(&m.Weights[i]), Reason: fmt.Sprintf("is taken for %s, which has no role", named[i].Name)}
		}
		m.places[r] = i
	}
	return m, nil
}

// Find is the weight with a role; its MTP field does not matter.
func (m *Model) Find(r topology.Role) (*Weight, bool) {
	for _, mtp := range []bool{false, true} {
		r.MTP = mtp
		if i, ok := m.places[r]; ok {
			return &m.Weights[i], true
		}
	}
	return nil, false
}

func (m *Model) named(w *Weight) topology.Named {
	n := topology.Named{Name: w.Name, DType: "F32", Shape: []int64{int64(w.Rows), int64(w.Cols)}}
	if types := m.Types(w); len(types) == 1 {
		switch t := types[0].String(); t {
		case "BF16", "F16":
			n.DType = t
		}
	}
	if w.Vector {
		n.Shape = n.Shape[1:]
	}
	return n
}

// geometry are the numbers by which tensors are taken apart.
type geometry struct {
	experts, heads, kvHeads int
	qkv                     func(layer int) [3]int // rows of queries, keys and values of one tensor; nil where heads say it
	delta                   *deltaGeometry         // nil without linear attention
	linear                  []bool                 // of each block
}

// weights lists what the file's tensors are.
func (m *Model) weights(c config, a *architecture, g *geometry) error {
	modelType, _ := c["model_type"].(string)
	layers, _ := c["num_hidden_layers"].(int)
	n := newNaming(a, modelType, layers)
	g.heads, _ = c["num_attention_heads"].(int)
	g.kvHeads, _ = c["num_key_value_heads"].(int)
	for _, key := range []string{"num_local_experts", "num_experts", "n_routed_experts"} {
		if e, ok := c[key].(int); ok {
			g.experts = e
		}
	}
	if g.experts > maxExperts {
		return &checkpoint.FileError{File: m.Path, Reason: fmt.Sprintf("%d experts", g.experts)}
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		layer, module, param := split(t.Name)
		if err := m.fits(t, n, module); err != nil {
			return err
		}
		if beside, err := m.beside(t, n, module, param); err != nil {
			return err
		} else if beside {
			continue
		}
		ws, err := m.of(n, i, layer, module, param, g)
		if err != nil {
			return err
		}
		for k := range ws {
			w := &ws[k]
			if h := n.pairs(module, k, g.heads, g.kvHeads); h > 0 {
				if err := m.pair(w, t, h); err != nil {
					return err
				}
			}
			if w.Vector && n.shifts(module, param) {
				w.Shift = -1
			}
			if err := m.scale(w, t, k, n); err != nil {
				return err
			}
			for p := range w.pieces {
				_, b := m.extent(w, &w.pieces[p])
				w.bytes += b
			}
		}
		m.Weights = append(m.Weights, ws...)
	}
	return nil
}

// fits refuses tensors whose sides or sizes no forward pass can take, and types that
// have no decoder: of integers, all but a table of experts.
func (m *Model) fits(t *Tensor, n naming, module string) error {
	if len(t.Shape) == 0 || t.Elements() == 0 {
		return m.fail(t, fmt.Sprintf("has shape %v", t.Shape))
	}
	if t.Elements() > math.MaxInt/8 {
		return m.fail(t, fmt.Sprintf("shape %v is too large", t.Shape))
	}
	if table := n.layer[module] != "" && module == "ffn_gate_tid2eid"; !t.Type.Decodes() && !(table && t.Type == kernels.GGUFI32) {
		return m.noDecoder(t)
	}
	return nil
}

// fail is an error about a tensor.
func (m *Model) fail(t *Tensor, reason string) error {
	return &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: reason}
}

// of are the weights that a tensor holds; none for one that was read as part of
// the config.
func (m *Model) of(n naming, i, layer int, module, param string, g *geometry) ([]Weight, error) {
	t := &m.Tensors[i]
	one := func(w Weight, err error) ([]Weight, error) { return []Weight{w}, err }
	switch {
	case n.scales[module] != "" && param == scaleParam:
		w, err := m.whole(n.in(layer, n.scales[module]), i)
		if of, ok := m.Lookup(strings.TrimSuffix(t.Name, scaleParam) + "weight"); ok && n.scalesWeight(of, module) {
			w.form = ones
		}
		return one(w, err)
	case param != "weight" && param != "bias" && module != "ssm_a":
		return nil, unknownTensor(m.File, t)
	case layer < 0 && t.Name == "rope_freqs.weight":
		return nil, nil
	case layer < 0:
		if name, ok := n.outer[module]; ok {
			return one(m.whole(withParam(name, param), i))
		}
		return nil, unknownTensor(m.File, t)
	case n.mtp != nil && strings.HasPrefix(module, "nextn."):
		for name, g := range n.mtp {
			if g == module && layer == n.main {
				return one(m.whole("mtp."+name+"."+param, i))
			}
		}
		return nil, unknownTensor(m.File, t)
	case module == "exp_probs_b":
		name := expertNames[n.kind].correction
		if name == "" {
			return nil, unknownTensor(m.File, t)
		}
		return one(m.whole(n.in(layer, name), i))
	case module == "exp_probs_b_vl" && n.root: // routes the tokens of images
		return nil, nil
	case module == "attn_k_b" && param == "weight":
		v, ok := m.byName[fmt.Sprintf("blk.%d.attn_v_b.weight", layer)]
		if !ok {
			return nil, m.fail(t, "stands without attn_v_b")
		}
		return one(m.join(n.in(layer, "self_attn.kv_b_proj.weight"), i, v))
	case module == "attn_v_b" && param == "weight":
		if _, ok := m.byName[fmt.Sprintf("blk.%d.attn_k_b.weight", layer)]; ok {
			return nil, nil
		}
		return nil, m.fail(t, "stands without attn_k_b")
	}
	if ws, known, err := m.deltaWeights(n, i, layer, module, param, g); known {
		return ws, err
	}
	switch module {
	case "attn_qkv":
		return m.splitQKV(i, layer, g, func(part string) string { return n.in(layer, fmt.Sprintf("self_attn.%s_proj.%s", part, param)) })
	case "ffn_gate_up_exps":
		return m.splitGateUp(i, g.experts, func(e int, part string) string { return n.expert(layer, e, part, param) })
	case "ffn_gate_inp_shexp": // one row, which some files have as a vector
		w, err := m.whole(n.in(layer, withParam(n.layer[module], param)), i)
		w.Vector = false
		if n.layer[module] == "" {
			return nil, unknownTensor(m.File, t)
		}
		return one(w, err)
	case "attn_compressor_ape", "indexer_compressor_ape", "ffn_gate_tid2eid":
		if name, ok := n.layer[module]; ok {
			return one(m.flat(n.in(layer, withParam(name, param)), i))
		}
	}
	if part, ok := routed[module]; ok {
		ws, err := m.stack(i, g.experts, func(e int) string { return n.expert(layer, e, part, param) })
		if _, beside := m.Lookup(strings.TrimSuffix(t.Name, "weight") + scaleParam); err == nil && n.scales[module] != "" && param == "weight" && !beside {
			ws = append(ws, Weight{Name: n.in(layer, n.scales[module]), Rows: 1, Cols: g.experts, Vector: true, form: ones, pieces: []piece{{tensor: i}}})
		}
		return ws, err
	}
	if part, e, ok := oldExpert(module); ok && e < g.experts {
		return one(m.whole(n.expert(layer, e, part, param), i))
	}
	if name, ok := n.layer[module]; ok {
		return one(m.whole(n.in(layer, withParam(name, param)), i))
	}
	return nil, unknownTensor(m.File, t)
}

// pair marks rows, or the values of a bias, as standing in pairs.
func (m *Model) pair(w *Weight, t *Tensor, heads int) error {
	n := w.Rows
	if w.Vector {
		n = w.Cols
	}
	if heads <= 0 || n%(2*heads) != 0 {
		return m.shape(t, fmt.Sprintf("%d heads of even width", heads))
	}
	w.pieces[0].heads = heads
	return nil
}
