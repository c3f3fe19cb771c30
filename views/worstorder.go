package views

import (
	"cmp"
	"slices"
)

// ranking is the order of the worst pane: the shown tensors with a record,
// those that failed or are not finite and the like first, then by the metric under the
// chosen variant, ties by ID. Only the places that are looked at are put in
// order, so that a run of tens of thousands of tensors can be ranked anew each
// frame.
type ranking struct {
	order  []int     // all places; those from lo to hi and the broken ones are final
	keys   []float64 // by tensor; the least ranks first
	broken int
	lo, hi int
	of     rankedBy
}

// rankedBy is what an order was made for.
type rankedBy struct {
	data                       uint64 // version of the column
	variant                    int
	metric, projection, filter string
	valid                      bool
}

// collect gathers the tensors and puts those without a value first.
func (r *ranking) collect(s *Scene) {
	of := rankedBy{s.column(s.Variant).version, s.Variant, s.Metric.Name, s.Projection, s.Filter.Text, true}
	if r.of == of {
		return
	}
	values, states := s.Values(s.Variant), s.States(s.Variant)
	if len(r.keys) != len(values) {
		r.keys = make([]float64, len(values))
	}
	r.of, r.order = of, r.order[:0]
	for t, st := range states {
		if st.listed() && s.Shown(t) {
			r.order = append(r.order, t)
		}
	}
	r.broken = len(r.order)
	slices.SortStableFunc(r.order, func(a, b int) int { return cmp.Compare(stateRank[states[b]], stateRank[states[a]]) })
	for t, st := range states {
		if st.HasValue() && s.Shown(t) {
			r.order = append(r.order, t)
			r.keys[t] = -s.Metric.loud(values[t])
		}
	}
	r.lo, r.hi = r.broken, r.broken
}

func (r *ranking) compare(a, b int) int {
	switch x, y := r.keys[a], r.keys[b]; {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return a - b
}

// rankMargin is how many places on either side are put in order too, so that
// scrolling on rarely needs another selection.
const rankMargin = 128

// window makes places lo to hi final: selections put the right tensors there,
// and only they are sorted.
func (r *ranking) window(s *Scene, lo, hi int) {
	r.collect(s)
	lo, hi = max(lo, r.broken), min(hi, len(r.order))
	if lo >= hi || r.lo <= lo && hi <= r.hi {
		return
	}
	lo, hi = max(lo-rankMargin, r.broken), min(hi+rankMargin, len(r.order))
	v := r.order[r.broken:]
	from, to := lo-r.broken, hi-r.broken
	selectFirst(v, to, r.compare)
	selectFirst(v[:to], from, r.compare)
	slices.SortFunc(v[from:to], r.compare)
	r.lo, r.hi = lo, hi
}

// placeOf is a tensor's place, -1 where it has none.
func (r *ranking) placeOf(s *Scene, tensor int) int {
	r.collect(s)
	states := s.States(s.Variant)
	if tensor < 0 || tensor >= len(states) || !s.Shown(tensor) || states[tensor] == NotYet {
		return -1
	}
	if !states[tensor].HasValue() {
		return slices.Index(r.order[:r.broken], tensor)
	}
	place := r.broken
	for _, t := range r.order[r.broken:] {
		if r.compare(t, tensor) < 0 {
			place++
		}
	}
	return place
}

// selectFirst moves the k least elements to the front, in no order (Hoare's
// selection, linear on average). It is nth once more, for elements that are
// compared by a function: through one, nth takes nearly twice as long, and a
// frame of the comparison calls it on tens of thousands of numbers. Here k is how
// many, there which one: k of them are in front where the right part begins at k.
func selectFirst(v []int, k int, compare func(a, b int) int) {
	for len(v) > 16 && k > 0 && k < len(v) {
		a, pivot, c := v[0], v[len(v)/2], v[len(v)-1]
		if compare(a, pivot) > 0 {
			a, pivot = pivot, a
		}
		if compare(pivot, c) > 0 {
			pivot = c
		}
		if compare(a, pivot) > 0 {
			pivot = a
		}
		i, j := 0, len(v)-1
		for i <= j {
			for compare(v[i], pivot) < 0 {
				i++
			}
			for compare(v[j], pivot) > 0 {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			v = v[:j+1]
		case k > i:
			v, k = v[i:], k-i
		default:
			return
		}
	}
	if k > 0 && k < len(v) {
		slices.SortFunc(v, compare)
	}
}

// distribution is the shown values of one variant over a range.
type distribution struct {
	of     rankedBy
	lo, hi float64 // of this variant's own values
	from   float64 // of what counts spans
	to     float64
	counts []float64
}

// span finds the range of a variant's shown values.
func (d *distribution) span(s *Scene, variant int) {
	of := rankedBy{s.column(variant).version, variant, s.Metric.Name, s.Projection, s.Filter.Text, true}
	if d.of == of {
		return
	}
	*d = distribution{of: of, counts: d.counts[:0]}
	states := s.States(variant)
	first := true
	for t, x := range s.Values(variant) {
		if states[t].HasValue() && s.Shown(t) {
			if first {
				d.lo, d.hi, first = x, x, false
			}
			d.lo, d.hi = min(d.lo, x), max(d.hi, x)
		}
	}
	if first {
		d.lo, d.hi = 1, 0
	}
}

// count fills bins from lo to hi.
func (d *distribution) count(s *Scene, variant, bins int, lo, hi float64) {
	if len(d.counts) == bins && d.from == lo && d.to == hi {
		return
	}
	d.from, d.to, d.counts = lo, hi, make([]float64, bins)
	states := s.States(variant)
	for t, x := range s.Values(variant) {
		if states[t].HasValue() && s.Shown(t) {
			i := 0
			if hi > lo {
				i = min(int((x-lo)/(hi-lo)*float64(bins)), bins-1)
			}
			d.counts[i]++
		}
	}
}
