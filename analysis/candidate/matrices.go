package candidate

import (
	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// Matrix is a linear map, an embedding or a head that the forward pass reads.
type Matrix struct {
	Name  string // of the tensor, of a quantized one of its module
	Place model.Place
}

// Matrices are those of a checkpoint, in the order of its files: what is stored in
// floating point, then what is quantized, whose tensors are no matrices to the
// topology. Gate and up that are stored as one are two.
func (c *Candidate) Matrices() []Matrix {
	if c.Topology == nil {
		return nil
	}
	var out []Matrix
	for i := range c.Topology.Matrices {
		if m := &c.Topology.Matrices[i]; linear(m.Role) {
			out = append(out, Matrix{m.Name, placeOf(m.Role)})
		}
	}
	if c.files == nil {
		return out
	}
	for i := range c.files.layout.Modules {
		m := &c.files.layout.Modules[i]
		if !linear(m.Role) || !reads(m.Role, c.files.spec) {
			continue
		}
		at := placeOf(m.Role)
		if m.Role.Projection != "gate_up" {
			out = append(out, Matrix{m.Name, at})
			continue
		}
		for _, projection := range []string{"gate", "up"} {
			at.Projection = projection
			out = append(out, Matrix{m.Name + "." + projection, at})
		}
	}
	return out
}

// linear says whether a tensor of a role is a matrix of the main model's.
func linear(r topology.Role) bool {
	switch r.Kind {
	case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert, topology.Router, topology.Head, topology.Embedding, topology.Mixing:
		return !r.MTP
	}
	return false
}
