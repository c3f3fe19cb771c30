// Package topology knows what each tensor of a checkpoint is in the model.
//
// Promises: it reads names, shapes and the config, never weights. Families are
// tables; a name that no table knows is listed as unknown, never guessed.
package topology

import "strconv"

// Kind is the part of the model that a tensor belongs to.
type Kind uint8

// Kinds of tensors.
const (
	Unknown Kind = iota
	Embedding
	Head
	Norm
	Attention    // q, k, v, o and their low-rank parts
	MLP          // dense feed-forward
	Expert       // routed expert
	SharedExpert // always-on expert
	Router       // routing weight, bias, correction bias
	MTPExtra     // parts only an MTP layer has: eh_proj, enorm, hnorm, shared_head
	Vision       // anything of a vision or audio tower or its projector
	Mixing       // what scales or mixes the residual stream: hyper-connections, layer scalars, per-layer inputs
)

// Role is what one tensor, or one matrix of a fused tensor, is in the model.
type Role struct {
	Kind       Kind   `json:"kind"`
	Layer      int    `json:"layer"`      // -1 outside any layer
	Expert     int    `json:"expert"`     // -1 where there is none
	Projection string `json:"projection"` // gate, up, down, q, k, v, o, gate_up, qkv, q_a, …; a norm's own name; "" where the kind says it all
	Param      string `json:"param"`      // weight, bias, weight_scale, …
	MTP        bool   `json:"mtp"`        // belongs to a multi-token-prediction layer
}

// LayerName is what tables call the layer of a role: L5, M46 for an MTP layer,
// "no layer" outside any.
func (r Role) LayerName() string {
	switch {
	case r.Layer < 0:
		return "no layer"
	case r.MTP:
		return "M" + strconv.Itoa(r.Layer)
	}
	return "L" + strconv.Itoa(r.Layer)
}

// Matrix is one linear map that a quantizer can work on: a two-dimensional
// tensor, or one expert's part of a fused three-dimensional one. Element (r, c)
// stands at byte Offset + (r·RowStride + c·ColStride)·(element size) of the
// tensor; r runs over outputs, c over inputs. ColStride is 1 and RowStride is
// Cols when it is stored contiguously.
type Matrix struct {
	Name                 string // unique in the checkpoint: the tensor's name, for fused ones with [expert] and the half, as in …experts.gate_up_proj[3].gate
	Tensor               string // the tensor it is stored in
	Role                 Role
	Rows, Cols           int
	Offset               int64 // bytes from the start of the tensor
	RowStride, ColStride int64 // elements
}
