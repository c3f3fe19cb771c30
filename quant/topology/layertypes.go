package topology

import (
	"fmt"
	"slices"
	"strings"
)

// Types of attention that configs name in layer_types and this program knows more of.
const (
	FullAttention      = "full_attention"
	SlidingAttention   = "sliding_attention"
	LinearAttention    = "linear_attention"
	CompressedSparse   = "compressed_sparse_attention"  // of DeepSeek-V4: an indexer chooses among entries of a few tokens each
	HeavilyCompressed  = "heavily_compressed_attention" // of DeepSeek-V4: all entries of many tokens each
	defaultSparseRate  = 4
	defaultHeavyRate   = 128
	defaultFullEvery   = 4 // qwen3_next without layer_types and full_attention_interval
	gemma4FullEvery    = 6 // gemma4 without layer_types
	maxLayerTypesNoted = 3
)

// LayerType is the kind of attention that a layer has according to the config, as
// transformers names it: of the decoder's layers and, numbered on, of MTP layers. It
// is "" where the config says nothing; such layers see all tokens.
func (c *Config) LayerType(layer int) string {
	if layer < 0 || layer >= len(c.layerTypes) {
		return ""
	}
	return c.layerTypes[layer]
}

// Window is how many tokens a layer sees, itself included; 0 where it sees all.
// Layers of DeepSeek-V4 that see compressed entries see those beside the window.
func (c *Config) Window(layer int) int {
	switch c.LayerType(layer) {
	case SlidingAttention, CompressedSparse, HeavilyCompressed:
		return c.window
	}
	return 0
}

// CompressRate is how many tokens a compressed entry of a layer stands for; 0 where
// the layer has none.
func (c *Config) CompressRate(layer int) int {
	switch c.LayerType(layer) {
	case CompressedSparse:
		return c.sparseRate
	case HeavilyCompressed:
		return c.heavyRate
	}
	return 0
}

// SharedKV says whether a layer has no keys and values of its own and uses those of
// one before it: the last num_kv_shared_layers of the decoder.
func (c *Config) SharedKV(layer int) bool {
	return layer < c.Layers && layer >= c.Layers-c.sharedKV
}

// attentionTypes fills in the types of layers: those that layer_types lists, else
// what the family's own keys say, else what follows from a sliding window.
func (r *reader) attentionTypes() {
	c := r.cfg
	if r.windowUsed() {
		c.window = r.size(maxPositions, "sliding_window")
	}
	c.sharedKV = r.size(maxLayers, "num_kv_shared_layers")
	c.sparseRate, c.heavyRate = defaultSparseRate, defaultHeavyRate
	if rates, ok := r.obj["compress_rates"].(object); ok {
		of := &reader{cfg: c, obj: rates}
		c.sparseRate = max(1, of.size(maxPositions, CompressedSparse))
		c.heavyRate = max(1, of.size(maxPositions, HeavilyCompressed))
	}
	if n := r.size(maxPositions, "compress_rate_csa"); n > 0 {
		c.sparseRate = n
	}
	if n := r.size(maxPositions, "compress_rate_hca"); n > 0 {
		c.heavyRate = n
	}
	switch family := c.family(); {
	case r.has("layer_types"):
		c.layerTypes = r.typeList("layer_types", "mtp_layer_types")
	case r.has("compress_ratios"):
		c.layerTypes = r.ratios()
	case family == "deepseek_v4":
		for l := range c.Layers {
			c.layerTypes = append(c.layerTypes, HeavilyCompressed)
			if l >= 2 && l%2 != 0 {
				c.layerTypes[l] = CompressedSparse
			}
		}
	case r.has("linear_num_value_heads") || r.has("full_attention_interval"):
		c.layerTypes = periodic(c.Layers, r.interval(), LinearAttention)
	case family == "gemma4" || family == "gemma4_unified":
		c.layerTypes = periodic(c.Layers, gemma4FullEvery, SlidingAttention)
	case c.window > 0:
		c.layerTypes = r.windowTypes()
	}
	if strings.HasPrefix(c.family(), "gemma4") && c.Layers > 0 && len(c.layerTypes) >= c.Layers {
		c.layerTypes[c.Layers-1] = FullAttention // whatever the config says, in transformers too
	}
}

// family is the model type of the text model without the suffix _text.
func (c *Config) family() string { return strings.TrimSuffix(c.TextModelType, "_text") }

// typeList reads a list with one entry a layer, MTP layers behind or in a list of
// their own.
func (r *reader) typeList(key, mtpKey string) []string {
	list, ok := r.obj[key].([]any)
	if !ok {
		r.notef("%s: %s is no list", key, brief(r.obj[key]))
		return nil
	}
	n, mtp := r.cfg.Layers, r.cfg.MTPLayers
	if n > 0 && len(list) != n && len(list) != n+mtp {
		r.notef("%s has %s, num_hidden_layers is %d", key, countedEntries(len(list)), n)
	}
	if n > 0 && len(list) == n {
		list = append(slices.Clip(list), listOf(r.obj[mtpKey])...)
	}
	types := make([]string, 0, min(len(list), maxLayers))
	wrong := 0
	for i, v := range list {
		if i == maxLayers {
			break
		}
		t, ok := v.(string)
		if !ok {
			if wrong++; wrong <= maxLayerTypesNoted {
				r.notef("%s[%d]: %s is no type of a layer", key, i, brief(v))
			}
		}
		types = append(types, t)
	}
	return types
}

func countedEntries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// ratios reads DeepSeek-V4's compress_ratios: 0 for a sliding window, 4 and 128 for
// the two kinds of compression, one entry a layer and one for an MTP layer.
func (r *reader) ratios() []string {
	c := r.cfg
	list := listOf(r.obj["compress_ratios"])
	if len(list) < c.Layers || len(list) > c.Layers+c.MTPLayers {
		r.notef("compress_ratios has %s, num_hidden_layers is %d", countedEntries(len(list)), c.Layers)
	}
	var types []string
	for i, v := range list {
		if i == maxLayers {
			break
		}
		n, err := countOf(v, maxPositions)
		t := ""
		switch {
		case err != nil:
			r.notef("compress_ratios[%d]: %v", i, err)
		case n == 0:
			t = SlidingAttention
		case n == defaultSparseRate:
			t = CompressedSparse
		case n == defaultHeavyRate:
			t = HeavilyCompressed
		default:
			r.notef("compress_ratios[%d]: %d is none of 0, %d and %d", i, n, defaultSparseRate, defaultHeavyRate)
		}
		types = append(types, t)
	}
	return types
}

// interval is after how many layers one with full attention comes.
func (r *reader) interval() int {
	if !r.has("full_attention_interval") {
		return defaultFullEvery
	}
	n := r.size(maxLayers, "full_attention_interval")
	if n == 0 {
		r.notef("full_attention_interval is 0")
		return defaultFullEvery
	}
	return n
}

// periodic is every so many layers full attention, another type before it.
func periodic(layers, every int, other string) []string {
	types := make([]string, layers)
	for l := range types {
		types[l] = other
		if (l+1)%every == 0 {
			types[l] = FullAttention
		}
	}
	return types
}

// windowTypes follows from a sliding window without layer_types, as in transformers:
// a period, whose last layer sees all; max_window_layers; else all layers slide.
func (r *reader) windowTypes() []string {
	c := r.cfg
	if n := r.windowPeriod(); n > 0 {
		return periodic(c.Layers, n, SlidingAttention)
	}
	first := 0
	if r.has("max_window_layers") {
		first = r.size(maxLayers, "max_window_layers")
	}
	types := make([]string, c.Layers)
	for l := range types {
		types[l] = SlidingAttention
		if l < first {
			types[l] = FullAttention
		}
	}
	return types
}

// windowUsed is what use_sliding_window says. Families whose configs have that word
// do without the window where it is missing.
func (r *reader) windowUsed() bool {
	if used, ok := r.obj["use_sliding_window"].(bool); ok {
		return used
	}
	family := r.cfg.TextModelType
	return !strings.HasPrefix(family, "qwen2") && !strings.HasPrefix(family, "qwen3") && family != "smollm3"
}

// windowPeriods are what transformers takes where a config has neither layer_types
// nor sliding_window_pattern, as Gemma 3's first ones.
var windowPeriods = map[string]int{
	"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n_text": 5,
	"cohere2": 4, "exaone4": 4, "olmo3": 4, "gpt_oss": 2,
}

// windowPeriod is after how many layers one comes that sees all, 0 where nothing says.
// A pattern may be written in letters, LLLG.
func (r *reader) windowPeriod() int {
	if letters, ok := r.obj["sliding_window_pattern"].(string); ok {
		return len(letters)
	}
	if r.has("sliding_window_pattern") {
		if n := r.size(maxLayers, "sliding_window_pattern"); n > 0 {
			return n
		}
	}
	return windowPeriods[r.cfg.TextModelType]
}
