package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// ErrArchitecture is wrapped by errors about what a config asks for and this
// package does not compute.
var ErrArchitecture = errors.New("forward pass")

// families builds the Specs of the model types that are known.
var families = map[string]func(*builder) error{
	"llama": buildLlama, "mistral": buildLlama, "qwen2": buildLlama, "qwen3": buildQwen3,
	"qwen3_moe": buildQwen3, "mixtral": buildMixtral, "glm4_moe": buildGLM4MoE,
	"deepseek_v2": buildDeepSeekV2, "deepseek_v3": buildDeepSeekV3, "gemma3": buildGemma3, "gemma3_text": buildGemma3, "gpt_oss": buildGPTOSS,
	"gemma4": buildGemma4, "gemma4_text": buildGemma4,
	"qwen3_next": buildQwen3Next, "qwen3_5": buildQwen3Next, "qwen3_5_text": buildQwen3Next, "qwen3_5_moe": buildQwen3Next, "qwen3_5_moe_text": buildQwen3Next,
	"step3p5": buildStep, "step3p7": buildStep,
	"deepseek_v4": buildDeepSeekV4,
}

// Families lists the model types that have a forward pass.
func Families() []string {
	var names []string
	for name, build := range families {
		if build != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// NewSpec reads an architecture from a checkpoint's config. Errors wrap
// ErrArchitecture and name the key.
func NewSpec(m *topology.Model) (*Spec, error) {
	cfg := &m.Config
	if !cfg.Present {
		return nil, fmt.Errorf("%w: the checkpoint has no config.json", ErrArchitecture)
	}
	build := families[cfg.TextModelType]
	if build == nil {
		build = families[cfg.ModelType]
	}
	if build == nil {
		return nil, fmt.Errorf("%w: model_type %q has none here; there is one for %s", ErrArchitecture, cfg.TextModelType, strings.Join(Families(), ", "))
	}
	b := &builder{cfg: cfg, model: m, spec: &Spec{
		Family: cfg.TextModelType, Hidden: cfg.Hidden, Vocab: cfg.Vocab, MaxPositions: cfg.MaxPosition,
		EmbedScale: 1, Tied: m.Tied,
	}}
	if err := b.sizes(); err != nil {
		return nil, err
	}
	b.stated()
	if err := build(b); err != nil {
		return nil, err
	}
	b.unsupported()
	if b.err != nil {
		return nil, b.err
	}
	return b.spec, b.spec.check()
}

// builder reads keys and keeps the first error.
type builder struct {
	cfg   *topology.Config
	model *topology.Model
	spec  *Spec
	done  map[string]bool // keys of arithmetic that the family computes
	err   error
}

func (b *builder) refuse(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s", ErrArchitecture, fmt.Sprintf(format, args...))
	}
}

// sizes are those that every family needs.
func (b *builder) sizes() error {
	c := b.cfg
	for _, s := range []struct {
		key string
		n   int
	}{
		{"hidden_size", c.Hidden}, {"vocab_size", c.Vocab}, {"num_hidden_layers", c.Layers},
		{"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads},
	} {
		if s.n <= 0 {
			return fmt.Errorf("%w: config.json gives no %s", ErrArchitecture, s.key)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("%w: %d heads are no multiple of %d key and value heads", ErrArchitecture, c.Heads, c.KVHeads)
	}
	return nil
}

// real is a number of the text config, or what is given where there is none.
func (b *builder) real(key string, otherwise float64) float64 {
	switch v := b.cfg.Text[key].(type) {
	case nil:
		return otherwise
	case json.Number:
		x, err := v.Float64()
		if err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			return x
		}
	}
	b.refuse("%s is not a number", key)
	return otherwise
}

func (b *builder) flag(key string, otherwise bool) bool {
	switch v := b.cfg.Text[key].(type) {
	case nil:
		return otherwise
	case bool:
		return v
	}
	b.refuse("%s is neither true nor false", key)
	return otherwise
}

func (b *builder) word(key string) string {
	switch v := b.cfg.Text[key].(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b.refuse("%s is not a word", key)
	return ""
}

// only refuses words that are none of those that are known; a key that is not there
// says the first.
func (b *builder) only(key string, known ...string) {
	if v := b.word(key); v != "" && !slices.Contains(known, v) {
		b.refuse("%s %q is not known; known is %s", key, v, strings.Join(known, ", "))
	}
}

// norm are the norms with their ε.
func (b *builder) norm(otherwise float64, plusOne bool) Norm {
	return Norm{Eps: b.real("rms_norm_eps", otherwise), PlusOne: plusOne}
}

// act is the activation, which must be one of those that are known.
func (b *builder) act() Activation {
	name := b.word("hidden_act")
	if name == "" {
		name = b.word("hidden_activation")
	}
	switch name {
	case "silu", "swish", "":
		return SiLU
	case "gelu_pytorch_tanh", "gelu_new", "gelu_tanh":
		return GELUTanh
	}
	b.refuse("activation %q is not known; known are silu and gelu_pytorch_tanh", name)
	return SiLU
}

// layers makes the decoder layers and the MTP layers after them.
func (b *builder) layers(make func(i int) Layer) {
	for i := range b.cfg.Layers {
		l := make(i)
		l.Index = i
		b.spec.Layers = append(b.spec.Layers, l)
	}
}

// mtp makes the MTP layers that are stored, like the last decoder layer.
func (b *builder) mtp(make func(i int) Layer) {
	for k := range b.model.MTPLayers {
		i := b.cfg.Layers + k
		l := make(i)
		l.Index, l.MTP = i, true
		b.spec.MTP = append(b.spec.MTP, l)
	}
}

// layerType is what layer_types says of a layer, "" where it is not given.
func (b *builder) layerType(i int) string {
	switch list := b.cfg.Text["layer_types"].(type) {
	case nil:
		return ""
	case []any:
		if i < len(list) {
			if s, ok := list[i].(string); ok {
				return s
			}
		}
	}
	b.refuse("layer_types says nothing of layer %d", i)
	return ""
}

// window is the sliding window of a layer by its layer type.
func (b *builder) window(i int) int {
	switch t := b.layerType(i); t {
	case slidingAttention:
		return b.slides(i, 0)
	case fullAttention, "":
		return 0
	default:
		b.refuse("layer type %q is not known", t)
		return 0
	}
}

// slides is the sliding window of a layer that has one.
func (b *builder) slides(i, otherwise int) int {
	n := b.whole("sliding_window", otherwise)
	if n == 0 {
		b.refuse("layer %d has a sliding window and config.json gives no sliding_window", i)
	}
	return n
}

// ropeSection is the object with the parameters of a rope: of the whole model,
// or of a layer type where the config splits them.
func (b *builder) ropeSection(layerType string) map[string]any {
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		section, ok := b.cfg.Text[key].(map[string]any)
		if !ok {
			continue
		}
		if layerType != "" {
			if of, ok := section[layerType].(map[string]any); ok {
				return of
			}
		}
		return section
	}
	return nil
}

// rope compiles a rope of dim channels.
func (b *builder) rope(dim int, from topology.Rope, layerType string) Rope {
	section := b.ropeSection(layerType)
	number := func(key string, otherwise float64) float64 {
		if section[key] == nil {
			return otherwise
		}
		v, ok := section[key].(json.Number)
		if !ok {
			b.refuse("rope parameter %s is not a number", key)
			return otherwise
		}
		x, err := v.Float64()
		if err != nil {
			b.refuse("rope parameter %s is %s", key, v)
		}
		return x
	}
	r := Rope{
		Dim: dim, Theta: from.Theta, Factor: from.Factor, OriginalMax: from.OriginalMax, Max: b.cfg.MaxPosition, Attention: 1,
		LowFreq: number("low_freq_factor", 1), HighFreq: number("high_freq_factor", 4),
		BetaFast: number("beta_fast", 32), BetaSlow: number("beta_slow", 1),
	}
	if r.Theta == 0 {
		r.Theta = 10000
	}
	if dim%2 != 0 || dim <= 0 {
		b.refuse("%d rotary channels", dim)
	}
	switch from.Type {
	case "", "default", "none":
		return r
	case "proportional":
		r.Kind, r.Turned, r.Factor = RopeProportional, int(math.Floor(number("partial_rotary_factor", 1)*float64(dim)/2)), number("factor", 1)
		if r.Turned < 0 || r.Turned > dim/2 || !(r.Factor > 0) {
			b.refuse("rope type proportional, %d of %d pairs, factor %g", r.Turned, dim/2, r.Factor)
		}
		return r
	case "linear":
		r.Kind = RopeLinear
	case "dynamic":
		r.Kind = RopeDynamic
	case "llama3":
		r.Kind = RopeLlama3
	case "yarn":
		r.Kind = RopeYarn
		if v, ok := section["truncate"].(bool); ok {
			r.Untruncated = !v
		}
		r.Attention = yarnAttention(r.Factor, number)
	default:
		known := []string{"default", "linear", "dynamic", "llama3", "yarn", "proportional"}
		b.refuse("rope type %q is not known; known are %s", from.Type, strings.Join(known, ", "))
	}
	if r.Factor <= 0 {
		b.refuse("rope type %s without a factor", from.Type)
	}
	if r.OriginalMax <= 0 { // older configs say it with the model's own length, as their libraries do
		r.OriginalMax = b.cfg.MaxPosition
	}
	if (r.Kind == RopeLlama3 || r.Kind == RopeYarn) && r.OriginalMax <= 0 {
		b.refuse("rope type %s with neither original_max_position_embeddings nor max_position_embeddings", from.Type)
	}
	if r.Kind == RopeDynamic && r.Max <= 0 {
		b.refuse("rope type dynamic without max_position_embeddings")
	}
	return r
}

// yarnAttention is the factor of cosine and sine: attention_factor if given,
// with both mscales their ratio, else 0.1·ln(factor) + 1.
func yarnAttention(factor float64, number func(string, float64) float64) float64 {
	if a := number("attention_factor", 0); a > 0 {
		return a
	}
	if m, all := number("mscale", 0), number("mscale_all_dim", 0); m > 0 && all > 0 {
		return yarnScale(factor, m) / yarnScale(factor, all)
	}
	return yarnScale(factor, 1)
}

func yarnScale(factor, m float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*m*math.Log(factor) + 1
}

// grouped is attention with projections of its own for q, k and v.
func (b *builder) grouped(i int) Attention {
	c := b.cfg
	rope, layerType := c.Rope, ""
	if len(c.RopeByType) > 0 {
		layerType = b.layerType(i)
		r, ok := c.RopeByType[layerType]
		if !ok {
			b.refuse("no rope for layer type %q; there is one for %s", layerType, strings.Join(slices.Sorted(maps.Keys(c.RopeByType)), ", "))
		}
		rope = r
	}
	if c.HeadDim <= 0 {
		b.refuse("config.json gives no head_dim, and hidden_size is no multiple of the heads")
	}
	partial := rope.Partial
	if partial == 0 {
		partial = 1
	}
	return Attention{
		Heads: c.Heads, KVHeads: c.KVHeads, Dim: c.HeadDim, VDim: c.HeadDim,
		Scale: float32(1 / math.Sqrt(float64(max(c.HeadDim, 1)))),
		Rope:  b.rope(int(float64(c.HeadDim)*partial), rope, layerType),
	}
}

// number is a JSON number as f64, 0 for anything else.
func number(v any) float64 {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	x, err := n.Float64()
	if err != nil {
		return 0
	}
	return x
}
