package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Names of the files that say how a checkpoint is quantized.
const (
	configFile   = "config.json"
	modelOptFile = "hf_quant_config.json"
)

// Values of quant_method that are known.
const (
	ModelOpt          = "modelopt"
	CompressedTensors = "compressed-tensors"
	FP8               = "fp8"   // DeepSeek's own: E4M3 with weight_scale_inv
	MXFP4             = "mxfp4" // gpt-oss: blocks and scales
	GPTQ              = "gptq"  // AutoGPTQ and GPTQModel: codes in words along the inputs
	AWQ               = "awq"   // AutoAWQ's GEMM: codes in words along the outputs
	Marlin            = "marlin"
	Quark             = "quark" // AMD's
	Quantscope        = "quantscope"
	MLX               = "mlx" // named by no quant_method, but by its own key
)

// ownVersions are the versions of quantscope's layout that are read; the second has
// formats of two bits.
var ownVersions = []string{"1", "2"}

// config is one description of how a checkpoint is quantized.
type config struct {
	file    string // "" for none
	method  string
	algo    string // ModelOpt's quant_algo
	format  string // compressed-tensors' format
	receipt Receipt
	groups  []configGroup
	entries []Entry
	block   block // weight_block_size
	words   wordArgs

	group      int                    // group_size, of ModelOpt's
	layers     map[string]layerConfig // quantized_layers
	packMethod string                 // Quark's
	refused    string                 // why nothing that is quantized can be read, "" where it can
	notes      []string

	mlx       mlxArgs // of all modules
	mlxLayers map[string]mlxArgs
}

// Receipt is what quantscope writes into the config of its exports: how the
// weights were made, which the layouts' own words do not say. Fields are as they
// stand there, "" where they are missing.
type Receipt struct {
	Variant    string `json:"variant"`
	Format     string `json:"format"`
	Method     string `json:"method"`
	Convention string `json:"convention"`
	Globals    string `json:"global_scale"` // shared or tensor
	Fixed      Repair `json:"fixed"`

	Converted Conversion `json:"converted"` // of a copy in another layout; nothing else is then said

	Recipe       string         `json:"recipe"` // that a mixture was made by, and its text's SHA-256
	RecipeSHA256 string         `json:"recipe_sha256"`
	Groups       []ReceiptGroup `json:"groups"` // of a mixture, which has no one format, method and convention
}

// Conversion says which layout a checkpoint was converted from, and what its config
// said of how it was made.
type Conversion struct {
	From    string `json:"from"`
	Receipt struct {
		Variant    string `json:"variant"`
		Convention string `json:"convention"`
	} `json:"receipt"`
}

// Repair is how many groups of matrices that servers fuse got one second-level
// scale after they were made, by way.
type Repair struct {
	Compensated int `json:"compensated"` // block scales were multiplied by the ratio, codes stayed
	Requantized int `json:"requantized"` // made again under one scale
}

// configGroup is what a config says of the modules that its targets match.
type configGroup struct {
	name        string // config_groups.group_0
	first, last int    // its targets in entries
	weights     weightArgs
	stated      bool   // weights says something
	format      string // of quantscope's own layout, which names it
}

// weightArgs is compressed-tensors' QuantizationArgs of weights, which ModelOpt
// and quantscope write too.
type weightArgs struct {
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"`
	Strategy  string `json:"strategy"`
	GroupSize *int   `json:"group_size"`
	Symmetric *bool  `json:"symmetric"`
	Block     block  `json:"block_structure"`

	DType string `json:"-"` // Quark's word for what is stored
}

// block is rows and columns of a tile, which older configs write as 128x128;
// zeros where there is none.
type block [2]int

func (b *block) UnmarshalJSON(data []byte) error {
	var sides []int
	var text string
	switch {
	case json.Unmarshal(data, &text) == nil && text != "":
		if _, err := fmt.Sscanf(text, "%dx%d", &b[0], &b[1]); err != nil {
			return fmt.Errorf("block %q is not of the form 128x128", text)
		}
	case json.Unmarshal(data, &sides) != nil:
		return fmt.Errorf("block %s is no list of two sides", data)
	case len(sides) == 2:
		*b = block{sides[0], sides[1]}
	case len(sides) != 0:
		return fmt.Errorf("block %s has %d sides", data, len(sides))
	}
	if b[0] < 0 || b[1] < 0 || b[0] > 1<<20 || b[1] > 1<<20 {
		return fmt.Errorf("block %s is no size", data)
	}
	return nil
}

// quantJSON is quantization_config, of whichever method.
type quantJSON struct {
	Method     string                     `json:"quant_method"`
	Algo       string                     `json:"quant_algo"`
	Format     string                     `json:"format"`
	Ignore     []string                   `json:"ignore"`
	Exclude    []string                   `json:"exclude_modules"`
	NotConvert []string                   `json:"modules_to_not_convert"`
	Groups     map[string]json.RawMessage `json:"config_groups"`
	Layers     map[string]json.RawMessage `json:"quantized_layers"`
	Block      block                      `json:"weight_block_size"`
	Receipt    Receipt                    `json:"quantscope"`

	wordsJSON
	besideJSON

	// Of quantscope's own layout, which has one group; bits and groups of GPTQ and
	// AWQ too.
	Targets   []string `json:"targets"`
	Bits      int      `json:"bits"`
	GroupSize *int     `json:"group_size"`
}

type groupJSON struct {
	Targets []string    `json:"targets"`
	Weights *weightArgs `json:"weights"`
}

// readConfigs reads what the config declares. other is hf_quant_config.json
// where config.json declares too, nil otherwise. Without either the config is
// empty.
func readConfigs(ck *checkpoint.Checkpoint) (declared, other *config, err error) {
	fail := func(file string, err error) error {
		return &checkpoint.FileError{File: ck.Path + "/" + file, Reason: "quantization is not readable", Err: err}
	}
	if text := ck.ConfigJSON(); len(text) > 0 {
		var root struct {
			Quant json.RawMessage `json:"quantization_config"`
			MLX   json.RawMessage `json:"quantization"`
			Text  struct {
				Quant json.RawMessage `json:"quantization_config"`
				MLX   json.RawMessage `json:"quantization"`
			} `json:"text_config"`
		}
		if err := json.Unmarshal(text, &root); err != nil {
			return nil, nil, fail(configFile, err)
		}
		raw := root.Quant
		if len(raw) == 0 || string(raw) == "null" {
			raw = root.Text.Quant
		}
		switch mlx := firstMLX(root.MLX, root.Text.MLX, raw); {
		case mlx != nil:
			if declared, err = parseMLX(configFile, mlx); err != nil {
				return nil, nil, fail(configFile, err)
			}
		case len(raw) > 0 && string(raw) != "null":
			if declared, err = parseConfig(configFile, raw); err != nil {
				return nil, nil, fail(configFile, err)
			}
		}
	}
	if side, ok := ck.SideFile(gptqFile); ok && declared == nil {
		text, err := side.Read()
		if err != nil {
			return nil, nil, err
		}
		if declared, err = parseConfig(gptqFile, text); err != nil {
			return nil, nil, fail(gptqFile, err)
		}
	}
	if side, ok := ck.SideFile(modelOptFile); ok {
		text, err := side.Read()
		if err != nil {
			return nil, nil, err
		}
		var root struct {
			Quant json.RawMessage `json:"quantization"`
		}
		if err := json.Unmarshal(text, &root); err != nil {
			return nil, nil, fail(modelOptFile, err)
		}
		if len(root.Quant) > 0 {
			if other, err = parseConfig(modelOptFile, root.Quant); err != nil {
				return nil, nil, fail(modelOptFile, err)
			}
			other.method = ModelOpt
		}
	}
	switch {
	case declared == nil && other == nil:
		return &config{}, nil, nil
	case declared == nil:
		return other, nil, nil
	}
	if other != nil && declared.group == 0 {
		declared.group = other.group
	}
	return declared, other, nil
}

func parseConfig(file string, raw []byte) (*config, error) {
	var q quantJSON
	if methodOf(raw) == EXL3 { // whose bits are no whole number
		return &config{file: file, method: EXL3}, nil
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	if file == gptqFile && q.Method == "" {
		q.Method = GPTQ
	}
	c := &config{file: file, method: q.Method, algo: q.Algo, format: q.Format, receipt: q.Receipt, block: q.Block}
	names := make([]string, 0, len(q.Groups))
	for name := range q.Groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := c.addGroup(name, q.Groups[name]); err != nil {
			return nil, fmt.Errorf("config_groups.%s: %w", name, err)
		}
	}
	switch c.method {
	case Quantscope:
		if v := string(q.Version); !slices.Contains(ownVersions, v) {
			return nil, fmt.Errorf("version %.20q of quantscope's layout: %w (known: %s)", v, kernels.ErrUnsupported, strings.Join(ownVersions, ", "))
		}
		if _, book := kernels.CodebookBase(q.Format); book && string(q.Version) == "1" {
			return nil, fmt.Errorf("format %s under version 1 of quantscope's layout, which has no two bits: %w", q.Format, kernels.ErrUnsupported)
		}
	case GPTQ, AWQ, Marlin:
		if err := c.readWords(&q); err != nil {
			return nil, err
		}
	}
	if len(q.Targets) > 0 && c.method == Quantscope {
		w := &weightArgs{Bits: q.Bits, Type: "int", GroupSize: q.GroupSize}
		if _, book := kernels.CodebookBase(q.Format); book {
			w.Type = "float"
		}
		c.addTargets("quantization_config", q.Targets, w)
		c.groups[len(c.groups)-1].format = q.Format
	}
	if err := c.addLayers(q.Layers, len(q.Groups) == 0); err != nil {
		return nil, fmt.Errorf("quantized_layers: %w", err)
	}
	if err := c.readBeside(&q); err != nil {
		return nil, err
	}
	if c.method == Quark {
		if err := c.readQuark(raw); err != nil {
			return nil, err
		}
	}
	style := exactOrRegex
	switch {
	case c.method == ModelOpt || file == modelOptFile:
		style = wildcards
	case c.method == AWQ:
		style = anywhere
	}
	for _, list := range []struct {
		section string
		names   []string
	}{{"ignore", q.Ignore}, {"exclude_modules", q.Exclude}, {"modules_to_not_convert", q.NotConvert}} {
		for _, p := range list.names {
			c.entries = append(c.entries, newEntry(file, list.section, p, style))
		}
	}
	return c, nil
}

// addGroup adds a member of config_groups: an object, or for a scheme that is
// named rather than described a list of targets.
func (c *config) addGroup(name string, raw json.RawMessage) error {
	var g groupJSON
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := json.Unmarshal(raw, &g.Targets); err != nil {
			return err
		}
	} else if err := json.Unmarshal(raw, &g); err != nil {
		return err
	}
	c.addTargets("config_groups."+name, g.Targets, g.Weights)
	return nil
}

// addTargets adds a group by its targets and what it says of weights, which may
// be nil.
func (c *config) addTargets(section string, targets []string, weights *weightArgs) {
	c.addTargetsAs(section, targets, weights, exactOrRegex)
}

func (c *config) addTargetsAs(section string, targets []string, weights *weightArgs, s style) {
	group := configGroup{name: section, first: len(c.entries)}
	if weights != nil {
		group.weights, group.stated = *weights, weights.Bits > 0
	}
	for _, t := range targets {
		c.entries = append(c.entries, newEntry(c.file, section+".targets", t, s))
	}
	group.last = len(c.entries)
	c.groups = append(c.groups, group)
}
