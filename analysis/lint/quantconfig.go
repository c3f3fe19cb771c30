package lint

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// quantization is what the rules here need of a quantization config beside what
// package layout knows: activations, and what it asks for.
type quantization struct {
	File        string
	Method      string
	Algo        string // of ModelOpt
	ScaleFormat string
	Groups      map[string]quantGroup // by name
	Layers      map[string]string     // ModelOpt's quantized_layers: algorithm by module
	Bits        int                   // of GPTQ and AWQ
	GroupSize   int
}

// quantGroup is a member of config_groups.
type quantGroup struct {
	Weights *quantArgs `json:"weights"`
	Inputs  *quantArgs `json:"input_activations"`
}

// quantArgs is what a group says of weights or activations.
type quantArgs struct {
	Bits      int             `json:"num_bits"`
	Type      string          `json:"type"`
	Strategy  string          `json:"strategy"`
	Group     *int            `json:"group_size"`
	Symmetric *bool           `json:"symmetric"`
	Dynamic   json.RawMessage `json:"dynamic"`
}

// static says whether a scale from calibration is needed: dynamic false, or local,
// which has the block scales alone made as inputs come.
func (a *quantArgs) static() bool {
	switch strings.TrimSpace(string(a.Dynamic)) {
	case "true":
		return false
	case `"local"`:
		return true
	case "false":
		return a.Strategy == "" || a.Strategy == "tensor" || a.Strategy == "tensor_group"
	}
	return false
}

// readQuantization reads the config as far as it can be; what is wrong with it is
// said by the rule about it.
func readQuantization(c *checkpoint.Checkpoint) quantization {
	var q quantization
	root := map[string]json.RawMessage{}
	if json.Unmarshal(c.ConfigJSON(), &root) == nil {
		raw := root["quantization_config"]
		if len(raw) == 0 || string(raw) == "null" {
			text := map[string]json.RawMessage{}
			if json.Unmarshal(root["text_config"], &text) == nil {
				raw = text["quantization_config"]
			}
		}
		if len(raw) > 0 && string(raw) != "null" {
			q.take("config.json", raw)
		}
	}
	if side, ok := c.SideFile("hf_quant_config.json"); ok {
		if text, err := side.Read(); err == nil {
			hf := map[string]json.RawMessage{}
			if json.Unmarshal(text, &hf) == nil && len(hf["quantization"]) > 0 {
				q.takeHF(hf["quantization"])
			}
		}
	}
	return q
}

// take reads one section, member by member, so that one of another type does not
// hide the others.
func (q *quantization) take(file string, raw json.RawMessage) {
	m := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	q.File, q.Groups, q.Layers = file, map[string]quantGroup{}, map[string]string{}
	text := func(key string) (s string) {
		_ = json.Unmarshal(m[key], &s) // absent, or another type
		return s
	}
	q.Method, q.Algo, q.ScaleFormat = text("quant_method"), text("quant_algo"), text("scale_fmt")
	_ = json.Unmarshal(m["bits"], &q.Bits)
	_ = json.Unmarshal(m["group_size"], &q.GroupSize)
	groups := map[string]json.RawMessage{}
	if json.Unmarshal(m["config_groups"], &groups) == nil {
		for name, raw := range groups {
			var g quantGroup
			if json.Unmarshal(raw, &g) == nil {
				q.Groups["config_groups."+name] = g
			}
		}
	}
	layers := map[string]json.RawMessage{}
	if json.Unmarshal(m["quantized_layers"], &layers) == nil {
		for name, raw := range layers {
			var l struct {
				Algo string `json:"quant_algo"`
			}
			if json.Unmarshal(raw, &l) == nil {
				q.Layers[name] = l.Algo
			}
		}
	}
}

// takeHF reads ModelOpt's own file where config.json says nothing, or for the
// algorithm that it leaves out.
func (q *quantization) takeHF(raw json.RawMessage) {
	var hf quantization
	hf.take("hf_quant_config.json", raw)
	hf.Method = "modelopt"
	switch {
	case q.File == "":
		*q = hf
	case q.Method == "modelopt" && q.Algo == "":
		q.Algo = hf.Algo
		if len(q.Layers) == 0 {
			q.Layers = hf.Layers
		}
	}
}

// algo is ModelOpt's algorithm of a module.
func (q *quantization) algo(module string) string {
	if a, ok := q.Layers[module]; ok {
		return a
	}
	if q.Method == "modelopt" {
		return q.Algo
	}
	return ""
}

// groupNames lists the groups in order.
func (q *quantization) groupNames() []string { return slices.Sorted(maps.Keys(q.Groups)) }

// staticAlgos are ModelOpt's algorithms that quantize inputs with a scale from
// calibration.
var staticAlgos = map[string]bool{"NVFP4": true, "NVFP4_AWQ": true, "NVFP4_SVD": true, "FP8": true, "W4A8_AWQ": true, "W4A8_NVFP4_FP8": true, "W8A8_SQ_PER_CHANNEL": true}

// dynamicAlgos are those that make scales of inputs as these come. Their groups in
// config.json say dynamic false all the same, which is how ModelOpt writes them.
var dynamicAlgos = map[string]bool{"FP8_PER_CHANNEL_PER_TOKEN": true, "FP8_PB_REAL": true, "MXFP8": true}

// isW4A8 says whether arguments are NVFP4 weights with FP8 inputs.
func (g *quantGroup) isW4A8() bool {
	w, in := g.Weights, g.Inputs
	return w != nil && in != nil && w.Bits == 4 && w.Type == "float" && (w.Group == nil || *w.Group == 16) && in.Bits == 8 && in.Type == "float"
}
