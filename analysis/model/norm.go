package model

import "math"

// apply writes the norm of each row of x, width values wide, to y, which may be x.
func (n Norm) apply(y, x, w []float32) {
	width := len(w)
	for at := 0; at+width <= len(x); at += width {
		n.row(y[at:at+width], x[at:at+width], w)
	}
}

func (n Norm) row(y, x, w []float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+n.Eps))
	if n.PlusOne {
		for i, v := range x {
			y[i] = v * scale * (1 + w[i])
		}
		return
	}
	for i, v := range x {
		y[i] = v * scale * w[i]
	}
}
