package topology

import (
	"fmt"
	"math"
	"strconv"
)

// maxStacked bounds the experts of one fused tensor, and with it the number of
// matrices that a header can ask for.
const maxStacked = 4096

// floatSize is the bytes of an element of a floating-point dtype, 0 for others.
func floatSize(dtype string) int64 {
	switch dtype {
	case "F64":
		return 8
	case "F32":
		return 4
	case "BF16", "F16":
		return 2
	case "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ":
		return 1
	}
	return 0
}

// matrices lists the linear maps that stand in floating point.
func (r *resolver) matrices() {
	shapes := r.orientations()
	r.Matrices = make([]Matrix, 0, r.atMost())
	r.MatrixTensor = make([]int, 0, cap(r.Matrices))
	for i := range r.Tensors {
		t, role := &r.Tensors[i], &r.Roles[i]
		size := floatSize(t.DType)
		if size == 0 || r.numel[i] == 0 || role.Param != "weight" || role.Kind == Norm || r.forms[i] == noMap {
			continue
		}
		switch {
		case r.forms[i] == conv1D && len(t.Shape) == 2:
			r.conv1D(i, shapes)
		case len(t.Shape) == 2:
			r.addMatrix(i, t.Name, *role, t.Shape[0], t.Shape[1], 0, t.Shape[1], 1)
		case r.forms[i] == stacked && len(t.Shape) == 3:
			r.stacked(i, shapes)
		}
	}
}

// atMost bounds the number of matrices by the shapes.
func (r *resolver) atMost() int {
	n := 0
	for i := range r.Tensors {
		shape := r.Tensors[i].Shape
		switch {
		case floatSize(r.Tensors[i].DType) == 0:
		case len(shape) == 2:
			n++
		case len(shape) == 3 && r.forms[i] == stacked && shape[0] <= maxStacked && r.numel[i] > 0:
			n += 2 * int(shape[0])
		}
	}
	return n
}

// addMatrix adds one matrix; offset and strides are in elements.
func (r *resolver) addMatrix(i int, name string, role Role, rows, cols, offset, rowStride, colStride int64) {
	if rows > math.MaxInt || cols > math.MaxInt {
		r.Unresolved = append(r.Unresolved, Finding{Tensor: r.Tensors[i].Name, Message: fmt.Sprintf("%d × %d is too large for this machine", rows, cols), ID: Undecided})
		return
	}
	r.Matrices = append(r.Matrices, Matrix{
		Name: name, Tensor: r.Tensors[i].Name, Role: role, Rows: int(rows), Cols: int(cols),
		Offset: offset * floatSize(r.Tensors[i].DType), RowStride: rowStride, ColStride: colStride,
	})
	r.MatrixTensor = append(r.MatrixTensor, i)
}

// fit says which orientations a shape allows.
type fit uint8

const (
	fitsOutIn fit = 1 << iota
	fitsInOut
)

// fits compares two sides with the sizes that are known; 0 is not known.
func fits(d1, d2, out, in int64) fit {
	is := func(d, want int64) bool { return want == 0 || d == want }
	var f fit
	if is(d1, out) && is(d2, in) {
		f |= fitsOutIn
	}
	if is(d1, in) && is(d2, out) {
		f |= fitsInOut
	}
	return f
}

// outputsInputs are the sizes of a projection as far as they are known.
func (r *resolver) outputsInputs(i int) (out, in int64) {
	role := &r.Roles[i]
	inner := r.inner
	if r.forms[i] == conv1D {
		inner = 0
	}
	switch role.Projection {
	case "gate_up":
		return 2 * inner, r.hidden
	case "gate", "up":
		return inner, r.hidden
	case "qkv":
		return 0, r.hidden
	case "down", "o":
		return r.hidden, inner
	}
	return 0, 0
}

// evidence is which orientations are proven by shapes somewhere in the
// checkpoint, by form.
type evidence [conv1D + 1]fit

// orientations gathers what shapes prove. A square tensor proves nothing, but
// its neighbours do: no family mixes orientations.
func (r *resolver) orientations() evidence {
	var e evidence
	for i := range r.Tensors {
		shape := r.Tensors[i].Shape
		switch {
		case r.forms[i] == stacked && len(shape) == 3:
		case r.forms[i] == conv1D && len(shape) == 2:
		default:
			continue
		}
		if r.Roles[i].Param != "weight" || floatSize(r.Tensors[i].DType) == 0 {
			continue
		}
		out, in := r.outputsInputs(i)
		if f := fits(shape[len(shape)-2], shape[len(shape)-1], out, in); f == fitsOutIn || f == fitsInOut {
			e[r.forms[i]] |= f
		}
	}
	return e
}

// orient decides the orientation of one tensor: by its own shape, then by its
// neighbours' shapes, then by the family's table.
func (r *resolver) orient(i int, e evidence, table layout) (transposed bool, reason string) {
	shape := r.Tensors[i].Shape
	out, in := r.outputsInputs(i)
	f := fits(shape[len(shape)-2], shape[len(shape)-1], out, in)
	if f == fitsOutIn|fitsInOut {
		if n := e[r.forms[i]]; n == fitsOutIn || n == fitsInOut {
			f = n
		}
	}
	switch {
	case f == 0:
		return false, fmt.Sprintf("shape %v fits neither [out, in] = [%s, %s] nor its transpose", shape, side(out), side(in))
	case f == fitsOutIn:
		return false, ""
	case f == fitsInOut:
		return true, ""
	case table == undecided:
		return false, fmt.Sprintf("shape %v fits both [out, in] and [in, out], and model type %q is not known to tell", shape, r.Family)
	}
	return table != outIn, ""
}

func side(n int64) string {
	if n == 0 {
		return "?"
	}
	return strconv.FormatInt(n, 10)
}

func (r *resolver) unresolved(i int, reason string) {
	r.Unresolved = append(r.Unresolved, Finding{Tensor: r.Tensors[i].Name, Message: reason, ID: Undecided})
}

// conv1D adds a two-dimensional weight that some families store transposed.
func (r *resolver) conv1D(i int, e evidence) {
	t := &r.Tensors[i]
	transposed, reason := r.orient(i, e, r.family.conv1D)
	switch {
	case reason != "":
		r.unresolved(i, reason)
	case transposed:
		r.addMatrix(i, t.Name, r.Roles[i], t.Shape[1], t.Shape[0], 0, 1, t.Shape[1])
	default:
		r.addMatrix(i, t.Name, r.Roles[i], t.Shape[0], t.Shape[1], 0, t.Shape[1], 1)
	}
}

// stacked adds the matrices of a tensor that holds all experts of a layer.
func (r *resolver) stacked(i int, e evidence) {
	t := &r.Tensors[i]
	experts, d1, d2 := t.Shape[0], t.Shape[1], t.Shape[2]
	if experts > maxStacked {
		r.unresolved(i, fmt.Sprintf("%d experts in one tensor, more than %d", experts, maxStacked))
		return
	}
	transposed, reason := r.orient(i, e, r.family.stacked)
	joined := r.Roles[i].Projection == "gate_up"
	outs := d1
	if transposed {
		outs = d2
	}
	switch {
	case reason != "":
	case joined && outs%2 != 0:
		reason = fmt.Sprintf("shape %v: %d outputs cannot be gate and up", t.Shape, outs)
	case joined && transposed && r.family.stacked == undecided:
		reason = fmt.Sprintf("[in, out] experts keep gate and up side by side in some families and interleaved in others, and model type %q is not known to tell", r.Family)
	}
	if reason != "" {
		r.unresolved(i, reason)
		return
	}
	rowStride, colStride, cols := d2, int64(1), d2
	if transposed {
		rowStride, colStride, cols = 1, d2, d1
	}
	for x := range experts {
		role := r.Roles[i]
		role.Expert = int(x)
		name := t.Name + "[" + strconv.FormatInt(x, 10) + "]"
		base := x * d1 * d2
		if !joined {
			r.addMatrix(i, name, role, outs, cols, base, rowStride, colStride)
			continue
		}
		up, stride := outs/2*rowStride, rowStride
		if r.family.stacked == interleaved {
			up, stride = rowStride, 2*rowStride
		}
		role.Projection = "gate"
		r.addMatrix(i, name+".gate", role, outs/2, cols, base, stride, colStride)
		role.Projection = "up"
		r.addMatrix(i, name+".up", role, outs/2, cols, base+up, stride, colStride)
	}
}
