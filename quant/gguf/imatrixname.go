package gguf

import (
	"fmt"

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
// false where files have no such tensor.
func LinearName(r topology.Role) (name string, stacked, ok bool) {
	if r.Kind == topology.Head && r.Layer < 0 {
		return "output.weight", false, true
	}
	module, ok := linearNames[linear{r.Kind, r.Projection}]
	if !ok || r.Layer < 0 || r.Layer >= maxBlocks {
		return "", false, false
	}
	return fmt.Sprintf("blk.%d.%s.weight", r.Layer, module), r.Kind == topology.Expert, true
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
