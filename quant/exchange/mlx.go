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

// mlxWords is how mlx stores a module.
type mlxWords struct {
	Group int    `json:"group_size"`
	Bits  int    `json:"bits"`
	Mode  string `json:"mode"`
}

func (w mlxWords) scheme() (string, error) {
	switch {
	case w.Mode == "nvfp4" && w.Bits == 4 && w.Group == 16:
		return "nvfp4", nil
	case w.Mode == "mxfp4" && w.Bits == 4 && w.Group == 32:
		return "mxfp4", nil
	case w.Mode == "" || w.Mode == "affine":
		if s := intScheme(w.Bits, w.Group, false); s != "" && w.Group > 0 {
			return s, nil
		}
	}
	return "", fmt.Errorf("%d bits in groups of %d, mode %s: %w (known: affine 4 bits in groups of 32, 64, 128; nvfp4; mxfp4)", w.Bits, w.Group, word(w.Mode), ErrForeign)
}

func mlxOf(scheme string) (mlxWords, error) {
	switch scheme {
	case "nvfp4":
		return mlxWords{16, 4, "nvfp4"}, nil
	case "mxfp4":
		return mlxWords{32, 4, "mxfp4"}, nil
	}
	if g, sym, ok := intWords(scheme); ok && !sym && g > 0 {
		return mlxWords{g, 4, "affine"}, nil
	}
	return mlxWords{}, fmt.Errorf("scheme %s: %w (known: int4-g32, int4-g64, int4-g128, nvfp4, mxfp4)", scheme, ErrCannot)
}

// expertNumber is where mlx has all experts of a projection in one module.
var expertNumber = regexp.MustCompile(`\.experts\.\d+\.`)

// mlxPaths are the modules of mlx that a module is part of: experts of a layer are one
// there, and gate and up two.
func mlxPaths(m *module) []string {
	switch {
	case m.stack && strings.HasSuffix(m.name, ".experts.gate_up_proj"):
		base := strings.TrimSuffix(m.name, "experts.gate_up_proj") + "switch_mlp."
		return []string{base + "gate_proj", base + "up_proj"}
	case m.stack:
		return []string{strings.Replace(m.name, ".experts.", ".switch_mlp.", 1)}
	}
	return []string{expertNumber.ReplaceAllString(m.name, ".switch_mlp.")}
}

// mlxQuantizes says whether mlx's own predicate takes a module: what is linear, and
// embeddings.
func mlxQuantizes(m *module) bool {
	return m.linear || m.stack || m.role.Kind == topology.Embedding && m.role.Projection == "" || m.role.Kind == topology.Router
}

func exportMLX(a *Assignment) (*Document, error) {
	list := modules(a.Model)
	paths := map[string]any{}
	count := map[mlxWords]int{}
	of := map[string]string{}
	doc := &Document{Name: "quantization.json"}
	noted := map[int]bool{}
	for i := range list {
		m := &list[i]
		g, err := a.groupOf(m)
		if err != nil {
			return nil, err
		}
		if g < 0 && !mlxQuantizes(m) {
			continue
		}
		scheme, value := "", any(false)
		if g >= 0 {
			scheme = a.Groups[g].Scheme
			w, err := mlxOf(scheme)
			if err != nil {
				return nil, err
			}
			value = w
			count[w]++
			if len(a.Groups[g].Methods) > 0 && !noted[g] {
				noted[g] = true
				doc.Notes = append(doc.Notes, Note{scheme, strings.Join(a.Groups[g].Methods, "+") + " has no counterpart: mlx rounds to nearest"})
			}
		}
		for _, p := range mlxPaths(m) {
			if have, ok := of[p]; ok && have != scheme {
				return nil, fmt.Errorf("%s holds experts of which some are %s and some %s: %w", p, word(have), word(scheme), ErrCannot)
			}
			of[p], paths[p] = scheme, value
		}
	}
	base := mlxWords{64, 4, "affine"}
	for w, n := range count {
		if b := count[base]; n > b || n == b && fmt.Sprint(w) < fmt.Sprint(base) {
			base = w
		}
	}
	paths["group_size"], paths["bits"], paths["mode"] = base.Group, base.Bits, base.Mode
	var err error
	doc.Data, err = export.MarshalConfig(map[string]any{"quantization": paths})
	return doc, err
}

// readMLX reads quantization of a config.json, or that object. What it does not name is
// taken as kept, since mlx asks the stored weights then.
func readMLX(data []byte, m *topology.Model) (*reading, error) {
	raw, err := inner(data, "quantization", "quantization_config")
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	r := newReading(m)
	for _, key := range []string{"group_size", "bits", "mode", "quant_method"} {
		delete(members, key)
	}
	said := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(members)) {
		var on bool
		if json.Unmarshal(members[p], &on) == nil {
			if on {
				return nil, fmt.Errorf("%q: true does not say how: %w", p, ErrForeign)
			}
			said[p] = ""
			continue
		}
		var w mlxWords
		if err := json.Unmarshal(members[p], &w); err != nil {
			return nil, fmt.Errorf("%q: %w: %w", p, err, ErrForeign)
		}
		if said[p], err = w.scheme(); err != nil {
			return nil, fmt.Errorf("%q: %w", p, err)
		}
	}
	hits := map[string]int{}
	open := 0
	for i := range r.modules {
		mod := &r.modules[i]
		schemes := map[string]bool{}
		last := ""
		for _, p := range mlxPaths(mod) {
			s, ok := said[p]
			if !ok {
				if mlxQuantizes(mod) {
					open++
				}
				s = ""
			}
			hits[p]++
			schemes[s], last = true, s
		}
		switch {
		case len(schemes) > 1:
			return nil, fmt.Errorf("%s: gate and up are stored differently, and are one tensor here: %w", mod.name, ErrForeign)
		case last != "" && len(mod.matrices) == 0:
			return nil, fmt.Errorf("%s is no matrix that can be quantized here: %w", mod.name, ErrForeign)
		case last != "":
			r.of[i] = r.group(last)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(said)) {
		if hits[p] == 0 {
			r.note(fmt.Sprintf("%q", p), "matches nothing of this checkpoint")
		}
	}
	if open > 0 {
		r.note("", "%d modules are not named: mlx asks the stored weights; taken as kept", open)
	}
	return r, nil
}
