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

// expertNames are how checkpoints call an expert's parts and the router, by
// model type.
var expertNames = map[string]struct{ router, block, gate, up, down string }{
	"mixtral": {"block_sparse_moe.gate", "block_sparse_moe.experts", "w1", "w3", "w2"},
	"gpt_oss": {"mlp.router", "mlp.experts", "gate_proj", "up_proj", "down_proj"},
	"":        {"mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj"},
}

// naming turns names of the file into those of checkpoints for transformers.
type naming struct {
	*architecture
	layer  map[string]string
	kind   string // model_type
	router string
}

func newNaming(a *architecture, modelType string) naming {
	n := naming{architecture: a, layer: maps.Clone(inLayer), kind: modelType}
	maps.Copy(n.layer, a.names)
	e, ok := expertNames[modelType]
	if !ok {
		e = expertNames[""]
		n.kind = ""
	}
	n.router = e.router
	n.layer["ffn_gate_inp"] = e.router
	return n
}

// expert is the name of one expert's part.
func (n naming) expert(layer, expert int, part, param string) string {
	e := expertNames[n.kind]
	part = map[string]string{"gate": e.gate, "up": e.up, "down": e.down}[part]
	return fmt.Sprintf("model.layers.%d.%s.%d.%s.%s", layer, e.block, expert, part, param)
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
	digits, rest, ok := strings.Cut(rest, ".")
	if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && n < maxBlocks && strconv.Itoa(n) == digits {
		return n, rest, param
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
