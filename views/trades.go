package views

import (
	"quantscope/analysis/calibrate"
	"quantscope/quant/method"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// trades is what calibration did, by variant and tensor. It follows the state's
// calibrations, which only grow until the state is another one, and reads each
// of their units once.
type trades struct {
	seen    []seenCalibration
	by      []variantTrades
	tensors int
	version uint64          // grows with every change
	named   map[string]bool // variants whose names say that they are calibrated
}

// seenCalibration is how much of a calibration was read.
type seenCalibration struct {
	of    *sessions.Calibration
	units int
}

// variantTrades are those of one variant: of each tensor the newest.
type variantTrades struct {
	trade  []*calibrate.Trade // by tensor; nil where there is none
	counts map[layerOf]*calibrate.Counts
	newest *sessions.Calibration // nil where the variant was never calibrated
}

// layerOf tells layers apart.
type layerOf struct {
	layer int
	mtp   bool
}

// noTrades are those of a variant that was never calibrated.
var noTrades variantTrades

// tradesOf is what calibration did under a variant. It is not changed by the
// caller, and valid until the state changes.
func (s *Scene) tradesOf(variant int) *variantTrades {
	x := &s.trades
	x.follow(s.State)
	if variant < 0 || variant >= len(x.by) {
		return &noTrades
	}
	return &x.by[variant]
}

// tradesVersion changes with everything that calibrations say.
func (s *Scene) tradesVersion() uint64 {
	s.trades.follow(s.State)
	return s.trades.version
}

// Trade is what calibration did to a tensor under a variant, nil where it did
// nothing yet.
func (s *Scene) Trade(variant, tensor int) *calibrate.Trade { return s.tradesOf(variant).of(tensor) }

// follow takes in what is new.
func (x *trades) follow(state *sessions.State) {
	if len(x.seen) > len(state.Calibrations) || x.tensors != len(state.Tensors) || x.foreign(state) {
		*x = trades{version: x.version + 1, named: x.named, tensors: len(state.Tensors)}
	}
	for i, c := range state.Calibrations {
		if i == len(x.seen) {
			x.seen = append(x.seen, seenCalibration{of: c})
			if v := x.variant(c.Setup.Variant); v != nil {
				v.newest = c
			}
			x.version++
		}
		for at := &x.seen[i]; at.units < len(c.Units); at.units++ {
			if v := x.variant(c.Setup.Variant); v != nil {
				v.take(&c.Units[at.units], x.tensors)
			}
			x.version++
		}
	}
}

// foreign says that what was read is of another state.
func (x *trades) foreign(state *sessions.State) bool {
	for i, s := range x.seen {
		if c := state.Calibrations[i]; c != s.of || s.units > len(c.Units) {
			return true
		}
	}
	return false
}

// variant makes room for a variant; nil where its number is none.
func (x *trades) variant(v int) *variantTrades {
	const most = 1 << 16
	if v < 0 || v >= most {
		return nil
	}
	for len(x.by) <= v {
		x.by = append(x.by, variantTrades{})
	}
	return &x.by[v]
}

// take reads a unit.
func (v *variantTrades) take(u *sessions.CalibUnit, tensors int) {
	if v.trade == nil {
		v.trade = make([]*calibrate.Trade, tensors)
		v.counts = map[layerOf]*calibrate.Counts{}
	}
	for i := range u.Counts {
		v.counts[layerOf{u.Counts[i].Layer, u.Counts[i].MTP}] = &u.Counts[i]
	}
	for i := range u.Matrices {
		if t := u.Matrices[i].Tensor; t >= 0 && t < tensors {
			v.trade[t] = &u.Matrices[i].Trade
		}
	}
}

// of is the trade of a tensor, nil where there is none.
func (v *variantTrades) of(tensor int) *calibrate.Trade {
	if tensor < 0 || tensor >= len(v.trade) {
		return nil
	}
	return v.trade[tensor]
}

// tokens is how many tokens were given to a tensor: to the expert that it belongs
// to, whichever of its projections it is, else to all that read its input. ok is
// false where that is not known.
func (v *variantTrades) tokens(t *sessions.Tensor, tr *calibrate.Trade) (n int64, ok bool) {
	if t.Role.Kind == topology.Expert {
		if c := v.counts[layerOf{t.Role.Layer, t.Role.MTP}]; c != nil && t.Role.Expert >= 0 && t.Role.Expert < len(c.Expert) {
			return c.Expert[t.Role.Expert], true
		}
	}
	if tr == nil {
		return 0, false
	}
	return tr.Tokens, true
}

// belowRank says that a matrix saw fewer tokens than it has columns, so that its
// Hessian cannot be of full rank.
func belowRank(tr *calibrate.Trade) bool { return tr.Tokens > 0 && tr.Tokens < int64(tr.N) }

// fellBack says that a matrix is not what was asked for, though nobody chose that.
func fellBack(tr *calibrate.Trade) bool { return tr.Why != "" && !tr.Chosen }

// calibrated says whether a variant is one that calibration makes.
func (s *Scene) calibrated(variant int) bool {
	if s.tradesOf(variant).newest != nil {
		return true
	}
	if variant < 0 || variant >= len(s.State.Variants) {
		return false
	}
	name := s.State.Variants[variant].Plain()
	known, ok := s.trades.named[name]
	if !ok {
		v, err := method.Parse(name)
		known = err == nil && v.Calibrated()
		if s.trades.named == nil {
			s.trades.named = map[string]bool{}
		}
		s.trades.named[name] = known
	}
	return known
}
