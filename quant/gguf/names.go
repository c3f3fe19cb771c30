package gguf

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"quantscope/quant/checkpoint"
)

// maxBlocks and maxExperts bound numbers in names and shapes.
const (
	maxBlocks  = 1 << 12
	maxExperts = 1 << 14
)

// outside are the tensors that belong to no layer.
var outside = map[string]string{
	"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm",
}

// inLayer are the tensors of a layer that every architecture calls alike.
var inLayer = map[string]string{
	"attn_norm": "input_layernorm",
	"attn_q":    "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
	"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_sinks": "self_attn.sinks",
	"attn_q_a": "self_attn.q_a_proj", "attn_q_b": "self_attn.q_b_proj", "attn_q_a_norm": "self_attn.q_a_layernorm",
	"attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm", "attn_kv_b": "self_attn.kv_b_proj",
	"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
	"ffn_gate_shexp": "mlp.shared_experts.gate_proj", "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj",
	"nextn.eh_proj": "eh_proj", "nextn.enorm": "enorm", "nextn.hnorm": "hnorm", "nextn.embed_tokens": "embed_tokens",
	"nextn.shared_head_head": "shared_head.head", "nextn.shared_head_norm": "shared_head.norm",
}

// Where the norms of a layer stand: before attention and MLP; the same, but the
// second named for what it follows; before and after both.
var (
	preNorm  = map[string]string{"ffn_norm": "post_attention_layernorm"}
	postNorm = map[string]string{"post_attention_norm": "post_attention_layernorm"}
	sandwich = map[string]string{
		"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
	}
)

// routed are the tensors of all experts of a layer.
var routed = map[string]string{"ffn_gate_exps": "gate", "ffn_up_exps": "up", "ffn_down_exps": "down"}

// expertNames are how checkpoints call an expert's parts, the router and its bias for
// the choice, by model type.
var expertNames = map[string]struct{ router, correction, block, gate, up, down string }{
	"mixtral":     {"block_sparse_moe.gate", "block_sparse_moe.gate.e_score_correction_bias", "block_sparse_moe.experts", "w1", "w3", "w2"},
	"gpt_oss":     {"mlp.router", "mlp.router.e_score_correction_bias", "mlp.experts", "gate_proj", "up_proj", "down_proj"},
	"step3p5":     {"moe.gate", "moe.router_bias", "moe.experts", "gate_proj", "up_proj", "down_proj"},
	"deepseek_v4": {"ffn.gate", "ffn.gate.bias", "ffn.experts", "w1", "w3", "w2"},
	"gemma4_text": {"router.proj", "", "experts", "gate_proj", "up_proj", "down_proj"},
	"":            {"mlp.gate", "mlp.gate.e_score_correction_bias", "mlp.experts", "gate_proj", "up_proj", "down_proj"},
}

// bare are the modules that checkpoints give no parameter's name.
var bare = set(
	"self_attn.sinks", "attn.attn_sink", "linear_attn.A_log", "linear_attn.dt_bias", "layer_scalar", "attn.compressor.ape", "attn.indexer.compressor.ape", "ffn.gate.tid2eid",
	"hc_attn_fn", "hc_attn_base", "hc_attn_scale", "hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale", "hc_head_fn", "hc_head_base", "hc_head_scale")

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// withParam is the name of a parameter of a checkpoint's module.
func withParam(module, param string) string {
	if bare[module] {
		return module
	}
	return module + "." + param
}

// naming turns names of the file into those of checkpoints for transformers.
type naming struct {
	*architecture
	layer  map[string]string
	outer  map[string]string
	kind   string // model_type
	router string
	main   int // decoder layers; those from here on are MTP layers
}

func newNaming(a *architecture, modelType string, main int) naming {
	n := naming{architecture: a, layer: maps.Clone(inLayer), outer: maps.Clone(outside), kind: modelType, main: main}
	maps.Copy(n.layer, a.names)
	maps.Copy(n.outer, a.outer)
	e, ok := expertNames[modelType]
	if !ok {
		e = expertNames[""]
		n.kind = ""
	}
	n.router = e.router
	n.layer["ffn_gate_inp"] = e.router
	return n
}

// in is the checkpoint's name of something in a layer.
func (n naming) in(layer int, rest string) string {
	switch {
	case n.mtp != nil && layer >= n.main:
		return fmt.Sprintf("mtp.layers.%d.%s", layer-n.main, rest)
	case n.root:
		return fmt.Sprintf("layers.%d.%s", layer, rest)
	}
	return fmt.Sprintf("model.layers.%d.%s", layer, rest)
}

// expert is the name of one expert's part.
func (n naming) expert(layer, expert int, part, param string) string {
	e := expertNames[n.kind]
	part = map[string]string{"gate": e.gate, "up": e.up, "down": e.down}[part]
	return n.in(layer, fmt.Sprintf("%s.%d.%s.%s", e.block, expert, part, param))
}

// shifts says whether a tensor is a norm that is stored as 1+w.
func (n naming) shifts(module, param string) bool {
	return n.plusOne && param == "weight" && strings.HasSuffix(module, "norm") && module != "ssm_norm"
}

// split takes a name apart: the layer, or -1, the module and the parameter.
func split(name string) (layer int, module, param string) {
	module, layer = name, -1
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		module, param = name[:i], name[i+1:]
	}
	rest, ok := strings.CutPrefix(module, "blk.")
	if !ok {
		return -1, module, param
	}
	digits, inner, ok := strings.Cut(rest, ".")
	if !ok && param != "" { // blk.0.ssm_a has no parameter
		digits, inner, ok, param = rest, param, true, ""
	}
	if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && n < maxBlocks && strconv.Itoa(n) == digits {
		return n, inner, param
	}
	return -1, module, param
}

// oldExpert is a tensor of one expert, as files had them before they were
// stacked: ffn_gate.3.
func oldExpert(module string) (part string, expert int, ok bool) {
	head, digits, ok := strings.Cut(module, ".")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n >= maxExperts {
		return "", 0, false
	}
	part, ok = routed[head+"_exps"]
	return part, n, ok
}

func unknownTensor(f *File, t *Tensor) error {
	return &checkpoint.FileError{
		File: f.Parts[t.Part].Name, Tensor: t.Name, Err: checkpoint.ErrUnsupported,
		Reason: "is not known, and what it does to the forward pass neither",
	}
}
