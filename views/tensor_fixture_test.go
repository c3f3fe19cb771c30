package views

import (
	"math"

	"quantscope/kernels"
	"quantscope/views/viewstest"
)

// detailOf is the whole detail of the tensor under the cursor, as the root
// would have fetched it.
func detailOf(s *Scene) *Detail {
	d := &Detail{Tensor: s.Cursor, Taps: make([]*kernels.Tap, len(s.State.Variants)), Errs: make([]string, len(s.State.Variants))}
	for v := range s.State.Variants {
		if r, ok := s.Record(v, s.Cursor); ok && !r.Failed {
			d.Taps[v] = viewstest.Tap(s.State, v, s.Cursor)
			for i, n := range r.Depth {
				d.Taps[v].Depth[i] = int64(n)
			}
			rows := make([]float64, s.State.Tensors[s.Cursor].Rows)
			for i := range rows {
				rows[i] = r.RelL2 * (1 + 0.05*math.Sin(float64(i)/9+float64(v)))
			}
			d.Rows = append(d.Rows, rows)
		}
	}
	return d
}
