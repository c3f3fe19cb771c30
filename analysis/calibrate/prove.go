package calibrate

import (
	"context"
	"fmt"

	"quantscope/quant/codes"
)

// prove holds what a folder says that calibration changed against the codes
// themselves, of the first matrix of which it says so: the fidelity gate must not pass
// on a figure alone. One matrix is enough, since it is for exact equality of all.
func (r *running) prove(ctx context.Context, u *unit, at int, c *codes.Matrix, said *Trade) error {
	t, m := &r.targets[at], &r.s.Matrices[at]
	if r.proven || t.kept || said.Why != "" || said.Chosen || said.Changed == 0 {
		return nil
	}
	k := &unitMaking{running: r, u: u}
	if err := k.largest(ctx); err != nil {
		return err
	}
	defer r.raw.Release()
	w, err := r.raw.Weight(ctx, t.at)
	if err != nil {
		return r.about(ctx, err)
	}
	q, err := newMaking(r.s.Set, r.s.Variant, r.base, t, m.Rows, m.Cols, w)
	if err != nil {
		return err
	}
	q.amax = k.amax[at]
	plain, _, err := q.encode(r.base, nil)
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", t.name, err)
	}
	n, err := changed(r.base.Scheme, &plain, c)
	if err != nil {
		return fmt.Errorf("calibrate: %s: %w", t.name, err)
	}
	if n != said.Changed {
		return fmt.Errorf("calibrate: %s: unit %q: %s: %d codes and parameters are said not to be those of %s, and %d are not: the folder does not hold what was calibrated",
			r.store.Dir(), u.name, t.name, said.Changed, r.base.Name, n)
	}
	r.proven = true
	return nil
}
