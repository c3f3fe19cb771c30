package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrConfig is wrapped by every error of ParseConfig.
var ErrConfig = errors.New("config.json")

// Config is what config.json says of the text model. Sizes that the file does
// not give are 0, except KVHeads and HeadDim, which follow from Heads and
// Hidden as in transformers. Present is false where there is no usable file.
type Config struct {
	Present       bool
	ModelType     string // the outermost model_type
	TextModelType string // model_type of the nested text config, else ModelType
	Architectures []string

	Hidden, Intermediate, MoEIntermediate int // MoEIntermediate is the width of one routed expert
	Layers, Heads, KVHeads, HeadDim       int
	HeadDimStated                         bool
	Vocab, MaxPosition                    int
	Experts, SharedExperts, TopK          int
	MTPLayers                             int

	QLoRA, KVLoRA, QKNope, QKRope, VHeadDim int // DeepSeek's low-rank attention
	IndexHeads, IndexDim                    int // of the indexer that chooses what sparse attention sees

	Linear LinearSizes // of layers with linear attention

	Tied       bool // meaningful where TiedStated
	TiedStated bool

	QuantMethod string // quantization_config.quant_method, "" where nothing is quantized
	QuantFormat string // its format or algorithm: nvfp4-pack-quantized, NVFP4, …
	QuantBits   int    // bits of a weight, 0 where the file does not say or groups differ
	QuantGroup  int    // weights in a group, 0 where the file does not say, groups differ or a row is one

	Rope       Rope            // the one of the whole model
	RopeByType map[string]Rope // by layer type, where they differ

	// Notes are things in the file that cannot be right or were not understood.
	Notes []string
	// Unread are those of Notes that are about values which count as absent: who computes
	// with what is usual in their place computes another model.
	Unread []string
	// Text is the object that the sizes came from, for whoever needs more.
	// Numbers are json.Number.
	Text map[string]any

	moe                   moePattern
	layerTypes            []string // of the decoder's layers and of MTP layers behind them
	window                int      // tokens that sliding layers see, 0 where none slides
	sharedKV              int      // layers at the decoder's end without keys and values of their own
	sparseRate, heavyRate int      // tokens of a compressed entry
	typeHeads             map[string]heads
	layerHeads            map[int]heads

	ropeNotes []string // those of Notes that are about a missing original_max_position_embeddings
}

// textKeys are the keys under which multimodal configs nest the text model.
var textKeys = []string{"text_config", "language_config", "llm_config"}

// ParseConfig reads a config.json, as checkpoint.ConfigJSON gives it. What is
// not a JSON object is an error; a value of the wrong type or size counts as
// absent and is in Notes.
func ParseConfig(data []byte) (Config, error) {
	root, err := parseObject(data)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	c := Config{Present: true}
	text := textSection(root)
	r := &reader{cfg: &c, obj: text}
	c.Text = text
	c.ModelType = stringOf(root["model_type"])
	c.TextModelType = stringOf(text["model_type"])
	if c.TextModelType == "" {
		c.TextModelType = c.ModelType
	}
	if c.ModelType == "" {
		c.ModelType = c.TextModelType
	}
	for _, a := range listOf(root["architectures"]) {
		c.Architectures = append(c.Architectures, stringOf(a))
	}
	r.sizes()
	r.ties(root)
	r.rope()
	r.attentionTypes()
	r.layerSizes()
	r.moePattern()
	r.contradictions()
	unread := c.Unread
	r.quantization(root) // says nothing of what is computed
	c.Unread = unread
	return c, nil
}

// textSection is the nested text config, or the whole where there is none.
func textSection(root object) object {
	if t, ok := root["thinker_config"].(object); ok {
		return textSection(t)
	}
	for _, k := range textKeys {
		if t, ok := root[k].(object); ok && (t["hidden_size"] != nil || t["num_hidden_layers"] != nil || t["model_type"] != nil) {
			return t
		}
	}
	return root
}

// reader takes values out of one object and notes what it cannot take.
type reader struct {
	cfg *Config
	obj object
}

func (r *reader) notef(format string, args ...any) {
	r.cfg.Notes = append(r.cfg.Notes, fmt.Sprintf(format, args...))
}

// unreadf notes a value that counts as absent.
func (r *reader) unreadf(format string, args ...any) {
	r.notef(format, args...)
	r.cfg.Unread = append(r.cfg.Unread, r.cfg.Notes[len(r.cfg.Notes)-1])
}

// size reads the first of the keys that is there as a count below limit.
func (r *reader) size(limit int, keys ...string) int {
	found, from := 0, ""
	for _, k := range keys {
		v, ok := r.obj[k]
		if !ok || v == nil {
			continue
		}
		n, err := countOf(v, limit)
		if err != nil {
			r.unreadf("%s: %v", k, err)
			continue
		}
		if from != "" && n != found {
			r.notef("%s is %d, but %s is %d", from, found, k, n)
			continue
		}
		if from == "" {
			found, from = n, k
		}
	}
	return found
}

// Bounds on sizes that a config may state.
const (
	maxWidth     = 1 << 24
	maxVocab     = 1 << 28
	maxPositions = 1 << 30
)

func (r *reader) sizes() {
	c := r.cfg
	c.Hidden = r.size(maxWidth, "hidden_size", "n_embd", "d_model")
	c.Intermediate = r.size(maxWidth, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
	c.MoEIntermediate = r.size(maxWidth, "moe_intermediate_size")
	c.Layers = r.size(maxLayers, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
	c.Heads = r.size(maxWidth, "num_attention_heads", "n_head", "n_heads")
	c.KVHeads = r.size(maxWidth, "num_key_value_heads", "num_attention_groups", "num_kv_heads")
	c.HeadDim = r.size(maxWidth, "head_dim")
	c.Vocab = r.size(maxVocab, "vocab_size")
	c.MaxPosition = r.size(maxPositions, "max_position_embeddings", "n_positions", "max_seq_len")
	c.Experts = r.size(maxExperts, "n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
	c.TopK = r.size(maxExperts, "num_experts_per_tok", "moe_top_k", "moe_topk", "top_k_experts", "num_experts_per_token", "experts_per_token", "moe_k")
	c.SharedExperts = r.size(maxExperts, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
	c.MTPLayers = r.size(maxLayers, "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers")
	c.QLoRA = r.size(maxWidth, "q_lora_rank")
	c.KVLoRA = r.size(maxWidth, "kv_lora_rank")
	c.QKNope = r.size(maxWidth, "qk_nope_head_dim")
	c.QKRope = r.size(maxWidth, "qk_rope_head_dim")
	c.VHeadDim = r.size(maxWidth, "v_head_dim")

	if c.SharedExperts == 0 && r.size(maxWidth, "shared_expert_intermediate_size", "share_expert_dim", "share_expert_dims") > 0 {
		c.SharedExperts = 1
	}
	if c.Experts > 0 && c.MoEIntermediate == 0 { // mixtral, gpt_oss, llama4
		c.MoEIntermediate = c.Intermediate
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	c.HeadDimStated = c.HeadDim > 0
	if !c.HeadDimStated && c.Heads > 0 && c.Hidden > 0 {
		if c.Hidden%c.Heads == 0 {
			c.HeadDim = c.Hidden / c.Heads
		} else {
			r.notef("head_dim is not given and hidden_size %d is no multiple of %d heads", c.Hidden, c.Heads)
		}
	}
}

func (r *reader) ties(root object) {
	c := r.cfg
	outer, outerOK := root["tie_word_embeddings"].(bool)
	inner, innerOK := r.obj["tie_word_embeddings"].(bool)
	switch {
	case outerOK:
		c.Tied, c.TiedStated = outer, true
		if innerOK && inner != outer {
			r.notef("tie_word_embeddings is %t, but %t in the text config", outer, inner)
		}
	case innerOK:
		c.Tied, c.TiedStated = inner, true
	}
}

// QOut is the number of outputs of q_proj: heads times their width.
func (c *Config) QOut() int { return c.Heads * c.HeadDim }

// KVOut is the number of outputs of k_proj and of v_proj.
func (c *Config) KVOut() int { return c.KVHeads * c.HeadDim }

func stringOf(v any) string { s, _ := v.(string); return s }

func listOf(v any) []any { l, _ := v.([]any); return l }

// countOf reads a count: an integer from 0, below limit.
func countOf(v any, limit int) (int, error) {
	num, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%s is not a number", brief(v))
	}
	n, err := strconv.ParseInt(num.String(), 10, 64)
	if err != nil {
		f, ferr := num.Float64()
		if ferr != nil || f != float64(int64(f)) {
			return 0, fmt.Errorf("%s is not an integer", num)
		}
		n = int64(f)
	}
	if n < 0 || n >= int64(limit) {
		return 0, fmt.Errorf("%s is outside 0 to %d", num, limit-1)
	}
	return int(n), nil
}

// brief shows a value in a message.
func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	if s := string(b); len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(string(b[:37]), "") + "..."
}
