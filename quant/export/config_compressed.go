package export

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quantscope/kernels"
)

// quantArgs says how weights or activations are quantized, in the words of
// compressed-tensors (QuantizationArgs).
type quantArgs struct {
	Actorder   *string `json:"actorder"`
	Block      []int   `json:"block_structure"`
	Dynamic    Dynamic `json:"dynamic"`
	Group      *int    `json:"group_size"`
	Bits       int     `json:"num_bits"`
	ScaleDType *string `json:"scale_dtype"`
	Strategy   string  `json:"strategy"`
	Symmetric  bool    `json:"symmetric"`
	Type       string  `json:"type"`
	ZPDType    *string `json:"zp_dtype"`
}

// Dynamic is when the scales of activations are found.
type Dynamic string

// Values of Dynamic.
const (
	Static     Dynamic = ""      // they are stored
	AsTheyCome Dynamic = "true"  // as activations come
	Local      Dynamic = "local" // those of blocks as they come, that of the tensor is stored
)

// MarshalJSON writes it as compressed-tensors does, a bool or a word.
func (d Dynamic) MarshalJSON() ([]byte, error) {
	switch d {
	case Static:
		return []byte("false"), nil
	case AsTheyCome:
		return []byte("true"), nil
	}
	return json.Marshal(string(d))
}

// quantScheme is a config group of compressed-tensors (QuantizationScheme).
type quantScheme struct {
	Format  string     `json:"format"`
	Input   *quantArgs `json:"input_activations"`
	Output  *quantArgs `json:"output_activations"`
	Targets []string   `json:"targets"`
	Weights quantArgs  `json:"weights"`
}

// compressedConfig is what llm-compressor writes for the presets NVFP4A16,
// MXFP4A16, FP8_DYNAMIC, FP8_BLOCK, W4A16 and W4A16_ASYM and those near them.
// Activations of FP8 are quantized by the server as they come, which is the
// only way without calibration. Of several schemes each is a group that names its
// modules.
func (b *planner) compressedConfig(ignore []string) (json.RawMessage, error) {
	groups := map[string]quantScheme{}
	whole := ""
	for i, f := range b.formats() {
		s := compressedScheme(f)
		if b.mixed() {
			s.Targets = b.targetsOf(func(o *stored) bool { return o.words.Name == f.Name })
		}
		groups[fmt.Sprintf("group_%d", i)] = s
		switch whole {
		case "", s.Format:
			whole = s.Format
		default:
			whole = mixedFormat
		}
	}
	return marshal(struct {
		Groups  map[string]quantScheme `json:"config_groups"`
		Format  string                 `json:"format"`
		Ratio   *float64               `json:"global_compression_ratio"`
		Ignore  []string               `json:"ignore"`
		KVCache *quantArgs             `json:"kv_cache_scheme"`
		Method  string                 `json:"quant_method"`
		Status  string                 `json:"quantization_status"`
		Receipt receipt                `json:"quantscope"`
	}{
		groups, whole, nil, exactOrExpression(ignore, b.Modules, b.stacks), nil,
		CompressedTensors, "compressed", b.receipt(),
	})
}

// QuantArgs and QuantScheme are compressed-tensors' words, for configs that are
// written elsewhere.
type (
	QuantArgs   = quantArgs
	QuantScheme = quantScheme
)

// IgnoreList is a list of modules as compressed-tensors takes it: by name, and by an
// expression for experts that stay in one tensor.
func IgnoreList(ignore, quantized []string, stacks map[string]bool) []string {
	return exactOrExpression(ignore, quantized, stacks)
}

// ExcludeList is a list of modules as ModelOpt takes it, shortened by wildcards.
func ExcludeList(ignore, quantized []string) []string { return summarize(ignore, quantized) }

// MarshalConfig is JSON as configs are written: over several lines, with nothing
// escaped that need not be.
func MarshalConfig(v any) ([]byte, error) { return marshal(v) }

// mixedFormat is the format of a whole whose groups have several.
const mixedFormat = "mixed-precision"

func compressedScheme(f kernels.Format) quantScheme {
	text := func(s string) *string { return &s }
	group := func(n int) *int { return &n }
	s := quantScheme{Targets: []string{"Linear"}, Weights: quantArgs{Bits: f.Bits, Type: "float", Symmetric: true}}
	w := &s.Weights
	switch {
	case f.Name == "nvfp4":
		s.Format, w.Strategy, w.Group, w.ScaleDType = "nvfp4-pack-quantized", "tensor_group", group(f.Group), text("torch.float8_e4m3fn")
	case f.Name == "mxfp4":
		s.Format, w.Strategy, w.Group, w.ScaleDType = "mxfp4-pack-quantized", "group", group(f.Group), text("torch.uint8")
	case f.Element == "e4m3":
		s.Format = "float-quantized"
		s.Input = &quantArgs{Bits: 8, Type: "float", Symmetric: true, Dynamic: AsTheyCome, Strategy: "token"}
		switch f.Scope {
		case kernels.ScopeTensor:
			w.Strategy = "tensor"
		case kernels.ScopeChannel:
			w.Strategy = "channel"
		default:
			w.Strategy, w.Block = "block", []int{f.Group, f.Group}
			s.Input.Strategy, s.Input.Group = "group", group(f.Group)
		}
	default:
		s.Format, w.Type = "pack-quantized", "int"
		if w.Strategy = "channel"; f.Scope == kernels.ScopeGroup {
			w.Strategy, w.Group = "group", group(f.Group)
		}
		if f.MinBits > 0 {
			w.Symmetric, w.ZPDType = false, text("torch.int8")
		}
	}
	return s
}

// exactOrExpression is the list of modules as compressed-tensors takes it: by
// name, and by an expression for experts that stay in one tensor, which servers
// ask for one by one.
func exactOrExpression(ignore, quantized []string, stacks map[string]bool) []string {
	out := make([]string, 0, len(ignore))
	for _, name := range ignore {
		if stacks[name] {
			name = expertsExpression(name, quantized)
		}
		out = append(out, name)
	}
	return out
}

// expertsExpression matches everything below a module. Servers put prefixes of
// their own before the layers, so that none is asked for, unless that would
// match what is quantized.
func expertsExpression(name string, quantized []string) string {
	expr := "^" + regexp.QuoteMeta(name) + `(\..*)?$`
	i := strings.Index(name, "layers.")
	if i <= 0 {
		return "re:" + expr
	}
	loose := `.*\b` + regexp.QuoteMeta(name[i:]) + `(\..*)?$`
	if re, err := regexp.Compile("^(?:" + loose + ")"); err != nil || slices.ContainsFunc(quantized, re.MatchString) {
		return "re:" + expr
	}
	return "re:" + loose
}
