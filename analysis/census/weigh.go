package census

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// member is one matrix of a group on the scales, with its stored second-level
// scale.
type member struct {
	mod    *layout.Module
	global float32
	source *matrixReader // nil: it is held against what it is stored as
	sums
}

// sums are over the elements of a member, in f64: squares of the reference, and
// of its distance from what each way of serving the member decodes to.
type sums struct {
	w2, served, stored float64
	comp               []loss // by the member whose scale is kept
	requantized        float64
	nonFinite          int64 // elements of the reference that are no numbers
	broken             int64 // those that decode to no numbers
	scales             int64
}

// loss is what compensation leaves.
type loss struct {
	e2                   float64
	clamped, underflowed int64
}

// count adds what a range of scales loses.
func (l *loss) count(c *export.Compensation, scales []byte) {
	for _, b := range scales {
		if c.Clamped[b] {
			l.clamped++
		}
		if c.Underflowed[b] {
			l.underflowed++
		}
	}
}

// weigher measures groups, one at a time. It has one user.
type weigher struct {
	set    kernels.Set
	spec   kernels.Spec // of requantization, without Global
	stored layout.Stored
	scales []byte
	w, q   []float32
	own    []float32
}

// weigh goes once through the members of a group. bases is how many of them are
// tried as the one whose scale is kept: the first only, or all. requantize says
// that the members are made again of their sources as well, under one scale,
// whose stored form is the result then,
// with the largest magnitude that gives it.
func (x *weigher) weigh(ctx context.Context, members []member, bases int, requantize bool) (global, amax float32, err error) {
	if requantize {
		for k := range members {
			a, err := members[k].source.absMax(ctx, x.set)
			if err != nil {
				return 0, 0, err
			}
			amax = max(amax, a)
		}
		if global, err = export.GlobalScale(x.spec, amax); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", members[0].mod.Name, err)
		}
	}
	for k := range members {
		if err := x.member(ctx, members, k, bases, requantize, amax); err != nil {
			return 0, 0, err
		}
	}
	return global, amax, nil
}

func (x *weigher) member(ctx context.Context, members []member, k, bases int, requantize bool, amax float32) error {
	m := &members[k]
	mod := m.mod
	tables := make([]*export.Compensation, bases)
	m.comp = make([]loss, bases)
	for b := range tables {
		if members[b].global != m.global {
			tables[b] = export.Compensate(m.global, members[b].global, divides(mod))
		}
	}
	var pass *kernels.Pass
	if requantize {
		var err error
		if pass, err = x.set.Begin(x.spec, m.source.elem, mod.Rows, mod.Cols, amax); err != nil {
			return fmt.Errorf("%s: %w", mod.Name, err)
		}
		defer func() { _, _ = pass.Finish() }() // gives back what it holds where a read fails
	}
	for first := 0; first < mod.Rows; {
		n := min(chunkRows(mod.Cols), mod.Rows-first)
		if err := mod.Read(ctx, &x.stored, first, n); err != nil {
			return err
		}
		data, err := x.reference(ctx, m, first, n)
		if err != nil {
			return err
		}
		if pass != nil {
			if err := pass.Rows(data, nil); err != nil {
				return fmt.Errorf("%s: %w", mod.Name, err)
			}
		}
		if err := x.chunk(members, k, n, tables); err != nil {
			return err
		}
		first += n
	}
	if pass != nil {
		tap, err := pass.Finish()
		if err != nil {
			return fmt.Errorf("%s: %w", mod.Name, err)
		}
		m.requantized = tap.SumE2
	}
	return nil
}

// reference fills x.own with the rows as they are stored, and x.w with what they
// are held against; data is the source's bytes.
func (x *weigher) reference(ctx context.Context, m *member, first, n int) (data []byte, err error) {
	size := n * m.mod.Cols
	x.own, x.w, x.q = grow(x.own, size), grow(x.w, size), grow(x.q, size)
	if err := x.decode(x.own, m, x.stored.Scales, m.global); err != nil {
		return nil, err
	}
	if m.source == nil {
		copy(x.w, x.own)
		return nil, nil
	}
	if data, err = m.source.rows(ctx, first, n); err != nil {
		return nil, err
	}
	return data, kernels.DecodeFloats(x.w, m.source.elem, data)
}

// decode decodes what was read of a member with these scales.
func (x *weigher) decode(dst []float32, m *member, scales []byte, global float32) error {
	err := kernels.Dequantize(dst, m.mod.Spec, len(dst)/m.mod.Cols, m.mod.Cols, x.stored.Codes, scales, x.stored.Mins, global)
	if err != nil {
		return fmt.Errorf("%s: %w", m.mod.Name, err)
	}
	x.stored.Multiply(dst, 0, m.mod.Cols)
	return nil
}

// chunk adds the sums of the rows that were read.
func (x *weigher) chunk(members []member, k, n int, tables []*export.Compensation) error {
	m := &members[k]
	s := &m.sums
	s.scales += int64(len(x.stored.Scales))
	for _, w := range x.w {
		if w-w != 0 {
			s.nonFinite++
			continue
		}
		s.w2 += float64(w) * float64(w)
	}
	e2, broken := distance(x.w, x.own)
	s.stored += e2
	if m.global == members[0].global {
		s.served += e2
	} else {
		if err := x.decode(x.q, m, x.stored.Scales, members[0].global); err != nil {
			return err
		}
		served, more := distance(x.w, x.q)
		s.served += served
		broken = max(broken, more)
	}
	s.broken += broken
	x.scales = grow(x.scales, len(x.stored.Scales))
	for b, table := range tables {
		if table == nil {
			s.comp[b].e2 += e2
			continue
		}
		table.Apply(x.scales, x.stored.Scales)
		s.comp[b].count(table, x.stored.Scales)
		if err := x.decode(x.q, m, x.scales, members[b].global); err != nil {
			return err
		}
		d, _ := distance(x.w, x.q)
		s.comp[b].e2 += d
	}
	return nil
}

// distance is Σ(w−q)² over the elements of which both are numbers, and how many
// decode to none.
func distance(w, q []float32) (e2 float64, broken int64) {
	q = q[:len(w)]
	for i, x := range w {
		d := float64(x) - float64(q[i])
		if d-d != 0 {
			if x-x == 0 {
				broken++
			}
			continue
		}
		e2 += d * d
	}
	return e2, broken
}
