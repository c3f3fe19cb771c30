package topology

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// moePattern is what a config says about which layers have routed experts.
type moePattern struct {
	stated bool
	listed map[int]bool // the MoE layers, where they are listed
	first  int          // no MoE layer before this one
	last   int          // nor after this one; -1: no bound
	every  int          // then one in so many
	phase  int          // layer i is one where (i+phase) is a multiple of every
	dense  map[int]bool // but not these
}

// MoELayer says whether a decoder layer has routed experts according to the
// config. It is not known where the config has no rule for it.
func (c *Config) MoELayer(i int) (moe, known bool) {
	p := &c.moe
	switch {
	case !p.stated:
		return false, false
	case p.listed != nil:
		return p.listed[i], true
	}
	return i >= p.first && (p.last < 0 || i <= p.last) && (i+p.phase)%p.every == 0 && !p.dense[i], true
}

// moePattern reads the rules in use: lists of layers (mlp_layer_types, Step's
// moe_layers_enum, llama4's moe_layers, MiMo's moe_layer_freq), DeepSeek's
// first_k_dense_replace, Qwen's mlp_only_layers and decoder_sparse_step, llama4's
// interleave_moe_layer_step and ERNIE's start, end and interval.
func (r *reader) moePattern() {
	p := &r.cfg.moe
	p.every, p.last = 1, -1
	if r.cfg.Experts == 0 {
		return
	}
	for _, key := range []string{"mlp_layer_types", "mlp_only_layers"} {
		if _, list := r.obj[key].([]any); r.has(key) && !list {
			r.unreadf("%s: %s is no list", key, brief(r.obj[key]))
		}
	}
	if types := listOf(r.obj["mlp_layer_types"]); len(types) > 0 {
		p.stated, p.listed = true, map[int]bool{}
		if len(types) == r.cfg.Layers {
			types = append(slices.Clip(types), listOf(r.obj["mtp_mlp_layer_types"])...)
		}
		for i, t := range types {
			if stringOf(t) != "dense" {
				p.listed[i] = true
			}
		}
		return
	}
	for _, key := range []string{"moe_layers_enum", "moe_layers"} {
		if r.layerList(key) {
			return
		}
	}
	if freq := listOf(r.obj["moe_layer_freq"]); len(freq) > 0 {
		p.stated, p.listed = true, map[int]bool{}
		for i, f := range freq {
			if n, err := countOf(f, 2); err == nil && n == 1 {
				p.listed[i] = true
			}
		}
		return
	}
	if r.has("first_k_dense_replace") {
		p.stated = true
		p.first = r.size(maxLayers, "first_k_dense_replace")
		p.every = max(1, r.size(maxLayers, "moe_layer_freq"))
		return
	}
	if r.has("decoder_sparse_step") || r.has("mlp_only_layers") {
		p.stated = true
		p.every, p.phase = max(1, r.size(maxLayers, "decoder_sparse_step")), 1
		p.dense = map[int]bool{}
		for _, v := range listOf(r.obj["mlp_only_layers"]) {
			n, err := countOf(v, maxLayers)
			if err != nil {
				r.unreadf("mlp_only_layers: %v", err)
				continue
			}
			p.dense[n] = true
		}
		return
	}
	if r.has("interleave_moe_layer_step") {
		p.stated = true
		p.every, p.phase = max(1, r.size(maxLayers, "interleave_moe_layer_step")), 1
		return
	}
	if r.has("moe_layer_start_index") {
		p.stated = true
		p.first = r.size(maxLayers, "moe_layer_start_index")
		if r.has("moe_layer_end_index") {
			p.last = r.size(maxLayers, "moe_layer_end_index")
		}
		p.every, p.phase = max(1, r.size(maxLayers, "moe_layer_interval")), 1
		return
	}
	r.moeOfFamily()
}

// moeOfFamily is what transformers takes where a config has none of these rules.
func (r *reader) moeOfFamily() {
	p := &r.cfg.moe
	switch r.cfg.family() {
	case "qwen3_5_moe", "deepseek_v4":
		p.stated = true
	case "gemma4", "gemma4_unified":
		p.stated, _ = r.obj["enable_moe_block"].(bool)
	case "step3p5":
		p.stated, p.first, p.last = true, 3, r.cfg.Layers-1 // MTP layers have none
	}
}

func (r *reader) has(key string) bool { return r.obj[key] != nil }

// layerList reads layers that are listed, as numbers or as one string "1,2,5".
func (r *reader) layerList(key string) bool {
	var layers []int
	switch v := r.obj[key].(type) {
	case string:
		for word := range strings.SplitSeq(v, ",") {
			n, ok := number(strings.TrimSpace(word), maxLayers)
			if !ok {
				r.unreadf("%s: %s is no list of layers", key, brief(v))
				return false
			}
			layers = append(layers, n)
		}
	case []any:
		for _, e := range v {
			n, err := countOf(e, maxLayers)
			if err != nil {
				r.unreadf("%s: %v", key, err)
				return false
			}
			layers = append(layers, n)
		}
	default:
		return false
	}
	p := &r.cfg.moe
	p.stated, p.listed = true, map[int]bool{}
	for _, n := range layers {
		p.listed[n] = true
	}
	return true
}

// quantization reads which tool quantized the checkpoint and how.
func (r *reader) quantization(root object) {
	c := r.cfg
	q, ok := root["quantization_config"].(object)
	if !ok {
		q, ok = r.obj["quantization_config"].(object)
	}
	if !ok {
		if q, ok = root["quantization"].(object); !ok { // MLX
			return
		}
		c.QuantMethod, c.QuantFormat = "mlx", stringOf(q["mode"])
	}
	if m := stringOf(q["quant_method"]); m != "" {
		c.QuantMethod = m
	}
	if c.QuantMethod == "" {
		c.QuantMethod = "not named"
	}
	for _, key := range []string{"quant_algo", "format", "fmt", "checkpoint_format", "bnb_4bit_quant_type"} {
		if f := stringOf(q[key]); f != "" && c.QuantFormat == "" {
			c.QuantFormat = f
		}
	}
	qr := &reader{cfg: c, obj: q}
	c.QuantBits = qr.size(65, "bits", "w_bit")
	c.QuantGroup = qr.group("group_size", "q_group_size")
	var bits, groups []int
	for _, g := range objectsOf(q["config_groups"]) {
		if w, ok := g["weights"].(object); ok {
			wr := &reader{cfg: c, obj: w}
			bits = append(bits, wr.size(65, "num_bits"))
			groups = append(groups, wr.group("group_size"))
		}
	}
	if c.QuantBits == 0 {
		c.QuantBits = common(bits)
	}
	if c.QuantGroup == 0 {
		c.QuantGroup = common(groups)
	}
}

// group reads a group's size. Minus one says that a row is one group, whose size
// the file does not say.
func (r *reader) group(keys ...string) int {
	sized := make([]string, 0, len(keys))
	for _, k := range keys {
		if num, ok := r.obj[k].(json.Number); !ok || num.String() != "-1" {
			sized = append(sized, k)
		}
	}
	return r.size(maxWidth, sized...)
}

// objectsOf are the objects among an object's values, in order of their keys.
func objectsOf(v any) []object {
	var out []object
	if o, ok := v.(object); ok {
		for _, key := range slices.Sorted(maps.Keys(o)) {
			if eo, ok := o[key].(object); ok {
				out = append(out, eo)
			}
		}
	}
	return out
}

// common is the value that all share, else 0.
func common(v []int) int {
	if len(v) == 0 || slices.Min(v) != slices.Max(v) {
		return 0
	}
	return v[0]
}
