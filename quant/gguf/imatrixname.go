package gguf

import (
	"fmt"
	"strings"

	"quantscope/quant/topology"
)

// linear is a linear map of a layer, of any one.
type linear struct {
	kind       topology.Kind
	projection string
}

// linearNames are how files call the linear maps of a layer. They do not depend
// on the architecture; norms do.
var linearNames = map[linear]string{
	{topology.Attention, "q"}: "attn_q", {topology.Attention, "k"}: "attn_k", {topology.Attention, "v"}: "attn_v", {topology.Attention, "o"}: "attn_output",
	{topology.Attention, "q_a"}: "attn_q_a", {topology.Attention, "q_b"}: "attn_q_b",
	{topology.Attention, "kv_a"}: "attn_kv_a_mqa", {topology.Attention, "kv_b"}: "attn_kv_b",
	{topology.MLP, "gate"}: "ffn_gate", {topology.MLP, "up"}: "ffn_up", {topology.MLP, "down"}: "ffn_down",
	{topology.SharedExpert, "gate"}: "ffn_gate_shexp", {topology.SharedExpert, "up"}: "ffn_up_shexp", {topology.SharedExpert, "down"}: "ffn_down_shexp",
	{topology.Expert, "gate"}: "ffn_gate_exps", {topology.Expert, "up"}: "ffn_up_exps", {topology.Expert, "down"}: "ffn_down_exps",
	{topology.Router, ""}: "ffn_gate_inp", {topology.MTPExtra, "eh_proj"}: "nextn.eh_proj", {topology.MTPExtra, "shared_head.head"}: "nextn.shared_head_head",
}

var linearOf = func() map[string]linear {
	m := map[string]linear{}
	for l, name := range linearNames {
		m[name] = l
	}
	return m
}()

// LinearName is what llama.cpp's files call the weight of a linear map, as in
// blk.3.ffn_down_exps.weight; stacked says that it holds those of all experts.
// MTP layers are counted on from the decoder layers there, as they are here. ok is
// false where files have no such tensor. LinearNames knows of the model, too.
func LinearName(r topology.Role) (name string, stacked, ok bool) {
	if r.Kind == topology.Head && r.Layer < 0 {
		return "output.weight", false, true
	}
	module, ok := linearNames[linear{r.Kind, r.Projection}]
	if !ok {
		module, ok = oneWay[linear{r.Kind, r.Projection}]
	}
	if !ok || r.Layer < 0 || r.Layer >= maxBlocks {
		return "", false, false
	}
	return fmt.Sprintf("blk.%d.%s.weight", r.Layer, module), r.Kind == topology.Expert, true
}

// oneWay are further maps that files have a tensor for, which an imatrix is not read
// back from: what goes into them goes into another one too, or stands in another order.
var oneWay = map[linear]string{
	{topology.Attention, "qkv"}: "attn_qkv", {topology.Attention, "z"}: "attn_gate", {topology.Attention, "g"}: "attn_gate",
	{topology.Attention, "ba"}: "ssm_ba", {topology.Attention, "a"}: "ssm_alpha", {topology.Attention, "b"}: "ssm_beta",
	{topology.Attention, "kv"}: "attn_kv", {topology.Attention, "o_a"}: "attn_output_a", {topology.Attention, "o_b"}: "attn_output_b",
	{topology.Attention, "compressor.kv"}: "attn_compressor_kv", {topology.Attention, "compressor.gate"}: "attn_compressor_gate",
	{topology.Attention, "indexer.q_b"}: "indexer.attn_q_b", {topology.Attention, "indexer.weights"}: "indexer.proj",
	{topology.Attention, "indexer.compressor.kv"}: "indexer_compressor_kv", {topology.Attention, "indexer.compressor.gate"}: "indexer_compressor_gate",
	{topology.Router, "shared_gate"}: "ffn_gate_inp_shexp", {topology.Mixing, "hc_attn_fn"}: "hc_attn_fn", {topology.Mixing, "hc_ffn_fn"}: "hc_ffn_fn",
	{topology.Mixing, "per_layer_input_gate"}: "inp_gate", {topology.Mixing, "per_layer_projection"}: "proj",
}

// LinearNames are the tensors that hold a linear map in files that llama.cpp's converter
// makes of a model: LinearName's, but for layers of linear attention, for Gemma 4's
// experts, whose gate and up are one, and for what stands beside layers. None where
// files have no such tensor.
func LinearNames(r topology.Role, c *topology.Config) []string {
	in := func(layer int, modules ...string) (names []string) {
		for _, m := range modules {
			names = append(names, fmt.Sprintf("blk.%d.%s.weight", layer, m))
		}
		return names
	}
	kind := strings.TrimSuffix(c.TextModelType, "_text")
	switch {
	case r.Kind == topology.Mixing && r.Layer < 0:
		name := map[string]string{"per_layer_model_projection": "per_layer_model_proj.weight", "hc_head_fn": "output_hc_fn.weight"}[r.Projection]
		if name == "" {
			return nil
		}
		return []string{name}
	case r.Kind == topology.MTPExtra && r.Layer < 0 && r.Projection == "fc":
		return in(c.Layers, "nextn.eh_proj")
	case r.Layer < 0:
	case r.Kind == topology.Attention && c.LayerType(r.Layer) == topology.LinearAttention && r.Projection == "o":
		return in(r.Layer, "ssm_out")
	case r.Kind == topology.Attention && r.Projection == "qkvz":
		return in(r.Layer, "attn_qkv", "attn_gate")
	case r.Kind == topology.Expert && kind == "gemma4" && (r.Projection == "gate" || r.Projection == "up"):
		return in(r.Layer, gateUp)
	}
	if name, _, ok := LinearName(r); ok {
		return []string{name}
	}
	return nil
}

// LinearRole is the role of the weight that a file calls so: of one expert where
// the name has its number, else, where stacked, of all, and Expert is -1. MTP says
// nothing. ok is false for what is no linear map.
func LinearRole(name string) (r topology.Role, stacked, ok bool) {
	r = topology.Role{Layer: -1, Expert: -1, Param: "weight"}
	if name == "output.weight" {
		r.Kind = topology.Head
		return r, false, true
	}
	layer, module, param := split(name)
	if layer < 0 || param != "weight" {
		return r, false, false
	}
	r.Layer = layer
	if part, e, ok := oldExpert(module); ok {
		r.Kind, r.Expert, r.Projection = topology.Expert, e, part
		return r, false, true
	}
	l, ok := linearOf[module]
	r.Kind, r.Projection = l.kind, l.projection
	return r, r.Kind == topology.Expert, ok
}
