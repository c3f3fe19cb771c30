package verify

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// pairs is what of the output is compared with what of the source.
type pairs struct {
	jobs  []job // in the order of the output's files
	bytes int64 // that the jobs read
}

// job is one comparison: of an untouched tensor, or of a quantized module.
type job struct {
	out *checkpoint.Tensor // of the output: the tensor, or the module's codes

	src *checkpoint.Tensor // of an untouched tensor

	recodings []recoding // modules whose codes may be a recoding of the source's

	module *layout.Module
	matrix topology.Matrix    // of the source
	tensor *checkpoint.Tensor // that the matrix is in
	family string             // of modules that were made alike

	bytes int64
}

// pair finds a partner for everything in either checkpoint.
func (r *run) pair() {
	sources := r.sourceMatrices()
	fields := map[string]int{} // tensors of modules
	for i := range r.layout.Modules {
		for _, f := range r.layout.Modules[i].Fields {
			fields[f.Tensor.Name] = i
		}
	}
	taken := map[string]int64{} // source tensor to the elements that modules stand for
	for i := range r.layout.Modules {
		m := &r.layout.Modules[i]
		is, stays := r.recoding(m)
		if is && !stays {
			continue
		}
		if stays || r.isCopy(m) {
			for _, f := range m.Fields {
				delete(fields, f.Tensor.Name)
			}
			continue
		}
		r.count(m)
		s, ok := sources[m.Name]
		if !ok {
			r.problem(TensorExtra, r.fileOf(m.CodeTensor()), m.CodeTensor().Name, "is a quantized matrix that the source has none of: no %s there", m.Name)
			continue
		}
		t, _ := r.src.Lookup(s.Tensor)
		taken[s.Tensor] += int64(s.Rows) * int64(s.Cols)
		if s.Rows != m.Rows || s.Cols != m.Cols {
			r.problem(TensorShape, r.fileOf(m.CodeTensor()), m.CodeTensor().Name, "stands for %d×%d, the source's %s is %d×%d", m.Rows, m.Cols, s.Name, s.Rows, s.Cols)
			continue
		}
		if _, ok := element(t); !ok {
			r.problem(TensorShape, r.fileOf(m.CodeTensor()), m.CodeTensor().Name, "cannot be compared: the source stores %s as %s", t.Name, t.DType)
			continue
		}
		r.jobs = append(r.jobs, job{out: m.CodeTensor(), module: m, matrix: s, tensor: t, bytes: m.Bytes() + int64(s.Rows)*int64(s.Cols)*int64(t.DType.Bits())/8})
	}
	r.pairUntouched(fields, taken)
	slices.SortStableFunc(r.jobs, func(a, b job) int {
		if a.out.File != b.out.File {
			return a.out.File - b.out.File
		}
		return int(min(max(a.out.Offset-b.out.Offset, -1), 1))
	})
	for i := range r.jobs {
		r.bytes += r.jobs[i].bytes
	}
}

// count counts a quantized module.
func (r *run) count(m *layout.Module) {
	r.rep.QuantizedTensors++
	r.rep.QuantizedBytes += m.Bytes()
	if n, err := m.Format().Bytes(m.Rows, m.Cols); err == nil {
		r.rep.TableBytes += n
	}
}

// pairUntouched pairs the tensors that are no fields, and says what has no
// partner.
func (r *run) pairUntouched(fields map[string]int, taken map[string]int64) {
	lost := 0
	missing, all := map[int]int{}, map[int]int{} // by layer
	defer func() {
		if lost > 0 {
			r.note("%d tensors of the source were not compared, since the shards that should have them cannot be read", lost)
		}
		r.missingLayers(missing, all)
	}()
	for i := range r.src.Tensors {
		t := &r.src.Tensors[i]
		all[r.model.Roles[i].Layer]++
		o, there := r.out.Lookup(t.Name)
		_, isField := fields[t.Name]
		switch {
		case r.consumed[t.Name]:
			if there && !isField {
				r.problem(TensorExtra, r.fileOf(o), o.Name, "stands beside its packed form")
			}
		case taken[t.Name] == t.Elements() && taken[t.Name] > 0:
			if there && !isField {
				r.problem(TensorExtra, r.fileOf(o), o.Name, "stands beside its quantized form")
			}
		case taken[t.Name] > 0:
			r.problem(TensorMissing, r.src.Files[t.File].Name, t.Name, "only %d of its %d weights are in the output", taken[t.Name], t.Elements())
		case !there && r.isLost(t.Name):
			lost++
		case !there:
			missing[r.model.Roles[i].Layer]++
			r.problem(TensorMissing, r.src.Files[t.File].Name, t.Name, "is in the source and not in the output")
		case o.DType != t.DType || !slices.Equal(o.Shape, t.Shape):
			if !r.layout.Unread[o.Name] { // whose finding says more
				r.problem(TensorShape, r.fileOf(o), o.Name, "is %s %v, in the source %s %v", o.DType, o.Shape, t.DType, t.Shape)
			}
		default:
			r.jobs = append(r.jobs, job{out: o, src: t, recodings: r.copies[t.Name], bytes: t.Size + o.Size})
		}
	}
	cache := 0
	for i := range r.out.Tensors {
		o := &r.out.Tensors[i]
		if _, isField := fields[o.Name]; isField || r.layout.Unread[o.Name] {
			continue
		}
		if _, ok := r.src.Lookup(o.Name); ok {
			continue
		}
		if layout.IsCacheScale(o.Name) {
			cache++
		} else {
			r.problem(TensorExtra, r.fileOf(o), o.Name, "is not in the source and no part of a quantized matrix")
		}
	}
	if cache > 0 {
		r.note("%d scales of the key-value cache have nothing in the source to be held against", cache)
	}
}

// missingLayers says which layers the output lacks whole, as those of
// multi-token prediction are lost on the way through a library that does not
// know them.
func (r *run) missingLayers(missing, all map[int]int) {
	for _, layer := range slices.Sorted(maps.Keys(missing)) {
		if layer < 0 || missing[layer] < all[layer] {
			continue
		}
		what := ""
		if slices.ContainsFunc(r.model.Roles, func(role topology.Role) bool { return role.Layer == layer && role.MTP }) {
			what = ", which predicts further tokens (MTP),"
		}
		r.note("layer %d of the source%s is missing whole: %d tensors", layer, what, missing[layer])
	}
}

// isLost says whether a tensor of the source would be in a shard that cannot be
// read.
func (r *run) isLost(tensor string) bool {
	module, _ := layout.Split(tensor)
	return r.lost[module]
}

func (r *run) fileOf(t *checkpoint.Tensor) string { return r.out.Files[t.File].Name }

// isCopy says whether a module was quantized in the source already, so that its
// fields are untouched tensors.
func (r *run) isCopy(m *layout.Module) bool {
	for _, f := range m.Fields {
		t, ok := r.src.Lookup(f.Tensor.Name)
		if !ok || t.DType != f.Tensor.DType || !slices.Equal(t.Shape, f.Tensor.Shape) {
			return false
		}
	}
	return true
}

// sourceMatrices are the source's matrices by the names that modules of the
// output have: of a fused tensor both the experts' own and the tensor's with the
// expert.
func (r *run) sourceMatrices() map[string]topology.Matrix {
	out := make(map[string]topology.Matrix, len(r.model.Matrices))
	for i := range r.model.Matrices {
		m := r.model.Matrices[i]
		if m.Name == m.Tensor {
			out[strings.TrimSuffix(m.Name, ".weight")] = m
			continue
		}
		if m.Role.Expert < 0 {
			continue
		}
		base := strings.TrimSuffix(m.Tensor, ".weight")
		parent := base[:max(strings.LastIndexByte(base, '.'), 0)]
		if parent != "experts" && !strings.HasSuffix(parent, ".experts") {
			parent = strings.TrimPrefix(parent+".experts", ".")
		}
		out[parent+"."+strconv.Itoa(m.Role.Expert)+"."+m.Role.Projection+"_proj"] = m
		fused := fmt.Sprintf("%s[%d]", base, m.Role.Expert)
		whole, ok := out[fused]
		if !ok {
			whole = m
			whole.Name = fused
			out[fused] = whole
			continue
		}
		// Gate and up of one expert: one matrix of twice the outputs.
		if m.Offset > whole.Offset {
			size := int64(1)
			if t, ok := r.src.Lookup(m.Tensor); ok {
				size = int64(t.DType.Bits()) / 8
			}
			step := (m.Offset - whole.Offset) / max(size, 1)
			if step*2 == whole.RowStride { // they alternate
				whole.RowStride = step
			}
		}
		whole.Rows += m.Rows
		out[fused] = whole
	}
	return out
}

// element is how the kernels read a tensor's elements.
func element(t *checkpoint.Tensor) (kernels.Element, bool) {
	switch t.DType {
	case checkpoint.BF16:
		return kernels.BF16, true
	case checkpoint.F16:
		return kernels.F16, true
	case checkpoint.F32:
		return kernels.F32, true
	}
	return 0, false
}
