package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"quantscope/quant/topology"
)

// Modifiers of llm-compressor that say which weights are quantized.
const (
	modifierPlain = "QuantizationModifier"
	modifierGPTQ  = "GPTQModifier"
)

// modifierYAML is one modifier as it is written.
type modifierYAML struct {
	Groups    yaml.Node `yaml:"config_groups"`
	Ignore    []string  `yaml:"ignore"`
	Dampening *float64  `yaml:"dampening_frac,omitempty"`
	Actorder  *string   `yaml:"actorder,omitempty"`
}

// gptqDamp is the share of the mean of a Hessian's diagonal that both tools add.
const gptqDamp = 0.01

func exportLLMCompressor(a *Assignment) (*Document, error) {
	groups, ignore, err := a.targetsCT()
	if err != nil {
		return nil, err
	}
	doc := &Document{Name: "recipe.yaml"}
	mods := map[string]*modifierYAML{}
	var order []string
	for i, g := range groups {
		s, err := compressedGroup(g.scheme)
		if err != nil {
			return nil, err
		}
		s.Targets = g.targets
		name := modifierPlain
		var rest []string
		for _, m := range g.methods {
			switch m {
			case "gptq":
				name = modifierGPTQ
			case "act":
			default:
				rest = append(rest, m)
			}
		}
		if len(rest) > 0 {
			doc.Notes = append(doc.Notes, Note{g.scheme, fmt.Sprintf("%s has no counterpart: llm-compressor's own observers choose scales", strings.Join(rest, "+"))})
		}
		if slices.Contains(g.methods, "act") {
			name += "+act"
		}
		if mods[name] == nil {
			mods[name] = &modifierYAML{Groups: yaml.Node{Kind: yaml.MappingNode}, Ignore: ignore}
			if strings.HasPrefix(name, modifierGPTQ) {
				damp := gptqDamp
				mods[name].Dampening = &damp
				if strings.HasSuffix(name, "+act") {
					static := "static"
					mods[name].Actorder = &static
				}
			}
			order = append(order, name)
		}
		value, err := yamlOf(s)
		if err != nil {
			return nil, err
		}
		mods[name].Groups.Content = append(mods[name].Groups.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprintf("group_%d", i)}, value)
	}
	if mods[modifierGPTQ] != nil && mods[modifierGPTQ+"+act"] != nil {
		return nil, fmt.Errorf("groups with gptq and with gptq+act: a recipe has a modifier of a kind once: %w", ErrCannot)
	}
	list := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range order {
		var value yaml.Node
		if err := value.Encode(mods[name]); err != nil {
			return nil, err
		}
		plain, _, _ := strings.Cut(name, "+")
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: plain}, &value)
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Value: "quantization_stage"},
		{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "quantization_modifiers"}, list}},
	}}
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	doc.Data = buf.Bytes()
	return doc, enc.Close()
}

// yamlOf is a value as YAML, by its JSON names and without what is null.
func yamlOf(v any) (*yaml.Node, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	node := doc.Content[0]
	plainStyle(node)
	return node, nil
}

func plainStyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.ScalarNode && n.Content[0].Tag == "!!int" {
		n.Style = yaml.FlowStyle
	}
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			plainStyle(c)
		}
		return
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i+1].Tag == "!!null" || n.Content[i].Value == "format" {
			continue
		}
		plainStyle(n.Content[i])
		plainStyle(n.Content[i+1])
		kept = append(kept, n.Content[i], n.Content[i+1])
	}
	n.Content = kept
}

// sideKeys of modifiers have no bearing on which weights are stored how.
var sideKeys = []string{
	"dampening_frac", "block_size", "actorder", "offload_hessians", "sequential_update", "sequential_targets", "bypass_divisibility_checks",
	"observer", "weight_observer", "disable_quantization_observer_epoch", "num_calibration_steps", "start", "end", "update_size", "requires_grad",
}

// readLLMCompressor reads a recipe: stages of modifiers, or modifiers alone.
func readLLMCompressor(data []byte, m *topology.Model) (*reading, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("no mapping of stages: %w", ErrForeign)
	}
	r := newReading(m)
	var groups []targetGroup
	var ignore []string
	found := 0
	var walk func(n *yaml.Node) error
	walk = func(n *yaml.Node) error {
		if n.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: want a mapping: %w", n.Line, ErrForeign)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case key.Value == modifierPlain || key.Value == modifierGPTQ:
				g, skip, err := r.modifier(key.Value, value)
				if err != nil {
					return err
				}
				if found++; found > 1 && !slices.Equal(skip, ignore) {
					return fmt.Errorf("line %d: modifiers with different ignore lists: %w", key.Line, ErrForeign)
				}
				groups, ignore = append(groups, g...), skip
			case strings.HasSuffix(key.Value, "_stage"), strings.HasSuffix(key.Value, "_modifiers"):
				if err := walk(value); err != nil {
					return err
				}
			case strings.HasSuffix(key.Value, "Modifier"):
				return fmt.Errorf("line %d: %s changes weights before they are quantized, or does what is not known here: %w (known: %s, %s)", key.Line, key.Value, ErrForeign, modifierPlain, modifierGPTQ)
			case key.Value == "args", key.Value == "metadata", key.Value == "version", key.Value == "run_type":
				r.note(fmt.Sprintf("line %d", key.Line), "%s has no counterpart", key.Value)
			default:
				return fmt.Errorf("line %d: key %q: %w (known: *_stage, *_modifiers, %s, %s)", key.Line, key.Value, ErrForeign, modifierPlain, modifierGPTQ)
			}
		}
		return nil
	}
	if err := walk(doc.Content[0]); err != nil {
		return nil, err
	}
	if found == 0 {
		return nil, fmt.Errorf("no %s and no %s: %w", modifierPlain, modifierGPTQ, ErrForeign)
	}
	return r, r.resolveCT(groups, ignore)
}

// modifier reads one modifier.
func (r *reading) modifier(name string, n *yaml.Node) (groups []targetGroup, ignore []string, err error) {
	if n.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("line %d: %s is no mapping: %w", n.Line, name, ErrForeign)
	}
	var methods []string
	if name == modifierGPTQ {
		methods = []string{"gptq"}
	}
	var targets stringList
	var scheme yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		fail := func(err error) error { return fmt.Errorf("line %d: %s: %w: %w", key.Line, key.Value, err, ErrForeign) }
		switch key.Value {
		case "targets":
			err = value.Decode(&targets)
		case "ignore":
			var list stringList
			err = value.Decode(&list)
			ignore = list
		case "scheme":
			scheme = *value
		case "config_groups":
			groups, err = r.configGroups(value, methods)
			if err != nil {
				return nil, nil, err
			}
		case "kv_cache_scheme":
			if value.Tag != "!!null" {
				r.note(fmt.Sprintf("line %d", key.Line), "kv_cache_scheme is not part of a recipe here")
			}
		case "actorder":
			if value.Value == "static" || value.Value == "weight" || value.Value == "group" {
				r.note(fmt.Sprintf("line %d", key.Line), "actorder %s is %s here, which methods of a group say", value.Value, "gptq+act")
			}
		default:
			if !slices.Contains(sideKeys, key.Value) {
				return nil, nil, fmt.Errorf("line %d: key %q of %s: %w (known: targets, ignore, scheme, config_groups, kv_cache_scheme, %s)", key.Line, key.Value, name, ErrForeign, strings.Join(sideKeys, ", "))
			}
		}
		if err != nil {
			return nil, nil, fail(err)
		}
	}
	switch {
	case scheme.Kind == yaml.ScalarNode && scheme.Tag != "!!null":
		if len(targets) == 0 {
			targets = []string{classLinear}
		}
		g, err := r.preset(&scheme, scheme.Value, targets, methods)
		if err != nil {
			return nil, nil, err
		}
		groups = append(groups, g)
	case scheme.Kind == yaml.MappingNode: // presets with their targets
		for i := 0; i+1 < len(scheme.Content); i += 2 {
			var list stringList
			if err := scheme.Content[i+1].Decode(&list); err != nil {
				return nil, nil, fmt.Errorf("line %d: targets of %s: %w: %w", scheme.Content[i].Line, scheme.Content[i].Value, err, ErrForeign)
			}
			g, err := r.preset(scheme.Content[i], scheme.Content[i].Value, list, methods)
			if err != nil {
				return nil, nil, err
			}
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, nil, fmt.Errorf("line %d: %s has neither scheme nor config_groups: %w", n.Line, name, ErrForeign)
	}
	return groups, ignore, nil
}

// preset is a group of a scheme that is named.
func (r *reading) preset(at *yaml.Node, name string, targets, methods []string) (targetGroup, error) {
	p, ok := presets[strings.ToUpper(name)]
	if !ok {
		var known []string
		for k := range presets {
			known = append(known, k)
		}
		slices.Sort(known)
		return targetGroup{}, fmt.Errorf("line %d: scheme %q: %w (known: %s)", at.Line, name, ErrForeign, strings.Join(known, ", "))
	}
	if p.activations != "" {
		r.note(fmt.Sprintf("line %d", at.Line), "%s quantizes activations too (%s): weights alone are stored by a scheme here", name, p.activations)
	}
	return targetGroup{name: "scheme " + name, targets: targets, scheme: p.scheme, methods: methods}, nil
}

func (r *reading) configGroups(n *yaml.Node, methods []string) ([]targetGroup, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: config_groups is no mapping: %w", n.Line, ErrForeign)
	}
	var out []targetGroup
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		var g struct {
			Targets stringList   `yaml:"targets"`
			Weights *weightWords `yaml:"weights"`
			Input   yaml.Node    `yaml:"input_activations"`
		}
		if value.Kind == yaml.SequenceNode { // a scheme by name
			var list stringList
			if err := value.Decode(&list); err != nil {
				return nil, fmt.Errorf("line %d: %w: %w", value.Line, err, ErrForeign)
			}
			p, err := r.preset(key, key.Value, list, methods)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
			continue
		}
		if err := value.Decode(&g); err != nil {
			return nil, fmt.Errorf("line %d: config group %s: %w: %w", key.Line, key.Value, err, ErrForeign)
		}
		if g.Weights == nil {
			return nil, fmt.Errorf("line %d: config group %s has no weights: %w", key.Line, key.Value, ErrForeign)
		}
		scheme, err := g.Weights.scheme()
		if err != nil {
			return nil, fmt.Errorf("line %d: config group %s: %w", key.Line, key.Value, err)
		}
		if g.Input.Kind == yaml.MappingNode {
			r.note(fmt.Sprintf("line %d", key.Line), "input_activations are the server's business: weights alone are stored by a scheme here")
		}
		out = append(out, targetGroup{name: "config group " + key.Value, targets: g.Targets, scheme: scheme, methods: methods})
	}
	return out, nil
}

// stringList is a list of texts, or one.
type stringList []string

// UnmarshalYAML takes both.
func (s *stringList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if n.Tag != "!!null" {
			*s = []string{n.Value}
		}
		return nil
	}
	var list []string
	err := n.Decode(&list)
	*s = list
	return err
}
