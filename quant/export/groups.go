package export

import (
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Globals says over what the second-level scale of a format is taken.
type Globals uint8

// Globals.
const (
	Shared    Globals = iota // over the matrices that a server fuses into one: what ModelOpt's and llm-compressor's exporters do
	PerTensor                // over each matrix by itself
)

// String is the word for it.
func (g Globals) String() string {
	if g == PerTensor {
		return "tensor"
	}
	return "shared"
}

// ParseGlobals reads the word.
func ParseGlobals(word string) (Globals, error) {
	for _, g := range []Globals{Shared, PerTensor} {
		if g.String() == word {
			return g, nil
		}
	}
	return 0, fmt.Errorf("global scales %q: %w (known: shared, tensor)", word, ErrUnknown)
}

// fusedProjections are what servers fuse into one matrix, which has room for
// one global scale.
var fusedProjections = [][]string{
	{"q", "k", "v"}, {"gate", "up"},
	{"q_a", "kv_a"}, // DeepSeek's low-rank attention
	{"qkv", "z"},    // linear attention whose q, k and v are one tensor already
}

// SharedGroups finds the matrices of a selection that a server fuses and that
// so need one global scale: q, k and v of an attention block, gate and up of an
// MLP or of an expert. Each group is a list of indices in ascending order, of
// two or more; groups are in the order of their first members. What has no
// partner in the selection is in none.
func SharedGroups(selection []topology.Matrix) [][]int {
	type block struct {
		module string
		kind   topology.Kind
		expert int
		set    int
	}
	at := map[block]int{}
	var groups [][]int
	for i := range selection {
		m := &selection[i]
		set := fusedSet(m.Role.Projection)
		module, err := moduleOf(m)
		if set < 0 || err != nil {
			continue
		}
		key := block{parent(module), m.Role.Kind, m.Role.Expert, set}
		g, ok := at[key]
		if !ok {
			g = len(groups)
			at[key] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	shared := groups[:0]
	for _, g := range groups {
		if len(g) > 1 {
			shared = append(shared, g)
		}
	}
	return shared
}

func fusedSet(projection string) int {
	for i, set := range fusedProjections {
		for _, p := range set {
			if p == projection {
				return i
			}
		}
	}
	return -1
}

// SharesGlobal says whether a format has a second-level scale that fused
// matrices must share.
func SharesGlobal(format string) bool {
	f, err := kernels.FormatByName(format)
	return err == nil && f.Scope == kernels.ScopeGroup && f.Scale == "e4m3"
}

// GlobalScale is the stored second-level scale of matrices whose largest
// finite magnitude is amax, under the spec's convention: weight_scale_2, or
// weight_global_scale. It is what a pass that is begun with this amax uses; 0
// for a format without such a scale.
func GlobalScale(spec kernels.Spec, amax float32) (float32, error) {
	spec.Global, spec.Codebook = 0, 0
	if of, ok := kernels.CodebookBase(spec.Format); ok { // which has its scales
		spec.Format, spec.Method = of, ""
	}
	p, err := kernels.Reference().Begin(spec, kernels.F32, 0, 0, amax)
	if err != nil {
		return 0, err
	}
	global := p.Global()
	_, err = p.Finish()
	return global, err
}
