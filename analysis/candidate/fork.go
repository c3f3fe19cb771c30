package candidate

import (
	"quantscope/analysis/model"
	"quantscope/quant/layout"
)

// Forks of sources share what was opened and made, and nothing that a pass
// writes to.

// Fork implements model.Forker.
func (n *native) Fork() model.Source {
	return &native{Stored: n.Stored.Fork().(*model.Stored), x: n.x, loaded: map[*layout.Module]*coded{}}
}

// Fork implements model.Forker.
func (o *overlay) Fork() model.Source {
	base, raw := forked(o.base), forked(o.raw)
	if base == nil || raw == nil {
		return nil
	}
	return &overlay{base: base, raw: raw, m: o.m, table: map[model.Place]*coded{}}
}

// Fork implements model.Forker.
func (x *mixed) Fork() model.Source {
	a, b := forked(x.a), forked(x.b)
	if a == nil || b == nil {
		return nil
	}
	return &mixed{a, b, x.m}
}

// Fork implements model.Forker.
func (o owned) Fork() model.Source {
	if f, ok := o.Source.(model.Forker); ok {
		if s := f.Fork(); s != nil {
			return owned{s, o.owner}
		}
	}
	return nil
}

// Fork implements model.Forker.
func (b *blocks) Fork() model.Source { return newBlocks(b.m, b.set) }

// forked is another handle on a source, nil where it has none.
func forked(s traced) traced {
	f, ok := s.(model.Forker)
	if !ok {
		return nil
	}
	t, _ := f.Fork().(traced)
	return t
}
