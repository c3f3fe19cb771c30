package sessions

import (
	"context"

	"quantscope/kernels"
)

type exporting struct{}

func (x *exporting) amax(ctx context.Context, w *worker, t int, own float32) (float32, error) {
	return own, nil
}
func (x *exporting) rowMultiple(t int) int { return 1 }
func (x *exporting) output(w *worker, p *kernels.Pass, t, from int, data []byte) *kernels.Output {
	return nil
}
func (x *exporting) store(t, from int, out *kernels.Output, global float32) error { return nil }
