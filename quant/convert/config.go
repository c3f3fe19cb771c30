package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// facts are what is known of all modules together once each is planned.
type facts struct {
	zero     bool     // some zero point is 0
	v2       bool     // GPTQ's zero points are stored as they are
	unscaled []string // modules that lack the scale of activations of which the source speaks
}

// receipt says in the copy's config where its codes are from.
type receipt struct {
	made
	From converted `json:"converted"`
}

// made says how codes were made that are not the source's.
type made struct {
	Variant    string `json:"variant,omitempty"`
	Format     string `json:"format,omitempty"`
	Method     string `json:"method,omitempty"`
	Convention string `json:"convention,omitempty"`
}

type converted struct {
	From       string          `json:"from"`                        // layout
	Checkpoint string          `json:"checkpoint_format,omitempty"` // of GPTQ
	Receipt    json.RawMessage `json:"receipt,omitempty"`           // of the source, where it was exported here
}

func (b *planner) receipt() receipt {
	r := receipt{b.made, converted{From: b.From, Checkpoint: b.config.said.Checkpoint}}
	if was, ok := b.config.was(); ok && was.From != "" { // what it was before stays known
		return r
	}
	if !none(b.config.said.Receipt) {
		r.From.Receipt = b.config.said.Receipt
	}
	return r
}

// was is what an earlier conversion left in the source's config.
func (c *sourceConfig) was() (converted, bool) {
	var r receipt
	if none(c.said.Receipt) || json.Unmarshal(c.said.Receipt, &r) != nil {
		return converted{}, false
	}
	return r.From, r.From.From != ""
}

// noteType says where the config names another type than that of the scales, which
// loaders that cast parameters to it round.
func (b *planner) noteType(scale checkpoint.DType) {
	if b.config.dtype == "" || scale != checkpoint.F16 && scale != checkpoint.BF16 {
		return
	}
	if want := map[checkpoint.DType]string{checkpoint.F16: "float16", checkpoint.BF16: "bfloat16"}[scale]; b.config.dtype != want {
		b.notef("scales are %s and config.json says %s: loaders that cast parameters to that round them; load as %s to have the source's values", scale, b.config.dtype, want)
	}
}

// configs is config.json of the copy, and the files beside it that are written anew.
func (b *planner) configs() (config []byte, texts []export.Text, err error) {
	quantized := make([]string, len(b.pieces))
	taken := map[string]bool{}
	for i := range b.pieces {
		quantized[i] = b.pieces[i].name
		for _, f := range b.pieces[i].m.Fields {
			taken[f.Tensor.Name] = true
		}
	}
	ignore, stacks := export.Unquantized(b.model, func(t string) bool { return taken[t] })
	l := &lists{b: b, quantized: quantized, ignore: ignore, stacks: stacks}
	var quant []byte
	switch b.To {
	case CompressedTensors:
		quant, err = l.compressed()
	case ModelOpt:
		quant, texts, err = l.modelOpt()
	case GPTQ:
		quant, texts, err = l.gptq()
	default:
		quant, err = l.own()
	}
	if err != nil {
		return nil, nil, err
	}
	config, err = b.setQuantization(quant)
	return config, texts, err
}

// setQuantization puts the copy's words in the place of the source's.
func (b *planner) setQuantization(quant []byte) ([]byte, error) {
	text := b.ck.Config
	if text == nil {
		text = []byte("{}\n")
	}
	fail := func(err error) error {
		return fmt.Errorf("%w %s: %s: %w", export.ErrSource, b.ck.Path, configFile, err)
	}
	var root map[string]json.RawMessage
	plain := true // readable as JSON, which Python's NaN is not
	if err := json.Unmarshal(text, &root); err != nil {
		plain = false
	}
	if b.config.text {
		inner, err := checkpoint.SetMember(root["text_config"], "quantization_config", quant)
		if err != nil {
			return nil, fail(err)
		}
		out, err := checkpoint.SetMember(text, "text_config", inner)
		if err != nil {
			return nil, fail(err)
		}
		return out, nil
	}
	out, err := checkpoint.SetMember(text, "quantization_config", quant)
	if err != nil {
		return nil, fail(err)
	}
	if plain && !none(root["quantization"]) { // MLX says it twice
		if out, err = checkpoint.SetMember(out, "quantization", []byte("null")); err != nil {
			return nil, fail(err)
		}
	}
	return out, nil
}

// lists are the modules that a config names.
type lists struct {
	b         *planner
	quantized []string
	ignore    []string
	stacks    map[string]bool
}

// universe is every name that a pattern could be taken to mean.
func (l *lists) universe() []string {
	names := map[string]bool{"lm_head": true}
	for _, m := range l.quantized {
		names[m] = true
	}
	for i := range l.b.ck.Tensors {
		module, _ := layout.Split(l.b.ck.Tensors[i].Name)
		for module != "" && !names[module] {
			names[module] = true
			module = module[:max(strings.LastIndexByte(module, '.'), 0)]
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// leftovers are entries of the source's list of exceptions that match no module of
// it: they are about what a server may add, and stay where the copy can say them.
func (l *lists) leftovers() (names, expressions []string) {
	for _, e := range l.b.layout.Entries {
		if e.Targets() || e.Matches > 0 || e.Unread != "" {
			continue
		}
		expr, isExpr := strings.CutPrefix(e.Pattern, "re:")
		switch {
		case isExpr && strings.HasPrefix(l.b.From, layout.CompressedTensors):
			expressions = append(expressions, expr)
		case l.b.From == layout.ModelOpt && strings.ContainsAny(e.Pattern, "*?["):
			if x, ok := wildcard(e.Pattern); ok {
				expressions = append(expressions, x)
				continue
			}
			l.b.notef("the entry %q of %s matches nothing and has no words in layout %s: it is left out", e.Pattern, e.Section, l.b.To)
		case l.b.From == layout.AWQ: // anywhere in a name
			expressions = append(expressions, ".*"+regexp.QuoteMeta(e.Pattern)+".*")
		case e.Pattern != "":
			names = append(names, e.Pattern)
		}
	}
	return names, expressions
}

// wildcard is an expression for a pattern with * and ?; classes in brackets are left
// alone.
func wildcard(pattern string) (string, bool) {
	if strings.ContainsAny(pattern, `[]\`) {
		return "", false
	}
	expr := regexp.QuoteMeta(pattern)
	expr = strings.ReplaceAll(strings.ReplaceAll(expr, `\*`, ".*"), `\?`, ".")
	return "^" + expr + "$", true
}

// exceptions is the list of what is not quantized, as compressed-tensors takes it.
// An entry that the source has for what is not there comes along, unless it would
// match what is quantized.
func (l *lists) exceptions() []string {
	out := export.IgnoreList(l.ignore, l.quantized, l.stacks)
	names, expressions := l.leftovers()
	for _, n := range names {
		if !slices.Contains(l.quantized, n) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, x := range expressions {
		re, err := regexp.Compile("^(?:" + x + ")")
		if err != nil || slices.ContainsFunc(l.quantized, re.MatchString) {
			l.b.notef("the entry re:%s of the list of exceptions would match what is quantized: it is left out", x)
			continue
		}
		if !slices.Contains(out, "re:"+x) {
			out = append(out, "re:"+x)
		}
	}
	return out
}

// compressed is the config of compressed-tensors.
func (l *lists) compressed() ([]byte, error) {
	b := l.b
	groups := map[string]export.QuantScheme{}
	whole := ""
	all := b.schemes()
	for i, s := range all {
		g := compressedScheme(s)
		g.Targets = []string{"Linear"}
		if len(all) > 1 {
			g.Targets = export.Targets(b.modulesOf(s), l.universe())
		}
		groups[fmt.Sprintf("group_%d", i)] = g
		if whole != "" && whole != g.Format {
			whole = "mixed-precision"
			continue
		}
		whole = g.Format
	}
	return export.MarshalConfig(struct {
		Groups  map[string]export.QuantScheme `json:"config_groups"`
		Format  string                        `json:"format"`
		Ratio   *float64                      `json:"global_compression_ratio"`
		Ignore  []string                      `json:"ignore"`
		KVCache *export.QuantArgs             `json:"kv_cache_scheme"`
		Method  string                        `json:"quant_method"`
		Status  string                        `json:"quantization_status"`
		Receipt receipt                       `json:"quantscope"`
	}{groups, whole, nil, l.exceptions(), nil, CompressedTensors, "compressed", b.receipt()})
}

// compressedScheme is a group of compressed-tensors.
func compressedScheme(s scheme) export.QuantScheme {
	text := func(s string) *string { return &s }
	number := func(n int) *int { return &n }
	g := export.QuantScheme{Weights: export.QuantArgs{Bits: s.bits, Type: "float", Symmetric: true}}
	w := &g.Weights
	switch s.form {
	case integers:
		g.Format, w.Type, w.Strategy, w.Symmetric = "pack-quantized", "int", "channel", !s.asym
		if s.group > 0 {
			w.Strategy, w.Group = "group", number(s.group)
		}
		if s.asym {
			w.ZPDType = text("torch.int8")
		}
		if s.order {
			w.Actorder = text("group")
		}
	case nvfp4:
		g.Format, w.Strategy, w.Group, w.ScaleDType = "nvfp4-pack-quantized", "tensor_group", number(kernels.BlockNVFP4), text("torch.float8_e4m3fn")
	case mxfp4:
		g.Format, w.Strategy, w.Group, w.ScaleDType = "mxfp4-pack-quantized", "group", number(32), text("torch.uint8")
	default:
		g.Format = "float-quantized"
		switch s.name {
		case "fp8":
			w.Strategy = "tensor"
		case "fp8-channel":
			w.Strategy = "channel"
		default:
			w.Strategy, w.Block = "block", []int{s.tile[0], s.tile[1]}
		}
	}
	switch s.inputs {
	case staticTensor:
		g.Input = &export.QuantArgs{Bits: 8, Type: "float", Symmetric: true, Strategy: "tensor"}
	case dynamicToken:
		g.Input = &export.QuantArgs{Bits: 8, Type: "float", Symmetric: true, Dynamic: export.AsTheyCome, Strategy: "token"}
	case dynamicGroup:
		g.Input = &export.QuantArgs{Bits: 8, Type: "float", Symmetric: true, Dynamic: export.AsTheyCome, Strategy: "group", Group: number(128)}
	case localGroup:
		g.Input = &export.QuantArgs{Bits: 4, Type: "float", Symmetric: true, Dynamic: export.Local, Strategy: "tensor_group", Group: number(kernels.BlockNVFP4), ScaleDType: text("torch.float8_e4m3fn")}
	}
	return g
}

// own is the config of quantscope's own layout.
func (l *lists) own() ([]byte, error) {
	all := l.b.schemes()
	if len(all) > 1 {
		return nil, fmt.Errorf("modules are stored as %s and as %s, and quantscope's own layout has one format for all: %w", all[0], all[1], ErrRefused)
	}
	group := all[0].group
	if group == 0 {
		group = -1
	}
	return export.MarshalConfig(struct {
		Method  string   `json:"quant_method"`
		Version int      `json:"version"`
		Format  string   `json:"format"`
		Bits    int      `json:"bits"`
		Group   int      `json:"group_size"`
		Targets []string `json:"targets"`
		Ignore  []string `json:"ignore"`
		Receipt receipt  `json:"quantscope"`
	}{Own, export.OwnVersion(all[0].name), all[0].name, all[0].bits, group, []string{"Linear"}, l.exceptions(), l.b.receipt()})
}
