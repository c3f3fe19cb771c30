package exchange

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// targetGroup is a config group: targets with what they are stored as.
type targetGroup struct {
	name    string
	targets []string
	scheme  string
	methods []string
}

const (
	classLinear = "Linear"
	headModule  = "lm_head"
)

// ctMatcher is compressed-tensors' is_match: a target is a name, re: and an expression
// that matches from the start of the name (re.match), or a class.
type ctMatcher struct {
	pattern string
	expr    *regexp.Regexp
}

func newCTMatcher(pattern string) (ctMatcher, error) {
	m := ctMatcher{pattern: pattern}
	if e, ok := strings.CutPrefix(pattern, "re:"); ok {
		var err error
		m.expr, err = matchPython(e)
		return m, err
	}
	if pattern != classLinear && pattern != "" && unicode.IsUpper(rune(pattern[0])) && !strings.ContainsAny(pattern, ".") {
		return m, fmt.Errorf("%q is a class of modules, which names do not show: %w", pattern, ErrForeign)
	}
	return m, nil
}

func (c *ctMatcher) match(m *module) bool {
	switch {
	case m.stack: // a parameter, no module
		return false
	case c.expr != nil:
		return c.expr.MatchString(m.name)
	case c.pattern == classLinear:
		return m.linear
	}
	return c.pattern == m.name
}

// closeness is the order in which compressed-tensors takes targets that match one
// module: names, expressions, classes, and of equals the first by its text.
func (c *ctMatcher) closeness() int {
	switch {
	case c.pattern == classLinear:
		return 2
	case c.expr != nil:
		return 1
	}
	return 0
}

// resolveCT deals modules out by compressed-tensors' rules.
func (r *reading) resolveCT(groups []targetGroup, ignore []string) error {
	type target struct {
		ctMatcher
		group int
		place string
		hits  int
	}
	var targets []target
	for _, g := range groups {
		k := r.group(g.scheme, g.methods...)
		for _, t := range g.targets {
			m, err := newCTMatcher(t)
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			targets = append(targets, target{m, k, fmt.Sprintf("%s: target %q", g.name, t), 0})
		}
	}
	slices.SortStableFunc(targets, func(a, b target) int {
		if d := a.closeness() - b.closeness(); d != 0 {
			return d
		}
		return strings.Compare(a.pattern, b.pattern)
	})
	skips := make([]ctMatcher, len(ignore))
	hits := make([]int, len(ignore))
	for i, p := range ignore {
		m, err := newCTMatcher(p)
		if err != nil {
			return fmt.Errorf("ignore: %w", err)
		}
		skips[i] = m
	}
	for i := range r.modules {
		m := &r.modules[i]
		skipped := false
		for k := range skips {
			if skips[k].match(m) {
				hits[k]++
				skipped = true
			}
		}
		chosen := -1
		for k := range targets {
			if targets[k].match(m) {
				if targets[k].hits++; chosen < 0 {
					chosen = k
				}
			}
		}
		switch {
		case chosen < 0 && m.stack && !skipped:
			if slices.ContainsFunc(targets, func(t target) bool { return t.pattern == classLinear }) {
				r.note(m.name, "experts that are one parameter are no Linear: left alone")
			}
		case chosen >= 0 && !skipped:
			r.take(i, targets[chosen].group, targets[chosen].place)
		case chosen < 0 && !skipped && m.role.Kind == topology.Router:
			r.note(m.name, "routers are taken for no Linear, which they are in some families: left alone")
		}
	}
	for k := range targets {
		if targets[k].hits == 0 {
			r.note(targets[k].place, "matches nothing of this checkpoint")
		}
	}
	for k := range skips {
		if hits[k] == 0 && ignore[k] != headModule {
			r.note(fmt.Sprintf("ignore %q", ignore[k]), "matches nothing of this checkpoint")
		}
	}
	return nil
}

// targetsCT are the groups of an assignment with targets, and the modules that are to
// be ignored, as compressed-tensors takes them.
func (a *Assignment) targetsCT() (groups []targetGroup, ignore []string, err error) {
	list := modules(a.Model)
	if err := a.noStacks(list); err != nil {
		return nil, nil, err
	}
	stored, kept, err := a.split(list)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range slices.Sorted(maps.Keys(stored)) {
		exprs, err := expressions(stored[g], otherNames(list, stored[g]))
		if err != nil {
			return nil, nil, err
		}
		t := targetGroup{scheme: a.Groups[g].Scheme, methods: a.Groups[g].Methods}
		for _, e := range exprs {
			t.targets = append(t.targets, "re:"+e)
		}
		groups = append(groups, t)
	}
	ignore, err = ignoreCT(list, kept)
	return groups, ignore, err
}

// ignoreCT names what a server could take for a quantized linear map and is kept; the
// head always, which tied models have without storing it.
func ignoreCT(list, kept []module) ([]string, error) {
	var names, own []string
	head := false
	for i := range kept {
		m := &kept[i]
		if m.role.Kind == topology.Head && !m.role.MTP {
			own = append(own, m.name)
			continue
		}
		if m.linear || m.role.Kind == topology.Router {
			names = append(names, m.name)
		}
	}
	for i := range list {
		head = head || list[i].role.Kind == topology.Head && !list[i].role.MTP
	}
	if !head {
		own = append(own, headModule)
	}
	in := map[string]bool{}
	for _, n := range names {
		in[n] = true
	}
	var others []string // what must not be ignored: what is stored
	stored := map[string]bool{}
	for i := range list {
		stored[list[i].name] = true
	}
	for i := range kept {
		delete(stored, kept[i].name)
	}
	for i := range list {
		if stored[list[i].name] {
			others = append(others, list[i].name)
		}
	}
	exprs, err := expressions(names, others)
	for _, e := range exprs {
		own = append(own, "re:"+e)
	}
	return own, err
}

// compressedGroup is what a scheme is in compressed-tensors' words.
func compressedGroup(scheme string) (export.QuantScheme, error) {
	if !slices.Contains(export.Formats(export.CompressedTensors), scheme) {
		return export.QuantScheme{}, fmt.Errorf("scheme %s: %w (known: %s)", scheme, ErrCannot, strings.Join(export.Formats(export.CompressedTensors), ", "))
	}
	f, err := kernels.FormatByName(scheme)
	if err != nil {
		return export.QuantScheme{}, err
	}
	return export.CompressedScheme(f), nil
}

func exportCompressed(a *Assignment) (*Document, error) {
	groups, ignore, err := a.targetsCT()
	if err != nil {
		return nil, err
	}
	doc := &Document{Name: "quantization_config.json"}
	words := map[string]export.QuantScheme{}
	whole := ""
	for i, g := range groups {
		s, err := compressedGroup(g.scheme)
		if err != nil {
			return nil, err
		}
		s.Targets = g.targets
		words[fmt.Sprintf("group_%d", i)] = s
		switch whole {
		case "", s.Format:
			whole = s.Format
		default:
			whole = "mixed-precision"
		}
		if len(g.methods) > 0 {
			doc.Notes = append(doc.Notes, Note{g.scheme, "the config says how weights are stored, not that they were made by " + strings.Join(g.methods, "+")})
		}
	}
	doc.Data, err = export.MarshalConfig(struct {
		Groups map[string]export.QuantScheme `json:"config_groups"`
		Format string                        `json:"format"`
		Ignore []string                      `json:"ignore"`
		Method string                        `json:"quant_method"`
		Status string                        `json:"quantization_status"`
	}{words, whole, ignore, "compressed-tensors", "initialized"})
	return doc, err
}

// readCompressed reads quantization_config, by itself or inside a config.json.
func readCompressed(data []byte, m *topology.Model) (*reading, error) {
	raw, err := inner(data, "quantization_config")
	if err != nil {
		return nil, err
	}
	var q struct {
		Method string                     `json:"quant_method"`
		Groups map[string]json.RawMessage `json:"config_groups"`
		Ignore []string                   `json:"ignore"`
		KV     json.RawMessage            `json:"kv_cache_scheme"`
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	if q.Method != "" && q.Method != "compressed-tensors" {
		return nil, fmt.Errorf("quant_method is %q: %w", q.Method, ErrForeign)
	}
	r := newReading(m)
	var groups []targetGroup
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		var g struct {
			Targets []string        `json:"targets"`
			Weights *weightWords    `json:"weights"`
			Input   json.RawMessage `json:"input_activations"`
		}
		preset, listed := presets[strings.ToUpper(name)]
		if json.Unmarshal(q.Groups[name], &g.Targets) == nil && listed { // a scheme by name with its targets
			groups = append(groups, targetGroup{name: name, targets: g.Targets, scheme: preset.scheme})
			continue
		}
		if err := json.Unmarshal(q.Groups[name], &g); err != nil {
			return nil, fmt.Errorf("config_groups.%s: %w", name, err)
		}
		if g.Weights == nil {
			return nil, fmt.Errorf("config_groups.%s: no weights: %w", name, ErrForeign)
		}
		scheme, err := g.Weights.scheme()
		if err != nil {
			return nil, fmt.Errorf("config_groups.%s: %w", name, err)
		}
		if len(g.Input) > 0 && string(g.Input) != "null" {
			r.note("config_groups."+name, "input_activations are the server's business: weights alone are stored by a scheme here")
		}
		groups = append(groups, targetGroup{name: "config_groups." + name, targets: g.Targets, scheme: scheme})
	}
	if len(q.KV) > 0 && string(q.KV) != "null" {
		r.note("kv_cache_scheme", "is not part of a recipe here")
	}
	return r, r.resolveCT(groups, q.Ignore)
}

// inner is a member of an object, or the object itself where it has none.
func inner(data []byte, keys ...string) ([]byte, error) {
	var root map[string]json.RawMessage
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if raw := root[k]; len(raw) > 0 && raw[0] == '{' {
			return raw, nil
		}
	}
	return data, nil
}
