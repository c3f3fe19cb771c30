package views

import (
	"cmp"
	"math"
	"slices"
)

// rankKey is a figure turned so that smaller ones rank first; +Inf for tensors
// that have no rank.
func rankKey(v float64, s CellState, m *Metric) float64 {
	if !s.HasValue() {
		return math.Inf(1)
	}
	return -m.loud(v)
}

// worstOf lists the k worst of the shown tensors that have a value, the worst
// first, ties by ID.
func worstOf(s *Scene, variant, k int) []int {
	values, states, metric := s.Values(variant), s.States(variant), &s.Metric
	type entry struct {
		key float64
		t   int
	}
	// A heap would do for large k; the k of a line of text is small, and most
	// tensors are turned away by the first comparison.
	best := make([]entry, 0, k+1)
	for t, v := range values {
		key := rankKey(v, states[t], metric)
		if math.IsInf(key, 1) || len(best) == k && key >= best[k-1].key || !s.Shown(t) {
			continue
		}
		i, _ := slices.BinarySearchFunc(best, entry{key, t}, func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.t, b.t))
		})
		best = slices.Insert(best, i, entry{key, t})
		if len(best) > k {
			best = best[:k]
		}
	}
	out := make([]int, len(best))
	for i, e := range best {
		out[i] = e.t
	}
	return out
}

// neighbourInRank is the shown tensor one step behind (or before) another in
// rank, round the ends; the first one where at is −1 or has no rank, −1 where
// nothing has one.
func neighbourInRank(s *Scene, variant, at, step int) int {
	values, states, metric := s.Values(variant), s.States(variant), &s.Metric
	before := func(a, b int) bool {
		x, y := rankKey(values[a], states[a], metric), rankKey(values[b], states[b], metric)
		return x < y || x == y && a < b
	}
	if step < 0 {
		forward := before
		before = func(a, b int) bool { return forward(b, a) }
	}
	if at >= 0 && (at >= len(values) || !states[at].HasValue() || !s.Shown(at)) {
		at = -1
	}
	first, next := -1, -1
	for t := range values {
		if !states[t].HasValue() || !s.Shown(t) {
			continue
		}
		if first < 0 || before(t, first) {
			first = t
		}
		if at >= 0 && before(at, t) && (next < 0 || before(t, next)) {
			next = t
		}
	}
	if next >= 0 {
		return next
	}
	return first
}

// ranks says for each of the listed tensors how many of the shown ones are
// worse, plus one, and how many have a rank at all; 0 for one that has none. It
// takes time linear in the number of tensors.
func ranks(s *Scene, variant int, tensors []int) (rank []int, of int) {
	values, states, metric := s.Values(variant), s.States(variant), &s.Metric
	rank = make([]int, len(tensors))
	keys := make([]float64, 0, len(tensors)) // of the listed ones, sorted
	for _, t := range tensors {
		if t < len(values) && states[t].HasValue() {
			keys = append(keys, rankKey(values[t], states[t], metric))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	worse := make([]int, len(keys)+1) // tensors between one key and the next
	for t, v := range values {
		if !states[t].HasValue() || !s.Shown(t) {
			continue
		}
		of++
		i, found := slices.BinarySearch(keys, rankKey(v, states[t], metric))
		if found {
			i++ // ties share a rank
		}
		worse[i]++
	}
	for i := 1; i < len(worse); i++ {
		worse[i] += worse[i-1]
	}
	for i, t := range tensors {
		if t < len(values) && states[t].HasValue() {
			k, _ := slices.BinarySearch(keys, rankKey(values[t], states[t], metric))
			rank[i] = worse[k] + 1
		}
	}
	return rank, of
}
