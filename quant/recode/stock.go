package recode

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Stock is what a checkpoint has of FP4 matrices, beside what it has of others.
type Stock struct {
	// Model is the checkpoint's topology with a matrix for each quantized module, FP4
	// or not, as it is decoded: what targets are held against. Those of FP4 are called
	// as their tensor of codes is, of a stack of experts with [expert] behind it.
	Model *topology.Model

	ck       *checkpoint.Checkpoint
	lay      *layout.Layout
	matrices map[string]*Matrix // by the name in Model
	why      map[int]string     // tensors of modules whose codes cannot be changed
	broken   map[string]string  // tensors that are quantized and were not understood
}

// MayHave says whether a checkpoint has tensors of a type that FP4 codes are stored in:
// where it has none, there is no need to look closer.
func MayHave(ck *checkpoint.Checkpoint) bool {
	return slices.ContainsFunc(ck.Tensors, func(t checkpoint.Tensor) bool {
		switch t.DType {
		case checkpoint.U8, checkpoint.I8, checkpoint.U32, checkpoint.F4:
			return len(t.Shape) >= 2
		}
		return false
	})
}

// Find looks through the modules of a layout.
func Find(ck *checkpoint.Checkpoint, model *topology.Model, lay *layout.Layout) *Stock {
	s := &Stock{ck: ck, lay: lay, matrices: map[string]*Matrix{}, why: map[int]string{}, broken: map[string]string{}}
	at := make(map[string]int, len(model.Tensors))
	for i := range model.Tensors {
		at[model.Tensors[i].Name] = i
	}
	of := map[int][]*Matrix{}
	modules := make([]Matrix, len(lay.Modules))
	for i := range lay.Modules {
		m := &lay.Modules[i]
		x := &modules[i]
		*x = matrixOf(m)
		t := at[x.Tensor]
		of[t] = append(of[t], x)
		if why := unchangeable(m); why != "" {
			s.why[t] = why
			continue
		}
		s.matrices[x.Name] = x
	}
	view := *model
	view.Matrices, view.MatrixTensor = nil, nil
	next := 0
	for i := range model.Tensors {
		from := next
		for next < len(model.Matrices) && model.MatrixTensor[next] == i {
			next++
		}
		for _, x := range of[i] {
			view.Matrices, view.MatrixTensor = append(view.Matrices, x.Matrix), append(view.MatrixTensor, i)
		}
		if len(of[i]) > 0 {
			continue
		}
		for k := from; k < next; k++ {
			view.Matrices, view.MatrixTensor = append(view.Matrices, model.Matrices[k]), append(view.MatrixTensor, i)
		}
	}
	s.Model = &view
	for i := range lay.Findings {
		f := &lay.Findings[i]
		if f.ID != layout.Incomplete && f.ID != layout.UnknownForm {
			continue
		}
		module, _ := layout.Split(f.Tensor)
		s.broken[module] = f.Message
	}
	return s
}

// unchangeable is why the codes of a module cannot be changed, "" where they can.
func unchangeable(m *layout.Module) string {
	f := m.Format()
	switch {
	case f.Element == "e2m1" && m.ColumnTensor() != nil:
		return "its inputs are scaled by pre_quant_scale, which the error of codes does not know"
	case f.Element == "e2m1" && m.OwnPanels():
		return fmt.Sprintf("stored as %s, blocks that are neither NVFP4's nor MXFP4's", f.Name)
	case m.Spec.Format != nvfp4 && m.Spec.Format != mxfp4:
		return fmt.Sprintf("stored as %s (%s), and only FP4 codes are changed here", f.Name, cmp.Or(m.Method, "no config says whose"))
	}
	return ""
}

// Names of formats.
const (
	nvfp4 = "nvfp4"
	mxfp4 = "mxfp4"
)

// Empty says that the checkpoint has no FP4 matrix.
func (s *Stock) Empty() bool { return s == nil || len(s.matrices) == 0 }

// Refuse says why the matrices of a tensor of Model cannot be taken, "" where they can.
func (s *Stock) Refuse(tensor int) string {
	if why, ok := s.why[tensor]; ok {
		return why
	}
	t := &s.Model.Tensors[tensor]
	if i, ok := slices.BinarySearch(s.Model.MatrixTensor, tensor); ok {
		if _, ok := s.matrices[s.Model.Matrices[i].Name]; ok {
			return ""
		}
	}
	return fmt.Sprintf("stored as %s, and only FP4 codes are changed here", t.DType)
}

// Lookup is the FP4 matrix of a name in Model.
func (s *Stock) Lookup(name string) (*Matrix, bool) {
	m, ok := s.matrices[name]
	return m, ok
}

// Selection is what is to be changed.
type Selection struct {
	recipe.Selection           // of Model's matrices
	FP4              []*Matrix // parallel to Matrices
}

// Select picks FP4 matrices as recipe.Select picks others. A match that is quantized
// and was not understood is a *checkpoint.FileError.
func (s *Stock) Select(targets string) (Selection, error) {
	sel, err := recipe.SelectFrom(s.Model, targets, s.Refuse)
	if err := s.Intact(sel.Excluded); err != nil {
		return Selection{}, err
	}
	if err != nil {
		return Selection{}, err
	}
	out := Selection{Selection: sel, FP4: make([]*Matrix, len(sel.Matrices))}
	for i := range sel.Matrices {
		out.FP4[i] = s.matrices[sel.Matrices[i].Name] // nothing else was taken
	}
	return out, nil
}

// Intact is an error about the first of what was left out that is quantized and broken:
// a copy of such a checkpoint would be another broken one.
func (s *Stock) Intact(excluded []recipe.Excluded) error {
	for _, e := range excluded {
		if !s.lay.Unread[e.Name] {
			continue
		}
		module, _ := layout.Split(e.Name)
		why, ok := s.broken[module]
		if !ok {
			why = "belongs to a module that is quantized in a way that is not known here"
		}
		return s.fail(e.Name, why)
	}
	return nil
}

// fail is an error about a stored tensor.
func (s *Stock) fail(tensor, reason string) error {
	file := s.ck.Path
	if t, ok := s.ck.Lookup(tensor); ok && !strings.HasSuffix(file, s.ck.Files[t.File].Name) {
		file = filepath.Join(file, s.ck.Files[t.File].Name)
	}
	return &checkpoint.FileError{File: file, Tensor: tensor, Reason: reason, Err: checkpoint.ErrUnsupported}
}
