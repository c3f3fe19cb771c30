package topology

// paramClass says what a parameter's suffix means for counting.
type paramClass uint8

const (
	ownValues   paramClass = iota + 1 // elements of the model: weights, biases
	packedCodes                       // codes of a quantized weight, several to a stored word
	metadata                          // scales, zero points and the like of a quantized weight
)

// params are the suffixes that name a parameter of a module. The quantized ones
// are those of ModelOpt, compressed-tensors, GPTQ and AWQ, MLX, EXL3,
// bitsandbytes, gpt_oss and the FP8 and FP4 releases of DeepSeek.
var params = map[string]paramClass{
	"weight": ownValues, "bias": ownValues,
	"e_score_correction_bias": ownValues, "router_bias": ownValues, "expert_bias": ownValues,
	"per_expert_scale": ownValues, "tid2eid": metadata,

	"weight_packed": packedCodes, "qweight": packedCodes, "blocks": packedCodes, "trellis": packedCodes,

	"weight_scale": metadata, "weight_scale_2": metadata, "weight_scale_inv": metadata, "weight_global_scale": metadata, "global_scale": metadata,
	"weight_zero_point": metadata, "weight_g_idx": metadata, "weight_shape": metadata, "weight_min": metadata, "weight_codebook": metadata,
	"input_scale": metadata, "input_global_scale": metadata, "input_zero_point": metadata, "output_scale": metadata,
	"activation_scale": metadata, "pre_quant_scale": metadata, "svdquant_lora_a": metadata, "svdquant_lora_b": metadata,
	"scale": metadata, "scale_inv": metadata, "scales": metadata, "qzeros": metadata, "g_idx": metadata, "biases": metadata,
	"q_scale": metadata, "k_scale": metadata, "v_scale": metadata, "prob_output_scale": metadata,
	"suh": metadata, "svh": metadata, "su": metadata, "sv": metadata, "mcg": metadata, "mul1": metadata,
	"SCB": metadata, "inv_freq": metadata,
}

// weightParts are the suffixes that bitsandbytes puts behind "weight".
var weightParts = map[string]string{
	"absmax": "weight.absmax", "quant_map": "weight.quant_map",
	"nested_absmax": "weight.nested_absmax", "nested_quant_map": "weight.nested_quant_map",
}

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

var (
	// wrappers stand before the layers and say nothing about a tensor.
	wrappers = set("model", "language_model", "text_model", "transformer", "decoder", "gpt_neox", "backbone", "thinker", "llm", "base_model", "module")
	// layerLists hold numbered decoder layers.
	layerLists = set("layers", "h", "blocks", "block")
	// mtpLists hold numbered MTP layers; in mtpParts a part of one is numbered.
	mtpLists = set("mtp_layers", "mtp_block", "mtp")
	mtpParts = set("mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj")
	// towers are vision and audio parts, projectors to the text model included.
	towers = set(
		"visual", "vision", "vision_tower", "vision_model", "vision_encoder", "vision_projector", "visual_tokenizer", "vit", "vit_large_projector",
		"vit_downsampler", "vit_downsampler1", "vit_downsampler2", "image_newline", "multi_modal_projector", "mm_projector", "embed_vision", "vision_embedder",
		"audio", "audio_tower", "audio_model", "audio_encoder", "audio_projector", "embed_audio",
		"aligner", "connector", "merger", "patch_merger", "resampler", "projector", "sam_model", "mlp1", "talker", "token2wav", "code2wav")

	attentionBlocks = set("self_attn", "attn", "attention", "self_attention", "linear_attn")
	mlpBlocks       = set("mlp", "feed_forward", "ffn", "block_sparse_moe", "moe")
	sharedBlocks    = set("shared_experts", "shared_expert", "share_expert", "shared_mlp")
)

// IsTower says whether a part of a name begins a vision or audio tower.
func IsTower(part string) bool { return towers[part] }

// entry is what a table says of one module.
type entry struct {
	kind  Kind
	proj  string
	param string // where the module's name says it: dt_bias
	form  form
}

// form says how a module's weight may be laid out beyond [out, in].
type form uint8

const (
	plain   form = iota
	stacked      // all experts in one tensor, if it has three dimensions
	conv1D       // [in, out] in some families, [out, in] in others
	noMap        // two-dimensional, but no linear map
)

func norm(name string) entry { return entry{kind: Norm, proj: name} }

func attn(proj string) entry { return entry{kind: Attention, proj: proj} }

// attentionLeaves are modules below an attention block.
var attentionLeaves = map[string]entry{
	"q_proj": attn("q"), "wq": attn("q"), "q": attn("q"),
	"k_proj": attn("k"), "wk": attn("k"), "k": attn("k"),
	"v_proj": attn("v"), "wv": attn("v"), "v": attn("v"),
	"o_proj": attn("o"), "wo": attn("o"), "o": attn("o"), "out_proj": attn("o"), "dense": attn("o"),
	"qkv_proj": attn("qkv"), "qkv": attn("qkv"), "Wqkv": attn("qkv"), "wqkv": attn("qkv"), "W_pack": attn("qkv"), "query_key_value": attn("qkv"), "in_proj_qkv": attn("qkv"),
	"c_attn": {kind: Attention, proj: "qkv", form: conv1D}, "c_proj": {kind: Attention, proj: "o", form: conv1D},
	"q_a_proj": attn("q_a"), "wq_a": attn("q_a"), "q_b_proj": attn("q_b"), "wq_b": attn("q_b"),
	"kv_a_proj_with_mqa": attn("kv_a"), "kv_a_proj": attn("kv_a"), "kv_b_proj": attn("kv_b"), "fused_qkv_a_proj_with_mqa": attn("qkv_a"),
	"kv_proj": attn("kv"), "wkv": attn("kv"), "k_b_proj": attn("k_b"), "v_b_proj": attn("v_b"), "wo_a": attn("o_a"), "wo_b": attn("o_b"), "o_a_proj": attn("o_a"), "o_b_proj": attn("o_b"),
	"in_proj_qkvz": attn("qkvz"), "in_proj_ba": attn("ba"), "in_proj_z": attn("z"), "in_proj_a": attn("a"), "in_proj_b": attn("b"),
	"conv1d": attn("conv"), "A_log": attn("a_log"), "dt_bias": {kind: Attention, proj: "dt", param: "bias"},
	"g_proj": attn("g"), "sinks": attn("sinks"), "attn_sink": attn("sinks"), "rotary_emb": attn("rotary"),
	"indexer.wq_b": attn("indexer.q_b"), "indexer.wk": attn("indexer.k"), "indexer.k_norm": norm("indexer.k_norm"), "indexer.weights_proj": attn("indexer.weights"),
	"compressor.wkv": attn("compressor.kv"), "compressor.wgate": attn("compressor.gate"), "compressor.ape": {kind: Attention, proj: "compressor.ape", form: noMap}, "compressor.norm": norm("compressor.norm"),
	"indexer.compressor.wkv": attn("indexer.compressor.kv"), "indexer.compressor.wgate": attn("indexer.compressor.gate"),
	"indexer.compressor.ape": {kind: Attention, proj: "indexer.compressor.ape", form: noMap}, "indexer.compressor.norm": norm("indexer.compressor.norm"),
	"q_norm": norm("q_norm"), "k_norm": norm("k_norm"), "kv_norm": norm("kv_norm"), "q_layernorm": norm("q_layernorm"), "k_layernorm": norm("k_layernorm"),
	"q_a_layernorm": norm("q_a_layernorm"), "q_a_norm": norm("q_a_norm"), "kv_a_layernorm": norm("kv_a_layernorm"), "kv_a_norm": norm("kv_a_norm"),
	"inter_norm": norm("inter_norm"), "norm": norm("norm"),
}

// feedForward are the leaves of an MLP or of one expert.
var feedForward = map[string]string{
	"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "gate_up_proj": "gate_up",
	"w1": "gate", "w3": "up", "w2": "down", "w13": "gate_up",
}

// denseOnly are leaves of an MLP that no expert has.
var denseOnly = map[string]entry{
	"fc1": {kind: MLP, proj: "up"}, "fc2": {kind: MLP, proj: "down"},
	"dense_h_to_4h": {kind: MLP, proj: "up"}, "dense_4h_to_h": {kind: MLP, proj: "down"},
	"c_fc": {kind: MLP, proj: "up", form: conv1D}, "c_proj": {kind: MLP, proj: "down", form: conv1D},
}

// routerLeaves are modules of an MoE block that choose or weigh experts.
var routerLeaves = map[string]entry{
	"gate": {kind: Router}, "router": {kind: Router}, "wg": {kind: Router}, "gate.wg": {kind: Router}, "moe_statics": {kind: Router},
	"router.layer": {kind: Router}, "router.proj": {kind: Router}, "router.classifier": {kind: Router},
	"shared_expert_gate": {kind: Router, proj: "shared_gate"},
}

// stackedExperts are the tensors that hold all experts of a layer.
var stackedExperts = map[string]string{
	"gate_up_proj": "gate_up", "gate_proj": "gate", "up_proj": "up", "down_proj": "down",
	"input_linear": "gate_up", "output_linear": "down",
}

// layerLeaves stand directly in a decoder layer.
var layerLeaves = map[string]entry{
	"fc1": {kind: MLP, proj: "up"}, "fc2": {kind: MLP, proj: "down"},
	"eh_proj": {kind: MTPExtra, proj: "eh_proj"}, "enorm": {kind: MTPExtra, proj: "enorm"}, "hnorm": {kind: MTPExtra, proj: "hnorm"},
	"e_proj": {kind: MTPExtra, proj: "e_proj"}, "h_proj": {kind: MTPExtra, proj: "h_proj"},
	"shared_head.head": {kind: MTPExtra, proj: "shared_head.head"}, "shared_head.output": {kind: MTPExtra, proj: "shared_head.head"},
	"shared_head.norm": {kind: MTPExtra, proj: "shared_head.norm"}, "shared_head_norm": {kind: MTPExtra, proj: "shared_head.norm"},
	"mtp_emb_norm": {kind: MTPExtra, proj: "enorm"}, "mtp_hidden_norm": {kind: MTPExtra, proj: "hnorm"}, "mtp_linear_proj": {kind: MTPExtra, proj: "eh_proj"},
	"embed_tokens": {kind: Embedding},
	"layer_scalar": {kind: Mixing, proj: "layer_scalar"}, "per_layer_input_gate": {kind: Mixing, proj: "per_layer_input_gate"}, "per_layer_projection": {kind: Mixing, proj: "per_layer_projection"},
	"hc_attn_fn": {kind: Mixing, proj: "hc_attn_fn"}, "hc_attn_base": {kind: Mixing, proj: "hc_attn_base"}, "hc_attn_scale": {kind: Mixing, proj: "hc_attn_scale"},
	"hc_ffn_fn": {kind: Mixing, proj: "hc_ffn_fn"}, "hc_ffn_base": {kind: Mixing, proj: "hc_ffn_base"}, "hc_ffn_scale": {kind: Mixing, proj: "hc_ffn_scale"},
}

// layerNorms are the names of norms that stand directly in a decoder layer.
var layerNorms = set(
	"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "pre_feedforward_layernorm_2",
	"post_feedforward_layernorm", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "post_per_layer_input_norm",
	"post_self_attn_layernorm", "post_mlp_layernorm", "pre_mlp_layernorm", "self_attn_layer_norm", "final_layer_norm",
	"attn_norm", "ffn_norm", "attention_norm", "norm_1", "norm_2", "ln_1", "ln_2", "ln_attn", "ln_mlp", "operator_norm")

// mtpOnly stand beside the layers of an mtp module, or in its numbered block.
var mtpOnly = map[string]entry{
	"fc": {kind: MTPExtra, proj: "fc"}, "fc_embedding": {kind: MTPExtra, proj: "fc_embedding"}, "fc_hidden": {kind: MTPExtra, proj: "fc_hidden"},
	"norm": {kind: MTPExtra, proj: "norm"}, "final_layernorm": {kind: MTPExtra, proj: "final_layernorm"},
	"pre_fc_norm_embedding": {kind: MTPExtra, proj: "pre_fc_norm_embedding"}, "pre_fc_norm_hidden": {kind: MTPExtra, proj: "pre_fc_norm_hidden"},
	"embed_tokens": {kind: Embedding}, "emb.tok_emb": {kind: Embedding}, "head": {kind: MTPExtra, proj: "head"}, "lm_head": {kind: MTPExtra, proj: "head"},
	"hc_head_fn": {kind: Mixing, proj: "hc_head_fn"}, "hc_head_base": {kind: Mixing, proj: "hc_head_base"}, "hc_head_scale": {kind: Mixing, proj: "hc_head_scale"},
}

// outside are the modules that belong to no layer.
var outside = map[string]entry{
	"embed_tokens": {kind: Embedding}, "wte": {kind: Embedding}, "word_embeddings": {kind: Embedding}, "tok_embeddings": {kind: Embedding},
	"embed": {kind: Embedding}, "embed_in": {kind: Embedding}, "embeddings": {kind: Embedding},
	"wpe": {kind: Embedding, proj: "position"}, "embed_positions": {kind: Embedding, proj: "position"}, "embed_tokens_per_layer": {kind: Embedding, proj: "per_layer"},
	"lm_head": {kind: Head}, "output": {kind: Head}, "head": {kind: Head}, "embed_out": {kind: Head},
	"norm": norm("norm"), "ln_f": norm("ln_f"), "norm_f": norm("norm_f"), "final_norm": norm("final_norm"), "final_layernorm": norm("final_layernorm"),
	"final_layer_norm": norm("final_layer_norm"), "embedding_norm": norm("embedding_norm"), "word_embeddings_layernorm": norm("word_embeddings_layernorm"),
	"per_layer_projection_norm":  norm("per_layer_projection_norm"),
	"per_layer_model_projection": {kind: Mixing, proj: "per_layer_model_projection"},
	"hc_head_fn":                 {kind: Mixing, proj: "hc_head_fn"}, "hc_head_base": {kind: Mixing, proj: "hc_head_base"}, "hc_head_scale": {kind: Mixing, proj: "hc_head_scale"},
	"hc_head.hc_fn": {kind: Mixing, proj: "hc_head_fn"}, "hc_head.hc_base": {kind: Mixing, proj: "hc_head_base"}, "hc_head.hc_scale": {kind: Mixing, proj: "hc_head_scale"},
	"rotary_emb": attn("rotary"),
}

// deepseekV4 are the names that transformers gives to parts of DeepSeek-V4, beside
// those of the release: the same parts have the same roles.
var deepseekV4 = map[string]entry{
	"input_layernorm": norm("attn_norm"), "post_attention_layernorm": norm("ffn_norm"), "self_attn.q_a_norm": norm("q_norm"),
	"self_attn.compressor.kv_proj": attn("compressor.kv"), "self_attn.compressor.gate_proj": attn("compressor.gate"),
	"self_attn.compressor.position_bias": {kind: Attention, proj: "compressor.ape", form: noMap}, "self_attn.compressor.kv_norm": norm("compressor.norm"),
	"self_attn.compressor.indexer.kv_proj": attn("indexer.compressor.kv"), "self_attn.compressor.indexer.gate_proj": attn("indexer.compressor.gate"),
	"self_attn.compressor.indexer.position_bias": {kind: Attention, proj: "indexer.compressor.ape", form: noMap}, "self_attn.compressor.indexer.kv_norm": norm("indexer.compressor.norm"),
	"self_attn.compressor.indexer.q_b_proj": attn("indexer.q_b"), "self_attn.compressor.indexer.scorer.weights_proj": attn("indexer.weights"),
	// The last part of attn_hc.scale is read as a parameter's name.
	"attn_hc.fn": {kind: Mixing, proj: "hc_attn_fn"}, "attn_hc.base": {kind: Mixing, proj: "hc_attn_base"}, "attn_hc": {kind: Mixing, proj: "hc_attn_scale", param: "weight"},
	"ffn_hc.fn": {kind: Mixing, proj: "hc_ffn_fn"}, "ffn_hc.base": {kind: Mixing, proj: "hc_ffn_base"}, "ffn_hc": {kind: Mixing, proj: "hc_ffn_scale", param: "weight"},
}
