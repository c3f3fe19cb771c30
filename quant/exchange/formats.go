package exchange

import (
	"fmt"
	"strings"

	"quantscope/quant/topology"
)

// Document is a recipe in another tool's words.
type Document struct {
	Name  string // that the tool gives such a file
	Data  []byte
	Notes []Note
}

// format is a row of the table.
type format struct {
	Format
	export func(a *Assignment) (*Document, error)
	read   func(data []byte, m *topology.Model) (*reading, error)
}

// Format describes a format.
type Format struct {
	Name string `json:"name"`
	Tool string `json:"tool"`
	Help string `json:"help"`
}

var formats = []format{
	{Format{"llm-compressor", "llm-compressor 0.14", "recipe.yaml with QuantizationModifier and GPTQModifier, config_groups and ignore"}, exportLLMCompressor, readLLMCompressor},
	{Format{"compressed-tensors", "compressed-tensors 0.19", "quantization_config of config.json: config_groups and ignore"}, exportCompressed, readCompressed},
	{Format{"modelopt", "nvidia-modelopt 0.47", "hf_quant_config.json: exclude_modules, or quantized_layers of MIXED_PRECISION"}, exportModelOpt, readModelOpt},
	{Format{"tensor-type-file", "llama-quantize", "--tensor-type-file: EXPRESSION=TYPE over names of GGUF tensors"}, exportTensorTypes, readTensorTypes},
	{Format{"gptqmodel", "GPTQModel 7", "quantize_config.json with dynamic: +: and -: expressions"}, exportGPTQModel, readGPTQModel},
	{Format{"autoround", "AutoRound 0.15", "layer_config: bits, group_size, sym and data_type by module"}, exportAutoRound, readAutoRound},
	{Format{"mlx", "mlx-lm 0.32", "quantization of config.json: group_size, bits and mode by module, false for those left alone"}, exportMLX, readMLX},
}

// Formats lists what can be written and read.
func Formats() []Format {
	out := make([]Format, len(formats))
	for i, f := range formats {
		out[i] = f.Format
	}
	return out
}

func find(name string) (*format, error) {
	var known []string
	for i := range formats {
		if formats[i].Name == name {
			return &formats[i], nil
		}
		known = append(known, formats[i].Name)
	}
	return nil, fmt.Errorf("format %q: %w (known: %s)", name, ErrFormat, strings.Join(known, ", "))
}

// Export writes an assignment in a format. It was read back by the tool's rules and
// gave the same assignment.
func Export(name string, a *Assignment) (*Document, error) {
	f, err := find(name)
	if err != nil {
		return nil, err
	}
	a = a.merge()
	if len(a.used()) == 0 {
		return nil, fmt.Errorf("%s: nothing is quantized: %w", name, ErrCannot)
	}
	doc, err := f.export(a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	back, err := f.read(doc.Data, a.Model)
	if err != nil {
		return nil, fmt.Errorf("%s: what would be written is not read back: %w", name, err)
	}
	got := back.assignment(a.Model)
	if at, same := a.Same(got); !same {
		return nil, fmt.Errorf("%s: what would be written does not tell %s: %w", name, at, ErrCannot)
	}
	return doc, nil
}

// Import reads a file of a format as an assignment over a model.
func Import(name string, data []byte, m *topology.Model) (*Assignment, []Note, error) {
	f, err := find(name)
	if err != nil {
		return nil, nil, err
	}
	r, err := f.read(data, m)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	a := r.assignment(m)
	if len(a.used()) == 0 {
		return nil, r.notes, fmt.Errorf("%s: quantizes nothing of this checkpoint: %w", name, ErrForeign)
	}
	return a, r.notes, nil
}
