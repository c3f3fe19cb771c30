package layout

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// matchIndex finds the entries that match a module without trying them all:
// configs list thousands of names.
type matchIndex struct {
	entries []Entry
	exact   map[string][]int // entries that are a name as it stands
	others  []int            // expressions and wildcards
	linear  []int            // the class Linear
}

func newMatchIndex(entries []Entry) *matchIndex {
	ix := &matchIndex{entries: entries, exact: map[string][]int{}}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Unread != "":
		case e.Pattern == linear && e.override == nil:
			ix.linear = append(ix.linear, i)
		case e.style == anywhere:
			ix.others = append(ix.others, i)
		case e.matcher == nil || e.style == wildcards && !strings.ContainsAny(e.Pattern, `*?[\`) && !strings.HasPrefix(e.Pattern, "re:"):
			ix.exact[e.Pattern] = append(ix.exact[e.Pattern], i)
		default:
			ix.others = append(ix.others, i)
		}
	}
	return ix
}

// find appends the entries that match a module by any of its names.
func (ix *matchIndex) find(out []int, names []string, isLinear bool) []int {
	for _, name := range names {
		out = append(out, ix.exact[name]...)
		for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
			for _, i := range ix.exact[name[:at]] {
				if ix.entries[i].style == wildcards {
					out = append(out, i)
				}
			}
		}
		for _, i := range ix.others {
			if ix.entries[i].match(name, false) {
				out = append(out, i)
			}
		}
	}
	if isLinear {
		out = append(out, ix.linear...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isLinear says whether torch has a module as a Linear: the projections,
// routers and heads, stored as a matrix, or experts as a stack of them. A matrix that
// is a parameter by itself, as ape of a compressor and in_proj_weight of torch's
// attention are, is no Linear's weight.
func isLinear(t *checkpoint.Tensor, r *topology.Role) bool {
	switch {
	case len(t.Shape) == 2 && strings.HasSuffix(t.Name, ".weight"):
	case len(t.Shape) == 3 && r.Kind == topology.Expert:
	default:
		return false
	}
	switch r.Kind {
	case topology.Attention:
		return r.Projection != "conv" && r.Projection != "sinks" && r.Projection != "a_log" && r.Projection != "rotary"
	case topology.MLP, topology.Expert, topology.SharedExpert, topology.Router, topology.Head:
		return true
	case topology.MTPExtra:
		return !strings.Contains(r.Projection, "norm")
	case topology.Vision:
		return !strings.Contains(t.Name, "embed")
	}
	return false
}

// namesOf are the names that patterns may know a module by. Experts that are
// stored in one tensor are one module of the model, whose parameters they are.
func namesOf(name string, fused bool) []string {
	base, _, _ := strings.Cut(name, "[")
	if !fused {
		return []string{base}
	}
	names := []string{base}
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		names = append(names, base[:i])
	}
	return names
}

// coverage is what a config says of one module.
type coverage struct {
	group   *configGroup // nil where nothing targets it
	implied bool         // the method quantizes every Linear
	ignore  *Entry
	dynamic *Entry // of the patterns of dynamic the one that decides
}

// cover asks a config about a module. Of several groups that target it the one
// that does so most closely counts, as in compressed-tensors: by name, then by an
// expression, then by class, and of equals by the pattern that sorts first. One
// that stands in two groups is the later one's.
func (c *config) cover(matched []int, isLinear bool) coverage {
	var v coverage
	closest, pattern := 0, ""
	for _, i := range matched {
		e := &c.entries[i]
		if e.override != nil {
			if v.dynamic != nil {
				continue
			}
			if v.dynamic = e; !e.override.skips {
				continue
			}
		}
		if !e.Targets() {
			if v.ignore == nil {
				v.ignore = e
			}
			continue
		}
		if k := e.closeness(); k > closest || k == closest && e.Pattern <= pattern {
			closest, pattern, v.group = k, e.Pattern, c.groupOf(i)
		}
	}
	v.implied = (len(c.groups) == 0 || c.method == MLX) && c.method != "" && isLinear
	return v
}

// groupOf is the group whose target an entry is.
func (c *config) groupOf(entry int) *configGroup {
	for k := range c.groups {
		if g := &c.groups[k]; entry >= g.first && entry < g.last {
			return g
		}
	}
	return nil
}

// closeness ranks how a pattern finds a module.
func (e *Entry) closeness() int {
	switch {
	case e.Pattern == linear:
		return 1
	case e.matcher != nil:
		return 2
	}
	return 3
}

func (v coverage) quantized() bool { return v.ignore == nil && (v.group != nil || v.implied) }

// declare holds the config against what was found, module by module.
func (o *opener) declare() {
	c := o.config
	if c.file == "" {
		return
	}
	unreadTarget, unreadIgnore := false, false
	for i := range c.entries {
		e := &c.entries[i]
		if e.Unread == "" {
			continue
		}
		unreadTarget, unreadIgnore = unreadTarget || e.Targets(), unreadIgnore || !e.Targets()
		if !isClass(e.Pattern) {
			o.entryf(UnreadPattern, e, "cannot be held against names here: %s", e.Unread)
		}
	}
	first := map[string][]int{} // modules of a group of tensors
	for i := range o.Modules {
		base, _, _ := strings.Cut(o.Modules[i].Name, "[")
		first[base] = append(first[base], i)
	}
	var matched []int
	for i := range o.groups {
		g := &o.groups[i]
		role, codes := g.roles[firstParam(g)], g.first
		modules := first[g.name]
		lin := len(modules) > 0 || g.params["weight"] != nil && isLinear(g.params["weight"], role)
		fused := len(codes.Shape) == 3 || len(modules) > 0 && o.Modules[modules[0]].Expert >= 0
		matched = o.index.find(matched[:0], namesOf(g.name, fused), lin)
		for _, k := range matched {
			c.entries[k].Matches++
		}
		v := c.cover(matched, lin)
		for _, k := range modules {
			o.declareModule(&o.Modules[k], v, unreadTarget)
		}
		if len(modules) > 0 || !lin || unreadIgnore || !c.lists() || !v.quantized() || !plain(g.params["weight"]) {
			continue
		}
		by := c.method
		if v.group != nil {
			by = v.group.name
		}
		o.findf(NotQuantized, g.params["weight"], "is %s, not quantized, but %s of %s covers it and no ignore entry does: a server would look for scales", g.params["weight"].DType, by, c.file)
	}
	o.unmatched(c)
}

// lists says whether the config is meant to name every Linear that is left
// alone. The methods of DeepSeek and gpt-oss leave that to the model's code.
func (c *config) lists() bool {
	return c.method == ModelOpt || c.method == CompressedTensors || c.method == Quantscope || c.method == Quark
}

func plain(t *checkpoint.Tensor) bool {
	switch t.DType {
	case checkpoint.BF16, checkpoint.F16, checkpoint.F32:
		return true
	}
	return false
}

func firstParam(g *group) string {
	for p, t := range g.params {
		if t == g.first {
			return p
		}
	}
	return "weight"
}

func (o *opener) declareModule(m *Module, v coverage, unreadTarget bool) {
	t := m.codes.t
	switch {
	case v.group != nil:
		m.Declared = v.group.name
	case v.implied:
		m.Declared = o.config.method
	}
	switch {
	case v.ignore != nil:
		o.findf(Ignored, t, "is packed as %s, but %s %q of %s says that it is not quantized", m.Spec.Format, v.ignore.Section, v.ignore.Pattern, v.ignore.File)
	case v.group == nil && !v.implied && !unreadTarget:
		o.findf(Undeclared, t, "is packed as %s, but no target of %s covers it: a server would read it as plain weights", m.Spec.Format, o.config.file)
	case v.group != nil:
		if said := v.group.contradiction(m); said != "" {
			o.findf(Contradicts, t, "is stored as %s, but %s of %s says %s", m.Spec.Format, v.group.name, o.config.file, said)
		}
	}
	if said := o.config.algoContradiction(m); said != "" {
		o.findf(Contradicts, t, "is stored as %s, but %s says %s", m.Spec.Format, o.config.file, said)
	}
	if !o.config.writes(m.Method) {
		o.findf(Contradicts, t, "is stored as %s stores it, but quant_method of %s is %q", m.Method, o.config.file, o.config.method)
	}
}

// writes says whether modules of a method may stand under the config's.
func (c *config) writes(method string) bool { return method == "" || method == c.method }

// entryf adds a finding about a pattern.
func (o *opener) entryf(id string, e *Entry, format string, args ...any) {
	o.Findings = append(o.Findings, Finding{ID: id, File: e.File, Message: fmt.Sprintf("%s %q ", e.Section, e.Pattern) + fmt.Sprintf(format, args...)})
}

// unmatched lists patterns without a match. A module that holds others counts,
// and so does a head that shares the embedding's weights.
func (o *opener) unmatched(c *config) {
	var containers map[string]bool
	for i := range c.entries {
		e := &c.entries[i]
		if e.Matches > 0 || e.Unread != "" {
			continue
		}
		if containers == nil {
			containers = map[string]bool{}
			for k := range o.groups {
				name := o.groups[k].name
				for at := strings.LastIndexByte(name, '.'); at > 0; at = strings.LastIndexByte(name[:at], '.') {
					containers[name[:at]] = true
				}
			}
		}
		for name := range containers {
			if e.match(name, false) {
				e.Matches++
			}
		}
		last := e.Pattern[strings.LastIndexByte(e.Pattern, '.')+1:]
		if e.Matches > 0 || !o.model.HeadStored && (last == "lm_head" || last == "output" || last == "head") {
			continue
		}
		o.entryf(UnmatchedPattern, e, "matches no module")
	}
}

// compare holds ModelOpt's own file against the config, where both are there.
func (o *opener) compare(other *config) {
	c := o.config
	if other == nil {
		return
	}
	var said []string
	if c.method != other.method {
		said = append(said, fmt.Sprintf("the method is %s in one and %s in the other", c.method, other.method))
	}
	if c.algo != "" && other.algo != "" && c.algo != other.algo {
		said = append(said, fmt.Sprintf("quant_algo is %s and %s", c.algo, other.algo))
	}
	theirs := newMatchIndex(other.entries)
	differ, firstName, leftBy := 0, "", ""
	for i := range o.groups {
		g := &o.groups[i]
		t := g.first
		role := g.roles[firstParam(g)]
		_, quantized := recognize(g)
		lin := quantized || g.params["weight"] != nil && isLinear(g.params["weight"], role)
		if !lin {
			continue
		}
		names := namesOf(g.name, len(t.Shape) == 3)
		a := c.cover(o.index.find(nil, names, lin), lin)
		b := other.cover(theirs.find(nil, names, lin), lin)
		if (a.ignore == nil) == (b.ignore == nil) {
			continue
		}
		if differ++; differ == 1 {
			firstName, leftBy = g.name, c.file
			if b.ignore != nil {
				leftBy = other.file
			}
		}
	}
	if differ > 0 {
		said = append(said, fmt.Sprintf("%d modules are left out by one of them alone, the first, %s, by %s", differ, firstName, leftBy))
	}
	if len(said) > 0 {
		o.Findings = append(o.Findings, Finding{ID: ConfigsDisagree, File: other.file, Message: other.file + " and " + c.file + " disagree: " + strings.Join(said, "; ")})
	}
}
