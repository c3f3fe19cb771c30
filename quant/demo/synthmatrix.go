package demo

import (
	"fmt"

	"quantscope/quant/topology"
)

// SynthMatrix is one matrix that a quantizer would work on: of the attention, a
// routed or shared expert, the dense layer. Its elements are bfloat16.
type SynthMatrix struct {
	Name       string
	Role       topology.Role
	Rows, Cols int

	seed   uint64
	tensor synthTensor
}

// Matrices lists the matrices of the model in its order, for studies that need
// no files.
func (s Synth) Matrices() ([]SynthMatrix, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	all, err := s.tensors()
	if err != nil {
		return nil, err
	}
	var ms []SynthMatrix
	for _, t := range all {
		switch t.role.Kind {
		case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert:
			ms = append(ms, SynthMatrix{
				Name: t.Name, Role: t.role, Rows: int(t.Shape[0]), Cols: int(t.Shape[1]), seed: s.Seed, tensor: t,
			})
		}
	}
	return ms, nil
}

// Fill writes the matrix as it stands in the file, 2·Rows·Cols bytes.
func (m *SynthMatrix) Fill(dst []byte) error {
	if int64(len(dst)) != m.tensor.size {
		return fmt.Errorf("synth: tensor %q: %d bytes of room, want %d", m.Name, len(dst), m.tensor.size)
	}
	(&chunk{tensor: &m.tensor, data: dst}).fill(m.seed)
	return nil
}
