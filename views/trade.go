package views

import (
	"math"
	"slices"

	"quantscope/analysis/stats"
	"quantscope/quant/method"
)

// tradeSide says where one side's weight and output errors come from.
type tradeSide uint8

const (
	tradeNone    tradeSide = iota // not known: only weight errors, from records
	tradeOwn                      // of its own calibration
	tradeOfOther                  // it is the other side's baseline, which that was measured against
)

// tradeRow is one matrix under both sides. Figures that are not known are NaN.
type tradeRow struct {
	tensor                 int
	relA, relB, outA, outB float64
	ratio                  float64 // outB/outA
}

// tradeKey is what a list of trades depends on.
type tradeKey struct {
	trades             uint64
	a, b               int
	records            int64 // State.LastSeq, where records are read
	filter, projection string
	tensors            int
	valid              bool
}

// tradeList is the GPTQ trade of two variants: what each matrix pays in weight
// error for what it gains in output error.
type tradeList struct {
	key          tradeKey
	sideA, sideB tradeSide
	rows, spare  []tradeRow // the largest ratio first, those without one last; room to sort

	n                      int     // rows with both output errors
	lower, heavier         int     // of them: output error falls, weight error rises
	fell                   int     // matrices of either side that fell back
	without                int     // shown matrices that lack a figure
	relA, relB, outA, outB float64 // means over the n rows
	median                 float64 // of the ratio
}

// tradeSides says where the figures of two variants come from.
func (s *Scene) tradeSides(a, b int) (sideA, sideB tradeSide) {
	side := func(v, other int) tradeSide {
		switch {
		case s.tradesOf(v).newest != nil:
			return tradeOwn
		case s.tradesOf(other).newest != nil && s.baselineOf(other) == s.State.Variants[v].Plain():
			return tradeOfOther
		}
		return tradeNone
	}
	n := len(s.State.Variants)
	if a < 0 || a >= n || b < 0 || b >= n {
		return tradeNone, tradeNone
	}
	return side(a, b), side(b, a)
}

// baselineOf names the variant that differs from a calibrated one in nothing but
// calibration, "" where that cannot be told.
func (s *Scene) baselineOf(variant int) string {
	v, err := method.Parse(s.State.Variants[variant].Plain())
	if err != nil || !v.Calibrated() {
		return ""
	}
	return v.Baseline().Name
}

// update reads both sides where something changed, and says whether it did.
func (l *tradeList) update(s *Scene, a, b int) bool {
	key := tradeKey{s.tradesVersion(), a, b, 0, s.Filter.Text, s.Projection, len(s.State.Tensors), true}
	sideA, sideB := s.tradeSides(a, b)
	if sideA == tradeNone || sideB == tradeNone {
		key.records = s.State.LastSeq
	}
	if key == l.key {
		return false
	}
	*l = tradeList{key: key, sideA: sideA, sideB: sideB, rows: slices.Grow(l.rows[:0], len(s.State.Tensors)), spare: l.spare}
	if sideA == tradeNone && sideB == tradeNone {
		return true
	}
	ofA, ofB := s.tradesOf(a), s.tradesOf(b)
	ratios := make([]float64, 0, len(s.State.Tensors))
	for t := range s.State.Tensors {
		if !s.Shown(t) {
			continue
		}
		r := tradeRow{tensor: t}
		var fellA, fellB bool
		r.relA, r.outA, fellA = s.tradeFigures(sideA, a, ofA, ofB, t)
		r.relB, r.outB, fellB = s.tradeFigures(sideB, b, ofB, ofA, t)
		if fellA || fellB {
			l.fell++
		}
		if r.ratio = quotient(r.outB, r.outA); !isNumber(r.ratio) {
			r.ratio = math.NaN()
			l.without++
			if math.IsNaN(r.relA) && math.IsNaN(r.relB) && math.IsNaN(r.outA) && math.IsNaN(r.outB) {
				continue
			}
			l.rows = append(l.rows, r)
			continue
		}
		l.rows = append(l.rows, r)
		ratios = append(ratios, r.ratio)
		l.relA, l.relB, l.outA, l.outB = l.relA+r.relA, l.relB+r.relB, l.outA+r.outA, l.outB+r.outB
		if r.outB < r.outA {
			l.lower++
		}
		if r.relB > r.relA {
			l.heavier++
		}
	}
	l.sort()
	l.n, l.median = len(ratios), math.NaN()
	if n := float64(l.n); n > 0 {
		l.relA, l.relB, l.outA, l.outB = l.relA/n, l.relB/n, l.outA/n, l.outB/n
		l.median = nth(ratios, (l.n-1)/2)
		if l.n%2 == 0 {
			l.median = l.median/2 + nth(ratios, l.n/2)/2
		}
	}
	return true
}

// sort puts the rows, which are by tensor, in order: the largest ratio first, ties
// by tensor, those without a ratio last. A frame of a run sorts tens of thousands,
// so it is the radix sort of numbers, by ratios in single precision, and a pass
// that puts neighbours right.
func (l *tradeList) sort() {
	n := len(l.rows)
	keys := make([]uint64, n)
	for i := range l.rows {
		key := uint32(math.MaxUint32) // NaN
		if r := l.rows[i].ratio; !math.IsNaN(r) {
			key = ^math.Float32bits(float32(max(r, 0))) & math.MaxInt32
		}
		keys[i] = uint64(key)<<32 | uint64(uint32(i))
	}
	stats.SortKeys(keys, make([]uint64, n))
	sorted := slices.Grow(l.spare[:0], n)
	for _, k := range keys {
		sorted = append(sorted, l.rows[uint32(k)])
	}
	for i := 1; i < n; i++ {
		r := sorted[i]
		at := i
		for at > 0 && (sorted[at-1].ratio < r.ratio || sorted[at-1].ratio == r.ratio && sorted[at-1].tensor > r.tensor) {
			sorted[at] = sorted[at-1]
			at--
		}
		sorted[at] = r
	}
	l.rows, l.spare = sorted, l.rows
}

// tradeFigures are a tensor's weight and output error under one side, and whether
// it fell back there; own and other are the trades of both sides.
func (s *Scene) tradeFigures(side tradeSide, variant int, own, other *variantTrades, tensor int) (rel, out float64, fell bool) {
	switch side {
	case tradeOwn:
		if tr := own.of(tensor); tr != nil {
			return float64(tr.Rel2), float64(tr.Out2), fellBack(tr)
		}
	case tradeOfOther:
		if tr := other.of(tensor); tr != nil {
			return float64(tr.BaseRel2), float64(tr.BaseOut2), false
		}
	default:
		if r, ok := s.Record(variant, tensor); ok && !r.Failed {
			return r.Rel2, math.NaN(), false
		}
	}
	return math.NaN(), math.NaN(), false
}
