package candidate

import (
	"cmp"
	"slices"
	"strings"

	"quantscope/analysis/model"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// item is one tensor that the forward pass reads, or one matrix of a fused one.
type item struct {
	param
	tensor string
	scheme string // how it is stored: bf16, nvfp4, Q4_K, …
	params int64
	bytes  int64 // scales and all
	matrix bool  // counts in bits per weight: linear maps and embeddings
}

// setInventory takes over what the pass reads and sums it up.
func (c *Candidate) setInventory(items []item) {
	c.items = items
	c.Bytes, c.BitsPerWeight, c.Schemes = 0, 0, nil
	var bits, params int64
	at := map[string]int{}
	for i := range items {
		it := &items[i]
		c.Bytes += it.bytes
		if !it.matrix {
			continue
		}
		bits += 8 * it.bytes
		params += it.params
		k, ok := at[it.scheme]
		if !ok {
			k = len(c.Schemes)
			at[it.scheme] = k
			c.Schemes = append(c.Schemes, Share{Scheme: it.scheme})
		}
		c.Schemes[k].Tensors++
		c.Schemes[k].Params += it.params
	}
	if params == 0 {
		return
	}
	c.BitsPerWeight = float64(bits) / float64(params)
	for k := range c.Schemes {
		c.Schemes[k].Of = float64(c.Schemes[k].Params) / float64(params)
	}
	slices.SortStableFunc(c.Schemes, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Params, a.Params), strings.Compare(a.Scheme, b.Scheme))
	})
}

// schemeNames are the schemes in words, by falling share.
func (c *Candidate) schemeNames() string {
	names := make([]string, len(c.Schemes))
	for i, s := range c.Schemes {
		names[i] = s.Scheme
	}
	return strings.Join(names, ", ")
}

// inventory lists what the pass reads of a checkpoint, in the order of the files.
// Scales of activations are not read.
func (x *opened) inventory() []item {
	ofModule := map[string]bool{}
	var items []item
	for i := range x.layout.Modules {
		m := &x.layout.Modules[i]
		it := item{param: param{placeOf(m.Role), "weight"}, tensor: m.Name, scheme: m.Spec.Format, params: int64(m.Rows) * int64(m.Cols), matrix: true}
		for _, f := range m.Fields {
			ofModule[f.Tensor.Name] = true
			if !strings.HasPrefix(f.Param, "input_") && f.Param != "output_scale" {
				it.bytes += f.Size
			}
		}
		if reads(m.Role, x.spec) {
			items = append(items, it)
		}
	}
	return append(items, floats(x.top, x.spec, ofModule)...)
}

// floats lists what the pass reads of a model's tensors in floating point.
func floats(top *topology.Model, spec *model.Spec, leave map[string]bool) []item {
	var items []item
	k := 0
	for i := range top.Tensors {
		t, role := &top.Tensors[i], top.Roles[i]
		from := k
		for k < len(top.Matrices) && top.MatrixTensor[k] == i {
			k++
		}
		if leave[t.Name] || layout.IsCacheScale(t.Name) || !reads(role, spec) {
			continue
		}
		size := elementBytes(t.DType)
		for _, m := range top.Matrices[from:k] {
			n := int64(m.Rows) * int64(m.Cols)
			items = append(items, item{param: param{placeOf(m.Role), "weight"}, tensor: m.Name, scheme: strings.ToLower(t.DType), params: n, bytes: n * size, matrix: true})
		}
		if from == k {
			n := int64(1)
			for _, d := range t.Shape {
				n *= d
			}
			items = append(items, item{param: param{placeOf(role), role.Param}, tensor: t.Name, scheme: strings.ToLower(t.DType), params: n, bytes: n * size})
		}
	}
	return items
}

// elementBytes is the size of an element of a dtype of floats; 4 for others, of
// which only small tables are read.
func elementBytes(dtype string) int64 {
	switch dtype {
	case "BF16", "F16":
		return 2
	case "F64":
		return 8
	}
	if strings.HasPrefix(dtype, "F8") {
		return 1
	}
	return 4
}
