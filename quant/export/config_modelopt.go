package export

import (
	"encoding/json"
	"slices"
	"strings"

	"quantscope/kernels"
)

// ModelOptVersion is the release of ModelOpt whose export the layout follows.
const ModelOptVersion = "0.47.0"

// modelOptAlgos are ModelOpt's names of the formats.
var modelOptAlgos = map[string]string{
	"nvfp4": "W4A16_NVFP4", "fp8": "FP8", "fp8-channel": "FP8_PER_CHANNEL_PER_TOKEN", "fp8-block128": "FP8_PB_WO",
}

type producer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// modelOptWeights is a config group's entry of ModelOpt's, which is not that of
// compressed-tensors.
type modelOptWeights struct {
	Dynamic   bool   `json:"dynamic"`
	NumBits   int    `json:"num_bits"`
	Type      string `json:"type"`
	GroupSize int    `json:"group_size,omitempty"`
	Strategy  string `json:"strategy,omitempty"`
}

type modelOptGroup struct {
	Weights modelOptWeights `json:"weights"`
	Targets []string        `json:"targets"`
}

// modelOptConfig is what ModelOpt writes: hf_quant_config.json, and the same
// said again in config.json in words near those of compressed-tensors.
func (b *planner) modelOptConfig(ignore []string) (json.RawMessage, []Text, error) {
	if b.mixed() {
		return b.modelOptMixed()
	}
	algo, exclude := modelOptAlgos[b.stores[0].words.Name], summarize(ignore, b.Modules)
	by := producer{"modelopt", ModelOptVersion}
	f := b.stores[0].words
	group := f.Group // 0 where a scale is that of a row or of the tensor
	weights := modelOptWeights{NumBits: f.Bits, Type: "float", GroupSize: group}
	if f.Scope == kernels.ScopeChannel {
		weights.Strategy = "channel"
	}
	hf, err := marshal(struct {
		Producer     producer `json:"producer"`
		Quantization any      `json:"quantization"`
	}{by, struct {
		Algo    string   `json:"quant_algo"`
		KVCache *string  `json:"kv_cache_quant_algo"`
		Group   int      `json:"group_size,omitempty"`
		Exclude []string `json:"exclude_modules"`
	}{algo, nil, group, exclude}})
	if err != nil {
		return nil, nil, err
	}
	config, err := marshal(struct {
		Groups   map[string]modelOptGroup `json:"config_groups"`
		Ignore   []string                 `json:"ignore"`
		Algo     string                   `json:"quant_algo"`
		Producer producer                 `json:"producer"`
		Method   string                   `json:"quant_method"`
		Receipt  receipt                  `json:"quantscope"`
	}{map[string]modelOptGroup{"group_0": {weights, []string{"Linear"}}}, exclude, algo, by, "modelopt", b.receipt()})
	return config, []Text{{modelOptName, hf}}, err
}

// summarize shortens a list of modules by wildcards: where no quantized module
// is below a module, module* stands for all of it, or module.* where the name
// is a number or begins the name of a quantized one.
func summarize(ignore, quantized []string) []string {
	prefixes := map[string]bool{} // dotted prefixes of quantized modules
	for _, q := range quantized {
		for q != "" && !prefixes[q] {
			prefixes[q] = true
			q = parent(q)
		}
	}
	beginsOne := func(p string) bool {
		i, _ := slices.BinarySearch(quantized, p)
		return i < len(quantized) && strings.HasPrefix(quantized[i], p)
	}
	quantized = slices.Sorted(slices.Values(quantized))
	var out []string
	for _, name := range ignore {
		pattern := name
		for i := strings.IndexByte(name, '.'); i > 0 && i < len(name); i = nextDot(name, i) {
			if top := name[:i]; !prefixes[top] {
				if pattern = top + "*"; isNumber(top[strings.LastIndexByte(top, '.')+1:]) || beginsOne(top) {
					pattern = top + ".*"
				}
				break
			}
		}
		if len(out) == 0 || out[len(out)-1] != pattern {
			out = append(out, pattern)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nextDot is the place of the next dot after i, len(name) where there is none.
func nextDot(name string, i int) int {
	if n := strings.IndexByte(name[i+1:], '.'); n >= 0 {
		return i + 1 + n
	}
	return len(name)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
