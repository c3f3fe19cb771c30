package layout

import (
	"fmt"
	"strings"

	"quantscope/kernels"
)

// contradiction says how a module's format differs from what its group states;
// "" where it does not, or the group states nothing.
func (g *configGroup) contradiction(m *Module) string {
	if !g.stated {
		return ""
	}
	var said []string
	w := &g.weights
	isInt := strings.HasPrefix(m.format.Element, "int")
	if w.Bits != m.format.Bits && (m.packed == nil || w.Bits != m.packed.within) {
		said = append(said, fmt.Sprintf("num_bits %d", w.Bits))
	}
	// Of int4 under FP8 activations ModelOpt's own exporter says float.
	if w.Type != "" && isInt == (w.Type == "float") && !(m.Method == ModelOpt && isInt && m.format.Bits == 4) {
		said = append(said, "type "+w.Type)
	}
	if w.GroupSize != nil && *w.GroupSize > 0 && (m.format.Bits == 4 || m.book.t != nil) && m.format.Group != *w.GroupSize {
		said = append(said, fmt.Sprintf("group_size %d", *w.GroupSize))
	}
	// Formats may agree in bits, type and group, as those of two bits do but for scales.
	if m.Method == Quantscope && g.format != "" && g.format != m.Spec.Format {
		said = append(said, "format "+g.format)
	}
	if w.Symmetric != nil && isInt && m.Method != Quark && *w.Symmetric != (m.format.MinBits == 0) {
		said = append(said, fmt.Sprintf("symmetric %t", *w.Symmetric))
	}
	if want, known := scopeOf[w.Strategy]; known && m.format.Element == "e4m3" && want != m.scope() {
		said = append(said, "strategy "+w.Strategy)
	}
	return strings.Join(said, ", ")
}

// scope is what shares a scale of a module: modules that decode themselves have
// scales given by rows, whatever shares them.
func (m *Module) scope() kernels.Scope {
	switch p := m.packed; {
	case p == nil || p.height == 1:
		return m.format.Scope
	case p.height == 0:
		return kernels.ScopeTensor
	}
	return kernels.ScopeTile
}

// scopeOf are the strategies of compressed-tensors as scopes of scales.
var scopeOf = map[string]kernels.Scope{
	byTensor: kernels.ScopeTensor, byChannel: kernels.ScopeChannel, byToken: kernels.ScopeChannel,
	byGroup: kernels.ScopeGroup, byTensorGroup: kernels.ScopeGroup, byBlock: kernels.ScopeTile,
}

// algoContradiction says how a module differs from the quant_algo that ModelOpt's config
// gives it; "" where it does not, or the word is not known.
func (c *config) algoContradiction(m *Module) string {
	if c.method != ModelOpt || m.Method != ModelOpt {
		return ""
	}
	algo, from := c.algo, "quant_algo"
	group := c.group
	if l, ok := c.layers[m.Name]; ok {
		algo, group, from = l.Algo, l.GroupSize, "quantized_layers"
	} else if len(c.layers) > 0 {
		return "" // what is not listed is said elsewhere
	}
	want, ok := modelOptAlgos[strings.ToUpper(algo)]
	if !ok {
		return ""
	}
	var said []string
	if want.element != m.format.Element {
		said = append(said, fmt.Sprintf("%s %s, whose weights are %s", from, algo, want.element))
	}
	if m.format.Scope == kernels.ScopeGroup && group > 0 && m.format.Group != group {
		said = append(said, fmt.Sprintf("group_size %d", group))
	}
	return strings.Join(said, ", ")
}
