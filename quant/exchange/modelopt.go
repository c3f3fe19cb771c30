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

// algos are ModelOpt's words for schemes, the one that is written first.
var algos = []struct{ algo, scheme, activations string }{
	{"W4A16_NVFP4", "nvfp4", ""},
	{"NVFP4", "nvfp4", "NVFP4 as they come under a calibrated global scale"},
	{"FP8", "fp8", "FP8 under a calibrated scale"},
	{"FP8_PER_CHANNEL_PER_TOKEN", "fp8-channel", "FP8 a token as they come"},
	{"FP8_PB_WO", "fp8-block128", ""},
}

const mixedAlgo = "MIXED_PRECISION"

// layerAlgo is an entry of quantized_layers.
type layerAlgo struct {
	Algo  string `json:"quant_algo"`
	Group int    `json:"group_size,omitempty"`
}

func exportModelOpt(a *Assignment) (*Document, error) {
	list := modules(a.Model)
	stored, kept, err := a.split(list)
	if err != nil {
		return nil, err
	}
	algoOf := func(g int) (layerAlgo, error) {
		for _, w := range algos {
			if w.scheme == a.Groups[g].Scheme {
				l := layerAlgo{Algo: w.algo}
				if w.scheme == "nvfp4" {
					l.Group = 16
				}
				return l, nil
			}
		}
		return layerAlgo{}, fmt.Errorf("scheme %s: %w (known: %s)", a.Groups[g].Scheme, ErrCannot, strings.Join(export.Formats(export.ModelOpt), ", "))
	}
	quantization := map[string]any{"kv_cache_quant_algo": nil}
	doc := &Document{Name: "hf_quant_config.json"}
	schemes := map[string]bool{}
	for g := range stored {
		schemes[a.Groups[g].Scheme] = true
		if len(a.Groups[g].Methods) > 0 {
			doc.Notes = append(doc.Notes, Note{a.Groups[g].Scheme, "the config says how weights are stored, not that they were made by " + strings.Join(a.Groups[g].Methods, "+")})
		}
	}
	if len(schemes) == 1 {
		for g := range stored {
			l, err := algoOf(g)
			if err != nil {
				return nil, err
			}
			quantization["quant_algo"] = l.Algo
			if l.Group > 0 {
				quantization["group_size"] = l.Group
			}
		}
		exclude := []string{}
		var quantized []string
		for g := range stored {
			quantized = append(quantized, stored[g]...)
		}
		head := slices.ContainsFunc(list, func(m module) bool { return m.role.Kind == topology.Head && !m.role.MTP })
		for i := range kept {
			if kept[i].linear || kept[i].stack || kept[i].role.Kind == topology.Router {
				exclude = append(exclude, kept[i].name)
			}
		}
		if !head {
			exclude = append(exclude, headModule)
		}
		slices.Sort(exclude)
		quantization["exclude_modules"] = export.ExcludeList(exclude, quantized)
	} else {
		layers := map[string]layerAlgo{}
		for g, names := range stored {
			l, err := algoOf(g)
			if err != nil {
				return nil, err
			}
			for _, n := range names {
				layers[n] = l
			}
		}
		quantization["quant_algo"], quantization["quantized_layers"] = mixedAlgo, layers
	}
	doc.Data, err = export.MarshalConfig(map[string]any{"producer": map[string]string{"name": "modelopt"}, "quantization": quantization})
	return doc, err
}

// readModelOpt reads hf_quant_config.json, or quantization_config of a config.json.
// exclude_modules are wildcards over whole names (fnmatch), and a name covers what is
// below it.
func readModelOpt(data []byte, m *topology.Model) (*reading, error) {
	raw, err := inner(data, "quantization", "quantization_config")
	if err != nil {
		return nil, err
	}
	var q struct {
		Method  string               `json:"quant_method"`
		Algo    string               `json:"quant_algo"`
		Exclude []string             `json:"exclude_modules"`
		Ignore  []string             `json:"ignore"`
		Layers  map[string]layerAlgo `json:"quantized_layers"`
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	if q.Method != "" && q.Method != "modelopt" {
		return nil, fmt.Errorf("quant_method is %q: %w", q.Method, ErrForeign)
	}
	r := newReading(m)
	schemeOf := func(algo, place string) (string, error) {
		for _, w := range algos {
			if w.algo == algo {
				if w.activations != "" {
					r.note(place, "%s quantizes activations too (%s): weights alone are stored by a scheme here", algo, w.activations)
				}
				return w.scheme, nil
			}
		}
		var known []string
		for _, w := range algos {
			known = append(known, w.algo)
		}
		return "", fmt.Errorf("%s: quant_algo %q: %w (known: %s, %s)", place, algo, ErrForeign, strings.Join(known, ", "), mixedAlgo)
	}
	var skips []func(name string) bool
	for _, p := range append(q.Exclude, q.Ignore...) {
		re, err := fnmatch(p)
		if err != nil {
			return nil, fmt.Errorf("exclude_modules: %w", err)
		}
		skips = append(skips, func(n string) bool { return re.MatchString(n) || strings.HasPrefix(n, p+".") })
	}
	excluded := func(m *module) bool {
		return slices.ContainsFunc(skips, func(f func(string) bool) bool { return f(m.name) })
	}
	if len(q.Layers) > 0 {
		if q.Algo != mixedAlgo && q.Algo != "" {
			return nil, fmt.Errorf("quantized_layers beside quant_algo %q: %w", q.Algo, ErrForeign)
		}
		return r, r.layers(q.Layers, schemeOf, excluded)
	}
	scheme, err := schemeOf(q.Algo, "quant_algo")
	if err != nil {
		return nil, err
	}
	g := r.group(scheme)
	for i := range r.modules {
		m := &r.modules[i]
		switch {
		case excluded(m) || len(m.matrices) == 0:
		case m.linear || m.stack:
			r.of[i] = g
		case m.role.Kind == topology.Router:
			r.note(m.name, "routers are taken for no Linear, which they are in some families: left alone")
		}
	}
	return r, nil
}

// layers takes the list of MIXED_PRECISION.
func (r *reading) layers(list map[string]layerAlgo, schemeOf func(algo, place string) (string, error), excluded func(*module) bool) error {
	type entry struct {
		name, scheme string
		re           *regexp.Regexp
		hits         int
	}
	entries := map[string]*entry{}
	var wild []*entry
	for _, name := range slices.Sorted(maps.Keys(list)) {
		s, err := schemeOf(list[name].Algo, fmt.Sprintf("quantized_layers %q", name))
		if err != nil {
			return err
		}
		e := &entry{name: name, scheme: s}
		entries[name] = e
		if strings.ContainsAny(name, "*?[") {
			if e.re, err = fnmatch(name); err != nil {
				return err
			}
			wild = append(wild, e)
		}
	}
	for i := range r.modules {
		m := &r.modules[i]
		e := entries[m.name]
		for k := 0; e == nil && k < len(wild); k++ {
			if wild[k].re.MatchString(m.name) {
				e = wild[k]
			}
		}
		if e == nil || excluded(m) {
			continue
		}
		e.hits++
		if len(m.matrices) == 0 {
			r.note(e.name, "matches %s, which is no linear map: left alone", m.name)
			continue
		}
		r.of[i] = r.group(e.scheme)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if entries[name].hits == 0 {
			r.note(fmt.Sprintf("quantized_layers %q", name), "matches nothing of this checkpoint")
		}
	}
	return nil
}
