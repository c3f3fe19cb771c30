package export

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// mixedAlgo is ModelOpt's word for a checkpoint of several algorithms.
const mixedAlgo = "MIXED_PRECISION"

// modelOptLayer is what ModelOpt says of one module of a mixture.
type modelOptLayer struct {
	Algo  string `json:"quant_algo"`
	Group int    `json:"group_size,omitempty"`
}

// modelOptMixedGroup is a config group of a mixture. ModelOpt says nothing of
// modules that are not quantized there: what is not listed is not.
type modelOptMixedGroup struct {
	Input   *modelOptWeights `json:"input_activations,omitempty"`
	Weights *modelOptWeights `json:"weights"`
	Targets []string         `json:"targets"`
}

// modelOptGroups are the groups that ModelOpt has words for in a mixture.
var modelOptGroups = map[string]modelOptMixedGroup{
	"nvfp4":       {Weights: &modelOptWeights{NumBits: 4, Type: "float", GroupSize: 16}},
	"fp8":         {Weights: &modelOptWeights{NumBits: 8, Type: "float"}, Input: &modelOptWeights{NumBits: 8, Type: "float"}},
	"fp8-channel": {Weights: &modelOptWeights{NumBits: 8, Type: "float", Strategy: "channel"}, Input: &modelOptWeights{NumBits: 8, Type: "float"}},
}

// modelOptMixed is modelOptConfig of several schemes: a group for each, which
// lists its modules, and each module's algorithm.
func (b *planner) modelOptMixed() (json.RawMessage, []Text, error) {
	by := producer{"modelopt", ModelOptVersion}
	layers := make(map[string]modelOptLayer, len(b.Modules))
	for i, m := range b.Modules {
		f := b.storeOf(i).words
		layers[m] = modelOptLayer{modelOptAlgos[f.Name], f.Group}
	}
	groups := map[string]modelOptMixedGroup{}
	for i, f := range b.formats() {
		g := modelOptGroups[f.Name]
		g.Targets = b.modulesOf(func(s *stored) bool { return s.words.Name == f.Name })
		groups[fmt.Sprintf("group_%d", i)] = g
	}
	hf, err := marshal(struct {
		Producer     producer `json:"producer"`
		Quantization any      `json:"quantization"`
	}{by, struct {
		Algo    string                   `json:"quant_algo"`
		KVCache *string                  `json:"kv_cache_quant_algo"`
		Layers  map[string]modelOptLayer `json:"quantized_layers"`
	}{mixedAlgo, nil, layers}})
	if err != nil {
		return nil, nil, err
	}
	config, err := marshal(struct {
		Groups   map[string]modelOptMixedGroup `json:"config_groups"`
		Layers   map[string]modelOptLayer      `json:"quantized_layers"`
		Ignore   []string                      `json:"ignore"`
		Algo     string                        `json:"quant_algo"`
		Producer producer                      `json:"producer"`
		Method   string                        `json:"quant_method"`
		Receipt  receipt                       `json:"quantscope"`
	}{groups, layers, []string{}, mixedAlgo, by, "modelopt", b.receipt()})
	return config, []Text{{modelOptName, hf}}, err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
