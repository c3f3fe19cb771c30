package views

import (
	"math"

	"quantscope/sessions"
)

// clipSum is clipping added up over tensors.
type clipSum struct {
	tensors, failed                                             int // measured; of which no figures are to be had
	blocks, shallow, deep, subnormal, zero, clampHigh, clampLow int64
	mass                                                        float64 // Σw² of the tensors whose clipped shares are known
	shallowMass, deepMass                                       float64 // Σw² in clipped elements
	depth                                                       depthParts
}

func (c *clipSum) add(r *sessions.Record) {
	if r.Failed {
		c.failed++
		return
	}
	c.tensors++
	c.blocks += r.Blocks
	c.shallow += r.Shallow
	c.deep += r.Deep
	c.subnormal += r.SubnormalClipped
	c.zero += r.ZeroBlocks
	c.clampHigh += r.ScaleHigh
	c.clampLow += r.ScaleLow
	if s, d := r.W2*r.ShallowL2, r.W2*r.DeepL2; isNumber(r.W2) && isNumber(s) && isNumber(d) {
		c.mass += r.W2
		c.shallowMass += s
		c.deepMass += d
	}
	depth := splitDepths(&r.Depth, r.Shallow, r.Deep)
	for i, n := range depth {
		c.depth[i] += n
	}
}

func (c *clipSum) merge(o *clipSum) {
	c.tensors += o.tensors
	c.failed += o.failed
	c.blocks += o.blocks
	c.shallow += o.shallow
	c.deep += o.deep
	c.subnormal += o.subnormal
	c.zero += o.zero
	c.clampHigh += o.clampHigh
	c.clampLow += o.clampLow
	c.mass += o.mass
	c.shallowMass += o.shallowMass
	c.deepMass += o.deepMass
	for i, n := range o.depth {
		c.depth[i] += n
	}
}

// blockShare is n in blocks, NaN where there is no block.
func (c *clipSum) blockShare(n int64) float64 { return share(n, c.blocks) }

// massShare is a part of the L2 mass, NaN where there is none.
func (c *clipSum) massShare(part float64) float64 {
	if c.mass == 0 {
		return math.NaN()
	}
	return part / c.mass
}

// clipSums keeps clipping added up per variant, layer and projection over the
// tensors that a filter shows, so that totals, rows and columns are sums over
// a few hundred cells, whatever the number of tensors. A record that arrives
// first is added. One that replaces an earlier one (a tensor that failed and
// was measured again) makes everything be added up anew, once: subtracting
// would leave rounding behind, and needs every record kept twice.
type clipSums struct {
	places places
	filter Filter
	total  []int       // tensors shown, by cell
	sums   [][]clipSum // by variant and cell
	seen   [][]bool    // by variant and tensor
	stale  bool
}

// rebuild adds everything up anew.
func (s *clipSums) rebuild(state *sessions.State, f Filter) {
	if !s.places.of(state.Tensors) {
		s.places = newPlaces(state.Tensors)
	}
	s.filter, s.stale = f, false
	s.total = make([]int, s.places.cells())
	for t := range state.Tensors {
		if f.Shows(t) {
			s.total[s.places.cell(t)]++
		}
	}
	s.sums, s.seen = nil, nil
	s.grow(state)
	for v := range state.Records {
		for t := range state.Records[v] {
			s.take(&state.Records[v][t], v, t)
		}
	}
}

// grow makes room for variants that were added.
func (s *clipSums) grow(state *sessions.State) {
	for len(s.sums) < len(state.Records) {
		s.sums = append(s.sums, make([]clipSum, len(s.total)))
		s.seen = append(s.seen, make([]bool, len(state.Tensors)))
	}
}

// apply takes in what the state has just taken in.
func (s *clipSums) apply(state *sessions.State, b *sessions.Batch) {
	if b.Reset != nil {
		s.stale = true
	}
	if s.stale {
		return
	}
	s.grow(state)
	for i := range b.Records {
		r := &b.Records[i]
		if r.Variant < 0 || r.Variant >= len(s.seen) || r.Tensor < 0 || r.Tensor >= len(s.places.projection) {
			continue
		}
		if s.seen[r.Variant][r.Tensor] {
			s.stale = true
			return
		}
		s.take(&state.Records[r.Variant][r.Tensor], r.Variant, r.Tensor)
	}
}

func (s *clipSums) take(r *sessions.Record, variant, tensor int) {
	if r.Seq == 0 {
		return
	}
	s.seen[variant][tensor] = true
	if s.filter.Shows(tensor) {
		s.sums[variant][s.places.cell(tensor)].add(r)
	}
}

// over is the sum over layers and projections; -1 is all of them. It also says
// how many tensors are shown there.
func (s *clipSums) over(variant, layer, projection int) (sum clipSum, total int) {
	if variant < 0 || variant >= len(s.sums) {
		return sum, 0
	}
	for l := range s.places.layers() {
		if layer >= 0 && l != layer {
			continue
		}
		for p := range s.places.projections {
			if projection < 0 || p == projection {
				cell := l*len(s.places.projections) + p
				sum.merge(&s.sums[variant][cell])
				total += s.total[cell]
			}
		}
	}
	return sum, total
}
