package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/export"
)

// modelOptWeights and modelOptGroup are a config group as ModelOpt writes it.
type modelOptWeights struct {
	Dynamic  bool   `json:"dynamic"`
	Bits     int    `json:"num_bits"`
	Type     string `json:"type"`
	Group    int    `json:"group_size,omitempty"`
	Strategy string `json:"strategy,omitempty"`
}

type modelOptGroup struct {
	Input   *modelOptWeights `json:"input_activations,omitempty"`
	Weights modelOptWeights  `json:"weights"`
	Targets []string         `json:"targets"`
}

type modelOptLayer struct {
	Algo  string `json:"quant_algo"`
	Group int    `json:"group_size,omitempty"`
}

type producer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// modelOpt is the config of ModelOpt, and hf_quant_config.json.
func (l *lists) modelOpt() ([]byte, []export.Text, error) {
	b := l.b
	all := b.schemes()
	by := producer{"modelopt", export.ModelOptVersion}
	groups := map[string]modelOptGroup{}
	layers := map[string]modelOptLayer{}
	algo := mixedAlgo
	for i, s := range all {
		word := algoOf(s)
		g := modelOptGroup{Weights: modelOptWeights{Bits: s.bits, Type: "float", Group: s.group}}
		switch s.name {
		case "fp8-channel":
			g.Weights.Strategy = "channel"
		case "fp8-block":
			if len(all) > 1 {
				return nil, nil, fmt.Errorf("modules are stored as %s and otherwise, and ModelOpt has no words for that in a mixture: %w", s, ErrRefused)
			}
			g.Weights.Group = 128
		}
		switch s.inputs {
		case localGroup:
			g.Input = &modelOptWeights{Bits: 4, Type: "float", Group: s.group}
		case staticTensor, dynamicToken:
			g.Input = &modelOptWeights{Bits: 8, Type: "float"}
		}
		g.Targets = []string{"Linear"}
		if len(all) > 1 {
			g.Targets = b.modulesOf(s)
			for _, m := range g.Targets {
				layers[m] = modelOptLayer{word, s.group}
			}
		} else {
			algo = word
		}
		groups[fmt.Sprintf("group_%d", i)] = g
	}
	exclude := []string{}
	if len(all) == 1 {
		exclude = l.excluded()
	}
	type quantization struct {
		Algo    string                   `json:"quant_algo"`
		KVCache *string                  `json:"kv_cache_quant_algo"`
		Group   int                      `json:"group_size,omitempty"`
		Exclude []string                 `json:"exclude_modules,omitempty"`
		Layers  map[string]modelOptLayer `json:"quantized_layers,omitempty"`
	}
	hf, err := export.MarshalConfig(struct {
		Producer     producer     `json:"producer"`
		Quantization quantization `json:"quantization"`
	}{by, quantization{algo, nil, groups["group_0"].Weights.Group, exclude, layers}})
	if err != nil {
		return nil, nil, err
	}
	config, err := export.MarshalConfig(struct {
		Groups   map[string]modelOptGroup `json:"config_groups"`
		Layers   map[string]modelOptLayer `json:"quantized_layers,omitempty"`
		Ignore   []string                 `json:"ignore"`
		Algo     string                   `json:"quant_algo"`
		Producer producer                 `json:"producer"`
		Method   string                   `json:"quant_method"`
		Receipt  receipt                  `json:"quantscope"`
	}{groups, layers, exclude, algo, by, ModelOpt, b.receipt()})
	return config, []export.Text{{Name: modelOptFile, Data: hf}}, err
}

func algoOf(s scheme) string {
	for _, a := range modelOptAlgos {
		if a.name == s.name && a.inputs == s.inputs {
			return a.algo
		}
	}
	return ""
}

// excluded is the list of exceptions as ModelOpt takes it, which knows no
// expressions.
func (l *lists) excluded() []string {
	out := export.ExcludeList(l.ignore, l.quantized)
	names, expressions := l.leftovers()
	for _, n := range names {
		if !slices.Contains(out, n) && !slices.Contains(l.quantized, n) {
			out = append(out, n)
		}
	}
	for _, x := range expressions {
		if p, ok := asWildcard(x); ok && !slices.ContainsFunc(l.quantized, regexp.MustCompile("^(?:"+x+")").MatchString) {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
			continue
		}
		l.b.notef("the entry re:%s of the list of exceptions matches nothing and is no wildcard, which is all that ModelOpt knows: it is left out", x)
	}
	slices.Sort(out)
	return out
}

// plainExpression is an expression of names, dots and .* alone, that may begin with ^ and
// end with $.
var plainExpression = regexp.MustCompile(`^\^?(?:[A-Za-z0-9_]|\\\.|\.\*)+\$?$`)

// asWildcard is a wildcard for an expression that has nothing but .* in it.
func asWildcard(expr string) (string, bool) {
	if !plainExpression.MatchString(expr) {
		return "", false
	}
	text, whole := strings.CutSuffix(strings.TrimPrefix(expr, "^"), "$")
	text = strings.ReplaceAll(strings.ReplaceAll(text, `.*`, "*"), `\.`, ".")
	if !whole && !strings.HasSuffix(text, "*") {
		text += "*"
	}
	return text, true
}

// gptqConfig is what GPTQModel and AutoGPTQ write.
type gptqConfig struct {
	Bits       int                       `json:"bits"`
	Group      int                       `json:"group_size"`
	Order      bool                      `json:"desc_act"`
	Symmetric  bool                      `json:"sym"`
	Head       bool                      `json:"lm_head"`
	Method     string                    `json:"quant_method"`
	Checkpoint string                    `json:"checkpoint_format"`
	PackDType  string                    `json:"pack_dtype"`
	Dynamic    map[string]map[string]any `json:"dynamic,omitempty"`
	Receipt    receipt                   `json:"quantscope"`
}

// gptq is the config of GPTQ, which says the same of all modules but for those that
// dynamic names, and quantize_config.json, which older tools read.
func (l *lists) gptq() ([]byte, []export.Text, error) {
	b := l.b
	all := b.schemes()
	most := all[0] // modules have
	for _, s := range all {
		if len(b.modulesOf(s)) > len(b.modulesOf(most)) {
			most = s
		}
	}
	c := gptqConfig{Bits: most.bits, Group: groupWord(most.group), Method: GPTQ, PackDType: "int32", Dynamic: map[string]map[string]any{}, Receipt: b.receipt()}
	c.Symmetric = !slices.ContainsFunc(all, func(s scheme) bool { return s.asym })
	c.Order = slices.ContainsFunc(all, func(s scheme) bool { return s.order })
	c.Head = slices.Contains(l.quantized, "lm_head")
	was, again := b.config.was()
	b.facts.v2 = b.facts.zero || again && was.From == GPTQ && strings.EqualFold(was.Checkpoint, "gptq_v2")
	if c.Checkpoint = "gptq"; b.facts.v2 {
		c.Checkpoint = "gptq_v2"
	}
	if b.facts.zero {
		b.notef("some zero point is 0, which readers of zero points stored minus 1 disagree about: they are stored as they are, checkpoint_format gptq_v2, which older readers do not know")
	}
	universe := l.universe()
	for _, s := range all {
		if s.bits == most.bits && s.group == most.group {
			continue
		}
		for _, x := range expressionsOf(export.Targets(b.modulesOf(s), universe)) {
			c.Dynamic["+:"+x] = map[string]any{"bits": s.bits, "group_size": groupWord(s.group)}
		}
	}
	left := slices.DeleteFunc(slices.Clone(l.ignore), func(m string) bool { return m == "lm_head" || l.stacks[m] })
	for _, x := range expressionsOf(export.Targets(left, universe)) {
		c.Dynamic["-:"+x] = map[string]any{}
	}
	if s := slices.Sorted(maps.Keys(l.stacks)); len(s) > 0 {
		b.notef("%d modules stay as they are and have experts in one tensor, of which GPTQ's config has no words, the first %s", len(s), s[0])
	}
	text, err := export.MarshalConfig(c)
	return text, []export.Text{{Name: gptqFile, Data: text}}, err
}

func groupWord(group int) int {
	if group == 0 {
		return -1
	}
	return group
}

// expressionsOf are targets as expressions over whole names.
func expressionsOf(targets []string) []string {
	out := make([]string, len(targets))
	for i, t := range targets {
		expr, isExpr := strings.CutPrefix(t, "re:")
		if !isExpr {
			expr = "^" + regexp.QuoteMeta(t) + "$"
		}
		out[i] = expr
	}
	return out
}
