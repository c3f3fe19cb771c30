package lint

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// headDims groups layers by the rows of q and k; it reads nothing. More than one
// group says that layers have heads of their own.
func (r *run) headDims() {
	type rows struct{ q, k int64 }
	type group struct {
		rows
		layers []int
		first  string
	}
	byLayer := map[int]*rows{}
	first := map[int]string{}
	note := func(role *topology.Role, n int64, name string) {
		if role.Kind != topology.Attention || role.Layer < 0 || role.MTP || role.Projection != "q" && role.Projection != "k" {
			return
		}
		l := byLayer[role.Layer]
		if l == nil {
			l = &rows{}
			byLayer[role.Layer] = l
		}
		if role.Projection == "q" {
			l.q, first[role.Layer] = n, name
		} else {
			l.k = n
		}
	}
	for i := range r.Model.Matrices {
		m := &r.Model.Matrices[i]
		note(&m.Role, int64(m.Rows), m.Tensor)
	}
	if r.lay != nil {
		for i := range r.lay.Modules {
			m := &r.lay.Modules[i]
			if t := m.CodeTensor(); t != nil {
				note(&m.Role, int64(m.Rows), t.Name)
			}
		}
	}
	var groups []group
	for _, layer := range sortedInts(byLayer) {
		l := *byLayer[layer]
		if l.q == 0 {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.rows == l })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{rows: l, first: first[layer]})
		}
		groups[i].layers = append(groups[i].layers, layer)
	}
	if len(groups) < 2 {
		return
	}
	f := Finding{File: r.fileOf(groups[1].first), Tensor: groups[1].first}
	var said []string
	for _, g := range groups {
		text := fmt.Sprintf("layers %s: q %d, k %d outputs", ranges(g.layers), g.q, g.k)
		said = append(said, text)
		f.Evidence = append(f.Evidence, Evidence{"layers " + ranges(g.layers), fmt.Sprintf("q %d, k %d outputs", g.q, g.k)})
	}
	f.Message = fmt.Sprintf("%d geometries of attention: %s", len(groups), strings.Join(said, "; "))
	r.add("head-dim-mixed", f)
}

// dtypes holds the config's dtype against the matrices that are not quantized,
// most of the bytes deciding; it reads nothing.
func (r *run) dtypes() {
	want, ok := configDTypes[r.dtypeOfConfig()]
	if !ok {
		return
	}
	bytes := map[checkpoint.DType]int64{}
	var total int64
	var first *checkpoint.Tensor
	for i := range r.Checkpoint.Tensors {
		t, role := &r.Checkpoint.Tensors[i], &r.Model.Roles[i]
		switch role.Kind {
		case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert, topology.Embedding, topology.Head:
		default:
			continue
		}
		if len(t.Shape) < 2 || role.Param != "weight" || t.DType != checkpoint.BF16 && t.DType != checkpoint.F16 && t.DType != checkpoint.F32 {
			continue
		}
		bytes[t.DType] += t.Size
		total += t.Size
		if first == nil && t.DType != want {
			first = t
		}
	}
	if first == nil || bytes[want]*2 >= total {
		return
	}
	f := Finding{Message: fmt.Sprintf("the config says %s, and %.1f %% of the bytes of plain matrices are of another dtype, the first %s", want, 100*float64(total-bytes[want])/float64(total), first.DType)}
	for _, d := range []checkpoint.DType{checkpoint.BF16, checkpoint.F16, checkpoint.F32} {
		if bytes[d] > 0 {
			f.Evidence = append(f.Evidence, Evidence{d.String(), fmt.Sprintf("%d bytes", bytes[d])})
		}
	}
	r.tensor("dtype-differs", first, f)
}

// configDTypes are the words of configs.
var configDTypes = map[string]checkpoint.DType{"bfloat16": checkpoint.BF16, "float16": checkpoint.F16, "float32": checkpoint.F32}

// dtypeOfConfig is the word, "" where the config has none.
func (r *run) dtypeOfConfig() string {
	root := rootOf(r.Checkpoint.ConfigJSON())
	for _, o := range []map[string]any{root, r.Model.Config.Text} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			if s, ok := o[key].(string); ok {
				return strings.TrimPrefix(s, "torch.")
			}
		}
	}
	return ""
}
