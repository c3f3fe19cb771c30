package gguf

import (
	"fmt"
	"math"

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
	c, a, err := newConfig(f)
	if err != nil {
		return nil, err
	}
	m := &Model{File: f, places: map[topology.Role]int{}}
	if m.Config, err = c.JSON(); err != nil {
		return nil, &checkpoint.FileError{File: f.Path, Reason: "config", Err: err}
	}
	if err := m.weights(c, a); err != nil {
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

// weights lists what the file's tensors are.
func (m *Model) weights(c config, a *architecture) error {
	modelType, _ := c["model_type"].(string)
	n := newNaming(a, modelType)
	heads, _ := c["num_attention_heads"].(int)
	kvHeads, _ := c["num_key_value_heads"].(int)
	experts := 0
	for _, key := range []string{"num_local_experts", "num_experts", "n_routed_experts"} {
		if e, ok := c[key].(int); ok {
			experts = e
		}
	}
	if experts > maxExperts {
		return &checkpoint.FileError{File: m.Path, Reason: fmt.Sprintf("%d experts", experts)}
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if err := fits(m.File, t); err != nil {
			return err
		}
		layer, module, param := split(t.Name)
		if beside, err := m.beside(t, param); err != nil {
			return err
		} else if beside {
			continue
		}
		ws, err := m.of(n, i, layer, module, param, geometry{experts, heads, kvHeads})
		if err != nil {
			return err
		}
		for k := range ws {
			w := &ws[k]
			if h := n.pairs(module, k, heads, kvHeads); h > 0 {
				if err := m.pair(w, t, h); err != nil {
					return err
				}
			}
			if n.plusOne && w.Vector && param == "weight" {
				w.Shift = -1
			}
			if err := m.scale(w, t, k); err != nil {
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

// fits refuses tensors whose sides or sizes no forward pass can take.
func fits(f *File, t *Tensor) error {
	if len(t.Shape) == 0 || t.Elements() == 0 {
		return &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: fmt.Sprintf("has shape %v", t.Shape)}
	}
	if t.Elements() > math.MaxInt/8 {
		return &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: fmt.Sprintf("shape %v is too large", t.Shape)}
	}
	if !t.Type.Decodes() {
		return f.noDecoder(t)
	}
	return nil
}

// of are the weights that a tensor holds; none for one that was read as part of
// the config.
func (m *Model) of(n naming, i, layer int, module, param string, g geometry) ([]Weight, error) {
	t := &m.Tensors[i]
	one := func(name string) ([]Weight, error) {
		w, err := m.whole(name, i)
		return []Weight{w}, err
	}
	switch {
	case param != "weight" && param != "bias":
		return nil, unknownTensor(m.File, t)
	case layer < 0 && t.Name == "rope_freqs.weight":
		return nil, nil
	case layer < 0:
		if name, ok := outside[module]; ok {
			return one(name + "." + param)
		}
		return nil, unknownTensor(m.File, t)
	case module == "exp_probs_b":
		return one(fmt.Sprintf("model.layers.%d.%s.e_score_correction_bias", layer, n.router))
	case module == "attn_k_b" && param == "weight":
		v, ok := m.byName[fmt.Sprintf("blk.%d.attn_v_b.weight", layer)]
		if !ok {
			return nil, &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: "stands without attn_v_b"}
		}
		w, err := m.join(fmt.Sprintf("model.layers.%d.self_attn.kv_b_proj.weight", layer), i, v)
		return []Weight{w}, err
	case module == "attn_v_b" && param == "weight":
		if _, ok := m.byName[fmt.Sprintf("blk.%d.attn_k_b.weight", layer)]; ok {
			return nil, nil
		}
		return nil, &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: "stands without attn_k_b"}
	}
	switch module {
	case "attn_qkv":
		return m.splitQKV(i, g, func(part string) string {
			return fmt.Sprintf("model.layers.%d.self_attn.%s_proj.%s", layer, part, param)
		})
	case "ffn_gate_up_exps":
		return m.splitGateUp(i, g.experts, func(e int, part string) string { return n.expert(layer, e, part, param) })
	}
	if part, ok := routed[module]; ok {
		return m.stack(i, g.experts, func(e int) string { return n.expert(layer, e, part, param) })
	}
	if part, e, ok := oldExpert(module); ok && e < g.experts {
		return one(n.expert(layer, e, part, param))
	}
	if name, ok := n.layer[module]; ok {
		if module == "attn_sinks" { // the checkpoint's name has no parameter
			return one(fmt.Sprintf("model.layers.%d.%s", layer, name))
		}
		return one(fmt.Sprintf("model.layers.%d.%s.%s", layer, name, param))
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
