package kernels

import (
	"math"
	"testing"
)

// A target is the weight with what errors add to it; what cannot be added leaves
// the weight, and a weight that is not finite is a 0.
func TestGPTQTarget(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, x := range []struct {
		w, c, want float32
		finite     bool
	}{
		{1.5, -0.25, 1.25, true}, {3e38, 3e38, 3e38, true}, {-3e38, -3e38, -3e38, true}, {2, inf, 2, true}, {2, -inf, 2, true}, {2, nan, 2, true},
		{nan, 1, 0, false}, {inf, 1, 0, false}, {-inf, inf, 0, false},
	} {
		if got, finite := gptqTarget(x.w, x.c); got != x.want || finite != x.finite {
			t.Errorf("%v and %v make %v, %v, want %v, %v", x.w, x.c, got, finite, x.want, x.finite)
		}
	}
}
