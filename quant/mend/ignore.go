package mend

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// list is where a config keeps its exceptions.
type list struct {
	file  string
	path  []string
	style listStyle
}

// listStyle is how the exceptions of a config are written.
type listStyle uint8

const (
	expressions listStyle = iota // compressed-tensors, quantscope: names, or re: and an expression
	wildcards                    // ModelOpt
	substrings                   // AutoAWQ, DeepSeek's FP8: part of a name
	dynamic                      // GPTQModel: members -:EXPR of an object
)

// ignore makes every config that declares quantized modules say which MTP modules
// are not.
func (w *work) ignore(s *Step) error {
	mtp := w.plainMTP()
	if len(mtp) == 0 {
		s.Says = "no MTP module is stored unquantized"
		return nil
	}
	lists, err := w.lists()
	if err != nil {
		return err
	}
	if len(lists) == 0 {
		s.Says = "no config declares quantized modules"
		return nil
	}
	for _, l := range lists {
		var open []string
		for _, m := range mtp {
			if !w.excepted(l, m) {
				open = append(open, m)
			}
		}
		if len(open) == 0 {
			continue
		}
		if err := w.except(s, l, open); err != nil {
			return err
		}
	}
	s.Says = fmt.Sprintf("%d MTP modules are not quantized, and the configs say so", len(mtp))
	if s.Needed {
		s.Says = fmt.Sprintf("of %d MTP modules that are not quantized, some are declared to be", len(mtp))
	}
	return nil
}

// plainMTP lists the MTP modules that the result stores unquantized and that a
// server takes for linear maps, in order.
func (w *work) plainMTP() []string {
	var out []string
	add := func(t *checkpoint.Tensor, r *topology.Role) {
		switch t.DType {
		case checkpoint.BF16, checkpoint.F16, checkpoint.F32:
		default:
			return
		}
		module, param := layout.Split(t.Name)
		if param == "weight" && layout.IsLinear(t, r) && !slices.Contains(out, module) {
			out = append(out, module)
		}
	}
	for i := range w.out.ck.Tensors {
		t, r := &w.out.ck.Tensors[i], &w.out.top.Roles[i]
		if k, ok := w.sourceRole(t.Name); ok { // a config that does not declare the layers hides that they are
			r = k
		}
		if r.MTP && !w.packed(t.Name) {
			add(t, r)
		}
	}
	var come []int
	for _, j := range w.joined {
		if j.source >= 0 {
			come = append(come, j.source)
		}
	}
	for _, sh := range w.shards {
		come = append(come, sh.tensors...)
	}
	for _, i := range come {
		add(&w.src.ck.Tensors[i], &w.src.top.Roles[i])
	}
	slices.Sort(out)
	return out
}

// packed says whether a tensor belongs to a quantized module.
func (w *work) packed(tensor string) bool {
	module, _ := layout.Split(tensor)
	_, ok := w.out.lay.Lookup(module)
	_, fused := w.out.lay.Lookup(module + "[0]")
	return ok || fused || w.out.lay.Unread[tensor]
}

func (w *work) sourceRole(name string) (*topology.Role, bool) {
	if w.roles == nil {
		w.roles = make(map[string]*topology.Role, len(w.src.ck.Tensors))
		for i := range w.src.ck.Tensors {
			w.roles[w.src.ck.Tensors[i].Name] = &w.src.top.Roles[i]
		}
	}
	r, ok := w.roles[name]
	return r, ok
}

// lists finds the lists of exceptions of the configs that are there.
func (w *work) lists() ([]list, error) {
	var out []list
	quant, err := member(w.config, quantKey)
	if err != nil {
		return nil, err
	}
	at := []string{quantKey}
	if len(quant) == 0 || string(quant) == "null" {
		text, err := member(w.config, "text_config")
		if err != nil {
			return nil, err
		}
		if len(text) > 0 && text[0] == '{' {
			if quant, err = member(text, quantKey); err != nil {
				return nil, err
			}
			at = []string{"text_config", quantKey}
		}
	}
	if len(quant) > 0 && quant[0] == '{' {
		var q map[string]json.RawMessage
		if err := json.Unmarshal(quant, &q); err != nil {
			return nil, err
		}
		var method string
		_ = json.Unmarshal(q["quant_method"], &method) // what is no word is no method
		key, style := "", expressions
		switch method {
		case layout.CompressedTensors, layout.Quantscope:
			key = "ignore"
		case layout.ModelOpt:
			if key, style = "ignore", wildcards; q["ignore"] == nil && q["exclude_modules"] != nil {
				key = "exclude_modules"
			}
		case layout.AWQ, layout.FP8:
			key, style = "modules_to_not_convert", substrings
		case layout.GPTQ:
			key, style = "dynamic", dynamic
		}
		if key != "" {
			out = append(out, list{configName, append(at, key), style})
		}
	}
	text, ok, err := w.text(modelOptName)
	if err != nil || !ok {
		return out, err
	}
	if q, err := member(text, "quantization"); err == nil && len(q) > 0 && q[0] == '{' {
		out = append(out, list{modelOptName, []string{"quantization", "exclude_modules"}, wildcards})
	}
	return out, nil
}

const (
	quantKey     = "quantization_config"
	modelOptName = "hf_quant_config.json"
)

// excepted says whether a config says of a module that it is not quantized.
func (w *work) excepted(l list, module string) bool {
	for _, said := range w.out.lay.Says(module, true) {
		if said.File == l.file {
			return !said.Quantized
		}
	}
	entries, err := w.entries(l)
	if err != nil {
		return false
	}
	for _, e := range entries {
		switch l.style {
		case substrings:
			if strings.Contains(module, e) {
				return true
			}
		case dynamic:
			expr, skips := strings.CutPrefix(e, "-:")
			re, err := regexp.Compile("^(?:" + expr + ")")
			if skips && err == nil && re.MatchString(module) {
				return true
			}
		case expressions, wildcards: // Says would have known
			if e == module {
				return true
			}
		}
	}
	return false
}

// entries are the exceptions of a list as they stand.
func (w *work) entries(l list) ([]string, error) {
	text, err := w.textOf(l.file)
	if err != nil {
		return nil, err
	}
	for _, key := range l.path {
		if text, err = member(text, key); err != nil || len(text) == 0 || string(text) == "null" {
			return nil, err
		}
	}
	if l.style == dynamic {
		var members map[string]json.RawMessage
		err := json.Unmarshal(text, &members)
		var keys []string
		for k := range members {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return keys, err
	}
	var out []string
	err = json.Unmarshal(text, &out)
	return out, err
}

// textOf is config.json or a side file as it will be.
func (w *work) textOf(name string) ([]byte, error) {
	if name == configName {
		return w.config, nil
	}
	text, _, err := w.text(name)
	return text, err
}

// except adds exceptions to a list.
func (w *work) except(s *Step, l list, modules []string) error {
	patterns := w.patterns(l.style, modules)
	have, err := w.entries(l)
	if err != nil {
		return &checkpoint.FileError{File: w.out.ck.Path + "/" + l.file, Reason: strings.Join(l.path, ".") + " is no list of names", Err: err}
	}
	text, err := w.textOf(l.file)
	if err != nil {
		return err
	}
	if l.style == dynamic {
		for _, p := range patterns {
			if text, err = setPath(text, append(slices.Clone(l.path), p), map[string]any{}); err != nil {
				break
			}
		}
	} else {
		text, err = setPath(text, l.path, append(slices.Clone(have), patterns...))
	}
	if err != nil {
		return &checkpoint.FileError{File: w.out.ck.Path + "/" + l.file, Reason: "cannot be changed", Err: err}
	}
	what, before := strings.Join(l.path, "."), fmt.Sprintf("%d entries", len(have))
	after := fmt.Sprintf("%d entries, with %s", len(have)+len(patterns), strings.Join(patterns, ", "))
	if l.file == configName {
		w.config = text
		s.Needed = true
		s.Changes = append(s.Changes, Change{l.file, what, before, after})
		return nil
	}
	w.put(s, l.file, what, before, after, text)
	return nil
}

// patterns are the exceptions that name modules: one for each part of the model that
// is MTP's whole and has nothing quantized in it, else the modules by name.
func (w *work) patterns(style listStyle, modules []string) []string {
	var out []string
	add := func(p string) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, m := range modules {
		root := w.root(m)
		if root == "" {
			add(named(style, m))
			continue
		}
		numbered := root[len(root)-1] >= '0' && root[len(root)-1] <= '9'
		switch {
		case style == substrings && numbered:
			add(root + ".")
		case style == substrings:
			add(root)
		case style == wildcards && numbered:
			add(root + ".*")
		case style == wildcards:
			add(root + "*")
		case numbered:
			add(prefixOf(style) + "^" + regexp.QuoteMeta(root) + `\..*`)
		default:
			add(prefixOf(style) + "^" + regexp.QuoteMeta(root) + ".*")
		}
	}
	return out
}

func prefixOf(style listStyle) string {
	if style == dynamic {
		return "-:"
	}
	return "re:"
}

// named is the exception of one module.
func named(style listStyle, module string) string {
	if style == dynamic {
		return "-:^" + regexp.QuoteMeta(module) + "$"
	}
	return module
}

// root is the shortest part of a module's name below which everything is MTP's and
// nothing quantized; "" where there is none.
func (w *work) root(module string) string {
	if w.mixed == nil {
		w.mixed = map[string]bool{}
		note := func(name string, r *topology.Role, packed bool) {
			if r.MTP && !packed {
				return
			}
			for i := strings.IndexByte(name, '.'); i > 0; {
				w.mixed[name[:i]] = true
				next := strings.IndexByte(name[i+1:], '.')
				if next < 0 {
					break
				}
				i += 1 + next
			}
		}
		for i := range w.src.ck.Tensors {
			note(w.src.ck.Tensors[i].Name, &w.src.top.Roles[i], false)
		}
		for _, j := range w.joined {
			if j.source < 0 {
				note(j.name, &topology.Role{MTP: true}, true)
			}
		}
		for i := range w.out.ck.Tensors {
			t, r := &w.out.ck.Tensors[i], &w.out.top.Roles[i]
			if k, ok := w.sourceRole(t.Name); ok {
				r = k
			}
			note(t.Name, r, w.packed(t.Name))
		}
	}
	for i, c := range module {
		if c == '.' && !w.mixed[module[:i]] {
			return module[:i]
		}
	}
	return ""
}
