package topology

import "strings"

// layout is how a weight whose name does not say it stands in memory.
type layout uint8

const (
	undecided   layout = iota
	outIn              // [out, in]; of a joined gate_up the gate rows first, then the up rows
	inOut              // [in, out]; of a joined gate_up the gate columns first, then the up columns
	interleaved        // gate and up alternate along the outputs, gate first; [in, out] unless the shape says otherwise
)

// family is what a model_type adds to the generic tables.
type family struct {
	exact   map[string]entry // modules below a layer
	stacked layout           // experts in one tensor; undecided: only the shape can say
	conv1D  layout           // modules of the form conv1D
	tied    tie              // what transformers assumes where the config is silent
	mtp     bool             // releases have MTP layers of which their configs say nothing
}

type tie uint8

const (
	tieUnknown tie = iota
	tieNo
	tieYes
)

// Stacked experts: transformers 5 keeps [experts, out, in] with gate before up
// for every family but gpt_oss (interleaved, [in, out]), and the releases of
// llama4 and qwen3_vl_moe, which are [in, out] with gate before up.
var (
	plainFamily  = &family{stacked: outIn, tied: tieNo}
	tiedFamily   = &family{stacked: outIn, tied: tieYes}
	conv1DFamily = &family{conv1D: inOut, tied: tieYes}
	linearTied   = &family{conv1D: outIn, tied: tieYes}
	genericModel = &family{}
)

// families holds the model types by name, without the suffix _text.
var families = map[string]*family{
	"llama": plainFamily, "mistral": plainFamily, "mistral3": plainFamily, "ministral3": plainFamily, "qwen2": plainFamily, "qwen3": plainFamily,
	"qwen2_moe": plainFamily, "qwen3_moe": plainFamily, "qwen3_5": plainFamily, "qwen3_5_moe": plainFamily,
	"qwen2_vl": plainFamily, "qwen2_5_vl": plainFamily, "qwen3_vl": plainFamily, "qwen3_omni_moe": plainFamily,
	"mixtral": plainFamily, "phi3": plainFamily, "phimoe": plainFamily, "olmoe": plainFamily, "minimax": plainFamily, "minimax_m2": plainFamily,
	"glm4": plainFamily, "glm4_moe": plainFamily, "glm4v": plainFamily, "glm4v_moe": plainFamily, "glm4_moe_lite": plainFamily,
	"deepseek_v2": plainFamily, "deepseek_v3": plainFamily, "deepseek_v32": plainFamily, "kimi_k2": plainFamily, "kimi_k25": plainFamily,
	"step3": plainFamily, "step3_vl": plainFamily, "step3p5": plainFamily, "step3p7": plainFamily,
	"dots1": plainFamily, "ernie4_5_moe": plainFamily, "hunyuan_v1_moe": plainFamily, "granitemoe": plainFamily, "lfm2_moe": plainFamily,
	"gpt_neox": plainFamily, "internlm2": plainFamily,

	"gemma": tiedFamily, "gemma2": tiedFamily, "gemma3": tiedFamily, "gemma3n": tiedFamily, "gemma4": tiedFamily, "gemma4_unified": tiedFamily,
	"cohere": tiedFamily, "cohere2": tiedFamily, "bloom": tiedFamily, "opt": tiedFamily, "mpt": tiedFamily,

	"qwen3_next":  {stacked: outIn, tied: tieNo, mtp: true},
	"deepseek_v4": {stacked: outIn, tied: tieNo, exact: deepseekV4},

	"gpt_oss":      {stacked: interleaved, tied: tieNo},
	"llama4":       {stacked: inOut, tied: tieNo},
	"qwen3_vl_moe": {stacked: inOut, tied: tieNo},

	"gpt2": conv1DFamily, "openai-gpt": conv1DFamily,
	"gpt_bigcode": linearTied, "starcoder2": linearTied,
	// The first Qwen: silu goes over w2, and all its weights are [out, in].
	"qwen": {conv1D: outIn, tied: tieNo, exact: map[string]entry{
		"mlp.w1": {kind: MLP, proj: "up"}, "mlp.w2": {kind: MLP, proj: "gate"},
	}},
}

// familyOf is the table of a model type, the generic one where there is none.
func familyOf(cfg *Config) *family {
	for _, t := range []string{cfg.TextModelType, cfg.ModelType} {
		if f, ok := families[strings.TrimSuffix(t, "_text")]; ok {
			return f
		}
	}
	return genericModel
}

// AlternatesExperts says whether the family keeps gate and up of the experts in
// one tensor alternating along the outputs, gate first, rather than one after the
// other.
func (c *Config) AlternatesExperts() bool { return familyOf(c).stacked == interleaved }
