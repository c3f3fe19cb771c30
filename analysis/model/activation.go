package model

import (
	"math"

	"quantscope/kernels"
)

// apply writes the gated activation to gate; up may be used up.
func (a Activation) apply(set kernels.Set, gate, up []float32) {
	switch a {
	case SiLU:
		set.SiLU(gate, up)
	case GELUTanh:
		set.GELUTanh(gate, up)
	case SwiGLUOAI:
		set.SwiGLU(gate, up, 7, 1.702)
	}
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
