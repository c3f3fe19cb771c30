package exchange

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// ggufTypes are the types of GGUF that a scheme comes near to, and what differs.
var ggufTypes = []struct{ scheme, typ, differs string }{
	{"nvfp4", "nvfp4", ""},
	{"mxfp4", "mxfp4", "GGUF's rule of the exponent is another than that of safetensors"},
	{"int4-g32-sym", "q4_0", "Q4_0 has an f16 scale and ggml's rule for it"},
	{"int4-g32", "q4_1", "Q4_1 has an f16 scale and minimum"},
}

// ggufTensor is a tensor of a GGUF file with what a recipe says of it.
type ggufTensor struct {
	name, typ string
	of        string // a module that is in it
}

// ggufNames are the tensors of a GGUF file that a module is stored in: two of experts
// that keep gate and up together, none of what is no linear map there.
func ggufNames(r topology.Role, c *topology.Config) []string {
	if r.Kind == topology.Embedding && r.Layer < 0 && r.Projection == "" && !r.MTP {
		return []string{"token_embd.weight"}
	}
	if r.Kind == topology.Embedding && r.Layer >= 0 && r.MTP {
		return []string{fmt.Sprintf("blk.%d.nextn.embed_tokens.weight", r.Layer)}
	}
	if r.Projection == "gate_up" {
		var out []string
		for _, p := range []string{"gate", "up"} {
			r.Projection = p
			out = append(out, ggufNames(r, c)...)
		}
		return out
	}
	if r.Kind == topology.Embedding && r.Layer < 0 && r.Projection == "per_layer" {
		return []string{"per_layer_token_embd.weight"}
	}
	return gguf.LinearNames(r, c)
}

// exportTensorTypes gives every tensor that llama-quantize would quantize its type, so
// that the type on its command line decides nothing.
func exportTensorTypes(a *Assignment) (*Document, error) {
	list := modules(a.Model)
	var tensors []ggufTensor
	at := map[string]int{}
	doc := &Document{Name: "tensor_types.txt"}
	noted := map[string]bool{}
	for i := range list {
		m := &list[i]
		g, err := a.groupOf(m)
		if err != nil {
			return nil, err
		}
		typ := ""
		if g >= 0 {
			k := slices.IndexFunc(ggufTypes, func(t struct{ scheme, typ, differs string }) bool { return t.scheme == a.Groups[g].Scheme })
			if k < 0 {
				var known []string
				for _, t := range ggufTypes {
					known = append(known, t.scheme)
				}
				return nil, fmt.Errorf("scheme %s: %w (known: %s)", a.Groups[g].Scheme, ErrCannot, strings.Join(known, ", "))
			}
			typ = ggufTypes[k].typ
			if d := ggufTypes[k].differs; d != "" && !noted[d] {
				noted[d] = true
				doc.Notes = append(doc.Notes, Note{a.Groups[g].Scheme, d})
			}
			if ms := a.Groups[g].Methods; len(ms) > 0 && !noted[a.Groups[g].Variant()] {
				noted[a.Groups[g].Variant()] = true
				doc.Notes = append(doc.Notes, Note{a.Groups[g].Scheme, strings.Join(ms, "+") + " has no counterpart: llama-quantize has its own way to choose scales"})
			}
		} else if !m.linear && !m.stack && m.role.Kind != topology.Embedding {
			continue // llama-quantize leaves it alone
		} else {
			typ = plainType(a.Model, m)
		}
		names := ggufNames(m.role, &a.Model.Config)
		if len(names) == 0 {
			if g >= 0 {
				return nil, fmt.Errorf("%s has no tensor in GGUF files: %w", m.name, ErrCannot)
			}
			continue
		}
		for _, n := range names {
			k, ok := at[n]
			if !ok {
				at[n] = len(tensors)
				tensors = append(tensors, ggufTensor{n, typ, m.name})
			} else if tensors[k].typ != typ {
				return nil, fmt.Errorf("%s holds %s as %s and %s as %s: %w", n, tensors[k].of, tensors[k].typ, m.name, typ, ErrCannot)
			}
		}
	}
	byType := map[string][]string{}
	for _, t := range tensors {
		byType[t.typ] = append(byType[t.typ], t.name)
	}
	var b strings.Builder
	for _, typ := range slices.Sorted(maps.Keys(byType)) {
		var others []string
		for _, t := range tensors {
			if t.typ != typ {
				others = append(others, t.name)
			}
		}
		exprs, err := expressions(byType[typ], others)
		if err != nil {
			return nil, err
		}
		for _, e := range exprs {
			fmt.Fprintf(&b, "%s=%s\n", e, typ)
		}
	}
	doc.Data = []byte(b.String())
	return doc, nil
}

// plainType is the type of what is kept: that of its elements.
func plainType(m *topology.Model, mod *module) string {
	for i := range m.Tensors {
		if strings.TrimSuffix(m.Tensors[i].Name, ".weight") == mod.name {
			switch m.Tensors[i].DType {
			case "F16", "F32":
				return strings.ToLower(m.Tensors[i].DType)
			}
			return "bf16"
		}
	}
	return "bf16"
}

// readTensorTypes reads entries EXPRESSION=TYPE between blanks, the expression in lower
// case and searched for anywhere in the name, the first that matches counts.
func readTensorTypes(data []byte, m *topology.Model) (*reading, error) {
	type entry struct {
		text, typ string
		re        *regexp.Regexp
		hits      int
	}
	var entries []entry
	for n, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			return nil, fmt.Errorf("line %d: llama-quantize knows no comments: %w", n+1, ErrForeign)
		}
		for _, word := range strings.Fields(line) {
			expr, typ, ok := strings.Cut(word, "=") // as llama-quantize cuts it
			if !ok || expr == "" || typ == "" {
				return nil, fmt.Errorf("line %d: %q is not EXPRESSION=TYPE: %w", n+1, word, ErrForeign)
			}
			re, err := regexp.Compile(strings.ToLower(expr))
			if err != nil {
				return nil, fmt.Errorf("line %d: %q: %w: %w", n+1, expr, err, ErrForeign)
			}
			entries = append(entries, entry{text: fmt.Sprintf("line %d: %q", n+1, expr), typ: strings.ToLower(typ), re: re})
		}
	}
	r := newReading(m)
	open := 0
	for i := range r.modules {
		mod := &r.modules[i]
		schemes := map[string]bool{}
		last := ""
		for _, name := range ggufNames(mod.role, &m.Config) {
			k := slices.IndexFunc(entries, func(e entry) bool { return e.re.MatchString(name) })
			if k < 0 {
				open++
				schemes[""] = true
				continue
			}
			entries[k].hits++
			scheme, err := schemeOfType(entries[k].typ)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", entries[k].text, err)
			}
			schemes[scheme], last = true, scheme
		}
		switch {
		case len(schemes) > 1:
			return nil, fmt.Errorf("%s: gate and up have different types, and are one tensor here: %w", mod.name, ErrForeign)
		case last != "" && len(mod.matrices) == 0:
			return nil, fmt.Errorf("%s is given a type that quantizes it, and is no matrix that can be quantized here: %w", mod.name, ErrForeign)
		case last != "":
			r.of[i] = r.group(last)
		}
	}
	if open > 0 {
		r.note("", "%d tensors match no line: their type is that of llama-quantize's command line; taken as kept", open)
	}
	for i := range entries {
		if entries[i].hits == 0 {
			r.note(entries[i].text, "matches nothing of this checkpoint")
		}
	}
	return r, nil
}

// schemeOfType is the scheme that a type comes near to, "" for a plain one.
func schemeOfType(typ string) (string, error) {
	switch typ {
	case "f32", "f16", "bf16":
		return "", nil
	}
	var known []string
	for _, t := range ggufTypes {
		if t.typ == typ {
			return t.scheme, nil
		}
		known = append(known, t.typ)
	}
	return "", fmt.Errorf("type %s is no scheme of a recipe: %w (known: %s; quantize --layout gguf --tensor-type-file takes the file as it is)", typ, ErrForeign, strings.Join(known, ", "))
}
