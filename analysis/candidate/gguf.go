package candidate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/tokenizer"
	"quantscope/quant/topology"
)

// openGGUF opens a GGUF file, or the first of a split one, as a model.
func openGGUF(ctx context.Context, path string, o Options) (*Candidate, error) {
	m, err := gguf.OpenModel(path)
	if err != nil {
		return nil, err
	}
	c, err := ofGGUF(path, m, o)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = m.Close() // the error that ended it says more
		return nil, err
	}
	return c, nil
}

func ofGGUF(path string, m *gguf.Model, o Options) (*Candidate, error) {
	spec, err := model.NewSpec(m.Topology)
	if err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: "has no forward pass here", Err: err}
	}
	if err := wholeGGUF(path, m, spec); err != nil {
		return nil, err
	}
	c := &Candidate{
		Label: path, Spec: path, Path: path, Kind: GGUF, Topology: m.Topology, Arch: spec,
		source: func() (model.Source, error) { return newBlocks(m, o.set()), nil },
		close:  m.Close,
	}
	if c.Identity, err = m.Identity(); err != nil {
		return nil, err
	}
	v, err := m.Vocabulary()
	if err == nil {
		c.Tokenizer, err = tokenizer.FromVocabulary(v)
	}
	if err != nil {
		c.Tokenizer, c.TokenizerErr = nil, fmt.Errorf("%s: %w", path, err)
	} else {
		c.TokenizerID = c.Tokenizer.Identity()
	}
	c.setInventory(ggufInventory(m, spec))
	c.Effective = c.schemeNames()
	c.Findings = ggufFindings(m)
	return c, nil
}

// wholeGGUF wants every tensor that the architecture needs, of its shape.
func wholeGGUF(path string, m *gguf.Model, spec *model.Spec) error {
	list := needs(spec)
	if !m.Topology.Tied {
		list = append(list, need{param{headAt, "weight"}, spec.Vocab, spec.Hidden})
	}
	for _, n := range list {
		w, ok := findGGUF(m, n.Place, n.name)
		if !ok {
			return &checkpoint.FileError{File: path, Reason: fmt.Sprintf("the %s of %s is needed", n.name, n.Place), Err: model.ErrAbsent}
		}
		rows := max(n.rows, 1)
		if w.Rows != rows || w.Cols != n.cols && n.cols > 0 || w.Vector != (n.rows == 0) {
			return &checkpoint.FileError{File: path, Tensor: m.Stored(w), Reason: fmt.Sprintf("is %d×%d, the metadata ask for %d×%d", w.Rows, w.Cols, rows, n.cols)}
		}
	}
	return nil
}

// findGGUF is the weight of a place.
func findGGUF(m *gguf.Model, p model.Place, name string) (*gguf.Weight, bool) {
	return m.Find(topology.Role{Kind: p.Kind, Layer: p.Layer, Expert: p.Expert, Projection: p.Projection, Param: name})
}

// ggufInventory lists what the pass reads, in the order of the file. A weight of
// two types has them in one scheme, as in Q8_0+F16.
func ggufInventory(m *gguf.Model, spec *model.Spec) []item {
	var items []item
	for i := range m.Weights {
		w, role := &m.Weights[i], m.Topology.Roles[i]
		if !reads(role, spec) {
			continue
		}
		items = append(items, item{
			param: param{placeOf(role), role.Param}, tensor: w.Name, scheme: typeNames(m.Types(w)),
			params: int64(w.Rows) * int64(w.Cols), bytes: w.Bytes(), matrix: !w.Vector,
		})
	}
	return items
}

// typeNames are types in words; those that checkpoints have too are spelled as
// theirs.
func typeNames(types []kernels.GGUFType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
		if slices.Contains([]string{"F32", "F16", "BF16"}, names[i]) {
			names[i] = strings.ToLower(names[i])
		}
	}
	return strings.Join(names, "+")
}

// ggufFindings says what was done to tensors on the way.
func ggufFindings(m *gguf.Model) []Finding {
	first, n := "", 0
	for i := range m.Weights {
		if w := &m.Weights[i]; w.Reordered() && !w.Vector {
			if n == 0 {
				first = m.Stored(w)
			}
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []Finding{{
		ID: "head-order", Tensor: first,
		Message: fmt.Sprintf("rows of %d query and key matrices are stored in rotation pairs, as llama.cpp has them, and were put back into halves", n),
	}}
}
