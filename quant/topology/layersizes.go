package topology

import (
	"maps"
	"slices"
)

// heads are the sizes of attention that layers of some kind have of their own; 0
// is not given.
type heads struct{ q, kv, dim int }

// over puts what is given over other sizes.
func (h heads) over(o heads) heads {
	if h.q > 0 {
		o.q = h.q
	}
	if h.kv > 0 {
		o.kv = h.kv
	}
	if h.dim > 0 {
		o.dim = h.dim
	}
	return o
}

// gemma4GlobalHeadDim is what transformers takes for head_dim in layers with full
// attention where a config of gemma4 says nothing of them.
const gemma4GlobalHeadDim = 512

// AttentionSizes are the number of heads of queries, of keys and values, and the
// width of each in a layer: those of the whole model, but for what the config gives
// to a layer (per_layer_config) or to layers of a type (gemma4's global_head_dim
// and num_global_key_value_heads, Step's attention_other_setting).
func (c *Config) AttentionSizes(layer int) (queries, keys, dim int) {
	all := heads{c.Heads, c.KVHeads, c.HeadDim}
	if own, ok := c.layerHeads[layer]; ok {
		all = own.over(all)
	} else {
		all = c.typeHeads[c.LayerType(layer)].over(all)
	}
	return all.q, all.kv, all.dim
}

// LinearSizes are those of layers with linear attention, as qwen3_next names them.
type LinearSizes struct {
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int // of a head
	Taps                 int // tokens that the convolution sees
}

// Keys is the width of all keys, and of all queries.
func (l LinearSizes) Keys() int { return l.KeyHeads * l.KeyDim }

// Values is the width of all values, and of the gate on them.
func (l LinearSizes) Values() int { return l.ValueHeads * l.ValueDim }

// Known says whether the config gives all of them.
func (l LinearSizes) Known() bool {
	return min(l.KeyHeads, l.ValueHeads, l.KeyDim, l.ValueDim, l.Taps) > 0
}

// layerSizes reads what layers have of their own.
func (r *reader) layerSizes() {
	c := r.cfg
	c.Linear = LinearSizes{
		KeyHeads: r.size(maxHeads, "linear_num_key_heads"), ValueHeads: r.size(maxHeads, "linear_num_value_heads"),
		KeyDim: r.size(maxHeads, "linear_key_head_dim"), ValueDim: r.size(maxHeads, "linear_value_head_dim"),
		Taps: r.size(maxHeads, "linear_conv_kernel_dim"),
	}
	c.IndexHeads, c.IndexDim = r.size(maxHeads, "index_n_heads"), r.size(maxWidth, "index_head_dim")
	c.typeHeads = map[string]heads{}
	if n := r.size(maxWidth, "num_sliding_attention_heads"); n > 0 {
		c.typeHeads[SlidingAttention] = heads{q: n}
	}
	if other, ok := r.obj["attention_other_setting"].(object); ok {
		t := stringOf(other["attention_type"])
		if t == "" {
			t = SlidingAttention
		}
		c.typeHeads[t] = r.headsOf(other)
	}
	if f := c.family(); f == "gemma4" || f == "gemma4_unified" {
		global := heads{dim: r.size(maxWidth, "global_head_dim")}
		if global.dim == 0 && !r.has("per_layer_config") && c.Heads > 0 {
			global.dim = gemma4GlobalHeadDim
		}
		if equal, ok := r.obj["attention_k_eq_v"].(bool); !ok || equal {
			global.kv = r.size(maxWidth, "num_global_key_value_heads")
		}
		c.typeHeads[FullAttention] = global
	}
	own, ok := r.obj["per_layer_config"].(object)
	if !ok {
		if r.has("per_layer_config") {
			r.unreadf("per_layer_config: %s is no object", brief(r.obj["per_layer_config"]))
		}
		return
	}
	c.layerHeads = map[int]heads{}
	for _, key := range slices.Sorted(maps.Keys(own)) {
		layer, isLayer := number(key, maxLayers)
		sizes, isObject := own[key].(object)
		if !isLayer || !isObject || c.Layers > 0 && layer >= c.Layers {
			r.unreadf("per_layer_config: %q with %s says nothing of one of %s", key, brief(own[key]), counted(c.Layers, "layer"))
			continue
		}
		c.layerHeads[layer] = r.headsOf(sizes)
	}
}

// maxHeads bounds numbers of heads and what multiplies them, so that the product of
// three and an element's size fits.
const maxHeads = 1 << 18

// headsOf reads the sizes of attention in an object of their own.
func (r *reader) headsOf(obj object) heads {
	of := &reader{cfg: r.cfg, obj: obj}
	return heads{
		q: of.size(maxWidth, "num_attention_heads"), kv: of.size(maxWidth, "num_key_value_heads", "num_attention_groups"), dim: of.size(maxWidth, "head_dim"),
	}
}
