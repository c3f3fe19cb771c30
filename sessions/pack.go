package sessions

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/codes"
)

// pack writes what a calibrated variant chose into the export, from its codes.
func (e *engine) pack(ctx context.Context, v int, store *codes.Store) error {
	x := e.job.export
	name := e.quantizer(v).Variant.Name
	for t := range e.job.Tensors {
		if !x.wants(name, t) {
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if store == nil {
			return &ExportError{x.o.Dir, "no codes of " + name + " were kept to write"}
		}
		m, err := store.Matrix(e.job.Tensors[t].Name)
		if err != nil {
			return err
		}
		if is := e.job.Tensors[t]; m.Rows != is.Rows || m.Cols != is.Cols {
			return &CodesError{store.Dir(), fmt.Sprintf("%s: they are %d×%d, and it is %d×%d", e.where(t), m.Rows, m.Cols, is.Rows, is.Cols)}
		}
		if len(m.Codes) == 0 {
			return &ExportError{x.o.Dir, fmt.Sprintf("%s stays as it is (%s), which layout %s does not have room for", e.where(t), m.Why, x.plan.Layout)}
		}
		out := kernels.Output{Codes: m.Codes, Scales: m.Scales, Mins: m.Mins}
		if err := x.writer.StoreMade(x.matrix(t), 0, &out, kernels.Spec{Global: m.Global, Codebook: m.Codebook}); err != nil {
			return exportFailure(x, err)
		}
	}
	return nil
}
