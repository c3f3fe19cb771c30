package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// What configs say beside how weights are stored: what is refused, since values would
// be wrong without it, and what is only noted.

// besideJSON is what ModelOpt's and compressed-tensors' configs say beyond groups.
type besideJSON struct {
	Sparsity  json.RawMessage `json:"sparsity_config"`
	Transform json.RawMessage `json:"transform_config"`
	Cache     json.RawMessage `json:"kv_cache_scheme"`
	CacheAlgo string          `json:"kv_cache_quant_algo"`
	Ratio     json.RawMessage `json:"global_compression_ratio"`
	Status    string          `json:"quantization_status"`
}

// legacyFormats are formats of compressed-tensors that its current release writes no
// more, and that are not read here.
var legacyFormats = []string{"marlin-24", "sparse-24-bitmask", "sparse-bitmask"}

// knownFormats are those that are read.
var knownFormats = []string{
	"", "dense", "fakequant", "int-quantized", "float-quantized", "naive-quantized", "pack-quantized", "mixed-precision",
	"nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
}

func given(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "{}"
}

// readBeside takes over what a config says beside its groups.
func (c *config) readBeside(q *quantJSON) error {
	if c.method == ModelOpt || c.method == "" {
		if q.GroupSize != nil {
			c.group = *q.GroupSize
		}
	}
	if given(q.Cache) || q.CacheAlgo != "" {
		what := q.CacheAlgo
		if what == "" {
			var args weightArgs
			if json.Unmarshal(q.Cache, &args) == nil && args.Bits > 0 {
				what = fmt.Sprintf("%d-bit %s", args.Bits, args.Type)
			}
		}
		c.notes = append(c.notes, strings.TrimSpace("keys and values are cached quantized "+what)+": the scales are no part of the weights")
	}
	if c.method != CompressedTensors {
		return nil
	}
	if given(q.Ratio) {
		c.notes = append(c.notes, fmt.Sprintf("global_compression_ratio %s is for information", bytes.TrimSpace(q.Ratio)))
	}
	if given(q.Sparsity) {
		var s struct {
			Format    string `json:"format"`
			Structure string `json:"sparsity_structure"`
		}
		if err := json.Unmarshal(q.Sparsity, &s); err != nil {
			return fmt.Errorf("sparsity_config: %w", err)
		}
		if s.Format != "" && s.Format != "dense" {
			c.refused = fmt.Sprintf("sparsity_config of %s says %s: weights without their zeros are not read", c.file, s.Format)
		}
	}
	switch {
	case slices.Contains(legacyFormats, c.format):
		c.refused = fmt.Sprintf("format %q of %s is not read: compressed-tensors itself has given it up", c.format, c.file)
	case !slices.Contains(knownFormats, c.format):
		c.refused = fmt.Sprintf("format %q of %s is not known (known: %s)", c.format, c.file, strings.Join(knownFormats[1:], ", "))
	case given(q.Transform):
		return c.readTransform(q.Transform)
	}
	return nil
}

// readTransform refuses rotations that a server applies to activations as it goes: the
// weights alone are not the map then. Those that are in the weights cancel out.
func (c *config) readTransform(raw json.RawMessage) error {
	var t struct {
		Groups map[string]struct {
			Type  string `json:"type"`
			Apply []struct {
				Location string `json:"location"`
			} `json:"apply"`
		} `json:"config_groups"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return fmt.Errorf("transform_config: %w", err)
	}
	for _, name := range sortedKeys(t.Groups) {
		g := t.Groups[name]
		for _, a := range g.Apply {
			if !strings.HasPrefix(a.Location, "weight_") {
				c.refused = fmt.Sprintf("transform_config.%s of %s applies a %s to the %s of modules as they run, which is not read", name, c.file, g.Type, a.Location)
				return nil
			}
		}
	}
	if len(t.Groups) > 0 {
		c.notes = append(c.notes, "weights are rotated (transform_config), and are not those of the source before that")
	}
	return nil
}

// layerConfig is what ModelOpt's quantized_layers says of one.
type layerConfig struct {
	Algo      string `json:"quant_algo"`
	GroupSize int    `json:"group_size"`
}

// addLayers adds ModelOpt's list of layers, which stands for targets where there are
// no groups.
func (c *config) addLayers(layers map[string]json.RawMessage, targets bool) error {
	if len(layers) == 0 {
		return nil
	}
	c.layers = make(map[string]layerConfig, len(layers))
	var names []string
	for _, name := range sortedKeys(layers) {
		var l layerConfig
		if err := json.Unmarshal(layers[name], &l); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.layers[name] = l
		names = append(names, name)
	}
	if !targets {
		return nil
	}
	g := configGroup{name: "quantized_layers", first: len(c.entries)}
	for _, n := range names {
		c.entries = append(c.entries, newEntry(c.file, g.name, n, exactOrRegex))
	}
	g.last = len(c.entries)
	c.groups = append(c.groups, g)
	return nil
}
