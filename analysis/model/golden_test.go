package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// The small random models of testdata and what transformers (5.17, of the
// later ones 5.24) computes of them in f32. Its own deviation from a program in f64 is at most 2e-5.
const goldenTolerance = 2e-4

// goldenModel is one of them. A family is under every golden and property test of
// this package by its row here: hidden states, logits, experts, long texts and the
// other spelling of its config are compared where the files have them.
type goldenModel struct {
	name    string
	weights float64 // how far weights of experts may be off
	all     float64 // how far all else may be; 0: goldenTolerance
	long    float64 // how far logits of long texts may be; 0: half as much again as all else
	bare    bool    // the file has weights of experts as they are before MoE.Scaling
}

var goldenModels = []goldenModel{
	{name: "llama_tied"}, {name: "llama_untied"}, {name: "qwen2"}, {name: "qwen3"},
	{name: "llama_rope_llama3"}, {name: "llama_rope_linear"}, {name: "llama_rope_yarn"}, {name: "llama_rope_dynamic"},
	{name: "qwen3_moe", weights: 1e-5}, {name: "mixtral", weights: 1e-5},
	{name: "glm4_moe", weights: 1e-5}, {name: "glm4_moe_group2", weights: 1e-5}, {name: "glm4_moe_mtp", weights: 3e-5},
	{name: "gemma3_text"},
	{name: "gemma4_moe", weights: 1e-5}, {name: "gemma4_ple"}, {name: "gemma4_both", weights: 1e-5}, {name: "gemma4_unsaid"},
	{name: "gpt_oss", weights: 1e-5},
	{name: "step3p7", weights: 3e-5, bare: true}, {name: "step3p7_mtp", weights: 3e-5, bare: true},
	{name: "deepseek_v2", weights: 3e-5}, {name: "deepseek_v2_lora", weights: 3e-5}, {name: "deepseek_v3", weights: 1e-5}, {name: "deepseek_v3_mtp", weights: 3e-5},
	{name: "qwen3_next", weights: 3e-5, all: 3e-4, long: 6e-4}, {name: "qwen3_5", all: 5e-4, long: 6e-4}, {name: "qwen3_5_moe", weights: 3e-5, all: 3e-4, long: 1e-3},
	{name: "qwen3_next_mtp", weights: 3e-5, all: 3e-4}, {name: "qwen3_5_mtp", all: 3e-4},
	{name: "deepseek_v4", weights: 3e-5}, {name: "deepseek_v4_mtp", weights: 3e-5},
}

// tolerance is how far hidden states and logits may be off.
func (m goldenModel) tolerance() float64 { return cmp.Or(m.all, goldenTolerance) }

// plainModels are the names of those whose rope does not depend on the length, with
// MTP layers left to mtpModels.
var plainModels = func() (names []string) {
	for _, m := range goldenModels {
		if m.name != "llama_rope_dynamic" && !slices.Contains(mtpModels, m.name) {
			names = append(names, m.name)
		}
	}
	return names
}()

// TestGoldenModels compares hidden states, logits, experts and their weights.
func TestGoldenModels(t *testing.T) {
	for _, m := range goldenModels {
		t.Run(m.name, func(t *testing.T) {
			f, gold := opened(t, m.name), openGolden(t, m.name+".expected.safetensors")
			o := quick()
			hidden, routed := 0, 0
			o.Layer = func(_, after int, x []float32) {
				// The last one stands in the file after the final norm only.
				name := fmt.Sprintf("hidden.%d", after)
				if !gold.has(name) {
					return
				}
				hidden++
				want, _ := gold.values(name)
				within(t, name, x[:len(want)], want, m.tolerance())
			}
			o.Routed = func(_, layer int, logits []float32, choices []Choice) {
				routed++
				checkExperts(t, m, f.spec.Layers[layer].MoE, gold, fmt.Sprintf("layer%d.", layer), logits, choices)
			}
			x, logits := logitsOf(t, f, f.source(), gold.chunks("input_ids"), o)
			want, _ := gold.values("logits")
			within(t, "logits", logits, want, m.tolerance())
			head, err := NewHead(t.Context(), f.spec, f.source(), o)
			if err != nil {
				t.Fatal(err)
			}
			want, _ = gold.values("final_norm")
			normed := make([]float32, len(x)/f.spec.Width()*f.spec.Hidden)
			head.Normed(normed, x)
			within(t, "final norm", normed[:len(want)], want, m.tolerance())
			if h, r := gold.count("hidden."), gold.count("expert_ids"); hidden != h || routed != r || h != len(f.spec.Layers)+1 {
				t.Errorf("compared %d hidden states and %d routers of %d layers, the file has %d and %d", hidden, routed, len(f.spec.Layers), h, r)
			}
			if (gold.has("long.logits_last4") || gold.has("long.logits")) && m.name != "llama_rope_dynamic" {
				checkLong(t, f, gold, cmp.Or(m.long, m.tolerance()*1.5))
			}
		})
	}
}

// checkLong compares the logits of texts of 200 tokens: all, or the last ones.
func checkLong(t *testing.T, f *fixture, gold golden, tol float64) {
	t.Helper()
	chunks := gold.chunks("long.input_ids")
	_, logits := logitsOf(t, f, f.source(), chunks, quick())
	name := "long.logits_last4"
	if !gold.has(name) {
		name = "long.logits"
	}
	want, shape := gold.values(name)
	n, tail := len(logits)/len(chunks), int(shape[1]*shape[2])
	for i := range chunks {
		within(t, fmt.Sprintf("long %d", i), logits[(i+1)*n-tail:(i+1)*n], want[i*tail:][:tail], tol)
	}
}

// TestSpellings: a config in the release's words and one in transformers' say the same.
func TestSpellings(t *testing.T) {
	for _, m := range goldenModels {
		if _, err := os.Stat(filepath.Join("testdata", m.name, "config.hub.json")); err != nil {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			got, err := edited(t, m.name, func(c map[string]any) { released(t, m.name, c) })
			if err != nil {
				t.Fatal(err)
			}
			if want := opened(t, m.name).spec; !reflect.DeepEqual(got, want) {
				t.Errorf("config.hub.json gives\n%+v\nconfig.json\n%+v", got, want)
			}
		})
	}
}

// released puts the config in the release's words in the place of another.
func released(t *testing.T, name string, config map[string]any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name, "config.hub.json"))
	if err != nil {
		t.Fatal(err)
	}
	clear(config)
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
}

// checkExperts compares choices, which the file has in ascending order.
func checkExperts(t *testing.T, m goldenModel, moe *MoE, gold golden, prefix string, logits []float32, choices []Choice) {
	t.Helper()
	want, shape := gold.values(prefix + "expert_ids")
	weights, _ := gold.values(prefix + "expert_weights")
	if gold.has(prefix + "router_logits") {
		router, _ := gold.values(prefix + "router_logits")
		within(t, prefix+"router_logits", logits, router, m.tolerance())
	}
	k := int(shape[len(shape)-1])
	if len(choices)*k != len(want) {
		t.Fatalf("%s: %d choices of %d, want %d in all", prefix, len(choices), k, len(want))
	}
	for i, c := range choices {
		order := slices.Sorted(slices.Values(c.Experts))
		for j, e := range order {
			if float32(e) != want[i*k+j] {
				t.Fatalf("%s token %d: experts %v, want %v", prefix, i, order, want[i*k:i*k+k])
			}
			w := float64(c.Weights[slices.Index(c.Experts, e)])
			if m.bare {
				w /= float64(moe.Scaling)
			}
			if d := math.Abs(w - float64(weights[i*k+j])); !(d <= m.weights) {
				t.Fatalf("%s token %d expert %d: weight off by %g, want at most %g", prefix, i, e, d, m.weights)
			}
		}
	}
}

// TestGoldenLengths compares texts that are shorter and longer than the model
// was made for: dynamic rope depends on the length.
func TestGoldenLengths(t *testing.T) {
	f, gold := opened(t, "llama_rope_dynamic"), openGolden(t, "llama_rope_dynamic.expected.safetensors")
	_, logits := logitsOf(t, f, f.source(), gold.chunks("short.input_ids"), quick())
	want, _ := gold.values("short.logits")
	within(t, "short", logits, want, goldenTolerance)
	checkLong(t, f, gold, goldenTolerance)
}
