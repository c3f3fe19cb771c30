package candidate

import (
	"fmt"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Words for targets.
const (
	targetsDefault = "default"
	targetsLinear  = "linear"
	targetsAll     = "all"
)

// selectTargets finds the matrices that a variant is made of. refuse says why those of
// a tensor cannot be, "" where they can; nil: all but floating point is refused.
func selectTargets(top *topology.Model, targets string, refuse func(tensor int) string) ([]topology.Matrix, []recipe.Excluded, error) {
	switch targets {
	case "", targetsDefault:
		s, err := recipe.SelectFrom(top, "", refuse)
		return s.Matrices, s.Excluded, err
	case targetsLinear, targetsAll:
	default:
		s, err := recipe.SelectFrom(top, targets, refuse)
		return s.Matrices, s.Excluded, err
	}
	what := "matrices of FP4 codes"
	if refuse == nil {
		what = "matrices in floating point"
		refuse = func(i int) string {
			if d := top.Tensors[i].DType; !quantizable(d) {
				return fmt.Sprintf("stored as %s; BF16, F16 and F32 can be quantized", d)
			}
			return ""
		}
	}
	var out []topology.Matrix
	var excluded []recipe.Excluded
	for i := range top.Matrices {
		m := &top.Matrices[i]
		if m.Role.MTP {
			continue
		}
		switch m.Role.Kind {
		case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert:
			if recipe.Kept(&m.Role) != "" {
				continue
			}
		case topology.Embedding, topology.Head:
			if targets == targetsLinear {
				continue
			}
		default:
			continue
		}
		if why := refuse(top.MatrixTensor[i]); why != "" {
			excluded = append(excluded, recipe.Excluded{Name: m.Name, Reason: why})
			continue
		}
		out = append(out, *m)
	}
	if len(out) == 0 {
		return nil, excluded, fmt.Errorf("%w: %s: the checkpoint has no such %s", recipe.ErrNothing, targets, what)
	}
	return out, excluded, nil
}

func quantizable(dtype string) bool { return dtype == "BF16" || dtype == "F16" || dtype == "F32" }

// fallbacks are those of what was asked for that cannot be made.
func fallbacks(top *topology.Model, excluded []recipe.Excluded, requested string) []Fallback {
	matrices := map[string]int{}
	for i := range top.Matrices {
		matrices[top.Matrices[i].Name] = i
	}
	tensors := map[string]int{}
	for i := range top.Tensors {
		tensors[top.Tensors[i].Name] = i
	}
	var out []Fallback
	for _, e := range excluded {
		f := Fallback{Tensor: e.Name, Requested: requested, Reason: e.Reason}
		if k, ok := matrices[e.Name]; ok {
			f.Effective = top.Tensors[top.MatrixTensor[k]].DType
			f.Params = int64(top.Matrices[k].Rows) * int64(top.Matrices[k].Cols)
		} else if i, ok := tensors[e.Name]; ok && weightParam(top.Roles[i].Param) {
			f.Effective = top.Tensors[i].DType
			f.Params = packedParams(&top.Tensors[i])
		}
		if f.Effective == "" || quantizable(f.Effective) { // kept by rule, not for want of a way
			continue
		}
		f.Effective = strings.ToLower(f.Effective)
		out = append(out, f)
	}
	return out
}

func weightParam(name string) bool {
	return name == "weight" || name == "weight_packed" || name == "blocks" || name == "qweight"
}

// packedParams are the elements that a stored weight stands for: a byte of packed
// codes is two, a word of them eight.
func packedParams(t *topology.Named) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	switch t.DType {
	case "U8":
		return 2 * n
	case "I32", "U32":
		return 8 * n
	}
	return n
}

// fits says why a matrix cannot be stored in a format, nil where it can.
func fits(format string, rows, cols int) error {
	f, err := kernels.FormatByName(format)
	if err == nil {
		_, err = f.Bytes(rows, cols)
	}
	return err
}

// group is how many elements of a row share a scale of a scheme, 0 where that is
// not by blocks of a row.
func group(scheme string) int {
	f, err := kernels.FormatByName(scheme)
	if err != nil || f.Scope != kernels.ScopeGroup {
		return 0
	}
	return f.Group
}
