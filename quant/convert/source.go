package convert

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// Files that say how a checkpoint is quantized.
const (
	configFile   = "config.json"
	modelOptFile = "hf_quant_config.json"
	gptqFile     = "quantize_config.json"
)

// sourceConfig is what the source's config says beyond what package layout reads:
// activations, what else is quantized, and words that a copy keeps.
type sourceConfig struct {
	said   said
	text   bool     // it stands in text_config
	files  []string // beside config.json, which the copy does not have
	layers map[string]string
	dtype  string // torch_dtype
}

// said is a quantization config of any of the layouts.
type said struct {
	Method     string                     `json:"quant_method"`
	Algo       string                     `json:"quant_algo"`
	Groups     map[string]json.RawMessage `json:"config_groups"`
	Layers     map[string]saidLayer       `json:"quantized_layers"`
	Activation string                     `json:"activation_scheme"` // of DeepSeek's fp8
	KVScheme   json.RawMessage            `json:"kv_cache_scheme"`
	KVAlgo     json.RawMessage            `json:"kv_cache_quant_algo"`
	Sparsity   json.RawMessage            `json:"sparsity_config"`
	Transform  json.RawMessage            `json:"transform_config"`
	Receipt    json.RawMessage            `json:"quantscope"`
	Producer   json.RawMessage            `json:"producer"`
	Checkpoint string                     `json:"checkpoint_format"`
}

type saidLayer struct {
	Algo string `json:"quant_algo"`
}

type saidGroup struct {
	Input  *saidArgs `json:"input_activations"`
	Output *saidArgs `json:"output_activations"`
}

type saidArgs struct {
	Dynamic  json.RawMessage `json:"dynamic"`
	Bits     int             `json:"num_bits"`
	Type     string          `json:"type"`
	Strategy string          `json:"strategy"`
	Group    *int            `json:"group_size"`
	Symm     *bool           `json:"symmetric"`
}

// source reads the config.
func (b *planner) source(context.Context) error {
	c := &sourceConfig{layers: map[string]string{}}
	b.config = c
	fail := func(file string, err error) error {
		return &checkpoint.FileError{File: b.ck.Path + "/" + file, Reason: "quantization is not readable", Err: err}
	}
	var raw json.RawMessage
	if text := b.ck.ConfigJSON(); len(text) > 0 {
		var root struct {
			Quant json.RawMessage `json:"quantization_config"`
			MLX   json.RawMessage `json:"quantization"`
			DType string          `json:"torch_dtype"`
			Type  string          `json:"dtype"`
			Text  struct {
				Quant json.RawMessage `json:"quantization_config"`
				MLX   json.RawMessage `json:"quantization"`
				DType string          `json:"torch_dtype"`
				Type  string          `json:"dtype"`
			} `json:"text_config"`
		}
		if err := json.Unmarshal(text, &root); err != nil {
			return fail(configFile, err)
		}
		c.dtype = strings.TrimPrefix(cmp.Or(root.Type, root.DType, root.Text.Type, root.Text.DType), "torch.")
		switch {
		case !none(root.Quant):
			raw = root.Quant
		case !none(root.Text.Quant):
			raw, c.text = root.Text.Quant, true
		case !none(root.MLX):
			raw = root.MLX
		case !none(root.Text.MLX):
			return fmt.Errorf("%s says quantization within text_config, where the words of another layout are not looked for: %w", b.ck.Path, ErrRefused)
		}
	}
	for _, name := range []string{gptqFile, modelOptFile} {
		side, ok := b.ck.SideFile(name)
		if !ok {
			continue
		}
		c.files = append(c.files, name)
		text, err := side.Read()
		if err != nil {
			return err
		}
		var other said
		if name == modelOptFile {
			var root struct {
				Quant said `json:"quantization"`
			}
			err = json.Unmarshal(text, &root)
			other = root.Quant
		} else {
			err = json.Unmarshal(text, &other)
		}
		if err != nil {
			return fail(name, err)
		}
		if none(raw) {
			c.said = other
		}
		for m, l := range other.Layers {
			c.layers[m] = l.Algo
		}
		if !none(other.KVAlgo) {
			c.said.KVAlgo = other.KVAlgo
		}
	}
	if !none(raw) {
		kv := c.said.KVAlgo
		if err := json.Unmarshal(raw, &c.said); err != nil {
			return fail(configFile, err)
		}
		if none(c.said.KVAlgo) {
			c.said.KVAlgo = kv
		}
	}
	for m, l := range c.said.Layers {
		c.layers[m] = l.Algo
	}
	for what, value := range map[string]json.RawMessage{"kv_cache_scheme": c.said.KVScheme, "kv_cache_quant_algo": c.said.KVAlgo, "transform_config": c.said.Transform} {
		if !none(value) && string(value) != "{}" && string(value) != `"none"` {
			return fmt.Errorf("%s says %s %.80s, which layout %s would lose: %w", b.ck.Path, what, value, b.To, ErrRefused)
		}
	}
	return nil
}

func none(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// inputsOf is how activations of a module are quantized, as the source's config says.
func (b *planner) inputsOf(p *piece) (inputs, error) {
	switch p.m.Method {
	case layout.ModelOpt:
		algo := b.config.said.Algo
		if algo == "" || algo == mixedAlgo {
			algo = b.config.layers[p.m.Name]
		}
		for _, a := range modelOptAlgos {
			if a.algo == algo {
				return a.inputs, nil
			}
		}
		return "", refuse(p.m, "its config says quant_algo %q, of which is not known how activations are quantized (known: %s)", algo, algoNames())
	case layout.FP8:
		switch b.config.said.Activation {
		case "dynamic", "":
			if p.form == fp8 && p.m.Format().Name == "fp8-block128" {
				return dynamicGroup, nil
			}
			return plainInputs, nil
		}
		return "", refuse(p.m, "its config says activation_scheme %q (known: dynamic)", b.config.said.Activation)
	case layout.CompressedTensors:
		raw, ok := b.config.said.Groups[strings.TrimPrefix(p.m.Declared, "config_groups.")]
		if !ok {
			return plainInputs, nil
		}
		if trimmed := strings.TrimSpace(string(raw)); strings.HasPrefix(trimmed, "[") {
			return "", refuse(p.m, "its config names a preset, %s, in place of a scheme", p.m.Declared)
		}
		var g saidGroup
		if err := json.Unmarshal(raw, &g); err != nil {
			return "", fmt.Errorf("%w %s: %s: %w", export.ErrSource, b.ck.Path, p.m.Declared, err)
		}
		if g.Output != nil {
			return "", refuse(p.m, "its config quantizes outputs, which layout %s cannot say", b.To)
		}
		in, known := g.Input.inputs()
		if !known {
			return "", refuse(p.m, "its config quantizes activations in a way that is not known here: %s", g.Input)
		}
		return in, nil
	}
	return plainInputs, nil
}

// String is the words.
func (a *saidArgs) String() string {
	text := fmt.Sprintf("%d bits of type %s, strategy %s, dynamic %s", a.Bits, a.Type, a.Strategy, a.Dynamic)
	if a.Group != nil {
		text += fmt.Sprintf(", group_size %d", *a.Group)
	}
	return text
}

// inputs tells the ways apart.
func (a *saidArgs) inputs() (inputs, bool) {
	if a == nil {
		return plainInputs, true
	}
	group := 0
	if a.Group != nil {
		group = *a.Group
	}
	if a.Symm != nil && !*a.Symm || a.Type != "float" {
		return "", false
	}
	dynamic := strings.Trim(string(a.Dynamic), `"`)
	switch {
	case a.Bits == 8 && a.Strategy == "token" && dynamic == "true":
		return dynamicToken, true
	case a.Bits == 8 && a.Strategy == "group" && group == 128 && dynamic == "true":
		return dynamicGroup, true
	case a.Bits == 8 && a.Strategy == "tensor" && (dynamic == "false" || dynamic == ""):
		return staticTensor, true
	case a.Bits == 4 && a.Strategy == "tensor_group" && group == 16 && dynamic == "local":
		return localGroup, true
	}
	return "", false
}

// mixedAlgo is ModelOpt's word for several algorithms.
const mixedAlgo = "MIXED_PRECISION"

// modelOptAlgos are ModelOpt's words for weights and what goes with them.
var modelOptAlgos = []struct {
	algo, name string
	inputs     inputs
}{
	{"NVFP4", "nvfp4", localGroup}, {"W4A16_NVFP4", "nvfp4", plainInputs}, {"FP8", "fp8", staticTensor},
	{"FP8_PER_CHANNEL_PER_TOKEN", "fp8-channel", dynamicToken}, {"FP8_PB_WO", "fp8-block", dynamicGroup},
}

func algoNames() string {
	var out []string
	for _, a := range modelOptAlgos {
		out = append(out, a.algo)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
