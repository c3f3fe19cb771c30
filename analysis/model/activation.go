package model

import (
	"math"

	"quantscope/kernels"
)

// apply writes the gated activation to gate; up may be used up.
func (f FeedForward) apply(set kernels.Set, gate, up []float32) {
	act := f.Act
	if f.Limit == 0 && (act == SiLUThenClamp || act == ClampThenSiLU) {
		act = SiLU
	}
	switch act {
	case SiLU:
		set.SiLU(gate, up)
	case GELUTanh:
		set.GELUTanh(gate, up)
	case SwiGLUOAI:
		set.SwiGLU(gate, up, 7, 1.702)
	case SiLUThenClamp:
		for at := 0; at < len(gate); at += len(ones) {
			part := gate[at:min(at+len(ones), len(gate))]
			set.SiLU(part, ones[:len(part)])
			for i, v := range part {
				part[i] = min(v, f.Limit) * clip(up[at+i], f.Limit)
			}
		}
	case ClampThenSiLU:
		for i, v := range gate {
			gate[i], up[i] = min(v, f.Limit), clip(up[i], f.Limit)
		}
		set.SiLU(gate, up)
	}
}

// ones are factors of nothing; they are not changed.
var ones = func() (x [256]float32) {
	for i := range x {
		x[i] = 1
	}
	return
}()

// clip is v within ±limit; NaN stays NaN.
func clip(v, limit float32) float32 { return max(min(v, limit), -limit) }

func exp32(x float32) float32 { return float32(math.Exp(float64(x))) }

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
