package lint

import (
	"fmt"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// declared holds what is stored quantized against what the quantization config
// says of it, and the config against the older file beside it; it reads headers
// and scales of one number.
func (r *run) declared() error {
	if r.lay == nil {
		file := "config.json"
		if fe, ok := r.bad.(*checkpoint.FileError); ok {
			file = fe.File
		}
		r.add(idQuantUnreadable, Finding{File: file, Message: r.bad.Error()})
		return nil
	}
	fused := map[string]bool{}
	for _, f := range r.lay.Findings {
		id, role := f.ID, r.roleOf(f.Tensor)
		x := Finding{File: f.File, Tensor: f.Tensor, Message: f.Message}
		if id == layout.NotQuantized && role != nil {
			t, _ := r.Checkpoint.Lookup(f.Tensor)
			switch {
			case role.Kind == topology.Expert && len(t.Shape) == 3:
				fused[f.Tensor] = true
				continue
			case role.MTP:
				id = idMTPNotIgnored
			case role.Kind == topology.Router:
				id = idRouterIgnored
			}
			x.Evidence = []Evidence{{"dtype", t.DType.String()}, {"shape", fmt.Sprint(t.Shape)}, {"part", role.Kind.String()}}
		}
		x.Evidence = append(x.Evidence, r.readingOf(f.Tensor)...)
		r.add(id, x)
	}
	r.fusedExperts(fused)
	return nil
}

// readingOf is what a module's tensor is stored as, and how it is read where
// conventions differ; nil for what is no module.
func (r *run) readingOf(tensor string) []Evidence {
	name, _ := layout.Split(tensor)
	m, ok := r.lay.Lookup(name)
	if !ok {
		return nil
	}
	out := []Evidence{{"stored as", fmt.Sprintf("%s, %d × %d", m.Spec.Format, m.Rows, m.Cols)}}
	if how := m.Reading(); how != "" {
		out = append(out, Evidence{"read as", how})
	}
	return out
}

// roleOf is a tensor's role, nil for one that is not stored.
func (r *run) roleOf(tensor string) *topology.Role {
	i, ok := r.indexOf(tensor)
	if !ok {
		return nil
	}
	return &r.Model.Roles[i]
}

// indexOf finds a tensor among those of the model.
func (r *run) indexOf(tensor string) (int, bool) {
	if r.at == nil {
		r.at = make(map[string]int, len(r.Model.Tensors))
		for i := range r.Model.Tensors {
			r.at[r.Model.Tensors[i].Name] = i
		}
	}
	i, ok := r.at[tensor]
	return i, ok
}

// fusedExperts says how much of the model is in experts that stayed in floating
// point in one tensor beside modules that are quantized: an error where the config
// says that they are quantized too, else to be known.
func (r *run) fusedExperts(declared map[string]bool) {
	if len(r.lay.Modules) == 0 && len(declared) == 0 {
		return
	}
	var first *checkpoint.Tensor
	var params int64
	n := 0
	for i := range r.Checkpoint.Tensors {
		t, role := &r.Checkpoint.Tensors[i], &r.Model.Roles[i]
		if role.Kind != topology.Expert || len(t.Shape) != 3 || !plainDType(t.DType) || role.Param != "weight" {
			continue
		}
		params += t.Elements()
		n++
		if first == nil || declared[t.Name] && !declared[first.Name] {
			first = t
		}
	}
	if first == nil {
		return
	}
	share := percent(params, r.Model.TotalParams)
	f := Finding{
		Message:  fmt.Sprintf("%s of fused experts in %s, %s of the parameters, beside %s", counted(n, "tensor"), first.DType, share, counted(len(r.lay.Modules), "quantized module")),
		Evidence: []Evidence{{"tensors", fmt.Sprint(n)}, {"parameters", fmt.Sprint(params)}, {"share", share}, {"shape of the first", fmt.Sprint(first.Shape)}},
	}
	if len(declared) == 0 {
		f.Severity, f.Message = Note, f.Message+"; the config leaves them out"
	}
	r.tensor(idFusedExperts, first, f)
}

// groups reads g_idx and the zero points of GPTQ, which layout.Open does not, and
// nothing else. What a config cannot be read for is said by the rule about it.
func (r *run) groups() error {
	if r.lay == nil {
		return nil
	}
	for i := range r.lay.Modules {
		found, err := r.lay.Modules[i].Groups(r.ctx)
		if err != nil {
			return err
		}
		for _, f := range found {
			r.add(f.ID, Finding{File: f.File, Tensor: f.Tensor, Message: f.Message})
		}
	}
	return nil
}

// keepers are methods whose servers take a quantized embedding and head.
var keepers = map[string]bool{"mlx": true}

// kept looks for packed modules of parts that are better left alone; it reads
// nothing.
func (r *run) kept() error {
	if r.lay == nil {
		return nil
	}
	for i := range r.lay.Modules {
		m := &r.lay.Modules[i]
		id := ""
		switch m.Role.Kind {
		case topology.Router:
			id = "router-quantized"
		case topology.Embedding:
			id = "embedding-quantized"
		case topology.Head:
			if id = "head-quantized"; r.Model.Tied {
				id = "head-tied-quantized"
			}
		case topology.Vision:
			id = "vision-quantized"
		}
		t := m.CodeTensor()
		if id == "" || t == nil || keepers[m.Method] && id != "router-quantized" {
			continue
		}
		r.tensor(id, t, Finding{
			Message:  fmt.Sprintf("%s is packed as %s", m.Name, m.Spec.Format),
			Evidence: []Evidence{{"format", m.Spec.Format}, {"shape", fmt.Sprintf("%d × %d", m.Rows, m.Cols)}},
		})
	}
	return nil
}
