package landscape

import (
	"math"
	"math/bits"
	"slices"
	"sort"
)

// Bounds on one search: partial assignments that are looked at, and those that
// are kept at a time.
const (
	usualWork  = 1 << 20
	usualFront = 1 << 13
)

// state is a partial assignment: the units of the core as its node says, all
// others at the break.
type state struct {
	bytes, err int64
	node       int32 // index in the arena, -1: all units at the break
}

// node is one unit's departure from the break, and those before it.
type node struct {
	before, unit, option int32
}

// search is one run over the core.
type search struct {
	*Solver
	room     int64   // budget, rounded down to a size that can be
	at       int     // steps taken by the break
	choice   []int32 // option of every unit at the break
	inCore   []bool
	left     int   // the next step to give back, of a unit outside the core; -1: none
	right    int   // the next step to take, likewise; len(steps): none
	best     int64 // error of the incumbent
	bestNode int32 // of the incumbent; greedy where it is a list of steps
	greedy   []int // steps beyond the break
	lost     int64 // least bound of what was dropped for room
	work     int
}

// greedyNode marks an incumbent that search.greedy describes.
const greedyNode = -2

// find returns the option of every unit, and a bound that no assignment within
// the room is below.
func (s *Solver) find(budget int64) (choice []int32, bound int64) {
	room := s.base
	if s.gcd > 0 {
		room += (budget - s.base) / s.gcd * s.gcd
	}
	f := &search{Solver: s, room: room, lost: math.MaxInt64, choice: make([]int32, len(s.units))}
	f.at = sort.Search(len(s.steps), func(k int) bool { return s.bytesAt[k+1] > room })
	for _, st := range s.steps[:f.at] {
		f.choice[st.unit] = s.units[st.unit].hull[st.hull]
	}
	if f.at == len(s.steps) || s.bytesAt[f.at] == room {
		return f.choice, s.errorAt[f.at] // the relaxation is whole
	}
	f.fill()
	bound = f.run()
	return f.answer(), bound
}

// fill makes the first incumbent: the break, and the steps after it that fit.
func (f *search) fill() {
	f.best, f.bestNode = f.errorAt[f.at], greedyNode
	rest := f.room - f.bytesAt[f.at]
	taken := map[int32]int32{} // hull positions beyond the break
	for k := f.at + 1; k < len(f.steps) && rest > 0; k++ {
		st := &f.steps[k]
		if st.bytes > rest {
			continue
		}
		now, ok := taken[st.unit]
		if !ok {
			now = int32(slices.Index(f.units[st.unit].hull, f.choice[st.unit]))
		}
		if now != st.hull-1 {
			continue
		}
		taken[st.unit] = st.hull
		rest -= st.bytes
		f.best -= st.err
		f.greedy = append(f.greedy, k)
	}
}

// run enumerates the core until nothing better can exist or the work is done.
func (f *search) run() int64 {
	limit := f.options.Work
	if limit <= 0 {
		limit = usualWork
	}
	f.inCore = make([]bool, len(f.units))
	f.left, f.right = f.at-1, f.at
	f.arena = f.arena[:0]
	f.front = append(f.front[:0], state{f.bytesAt[f.at], f.errorAt[f.at], -1})
	for turn := 0; ; turn++ {
		f.advance()
		if turn%32 == 0 || turn < 32 {
			f.drop()
		}
		if len(f.front) == 0 {
			return min(f.best, f.lost)
		}
		if f.work > limit {
			break
		}
		var u int32
		switch {
		case f.right < len(f.steps) && (turn%2 == 0 || f.left < 0):
			u = f.steps[f.right].unit
		case f.left >= 0:
			u = f.steps[f.left].unit
		default: // every unit is in the core, so what is left is complete
			f.drop()
			return min(f.best, f.lost)
		}
		f.inCore[u] = true
		f.expand(u)
	}
	bound := min(f.best, f.lost)
	for _, st := range f.front {
		bound = min(bound, f.bound(st.bytes, st.err, f.up(), f.down()))
	}
	return bound
}

// advance moves both ends past units in the core.
func (f *search) advance() {
	for f.right < len(f.steps) && f.inCore[f.steps[f.right].unit] {
		f.right++
	}
	for f.left >= 0 && f.inCore[f.steps[f.left].unit] {
		f.left--
	}
}

// up is the best step that units outside the core can still take, nil for none.
func (f *search) up() *step {
	if f.right < len(f.steps) {
		return &f.steps[f.right]
	}
	return nil
}

// down is the cheapest step that units outside the core can give back.
func (f *search) down() *step {
	if f.left >= 0 {
		return &f.steps[f.left]
	}
	return nil
}

// bound is what no completion of a partial assignment is below: the room that
// is left is filled at the rate of up, what is missing is gained at that of
// down. Math.MaxInt64 where there is no completion.
func (f *search) bound(bytes, err int64, up, down *step) int64 {
	switch {
	case bytes <= f.room && up == nil:
		return err
	case bytes <= f.room:
		q, _ := mulDiv(up.err, f.room-bytes, up.bytes)
		return err - q
	case down == nil:
		return math.MaxInt64
	}
	q, rest := mulDiv(down.err, bytes-f.room, down.bytes)
	if rest {
		q++
	}
	return err + q
}

// mulDiv is ⌊a·b/c⌋ and whether something is left, for a, b ≥ 0 and c > 0; at
// most 2⁶¹, which is more than any sum of errors.
func mulDiv(a, b, c int64) (q int64, rest bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1 << 61, true
	}
	d, r := bits.Div64(hi, lo, uint64(c))
	return int64(min(d, 1<<61)), r > 0
}

// hopeless says whether bound is not below the incumbent, without a division.
func (f *search) hopeless(bytes, err int64, up, down *step) bool {
	if bytes <= f.room {
		short := err - f.best + 1 // the gain that is needed, and must be exceeded to be reached
		switch {
		case short <= 0:
			return false
		case up == nil:
			return true
		}
		return compareProducts(up.err, f.room-bytes, short, up.bytes) < 0
	}
	spare := f.best - err - 1
	if down == nil || spare < 0 {
		return true
	}
	return compareProducts(down.err, bytes-f.room, spare, down.bytes) > 0
}

// drop forgets states that cannot lead to anything better.
func (f *search) drop() {
	up, down := f.up(), f.down()
	f.work += len(f.front)
	f.front = slices.DeleteFunc(f.front, func(st state) bool { return f.hopeless(st.bytes, st.err, up, down) })
}

// expand gives every state each option of a unit that can be in a better
// assignment.
func (f *search) expand(u int32) {
	c, b := &f.units[u], f.choice[u]
	grown := false
	first, last := &f.steps[f.at], (*step)(nil)
	if f.at > 0 {
		last = &f.steps[f.at-1]
	}
	origin := f.origin[:0]
	for j := range c.option {
		o := &c.option[j]
		if int32(j) == b {
			continue
		}
		// No unit takes a better step than the first after the break, and none
		// gives a cheaper one back than the last before it.
		bytes, err := o.bytes-c.option[b].bytes, o.err-c.option[b].err
		if f.hopeless(f.bytesAt[f.at]+bytes, f.errorAt[f.at]+err, first, last) {
			continue
		}
		if !grown {
			origin = append(origin, f.front...)
			f.origin, grown = origin, true
		}
		f.merge(origin, u, int32(j), bytes, err)
	}
	if !grown {
		return
	}
	f.improve()
	if len(f.front) > f.keep {
		f.trim()
	}
}

// merge adds the states of origin under another option to the front. Both are by
// rising bytes and falling error, and so is what comes out.
func (f *search) merge(origin []state, u, option int32, bytes, err int64) {
	up, down := f.up(), f.down()
	out := f.back[:0]
	i, j := 0, 0
	f.work += len(origin) + len(f.front)
	lowest := int64(math.MaxInt64)
	for i < len(f.front) || j < len(origin) {
		if j == len(origin) || i < len(f.front) && (f.front[i].bytes < origin[j].bytes+bytes ||
			f.front[i].bytes == origin[j].bytes+bytes && f.front[i].err <= origin[j].err+err) {
			if st := f.front[i]; st.err < lowest {
				out, lowest = append(out, st), st.err
			}
			i++
			continue
		}
		st := state{origin[j].bytes + bytes, origin[j].err + err, origin[j].node}
		j++
		if st.err >= lowest || f.hopeless(st.bytes, st.err, up, down) {
			continue
		}
		lowest = st.err
		f.arena = append(f.arena, node{st.node, u, option})
		st.node = int32(len(f.arena) - 1)
		out = append(out, st)
	}
	f.front, f.back = out, f.front
}

// improve takes the best complete assignment of the front for the incumbent:
// that of the most bytes within the room.
func (f *search) improve() {
	k := sort.Search(len(f.front), func(k int) bool { return f.front[k].bytes > f.room })
	if k > 0 && f.front[k-1].err < f.best {
		f.best, f.bestNode = f.front[k-1].err, f.front[k-1].node
	}
}

// trim keeps the half of the front with the lowest bounds, and remembers the
// lowest of what goes.
func (f *search) trim() {
	up, down := f.up(), f.down()
	bounds := make([]int64, len(f.front))
	for i, st := range f.front {
		bounds[i] = f.bound(st.bytes, st.err, up, down)
	}
	cut := kth(slices.Clone(bounds), f.keep/2)
	ties := f.keep / 2
	for _, b := range bounds {
		if b < cut {
			ties--
		}
	}
	kept := f.front[:0]
	for i, st := range f.front {
		switch {
		case bounds[i] < cut:
			kept = append(kept, st)
		case bounds[i] == cut && ties > 0:
			kept = append(kept, st)
			ties--
		default:
			f.lost = min(f.lost, bounds[i])
		}
	}
	f.front = kept
}

// kth is the k-th smallest of values, which are moved about: Hoare's selection,
// about the middle one.
func kth(values []int64, k int) int64 {
	for lo, hi := 0, len(values)-1; lo < hi; {
		pivot := values[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for values[i] < pivot {
				i++
			}
			for values[j] > pivot {
				j--
			}
			if i <= j {
				values[i], values[j] = values[j], values[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return values[k]
		}
	}
	return values[k]
}

// answer is the incumbent as an option of every unit.
func (f *search) answer() []int32 {
	if f.bestNode == greedyNode {
		for _, k := range f.greedy {
			st := &f.steps[k]
			f.choice[st.unit] = f.units[st.unit].hull[st.hull]
		}
		return f.choice
	}
	for n := f.bestNode; n >= 0; n = f.arena[n].before {
		f.choice[f.arena[n].unit] = f.arena[n].option
	}
	return f.choice
}
