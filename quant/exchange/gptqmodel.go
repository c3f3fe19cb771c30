package exchange

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// dynamicEntry is what GPTQModel's dynamic says of the modules that an expression
// matches.
type dynamicEntry struct {
	Bits  *int  `json:"bits,omitempty"`
	Group *int  `json:"group_size,omitempty"`
	Sym   *bool `json:"sym,omitempty"`
}

// inLayers says whether GPTQModel comes by a module: linear maps of decoder layers.
func inLayers(m *module) bool {
	return m.linear && m.role.Layer >= 0 && !m.role.MTP
}

func exportGPTQModel(a *Assignment) (*Document, error) {
	list := modules(a.Model)
	if err := a.noStacks(list); err != nil {
		return nil, err
	}
	stored, kept, err := a.split(list)
	if err != nil {
		return nil, err
	}
	doc := &Document{Name: "quantize_config.json"}
	base, order := -1, false
	head := false
	for g, names := range stored {
		if _, _, ok := intWords(a.Groups[g].Scheme); !ok {
			return nil, fmt.Errorf("scheme %s: %w (known: int4-g32, int4-g64, int4-g128, int4-channel, each also -sym)", a.Groups[g].Scheme, ErrCannot)
		}
		if base < 0 || len(names) > len(stored[base]) || len(names) == len(stored[base]) && g < base {
			base = g
		}
	}
	for i := range list {
		g, err := a.groupOf(&list[i])
		if err != nil {
			return nil, err
		}
		switch {
		case g < 0:
		case list[i].role.Kind == topology.Head && !list[i].role.MTP:
			head = true
		case !inLayers(&list[i]):
			return nil, fmt.Errorf("%s: GPTQModel quantizes linear maps of decoder layers: %w", list[i].name, ErrCannot)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(stored)) {
		ms := a.Groups[g].Methods
		order = order || slices.Contains(ms, "act")
		if !slices.Contains(ms, "gptq") {
			doc.Notes = append(doc.Notes, Note{a.Groups[g].Scheme, "GPTQModel calibrates what a recipe has as " + a.Groups[g].Variant()})
		}
	}
	// An object's members are in the order that decides, so it is written by hand.
	var members []string
	add := func(prefix string, names []string, e dynamicEntry) error {
		exprs, err := expressions(names, otherNames(list, names))
		if err != nil {
			return err
		}
		value, err := json.Marshal(e)
		if err != nil {
			return err
		}
		for _, x := range exprs {
			key, err := json.Marshal(prefix + x)
			if err != nil {
				return err
			}
			members = append(members, string(key)+":"+string(value))
		}
		return nil
	}
	var left []string
	for i := range kept {
		if inLayers(&kept[i]) || kept[i].linear && kept[i].role.MTP {
			left = append(left, kept[i].name)
		}
	}
	if err := add("-:", left, dynamicEntry{}); err != nil {
		return nil, err
	}
	for _, g := range slices.Sorted(maps.Keys(stored)) {
		if g == base {
			continue
		}
		group, sym, _ := intWords(a.Groups[g].Scheme)
		bits := 4
		if err := add("+:", stored[g], dynamicEntry{&bits, &group, &sym}); err != nil {
			return nil, err
		}
	}
	group, sym, _ := intWords(a.Groups[base].Scheme)
	dynamic := json.RawMessage("{" + strings.Join(members, ",") + "}")
	doc.Data, err = export.MarshalConfig(struct {
		Bits    int             `json:"bits"`
		Group   int             `json:"group_size"`
		Sym     bool            `json:"sym"`
		Order   bool            `json:"desc_act"`
		Head    bool            `json:"lm_head"`
		Method  string          `json:"quant_method"`
		Dynamic json.RawMessage `json:"dynamic"`
	}{4, group, sym, order, head, "gptq", dynamic})
	return doc, err
}

// readGPTQModel reads quantize_config.json, or quantization_config of a config.json. Of
// dynamic the first expression that matches from the start of a name decides.
func readGPTQModel(data []byte, m *topology.Model) (*reading, error) {
	raw, err := inner(data, "quantization_config")
	if err != nil {
		return nil, err
	}
	var q struct {
		Bits    int             `json:"bits"`
		Group   *int            `json:"group_size"`
		Sym     *bool           `json:"sym"`
		Head    bool            `json:"lm_head"`
		Method  string          `json:"quant_method"`
		Dynamic json.RawMessage `json:"dynamic"`
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	if q.Method != "" && q.Method != "gptq" {
		return nil, fmt.Errorf("quant_method is %q: %w", q.Method, ErrForeign)
	}
	group, sym := 128, true
	if q.Group != nil {
		group = *q.Group
	}
	if q.Sym != nil {
		sym = *q.Sym
	}
	type entry struct {
		text  string
		skips bool
		re    *regexp.Regexp
		dynamicEntry
		hits int
	}
	var entries []entry
	if len(q.Dynamic) > 0 && string(q.Dynamic) != "null" {
		d := json.NewDecoder(bytes.NewReader(q.Dynamic))
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return nil, fmt.Errorf("dynamic is no object: %w", ErrForeign)
		}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			e := entry{}
			e.text, _ = key.(string)
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return nil, err
			}
			if err := json.Unmarshal(value, &e.dynamicEntry); err != nil {
				return nil, fmt.Errorf("dynamic %q: %w", e.text, err)
			}
			expr := e.text
			if rest, ok := strings.CutPrefix(expr, "-:"); ok {
				expr, e.skips = rest, true
			} else if rest, ok := strings.CutPrefix(expr, "+:"); ok {
				expr = rest
			}
			if e.re, err = matchPython(expr); err != nil {
				return nil, fmt.Errorf("dynamic %q: %w", e.text, err)
			}
			entries = append(entries, e)
		}
	}
	r := newReading(m)
	for i := range r.modules {
		mod := &r.modules[i]
		if mod.stack || !mod.linear && mod.role.Kind != topology.Router {
			if mod.stack {
				r.note(mod.name, "experts that are one parameter are no Linear: left alone")
			}
			continue
		}
		k := slices.IndexFunc(entries, func(e entry) bool { return e.re.MatchString(mod.name) })
		if k >= 0 {
			entries[k].hits++
		}
		wanted := inLayers(mod) || q.Head && mod.role.Kind == topology.Head && !mod.role.MTP
		bits, g, s := q.Bits, group, sym
		switch {
		case !wanted || k >= 0 && entries[k].skips:
			continue
		case k >= 0:
			e := &entries[k]
			if e.Bits != nil {
				bits = *e.Bits
			}
			if e.Group != nil {
				g = *e.Group
			}
			if e.Sym != nil {
				s = *e.Sym
			}
		}
		scheme := intScheme(bits, g, s)
		if scheme == "" {
			return nil, fmt.Errorf("%s: %d bits in groups of %d, sym %v: %w (known: 4 bits in groups of 32, 64, 128 or -1)", mod.name, bits, g, s, ErrForeign)
		}
		r.of[i] = r.group(scheme, "gptq")
	}
	for i := range entries {
		if entries[i].hits == 0 {
			r.note(fmt.Sprintf("dynamic %q", entries[i].text), "matches nothing of this checkpoint")
		}
	}
	return r, nil
}
