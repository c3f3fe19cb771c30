package model

import "math"

// apply writes the gated activation to gate.
func (a Activation) apply(gate, up []float32) {
	switch a {
	case SiLU:
		for i, g := range gate {
			gate[i] = g / (1 + exp32(-g)) * up[i]
		}
	case GELUTanh:
		// 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))), Hendrycks and Gimpel 2016.
		for i, g := range gate {
			x := float64(g)
			t := math.Tanh(math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x))
			gate[i] = float32(0.5*x*(1+t)) * up[i]
		}
	case SwiGLUOAI:
		for i, g := range gate {
			g = min(g, 7)
			u := max(min(up[i], 7), -7)
			gate[i] = g / (1 + exp32(-1.702*g)) * (u + 1)
		}
	}
}

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
