package tokenizer

import "math"

// pairs says what two neighbouring symbols become, and how soon: the lowest rank
// first, of equal ones the leftmost.
type pairs map[uint64]merge

type merge struct{ rank, into int32 }

func pairOf(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// fewSymbols is up to where looking through all pairs is faster than a heap.
const fewSymbols = 48

// join merges symbols until no pair can be and appends what is left.
func (p pairs) join(dst, symbols []int32) []int32 {
	if len(symbols) > fewSymbols {
		return p.joinMany(dst, symbols)
	}
	var ranks, into [fewSymbols]int32
	look := func(i int) {
		ranks[i] = math.MaxInt32
		if i+1 < len(symbols) {
			if m, ok := p[pairOf(symbols[i], symbols[i+1])]; ok {
				ranks[i], into[i] = m.rank, m.into
			}
		}
	}
	for i := range symbols {
		look(i)
	}
	for {
		best := 0
		for i := 1; i < len(symbols); i++ {
			if ranks[i] < ranks[best] {
				best = i
			}
		}
		if len(symbols) < 2 || ranks[best] == math.MaxInt32 {
			return append(dst, symbols...)
		}
		symbols[best] = into[best]
		n := len(symbols)
		copy(symbols[best+1:], symbols[best+2:])
		copy(ranks[best+1:n-1], ranks[best+2:n])
		copy(into[best+1:n-1], into[best+2:n])
		symbols = symbols[:n-1]
		look(best)
		if best > 0 {
			look(best - 1)
		}
	}
}

// offer is a pair in the heap.
type offer struct {
	rank, into  int32
	at          int32 // of the left symbol
	left, right int32
}

func sooner(o, p offer) bool { return o.rank < p.rank || o.rank == p.rank && o.at < p.at }

// heaped is a heap: what is before all others comes first.
type heaped[T any] struct {
	list   []T
	before func(a, b T) bool
}

func (h *heaped[T]) push(x T) {
	h.list = append(h.list, x)
	q := h.list
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(q[i], q[up]) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *heaped[T]) pop() T {
	q := h.list
	top, n := q[0], len(q)-1
	q[0] = q[n]
	q = q[:n]
	h.list = q
	for i := 0; ; {
		next := 2*i + 1
		if next >= n {
			return top
		}
		if next+1 < n && h.before(q[next+1], q[next]) {
			next++
		}
		if !h.before(q[next], q[i]) {
			return top
		}
		q[i], q[next] = q[next], q[i]
		i = next
	}
}

// joinMany is join with a heap over a list that is linked both ways.
func (p pairs) joinMany(dst, symbols []int32) []int32 {
	n := int32(len(symbols))
	prev, next := make([]int32, n), make([]int32, n)
	q := heaped[offer]{before: sooner}
	look := func(i int32) {
		if i < 0 || next[i] >= n {
			return
		}
		l, r := symbols[i], symbols[next[i]]
		if m, ok := p[pairOf(l, r)]; ok {
			q.push(offer{m.rank, m.into, i, l, r})
		}
	}
	for i := range n {
		prev[i], next[i] = i-1, i+1
	}
	for i := range n {
		look(i)
	}
	for len(q.list) > 0 {
		o := q.pop()
		if symbols[o.at] != o.left || next[o.at] >= n || symbols[next[o.at]] != o.right {
			continue // one of the two was merged meanwhile
		}
		gone := next[o.at]
		symbols[o.at], next[o.at] = o.into, next[gone]
		symbols[gone] = -1
		if next[gone] < n {
			prev[next[gone]] = o.at
		}
		look(prev[o.at])
		look(o.at)
	}
	for i := int32(0); i < n; i = next[i] {
		dst = append(dst, symbols[i])
	}
	return dst
}
