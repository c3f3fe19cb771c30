package ggufmake

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// family is how configs of a model_type become metadata.
type family struct {
	arch string
	keys func(c *converter, k *keys)
	// own says that keys writes heads and ropes too, which differ between layers.
	own bool
	// text is the model type of the text model that names of tensors go by; "": the same.
	text string
}

// families are the model types that can be written.
var families = map[string]family{
	"llama": {arch: "llama", keys: llamaKeys}, "mistral": {arch: "llama", keys: llamaKeys}, "mixtral": {arch: "llama", keys: llamaKeys},
	"qwen2": {arch: "qwen2", keys: qwenKeys}, "qwen3": {arch: "qwen3", keys: qwenKeys}, "qwen3_moe": {arch: "qwen3moe", keys: qwen3MoEKeys},
	"glm4_moe": {arch: "glm4moe", keys: glm4MoEKeys}, "deepseek_v2": {arch: "deepseek2", keys: deepSeekKeys}, "deepseek_v3": {arch: "deepseek2", keys: deepSeekKeys},
	"gemma3_text": {arch: "gemma3", keys: gemma3Keys}, "gpt_oss": {arch: "gpt-oss", keys: gptOSSKeys},
	"qwen3_next": {arch: "qwen3next", keys: deltaKeys}, "qwen3_5": {arch: "qwen35", keys: deltaKeys}, "qwen3_5_text": {arch: "qwen35", keys: deltaKeys},
	"qwen3_5_moe": {arch: "qwen35moe", keys: deltaKeys}, "qwen3_5_moe_text": {arch: "qwen35moe", keys: deltaKeys},
	"step3p5": {arch: "step35", keys: stepKeys, own: true}, "step3p7": {arch: "step35", keys: stepKeys, own: true, text: "step3p5"},
	"gemma4_text": {arch: "gemma4", keys: gemma4Keys, own: true}, "gemma4": {arch: "gemma4", keys: gemma4Keys, own: true, text: "gemma4_text"},
	"deepseek_v4": {arch: "deepseek4", keys: deepSeek4Keys, own: true},
}

// Families lists the model types of checkpoints that can be written.
func Families() []string { return slices.Sorted(maps.Keys(families)) }

// neutral are keys of configs that ask for another computation than files of these
// architectures can say, with the value that asks for nothing.
var neutral = map[string]any{
	"attn_logit_softcapping": 0.0, "use_bidirectional_attention": false, "attention_chunk_size": nil, "no_rope_layers": nil, "clip_qkv": nil,
	"use_parallel_residual": false, "embedding_multiplier": 1.0, "residual_multiplier": 1.0, "attention_multiplier": nil, "logits_scaling": 1.0,
	"logit_scale": 1.0, "attn_output_gate": false, "alibi": false,
}

// fitting are values of such keys that ask for what an architecture does.
var fitting = map[string]map[string]map[string]bool{
	"qwen3next": {"attn_output_gate": {"true": true}}, "qwen35": {"attn_output_gate": {"true": true}}, "qwen35moe": {"attn_output_gate": {"true": true}},
	"gemma4": {"use_bidirectional_attention": {"vision": true}}, // among the tokens of an image
}

// keys are metadata that are being written.
type keys struct {
	arch  string
	pairs []gguf.Pair
	err   error
}

func (k *keys) add(key string, v gguf.Value) {
	k.pairs = append(k.pairs, gguf.Pair{Key: key, Value: v})
}

func (k *keys) count(key string, n int) {
	if n < 0 || n > 1<<31-1 {
		k.refuse("%s is %d", key, n)
	}
	k.add(k.arch+"."+key, gguf.Count(uint32(n)))
}

func (k *keys) real(key string, x float64) {
	k.add(k.arch+"."+key, gguf.Value{Type: gguf.Float32, V: float32(x)})
}

func (k *keys) flag(key string, b bool) {
	k.add(k.arch+"."+key, gguf.Value{Type: gguf.Bool, V: b})
}

func (k *keys) word(key, s string) { k.add(k.arch+"."+key, gguf.Word(s)) }

func (k *keys) refuse(format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(format, args...)
	}
}

// metadata writes what the config says, in the order of llama.cpp's converter.
func (c *converter) metadata(o Options) error {
	f, ok := families[c.cfg.TextModelType]
	if !ok {
		return c.fail("model_type %q has no place in GGUF files that could be written; known are %s", c.cfg.TextModelType, strings.Join(Families(), ", "))
	}
	c.Arch = f.arch
	k := &keys{arch: f.arch}
	name := o.Name
	if name == "" {
		name = filepath.Base(filepath.Clean(c.Path))
	}
	k.add("general.architecture", gguf.Word(f.arch))
	k.add("general.type", gguf.Word("model"))
	k.add("general.name", gguf.Word(name))
	for _, key := range slices.Sorted(maps.Keys(neutral)) {
		v, want := c.cfg.Text[key], neutral[key]
		if n, ok := v.(json.Number); ok && want != nil {
			v, _ = n.Float64()
		}
		if v != nil && fmt.Sprint(v) != fmt.Sprint(want) && !fitting[f.arch][key][fmt.Sprint(v)] {
			k.refuse("%s is %v, which files of architecture %s cannot say", key, v, f.arch)
		}
	}
	c.common(k, f.own)
	f.keys(c, k)
	if k.err != nil {
		return c.fail("config.json: %v", k.err)
	}
	c.Pairs = k.pairs
	return nil
}

// common are the keys that all architectures have.
func (c *converter) common(k *keys, own bool) {
	cfg := c.cfg
	blocks := cfg.Layers + c.nextn()
	for _, n := range []struct {
		name string
		n    int
	}{{"num_hidden_layers", cfg.Layers}, {"hidden_size", cfg.Hidden}, {"num_attention_heads", cfg.Heads}, {"max_position_embeddings", cfg.MaxPosition}, {"vocab_size", cfg.Vocab}, {"head_dim", cfg.HeadDim}} {
		if n.n == 0 {
			k.refuse("%s is missing", n.name)
		}
	}
	k.count("block_count", blocks)
	k.count("context_length", cfg.MaxPosition)
	k.count("embedding_length", cfg.Hidden)
	if cfg.Intermediate > 0 && k.arch != "gemma4" {
		k.count("feed_forward_length", cfg.Intermediate)
	}
	switch {
	case k.arch == "gemma4":
		k.count("attention.head_count", cfg.Heads)
	case own:
	case k.arch == "deepseek2":
		k.count("attention.head_count", cfg.Heads)
		k.count("attention.head_count_kv", 1) // attention over the latent
	default:
		k.count("attention.head_count", cfg.Heads)
		k.count("attention.head_count_kv", cfg.KVHeads)
	}
	if !own {
		c.rope(k)
	}
	k.real("attention.layer_norm_rms_epsilon", c.real("rms_norm_eps", 1e-6))
	if cfg.Experts > 0 {
		k.count("expert_count", cfg.Experts)
		k.count("expert_used_count", cfg.TopK)
	}
	if n := c.integer("n_group", 0); n > 0 {
		k.count("expert_group_count", n)
		k.count("expert_group_used_count", c.integer("topk_group", 1))
	}
	if k.arch != "deepseek2" && (!own || k.arch == "step35") {
		k.count("attention.key_length", cfg.HeadDim)
		k.count("attention.value_length", cfg.HeadDim)
	}
	k.add("general.file_type", gguf.Count(0)) // replaced by what is asked for
	k.count("vocab_size", cfg.Vocab)
}

// rope writes the one of all layers, or those of layers that see all and of others.
func (c *converter) rope(k *keys) {
	rope, section := c.ropeSection()
	c.scaling(k, rope, section)
	theta := rope.Theta
	if theta == 0 {
		theta = 10000
	}
	k.real("rope.freq_base", theta)
	if s, ok := c.cfg.RopeByType["sliding_attention"]; ok && s.Theta > 0 {
		k.real("rope.freq_base_swa", s.Theta)
		if s.Type != "" && s.Type != "default" {
			k.refuse("rope of sliding_attention is of type %s", s.Type)
		}
	}
}

// ropeSection is the rope of full attention: what was parsed, and all that the
// config says of it.
func (c *converter) ropeSection() (topology.Rope, map[string]any) {
	section := map[string]any{}
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		if s, ok := c.cfg.Text[key].(map[string]any); ok {
			section = s
		}
	}
	if r, ok := c.cfg.RopeByType["full_attention"]; ok {
		s, _ := section["full_attention"].(map[string]any)
		return r, s
	}
	return c.cfg.Rope, section
}

// scaling writes how positions are stretched. Llama 3.1's rule is in a tensor of
// divisors instead.
func (c *converter) scaling(k *keys, r topology.Rope, section map[string]any) {
	number := func(key string, otherwise float64) float64 {
		if n, ok := section[key].(json.Number); ok {
			if f, err := n.Float64(); err == nil {
				return f
			}
		}
		return otherwise
	}
	switch r.Type {
	case "", "default", "none", "llama3":
	case "linear":
		k.word("rope.scaling.type", "linear")
		k.real("rope.scaling.factor", r.Factor)
	case "yarn":
		k.word("rope.scaling.type", "yarn")
		k.real("rope.scaling.factor", r.Factor)
		if r.OriginalMax == 0 {
			k.refuse("rope of type yarn without original_max_position_embeddings")
		}
		k.count("rope.scaling.original_context_length", r.OriginalMax)
		k.real("rope.scaling.yarn_beta_fast", number("beta_fast", 32))
		k.real("rope.scaling.yarn_beta_slow", number("beta_slow", 1))
		if a := number("attention_factor", 0); a > 0 {
			k.real("rope.scaling.yarn_attn_factor", a)
		}
		m, all := number("mscale", 0), number("mscale_all_dim", 0)
		if m != all || all != 0 && k.arch != "deepseek2" {
			k.refuse("mscale %g and mscale_all_dim %g of yarn", m, all)
		}
		if all != 0 {
			k.real("rope.scaling.yarn_log_multiplier", 0.1*all)
		}
		if t, ok := section["truncate"].(bool); k.arch == "gpt-oss" && (!ok || t) {
			k.refuse("rope of type yarn with rounded bounds (truncate)")
		} else if k.arch != "gpt-oss" && ok && !t {
			k.refuse("rope of type yarn without rounded bounds (truncate)")
		}
	default:
		k.refuse("rope of type %s", r.Type)
	}
}

// real is a number of the config, integer a count, flag a truth; what is given where
// it is absent.
func (c *converter) real(key string, otherwise float64) float64 {
	if n, ok := c.cfg.Text[key].(json.Number); ok {
		if f, err := n.Float64(); err == nil {
			return f
		}
	}
	return otherwise
}

func (c *converter) integer(key string, otherwise int) int {
	return int(c.real(key, float64(otherwise)))
}

func (c *converter) flag(key string, otherwise bool) bool {
	if b, ok := c.cfg.Text[key].(bool); ok {
		return b
	}
	return otherwise
}

func (c *converter) text(key, otherwise string) string {
	if s, ok := c.cfg.Text[key].(string); ok {
		return s
	}
	return otherwise
}

// note is a finding about the config.
func (c *converter) note(format string, args ...any) {
	c.Findings = append(c.Findings, Finding{Message: fmt.Sprintf(format, args...)})
}
