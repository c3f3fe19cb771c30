package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// quarkJSON is what Quark's config says.
type quarkJSON struct {
	Global  *quarkLayer           `json:"global_quant_config"`
	ByName  map[string]quarkLayer `json:"layer_quant_config"`
	ByClass map[string]quarkLayer `json:"layer_type_quant_config"`
	Exclude []string              `json:"exclude"`
	Export  struct {
		Pack   string `json:"pack_method"`
		Format string `json:"weight_format"`
	} `json:"export"`
}

type quarkLayer struct {
	Weight json.RawMessage `json:"weight"` // an object; a list where it is quantized more than once
}

type quarkWeight struct {
	DType     string `json:"dtype"`
	Scheme    string `json:"qscheme"`
	GroupSize *int   `json:"group_size"`
	Block     block  `json:"block_size"`
	Element   string `json:"mx_element_dtype"`
}

// quarkSchemes are Quark's words for what shares a scale.
var quarkSchemes = map[string]string{"per_tensor": byTensor, "per_channel": byChannel, "per_group": byGroup, "per_block": byBlock}

// quarkBits are the dtypes of weights that are read.
var quarkBits = map[string]weightArgs{
	"int4": {Bits: 4, Type: "int"}, "uint4": {Bits: 4, Type: "int"}, "int8": {Bits: 8, Type: "int"}, "uint8": {Bits: 8, Type: "int"},
	"fp8_e4m3": {Bits: 8, Type: "float"}, "fp4": {Bits: 4, Type: "float"},
}

// readQuark takes over what Quark's config says: the global group is for every Linear,
// a pattern or a class takes precedence.
func (c *config) readQuark(raw []byte) error {
	var q quarkJSON
	if err := json.Unmarshal(raw, &q); err != nil {
		return err
	}
	c.packMethod = strings.ToLower(q.Export.Pack)
	if f := q.Export.Format; f != "" && f != "real_quantized" {
		c.packMethod = "weight_format " + f // which orderOf refuses
	}
	add := func(section string, patterns []string, l *quarkLayer) error {
		args, err := l.args()
		if err != nil {
			return fmt.Errorf("%s: %w", section, err)
		}
		if args == nil {
			return nil
		}
		c.addTargetsAs(section, patterns, args, wildcards)
		return nil
	}
	if q.Global != nil {
		if err := add("global_quant_config", []string{linear}, q.Global); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(q.ByClass) {
		l := q.ByClass[name]
		if err := add("layer_type_quant_config."+name, []string{name[strings.LastIndexByte(name, '.')+1:]}, &l); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(q.ByName) {
		l := q.ByName[name]
		if err := add("layer_quant_config."+name, []string{name}, &l); err != nil {
			return err
		}
	}
	for _, p := range q.Exclude {
		c.entries = append(c.entries, newEntry(c.file, "exclude", p, wildcards))
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// args are what a layer says of its weights; nil where it says nothing.
func (l *quarkLayer) args() (*weightArgs, error) {
	raw := bytes.TrimSpace(l.Weight)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '[' {
		return &weightArgs{DType: "several, one after another"}, nil // which quarkArgs refuses
	}
	var w quarkWeight
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("weight: %w", err)
	}
	args := quarkBits[w.DType]
	args.DType, args.GroupSize, args.Block = w.DType, w.GroupSize, w.Block
	args.Strategy = w.Scheme
	if s, ok := quarkSchemes[w.Scheme]; ok {
		args.Strategy = s
	}
	if w.Element != "" {
		args.DType += " of " + w.Element
	}
	return &args, nil
}
