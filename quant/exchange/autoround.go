package exchange

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// layerWords is an entry of AutoRound's layer_config. Group is a number, or two for
// tiles.
type layerWords struct {
	Bits  int    `json:"bits"`
	Group any    `json:"group_size,omitempty"`
	Sym   *bool  `json:"sym,omitempty"`
	Type  string `json:"data_type,omitempty"`
	Act   int    `json:"act_bits"`
}

// plainBits is what AutoRound has for what is not quantized.
const plainBits = 16

// roundWords is a scheme in AutoRound's words.
func roundWords(scheme string) (layerWords, error) {
	yes, no := true, false
	switch scheme {
	case "nvfp4":
		return layerWords{4, 16, &yes, "nv_fp", 16}, nil
	case "mxfp4":
		return layerWords{4, 32, &yes, "mx_fp", 16}, nil
	case "fp8":
		return layerWords{8, 0, &yes, "fp", 16}, nil
	case "fp8-channel":
		return layerWords{8, -1, &yes, "fp", 16}, nil
	case "fp8-block128":
		return layerWords{8, []int{128, 128}, &yes, "fp", 16}, nil
	}
	if g, sym, ok := intWords(scheme); ok {
		w := layerWords{4, g, &yes, "int", 16}
		if !sym {
			w.Sym = &no
		}
		return w, nil
	}
	return layerWords{}, fmt.Errorf("scheme %s: %w", scheme, ErrCannot)
}

// scheme is what an entry stores; "" for what is not quantized.
func (w *layerWords) scheme() (string, error) {
	if w.Bits >= plainBits {
		return "", nil
	}
	group := 0
	tiles := false
	switch g := w.Group.(type) {
	case nil:
		group = 128
	case float64:
		group = int(g)
	case []any:
		tiles = len(g) == 2 && g[0] == 128.0 && g[1] == 128.0
		group = -2
	}
	sym := w.Sym == nil || *w.Sym
	switch typ := strings.ToLower(w.Type); {
	case w.Bits == 4 && strings.HasPrefix(typ, "nv_fp") && group == 16:
		return "nvfp4", nil
	case w.Bits == 4 && strings.HasPrefix(typ, "mx_fp") && group == 32:
		return "mxfp4", nil
	case w.Bits == 8 && (typ == "fp" || typ == "fp8") && tiles:
		return "fp8-block128", nil
	case w.Bits == 8 && (typ == "fp" || typ == "fp8") && group == 0:
		return "fp8", nil
	case w.Bits == 8 && (typ == "fp" || typ == "fp8") && group == -1:
		return "fp8-channel", nil
	case (typ == "" || typ == "int") && group != 0 && group != -2:
		if s := intScheme(w.Bits, group, sym); s != "" {
			return s, nil
		}
	}
	return "", fmt.Errorf("%d bits of %s in groups of %v: %w (known: int 4 bits in groups of 32, 64, 128 or -1; nv_fp 16; mx_fp 32; fp 8 bits in groups of 0, -1 or [128, 128])", w.Bits, word(w.Type), w.Group, ErrForeign)
}

// exportAutoRound names every linear map, those that are kept too, so that the scheme
// of the command line decides nothing.
func exportAutoRound(a *Assignment) (*Document, error) {
	list := modules(a.Model)
	if err := a.noStacks(list); err != nil {
		return nil, err
	}
	doc := &Document{Name: "layer_config.json"}
	layers := map[string]layerWords{}
	noted := map[int]bool{}
	for i := range list {
		m := &list[i]
		g, err := a.groupOf(m)
		if err != nil {
			return nil, err
		}
		switch {
		case g < 0 && m.linear:
			layers[m.name] = layerWords{Bits: plainBits, Type: "fp", Act: plainBits}
		case g >= 0 && !m.linear:
			return nil, fmt.Errorf("%s: AutoRound quantizes modules of class Linear: %w", m.name, ErrCannot)
		case g >= 0:
			w, err := roundWords(a.Groups[g].Scheme)
			if err != nil {
				return nil, err
			}
			layers[m.name] = w
			if len(a.Groups[g].Methods) > 0 && !noted[g] {
				noted[g] = true
				doc.Notes = append(doc.Notes, Note{a.Groups[g].Scheme, strings.Join(a.Groups[g].Methods, "+") + " has no counterpart: AutoRound tunes rounding by itself"})
			}
		}
	}
	var err error
	doc.Data, err = export.MarshalConfig(layers)
	return doc, err
}

// readAutoRound reads layer_config, by itself or as extra_config of a quantization
// config. A key is a module's name, else an expression that is searched for in names,
// in which a dot that no star follows is a dot.
func readAutoRound(data []byte, m *topology.Model) (*reading, error) {
	raw, err := inner(data, "layer_config", "extra_config", "quantization_config")
	if err != nil {
		return nil, err
	}
	if raw, err = inner(raw, "extra_config"); err != nil {
		return nil, err
	}
	var layers map[string]json.RawMessage
	if err := json.Unmarshal(raw, &layers); err != nil {
		return nil, err
	}
	r := newReading(m)
	at := map[string]int{}
	for i := range r.modules {
		at[r.modules[i].name] = i
	}
	keys := slices.Sorted(maps.Keys(layers))
	exact := func(k string) bool { _, ok := at[k]; return ok }
	slices.SortStableFunc(keys, func(a, b string) int { // names after expressions, which they override
		switch {
		case exact(a) == exact(b):
			return 0
		case exact(a):
			return 1
		}
		return -1
	})
	for _, key := range keys {
		var w layerWords
		var preset string
		scheme := ""
		if json.Unmarshal(layers[key], &preset) == nil {
			p, ok := presets[strings.ToUpper(preset)]
			if !ok {
				return nil, fmt.Errorf("%q: scheme %q: %w", key, preset, ErrForeign)
			}
			scheme = p.scheme
		} else {
			if err := json.Unmarshal(layers[key], &w); err != nil {
				return nil, fmt.Errorf("%q: %w: %w", key, err, ErrForeign)
			}
			if scheme, err = w.scheme(); err != nil {
				return nil, fmt.Errorf("%q: %w", key, err)
			}
			if w.Act > 0 && w.Act < plainBits {
				r.note(key, "act_bits are the server's business: weights alone are stored by a scheme here")
			}
		}
		group := -1
		if scheme != "" {
			group = r.group(scheme)
		}
		set := func(i int) {
			if group < 0 {
				r.of[i] = -1
			} else {
				r.take(i, group, fmt.Sprintf("%q", key))
			}
		}
		if i, ok := at[key]; ok {
			set(i)
			continue
		}
		re, err := regexp.Compile(roundExpression(key))
		if err != nil {
			return nil, fmt.Errorf("%q: %w: %w", key, err, ErrForeign)
		}
		hits := 0
		for i := range r.modules {
			if r.modules[i].linear && re.MatchString(r.modules[i].name) {
				hits++
				set(i)
			}
		}
		if hits == 0 {
			r.note(key, "matches nothing of this checkpoint")
		}
	}
	return r, nil
}

// roundExpression is AutoRound's to_standard_regex: text without any sign of an
// expression is taken as it stands, of others dots are dots unless a star follows.
func roundExpression(key string) string {
	if !strings.ContainsAny(key, "^$|()[]?+") && !strings.Contains(key, ".*") {
		return regexp.QuoteMeta(key)
	}
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		switch {
		case key[i] == '.' && strings.HasPrefix(key[i+1:], "*"):
			b.WriteString(".*")
			i++
		case key[i] == '.':
			b.WriteString(`\.`)
		default:
			b.WriteByte(key[i])
		}
	}
	return b.String()
}
