package candidate

import (
	"context"
	"fmt"
	"io"
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
	blocks, err := gguf.ParseBlocks(o.Layout.GGUFBlocks)
	if err != nil {
		return nil, err
	}
	m, err := gguf.OpenModelWith(path, gguf.Options{Blocks: blocks})
	if err != nil {
		return nil, err
	}
	c, err := ofGGUF(ctx, path, m, o)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = m.Close() // the error that ended it says more
		return nil, err
	}
	return c, nil
}

func ofGGUF(ctx context.Context, path string, m *gguf.Model, o Options) (*Candidate, error) {
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
	if b := o.Layout.GGUFBlocks; b != "" && m.Parts[0].BigEndian { // other weights than the same file has by itself
		c.Identity = madeOf([]string{c.Identity}, func(w io.Writer) { fmt.Fprint(w, "blocks ", b) })
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
	c.Findings = append(ggufFindings(m), unasked(m.Topology, spec)...)
	f, err := blocksFinding(ctx, m)
	c.Findings = append(c.Findings, f...)
	if err != nil {
		return nil, err
	}
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

// blocksFinding says how numbers in the blocks of a big-endian file stand, and is an
// error where they do not tell.
func blocksFinding(ctx context.Context, m *gguf.Model) ([]Finding, error) {
	for i := range m.Parts {
		if !m.Parts[i].BigEndian {
			continue
		}
		b, why, err := m.Blocks(ctx)
		if err != nil {
			return nil, err
		}
		return []Finding{{ID: "big-endian", Message: fmt.Sprintf("the file is big-endian; numbers within blocks are taken as %s: %s", b, why)}}, nil
	}
	return nil, nil
}

// ggufFindings says what was done to tensors on the way.
func ggufFindings(m *gguf.Model) []Finding {
	var out []Finding
	for _, o := range m.RowOrders() {
		out = append(out, Finding{ID: o.ID, Tensor: o.First, Message: o.Text})
	}
	first, n := "", 0
	for i := range m.Tensors {
		if name := m.Tensors[i].Name; strings.HasSuffix(name, ".input_scale") {
			if n == 0 {
				first = name
			}
			n++
		}
	}
	if n > 0 {
		out = append(out, Finding{
			ID: "input-scales", Tensor: first,
			Message: fmt.Sprintf("%d scales of activations are not used: activations are not rounded here", n),
		})
	}
	return out
}
