package gguf

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// deltaNames are the tensors of Qwen3-Next and Qwen3.5, whose layers have linear
// attention by the gated delta rule or plain attention.
var deltaNames = map[string]string{
	"post_attention_norm": "post_attention_layernorm",
	"ssm_in":              "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba",
	"attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z", "ssm_alpha": "linear_attn.in_proj_a", "ssm_beta": "linear_attn.in_proj_b",
	"ssm_conv1d": "linear_attn.conv1d", "ssm_a": "linear_attn.A_log", "ssm_dt": "linear_attn.dt_bias", "ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj",
	"ffn_gate_inp_shexp": "mlp.shared_expert_gate",
	"ffn_gate_shexp":     "mlp.shared_expert.gate_proj", "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj",
}

// deltaMTP are the tensors of checkpoints beside the MTP layer.
var deltaMTP = map[string]string{
	"fc": "nextn.eh_proj", "pre_fc_norm_embedding": "nextn.enorm", "pre_fc_norm_hidden": "nextn.hnorm", "norm": "nextn.shared_head_norm",
}

func isDelta(arch string) bool {
	a, ok := architectures[arch]
	return ok && a.mtp != nil
}

// Delta are the sizes of linear attention.
type Delta struct {
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int // of a head
}

// QK is the number of rows of all queries and all keys, V that of all values.
func (d Delta) QK() int { return 2 * d.KeyHeads * d.KeyDim }

// V is the number of rows of all values.
func (d Delta) V() int { return d.ValueHeads * d.ValueDim }

// tiles is the order of value heads behind so many rows, each with width rows.
func (d Delta) tiles(first, width int) *tiles {
	return &tiles{first: first, keys: d.KeyHeads, per: d.ValueHeads / d.KeyHeads, width: width}
}

// Order is where row, column or value r of a weight of linear attention stands in
// files of the architectures that keep value heads in turns; ok is false for modules
// that have none. module is as checkpoints call it, taps the width of the convolution.
func (d Delta) Order(module string, taps int) (stored func(r int) int, ok bool) {
	t := d.order(module, taps)
	if t == nil {
		return nil, false
	}
	return t.stored, true
}

// ratio is a/b as the shortest decimal.
func ratio(a, b int) string {
	return strconv.FormatFloat(float64(a)/float64(max(b, 1)), 'g', -1, 64)
}

func (d Delta) order(module string, taps int) *tiles {
	switch module {
	case "linear_attn.in_proj_qkv":
		return d.tiles(d.QK(), d.ValueDim)
	case "linear_attn.in_proj_z", "linear_attn.out_proj":
		return d.tiles(0, d.ValueDim)
	case "linear_attn.in_proj_a", "linear_attn.in_proj_b", "linear_attn.A_log", "linear_attn.dt_bias":
		return d.tiles(0, 1)
	case "linear_attn.conv1d":
		return d.tiles(d.QK()*taps, d.ValueDim*taps)
	}
	return nil
}

// deltaGeometry is what is needed to take the tensors of linear attention apart.
type deltaGeometry struct {
	Delta
	taps   int
	tiled  bool // value heads stand in turns
	joined bool // the checkpoint has one tensor of queries, keys, values and gates
}

// deltaConfig reads what the three architectures have in common.
func deltaConfig(m *metadata, c config) {
	c["hidden_act"], c["attention_bias"] = "silu", false
	d := Delta{KeyHeads: m.need("ssm.group_count"), ValueHeads: m.need("ssm.time_step_rank"), KeyDim: m.need("ssm.state_size")}
	inner, taps := m.need("ssm.inner_size"), m.need("ssm.conv_kernel")
	d.ValueDim = inner / d.ValueHeads
	switch {
	case inner%d.ValueHeads != 0 || inner > maxCount>>4:
		m.broken("%s.ssm.inner_size is %d of %d value heads", m.arch, inner, d.ValueHeads)
	case d.ValueHeads%d.KeyHeads != 0 || d.ValueHeads > maxExperts:
		m.broken("%s.ssm.time_step_rank, the number of value heads, is %d, and no multiple of %d key heads", m.arch, d.ValueHeads, d.KeyHeads)
	case d.KeyDim > maxExperts || taps > maxBlocks:
		m.broken("%s.ssm.state_size is %d and conv_kernel %d", m.arch, d.KeyDim, taps)
	}
	c["linear_num_key_heads"], c["linear_num_value_heads"] = d.KeyHeads, d.ValueHeads
	c["linear_key_head_dim"], c["linear_value_head_dim"], c["linear_conv_kernel_dim"] = d.KeyDim, d.ValueDim, taps
	m.geo.delta = &deltaGeometry{Delta: d, taps: taps}

	blocks := m.blocks()
	next := m.count("nextn_predict_layers", 0)
	if next >= blocks {
		m.broken("%s.nextn_predict_layers is %d of %d blocks", m.arch, next, blocks)
		next = 0
	}
	layers := blocks - next
	c["num_hidden_layers"], c["mtp_num_hidden_layers"] = layers, next
	interval := m.count("full_attention_interval", 4)
	linear := m.flags("attention.recurrent_layers", blocks, func(i int) bool { return i < layers && interval > 0 && (i+1)%interval != 0 })
	types := make([]string, layers)
	for i := range types {
		if types[i] = "full_attention"; linear[i] {
			types[i] = "linear_attention"
		}
	}
	for i := layers; i < blocks; i++ {
		if linear[i] {
			m.refuse("%s.attention.recurrent_layers: block %d is an MTP layer with linear attention", m.arch, i)
		}
	}
	c["layer_types"] = types
	m.geo.linear = linear
	heads, kv, dim := m.need("attention.head_count"), m.count("attention.head_count_kv", 1), m.need("attention.key_length")
	m.geo.qkv = func(int) [3]int { return [3]int{2 * heads * dim, kv * dim, kv * dim} }

	rope := map[string]any{"rope_type": "default"}
	if s, ok := c["rope_scaling"].(map[string]any); ok {
		rope = s
	}
	rope["rope_theta"] = c["rope_theta"]
	partial, ok := c["partial_rotary_factor"].(json.Number)
	if !ok {
		partial = "1"
	}
	rope["partial_rotary_factor"] = partial
	if s := m.counts("rope.dimension_sections", 4, nil); s != nil {
		if s[3] != 0 {
			m.refuse("%s.rope.dimension_sections is %v", m.arch, s)
		}
		rope["mrope_interleaved"], rope["mrope_section"] = true, s[:3]
	}
	delete(c, "rope_scaling")
	delete(c, "rope_theta")
	delete(c, "partial_rotary_factor")
	c["rope_parameters"] = rope
}

// deltaExperts: every layer has experts and one shared expert behind a gate.
func deltaExperts(m *metadata, c config) {
	c["num_experts"], c["num_experts_per_tok"], c["norm_topk_prob"] = m.need("expert_count"), m.need("expert_used_count"), true
	inner := m.count("feed_forward_length", 0)
	c["moe_intermediate_size"] = m.count("expert_feed_forward_length", inner/m.need("expert_used_count"))
	c["shared_expert_intermediate_size"] = m.count("expert_shared_feed_forward_length", inner)
	if inner > 0 {
		c["intermediate_size"] = inner
	}
	m.gating(softmax)
	m.weights(true, 1)
}

func qwen3NextConfig(m *metadata, c config) {
	deltaConfig(m, c)
	deltaExperts(m, c)
	m.geo.delta.joined = true
	c["model_type"], c["decoder_sparse_step"], c["mlp_only_layers"] = "qwen3_next", 1, []any{}
}

func qwen35Config(m *metadata, c config) {
	deltaConfig(m, c)
	m.geo.delta.tiled = true
	c["model_type"], c["intermediate_size"] = "qwen3_5_text", m.need("feed_forward_length")
}

func qwen35MoEConfig(m *metadata, c config) {
	deltaConfig(m, c)
	deltaExperts(m, c)
	m.geo.delta.tiled = true
	c["model_type"] = "qwen3_5_moe_text"
}

// deltaWeights are the weights of tensors of a layer with linear attention; known is
// false for a tensor that has nothing special.
func (m *Model) deltaWeights(n naming, i, layer int, module, param string, g *geometry) (ws []Weight, known bool, err error) {
	d, t := g.delta, &m.Tensors[i]
	if d == nil || layer >= len(g.linear) || !g.linear[layer] {
		return nil, false, nil
	}
	name, ok := n.layer[module]
	if !ok {
		return nil, false, nil
	}
	full := n.in(layer, withParam(name, param))
	switch {
	case d.joined && module == "attn_qkv":
		gate, ok := m.byName[fmt.Sprintf("blk.%d.attn_gate.weight", layer)]
		if !ok {
			return nil, true, m.fail(t, "stands without attn_gate")
		}
		w, err := m.joinQKVZ(n.in(layer, "linear_attn.in_proj_qkvz.weight"), i, gate, d.Delta)
		return []Weight{w}, true, err
	case d.joined && module == "attn_gate":
		if _, ok := m.byName[fmt.Sprintf("blk.%d.attn_qkv.weight", layer)]; !ok {
			return nil, true, m.fail(t, "stands without attn_qkv")
		}
		return nil, true, nil
	}
	var w Weight
	switch module {
	case "ssm_conv1d":
		if len(t.Shape) != 2 || t.Shape[0] != int64(d.QK()+d.V()) || t.Shape[1] != int64(d.taps) {
			return nil, true, m.shape(t, fmt.Sprintf("[%d, %d]", d.QK()+d.V(), d.taps))
		}
		w, err = m.flat(full, i)
	case "attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta", "ssm_out", "ssm_a", "ssm_dt":
		w, err = m.whole(full, i)
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	if module == "ssm_a" {
		w.form = decay
	}
	if !d.tiled || d.KeyHeads == d.ValueHeads {
		return []Weight{w}, true, nil
	}
	tiles, p := d.order(name, d.taps), &w.pieces[0]
	have := w.Rows
	switch {
	case module == "ssm_out":
		p.colTiles, have = tiles, w.Cols
	case w.Vector:
		p.rowTiles, have = tiles, w.Cols
	default:
		p.rowTiles = tiles
	}
	if tiles == nil || have != tiles.all() || w.Vector != (module == "ssm_a" || module == "ssm_dt" || module == "ssm_conv1d") {
		return nil, true, m.shape(t, "the value heads that the metadata state, "+strconv.Itoa(d.ValueHeads)+" of "+strconv.Itoa(d.ValueDim)+",")
	}
	return []Weight{w}, true, nil
}

// joinQKVZ makes one matrix of two: of each key head its rows of queries, keys, values
// and gates.
func (m *Model) joinQKVZ(name string, qkv, gate int, d Delta) (Weight, error) {
	tq, tg := &m.Tensors[qkv], &m.Tensors[gate]
	if len(tq.Shape) != 2 || tq.Shape[0] != int64(d.QK()+d.V()) {
		return Weight{}, m.shape(tq, fmt.Sprintf("[%d, ?]", d.QK()+d.V()))
	}
	if len(tg.Shape) != 2 || tg.Shape[0] != int64(d.V()) || tg.Shape[1] != tq.Shape[1] {
		return Weight{}, m.shape(tg, fmt.Sprintf("[%d, %d]", d.V(), tq.Shape[1]))
	}
	w := Weight{Name: name, Rows: d.QK() + 2*d.V(), Cols: int(tq.Shape[1]), grouped: true}
	values := d.V() / d.KeyHeads
	for h := range d.KeyHeads {
		w.pieces = append(w.pieces,
			piece{tensor: qkv, first: int64(h * d.KeyDim), rows: d.KeyDim},
			piece{tensor: qkv, first: int64((d.KeyHeads + h) * d.KeyDim), rows: d.KeyDim},
			piece{tensor: qkv, first: int64(d.QK() + h*values), rows: values},
			piece{tensor: gate, first: int64(h * values), rows: values})
	}
	return w, nil
}
