package gguf

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quantscope/quant/checkpoint"
)

// architecture is what this package knows of one general.architecture.
type architecture struct {
	config func(m *metadata, c config) // fills what the common keys do not say
	// names are the tensors of a layer whose names differ between architectures.
	names map[string]string
	// paired says that rows of q and k stand in the order of llama.cpp's rotation
	// of neighbours.
	paired bool
	// plusOne says that norms are stored as 1+w.
	plusOne bool
	// ownSizes says that heads differ between layers, or that the widths of keys and
	// values are no plain ones: config reads them.
	ownSizes bool
	// outer are tensors of no layer whose names differ.
	outer map[string]string
	// root says that checkpoints have no "model." before their names.
	root bool
	// mtp are the names that checkpoints give to tensors of the first MTP layer which
	// stand beside its layer, below "mtp."; nil where MTP layers follow the others.
	mtp map[string]string
	// scales are weights beside which a tensor "scale" of its own meaning stands, with
	// its name in checkpoints.
	scales map[string]string
}

// config is a config.json that is being written.
type config map[string]any

// architectures are those with a forward pass, by general.architecture.
var architectures = map[string]*architecture{
	"llama":     {config: llamaConfig, names: preNorm, paired: true},
	"qwen2":     {config: qwen2Config, names: preNorm},
	"qwen3":     {config: qwen3Config, names: preNorm},
	"qwen3moe":  {config: qwen3MoEConfig, names: preNorm},
	"glm4moe":   {config: glm4MoEConfig, names: postNorm},
	"deepseek2": {config: deepSeekConfig, names: preNorm},
	"gemma3":    {config: gemma3Config, names: sandwich, plusOne: true},
	"gpt-oss":   {config: gptOSSConfig, names: postNorm},
	"qwen3next": {config: qwen3NextConfig, names: deltaNames, mtp: deltaMTP, plusOne: true},
	"qwen35":    {config: qwen35Config, names: deltaNames, mtp: deltaMTP, plusOne: true},
	"qwen35moe": {config: qwen35MoEConfig, names: deltaNames, mtp: deltaMTP, plusOne: true},
	"step35":    {config: step35Config, names: stepNames, plusOne: true, ownSizes: true},
	"gemma4":    {config: gemma4Config, names: gemma4Names, outer: gemma4Outer, scales: gemma4Scales, ownSizes: true},
	"deepseek4": {config: deepSeek4Config, names: deepSeek4Names, outer: deepSeek4Outer, root: true, ownSizes: true},
}

// Architectures lists the values of general.architecture that are known.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }

// common are the keys that every architecture has.
func common(m *metadata, a *architecture) config {
	hidden := m.need("embedding_length")
	if a.ownSizes {
		c := config{"hidden_size": hidden, "num_hidden_layers": m.need("block_count"), "max_position_embeddings": m.need("context_length")}
		c["rms_norm_eps"] = number(m.needReal("attention.layer_norm_rms_epsilon"))
		return c.causal(m)
	}
	heads := m.need("attention.head_count")
	dim := m.count("attention.key_length", hidden/heads)
	if v := m.count("attention.value_length", dim); v != dim && m.arch != "deepseek2" {
		m.refuse("%s.attention.key_length is %d and value_length %d", m.arch, dim, v)
	}
	c := config{
		"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": m.count("attention.head_count_kv", heads),
		"head_dim": dim, "num_hidden_layers": m.need("block_count"), "max_position_embeddings": m.need("context_length"),
		"rms_norm_eps": number(m.needReal("attention.layer_norm_rms_epsilon")), "rope_theta": number(m.real("rope.freq_base", 10000)),
	}
	if d := m.count("rope.dimension_count", dim); d != dim && m.arch != "deepseek2" {
		if d > dim || m.arch != "glm4moe" && !isDelta(m.arch) {
			m.refuse("%s.rope.dimension_count is %d of a head of %d", m.arch, d, dim)
		}
		c["partial_rotary_factor"] = json.Number(strconv.FormatFloat(float64(d)/float64(dim), 'g', -1, 64))
	}
	if s := m.rope(); s != nil {
		c["rope_scaling"] = s
	}
	return c.causal(m)
}

func (c config) causal(m *metadata) config {
	if !m.flag("attention.causal", true) {
		m.refuse("%s.attention.causal is false", m.arch)
	}
	return c
}

// number is an f32 as the shortest decimal that stands for it, so that 1e-5 is
// what the model's own config says.
func number(x float32) json.Number {
	return json.Number(strconv.FormatFloat(float64(x), 'g', -1, 32))
}

// tenfold is ten times the decimal that an f32 stands for.
func tenfold(x float32) json.Number {
	d, err := strconv.ParseFloat(string(number(x)), 64)
	if err != nil { // of no finite number
		return number(10 * x)
	}
	return json.Number(strconv.FormatFloat(10*d, 'g', 8, 64))
}

// rope is the section of a config about scaling; nil where there is none.
func (m *metadata) rope() map[string]any {
	kind := m.word("rope.scaling.type")
	factor := m.real("rope.scaling.factor", 0)
	if old := m.real("rope.scale_linear", 0); factor == 0 {
		factor = old
	}
	original := m.count("rope.scaling.original_context_length", m.count("context_length", 0))
	fast, slow := m.real("rope.scaling.yarn_beta_fast", 32), m.real("rope.scaling.yarn_beta_slow", 1)
	logMul := m.real("rope.scaling.yarn_log_multiplier", 0)
	attention := m.real("rope.scaling.yarn_attn_factor", m.real("rope.scaling.attn_factor", 0))
	if ext := m.real("rope.scaling.yarn_ext_factor", 1); ext != 1 && ext != -1 {
		m.refuse("%s.rope.scaling.yarn_ext_factor is %g", m.arch, ext)
	}
	if attention != 0 && attention != 1 && kind != "yarn" {
		m.refuse("%s.rope.scaling.attn_factor is %g without yarn", m.arch, attention)
	}
	switch {
	case kind == "none" || factor == 0 || factor == 1 && kind != "yarn":
		return nil
	case kind == "" || kind == "linear":
		return map[string]any{"rope_type": "linear", "factor": number(factor)}
	case kind == "yarn":
		s := map[string]any{
			"rope_type": "yarn", "factor": number(factor), "original_max_position_embeddings": original,
			"beta_fast": number(fast), "beta_slow": number(slow),
		}
		// Converters write 0.1 times mscale_all_dim; DeepSeek's two factors are equal.
		if logMul > 0 {
			s["mscale"], s["mscale_all_dim"] = tenfold(logMul), tenfold(logMul)
		}
		if attention > 0 && attention != 1 {
			s["attention_factor"] = number(attention)
		}
		return s
	}
	m.refuse("%s.rope.scaling.type %q is not known; known are none, linear and yarn", m.arch, kind)
	return nil
}

// newConfig writes the config.json that a file's metadata amount to.
func newConfig(f *File) (config, *architecture, *geometry, error) {
	v, ok := f.Metadata["general.architecture"]
	name, is := v.V.(string)
	if !ok || !is {
		return nil, nil, nil, &checkpoint.FileError{File: f.Path, Reason: "has no key general.architecture, so it holds no model"}
	}
	a, ok := architectures[name]
	if !ok {
		return nil, nil, nil, &checkpoint.FileError{
			File: f.Path, Err: checkpoint.ErrUnsupported,
			Reason: fmt.Sprintf("general.architecture %q is not known; known are %s", name, strings.Join(Architectures(), ", ")),
		}
	}
	m := &metadata{f: f, arch: name, asked: map[string]bool{}}
	c := common(m, a)
	a.config(m, c)
	m.unknown()
	embedding, ok := f.Lookup("token_embd.weight")
	switch {
	case m.err != nil:
		return nil, nil, nil, m.err
	case !ok || len(embedding.Shape) != 2:
		return nil, nil, nil, &checkpoint.FileError{File: f.Path, Tensor: "token_embd.weight", Reason: "is missing, or is no matrix"}
	}
	_, head := f.Lookup("output.weight")
	c["vocab_size"], c["tie_word_embeddings"] = embedding.Shape[0], !head
	if factors, ok := f.Lookup("rope_freqs.weight"); ok && !a.ownSizes {
		if err := c.ropeFactors(f, factors); err != nil {
			return nil, nil, nil, err
		}
	}
	return c, a, &m.geo, nil
}

// JSON is the config as a file has it.
func (c config) JSON() ([]byte, error) { return json.Marshal(map[string]any(c)) }
