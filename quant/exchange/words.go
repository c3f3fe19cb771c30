package exchange

import (
	"fmt"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/export"
)

// weightWords is what compressed-tensors and llm-compressor say of weights.
type weightWords struct {
	Bits      int    `json:"num_bits" yaml:"num_bits"`
	Type      string `json:"type" yaml:"type"`
	Strategy  string `json:"strategy" yaml:"strategy"`
	Group     *int   `json:"group_size" yaml:"group_size"`
	Block     []int  `json:"block_structure" yaml:"block_structure"`
	Symmetric *bool  `json:"symmetric" yaml:"symmetric"`
}

// scheme is the scheme of ours that weights are stored in by these words.
func (w *weightWords) scheme() (string, error) {
	group := 0
	if w.Group != nil && *w.Group > 0 {
		group = *w.Group
	}
	symmetric := w.Symmetric == nil || *w.Symmetric
	strategy := w.Strategy
	if strategy == "" { // what the library takes it for
		switch {
		case group > 0:
			strategy = "group"
		case w.Group != nil && *w.Group == -1:
			strategy = "channel"
		default:
			strategy = "tensor"
		}
	}
	name := ""
	switch w.Type {
	case "float":
		switch {
		case w.Bits == 4 && strategy == "tensor_group" && group == 16:
			name = "nvfp4"
		case w.Bits == 4 && strategy == "group" && group == 32:
			name = "mxfp4"
		case w.Bits == 8 && strategy == "tensor":
			name = "fp8"
		case w.Bits == 8 && strategy == "channel":
			name = "fp8-channel"
		case w.Bits == 8 && strategy == "block" && len(w.Block) == 2 && w.Block[0] == 128 && w.Block[1] == 128:
			name = "fp8-block128"
		}
	case "int", "":
		switch {
		case w.Bits != 4:
		case strategy == "channel":
			name = "int4-channel"
		case strategy == "group":
			name = fmt.Sprintf("int4-g%d", group)
		}
		if name != "" && symmetric {
			name += "-sym"
		}
	}
	if _, err := kernels.FormatByName(name); name == "" || err != nil {
		return "", fmt.Errorf("weights of %d bits, type %s, strategy %s, group %d: %w (known: %s)", w.Bits, word(w.Type), strategy, group, ErrForeign, strings.Join(export.Formats(export.CompressedTensors), ", "))
	}
	return name, nil
}

// presets are llm-compressor's and compressed-tensors' names of schemes, and what they
// do with activations, which is not stored here.
var presets = map[string]struct{ scheme, activations string }{
	"NVFP4A16":    {"nvfp4", ""},
	"NVFP4":       {"nvfp4", "NVFP4 as they come under a calibrated global scale"},
	"MXFP4A16":    {"mxfp4", ""},
	"MXFP4":       {"mxfp4", "MXFP4 as they come"},
	"FP8":         {"fp8", "FP8 under a calibrated scale"},
	"FP8_DYNAMIC": {"fp8-channel", "FP8 a token as they come"},
	"FP8_BLOCK":   {"fp8-block128", "FP8 in groups of 128 as they come"},
	"W4A16":       {"int4-g128-sym", ""},
	"W4A16_ASYM":  {"int4-g128", ""},
	"W4AFP8":      {"int4-g128-sym", "FP8 a token as they come"},
	"W4A8":        {"int4-g128-sym", "8-bit integers a token as they come"},
}

// intWords are bits, group and symmetry of a format of 4-bit integers.
func intWords(scheme string) (group int, symmetric, ok bool) {
	f, err := kernels.FormatByName(scheme)
	if err != nil || f.Element != "int4" {
		return 0, false, false
	}
	if group = f.Group; f.Scope == kernels.ScopeChannel {
		group = -1
	}
	return group, f.MinBits == 0, true
}

// intScheme is the scheme of 4-bit integers, "" where there is none.
func intScheme(bits, group int, symmetric bool) string {
	name := fmt.Sprintf("int4-g%d", group)
	if group <= 0 {
		name = "int4-channel"
	}
	if symmetric {
		name += "-sym"
	}
	if _, err := kernels.FormatByName(name); bits != 4 || err != nil {
		return ""
	}
	return name
}
