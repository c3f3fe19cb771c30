package convert

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// TwoBits is a copy of an FP4 checkpoint in quantscope's own layout whose codes are
// four values a matrix that somebody else chooses: what two bits are packed from need
// not be in any file. Scales are the source's bytes. It is not changed once made and
// may be used from any goroutine.
type TwoBits struct {
	plan *Plan
	at   map[string]int
}

// NewTwoBits plans the copy. Of every quantized module the codes come by Put, so that
// all of them must be FP4, of one kind of scales: the layout says one format of all.
// The variant is what the copy's config says to have made them. Errors are those of
// New; nothing of the weights is read.
func NewTwoBits(ctx context.Context, ck *checkpoint.Checkpoint, model *topology.Model, l *layout.Layout, v method.Variant) (*TwoBits, error) {
	b := &planner{Plan: &Plan{From: l.Method, To: Own, ck: ck, gone: map[string]bool{}}, model: model, layout: l, threads: 1, recoded: true}
	b.made = made{Variant: v.Name, Method: v.Spec.Method}
	for i := range l.Modules {
		m := &l.Modules[i]
		if !m.FP4() {
			return nil, refuse(m, "is stored as %s, and quantscope's own layout of two bits says one format of all its matrices", m.Format().Name)
		}
		if formOf(m) == "" {
			return nil, refuse(m, "is stored as %s stores it, which is not repacked", m.Method)
		}
	}
	for _, step := range []func(context.Context) error{b.whole, b.source, b.modules, b.stated, b.finish} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	t := &TwoBits{plan: b.Plan, at: make(map[string]int, len(b.pieces))}
	for i := range b.pieces {
		t.at[b.pieces[i].m.Name] = i
	}
	return t, nil
}

// stated completes what the receipt says.
func (b *planner) stated(context.Context) error {
	all := b.schemes()
	if len(all) != 1 {
		return fmt.Errorf("modules are stored as %s and as %s, and quantscope's own layout has one format for all: %w", all[0], all[1], ErrRefused)
	}
	b.made.Format = all[0].name
	b.made.Convention = b.pieces[0].m.Spec.Convention.String()
	return nil
}

// Plan is what export.Create takes.
func (t *TwoBits) Plan() *export.Plan { return t.plan.export }

// Unit is the index by which export.Writer knows a module of the source; false for
// none.
func (t *TwoBits) Unit(module string) (int, bool) {
	i, ok := t.at[module]
	return i, ok
}

// Put stores a module: its codes are those of E2M1 of all rows, two a byte, of which
// only those of the codebook are used. Scales and second-level scale are read from the
// source. It may be called from many goroutines, each unit once.
func (t *TwoBits) Put(ctx context.Context, w *export.Writer, unit int, codes []byte, codebook uint16) error {
	if unit < 0 || unit >= len(t.plan.pieces) {
		return fmt.Errorf("unit %d of %d: %w", unit, len(t.plan.pieces), export.ErrMatrix)
	}
	p := &t.plan.pieces[unit]
	if kernels.CodebookCodes(codebook) == nil {
		return refuse(p.m, "the codebook %#04x: %v", codebook, kernels.ErrCodebook)
	}
	return w.Put(unit, func(put func(int, int64, []byte) error) error {
		return p.recoded(ctx, put, codes, codebook)
	})
}
