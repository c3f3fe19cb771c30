package kernels

import "math"

// maxTries is how many pairs a search hands to a kernel at most.
const maxTries = 32

// ggufScratch is what encoding one block after the other needs again and again.
type ggufScratch struct {
	gridKernels
	ggufEncoder
	weights, ones [256]float32
	tries         [maxTries]gridTry
	sums          [maxTries]gridSums
	super         superBlock
}

func newGGUFScratch(g gridKernels, e ggufEncoder) *ggufScratch {
	k := &ggufScratch{gridKernels: g, ggufEncoder: e}
	for i := range k.ones {
		k.ones[i] = 1
	}
	return k
}

// encode quantizes one block; importance may be nil. It says whether the block's
// scales can be stored.
func (k *ggufScratch) encode(dst []byte, x, importance []float32) bool {
	if w := k.normal(importance); w != nil {
		return k.searched(k, dst, x, w)
	}
	if k.plain != nil {
		return k.plain(dst, x)
	}
	return k.searched(k, dst, x, k.ones[:len(x)])
}

// leastWeight is what every element weighs at least, of a mean of 1: what nobody
// needs is still not left to chance.
const leastWeight = 0x1p-20

// normal is importance with a mean of 1, or nil where all of it is 0.
func (k *ggufScratch) normal(importance []float32) []float32 {
	var sum float64
	for _, v := range importance {
		sum += float64(v)
	}
	if sum == 0 {
		return nil
	}
	scale := float64(len(importance)) / sum
	for i, v := range importance {
		k.weights[i] = float32(float64(v)*scale) + leastWeight
	}
	return k.weights[:len(importance)]
}

// rounds is how often parameters and codes are fitted to each other at most.
const rounds = 5

// f16Step is the least positive f16. Blocks without a value of half of it are 0.
const f16Step = 0x1p-24

// asHalf is x as an f16 and back, and whether that is finite.
func asHalf(x float64) (float64, bool) {
	h := F32ToF16(float32(x))
	return float64(F16ToF32(h)), h&0x7fff < 0x7c00
}

// try adds a pair to the list.
func (k *ggufScratch) try(n int, scale, min float64) int {
	k.tries[n] = gridTry{inverse: float32(1 / scale), min: float32(min)}
	return n + 1
}

// grid is a set of values that codes stand for: integers from low to high, or levels.
type grid struct {
	low, high float32
	levels    *gridLevels
	end       float64 // what the utmost value of a block is without a search
	starts    []start // what it is tried as
}

// start is a number and one over it.
type start struct{ at, inverse float64 }

func starts(lists ...[]float64) (all []start) {
	for _, list := range lists {
		for _, at := range list {
			all = append(all, start{at, 1 / at})
		}
	}
	return all
}

// sum tries the first n of the list on x.
func (k *ggufScratch) sum(g *grid, n int, x, w []float32) {
	if g.levels != nil {
		k.levels(k.sums[:n], k.tries[:n], x, w, g.levels)
	} else {
		k.uniform(k.sums[:n], k.tries[:n], x, w, g.low, g.high)
	}
}

// codes are those of x under a try, counted from 0.
func (g *grid) codes(codes []byte, x []float32, try gridTry) {
	if g.levels != nil {
		for i, v := range x {
			codes[i] = g.levels.code(try.at(v))
		}
		return
	}
	for i, v := range x {
		codes[i] = byte(int32(uniformCode(try.at(v), g.low, g.high) - g.low))
	}
}

// steps are the numbers from a to b, n of them.
func steps(a, b float64, n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = a + (b-a)*float64(i)/float64(n-1)
	}
	return list
}

// Grids of the types. Scales may be negative, so the utmost value is tried at either end.
var (
	grid4    = &grid{low: -8, high: 7, end: -8, starts: starts(steps(-9, -6.5, 11), steps(6.5, 8, 7))}
	grid5    = &grid{low: -16, high: 15, end: -16, starts: starts(steps(-17.25, -14.5, 12), steps(14.5, 16.25, 8))}
	grid6    = &grid{low: -32, high: 31, end: -32, starts: starts(steps(-33.2, -30.2, 7), steps(30.6, 32, 3))}
	gridIQ4  = &grid{levels: levelsIQ4, end: -127, starts: starts(steps(-136, -112, 7), steps(98, 122, 7))}
	gridE2M1 = &grid{levels: levelsE2M1}
	grid0_4  = &grid{low: 0, high: 15}
	grid0_5  = &grid{low: 0, high: 31}
)

// bestScale is the scale with the least error for x whose utmost value is given,
// the error, and the sum of squared codes there.
func (k *ggufScratch) bestScale(g *grid, x, w []float32, most float64) (scale, least, curve float64) {
	tries, inverse := k.tries[:len(g.starts)], 1/most
	for i := range tries {
		tries[i] = gridTry{inverse: float32(g.starts[i].at * inverse)}
	}
	k.sum(g, len(tries), x, w)
	least = math.Inf(1)
	for i := range tries {
		s := most * g.starts[i].inverse
		change, rest := k.sums[i].fitScale()
		if e := rest * s * s; e < least {
			scale, least, curve = s*(1+change), e, float64(k.sums[i].ll)
		}
	}
	return scale, least, curve
}

// zeroLoss is the error of a block or group of zeros.
func zeroLoss(x, w []float32) (sum float64) {
	for i, v := range x {
		sum += float64(float64(w[i]) * float64(v) * float64(v))
	}
	return sum
}

// oneScale quantizes a block that has a single f16 scale: d and codes from 0 on. It
// says whether the scale can be stored.
func (k *ggufScratch) oneScale(g *grid, codes []byte, x, w []float32) (d float64, ok bool) {
	most := float64(utmost(x))
	if math.Abs(most) < f16Step/2 {
		g.codes(codes, x, gridTry{})
		return 0, true
	}
	searched, _, _ := k.bestScale(g, x, w, most)
	least := math.Inf(1)
	for _, next := range [2]float64{searched, most / g.end} {
		for range rounds {
			stored, finite := asHalf(next)
			if !finite {
				break
			}
			if stored == 0 {
				stored = math.Copysign(f16Step, next)
			}
			k.try(0, stored, 0)
			k.sum(g, 1, x, w)
			e := k.sums[0].loss(stored)
			if e >= least {
				break
			}
			d, least, ok = stored, e, true
			change, _ := k.sums[0].fitScale()
			next = stored * (1 + change)
		}
	}
	switch {
	case !ok:
	case zeroLoss(x, w) < least: // about f16's least step; not every grid has a zero
		d = 0
		g.codes(codes, x, gridTry{})
	default:
		k.try(0, d, 0)
		g.codes(codes, x, k.tries[0])
	}
	return d, ok
}

// oneScaleMin quantizes a block with an f16 scale and an f16 minimum.
func (k *ggufScratch) oneScaleMin(g *grid, codes []byte, x, w []float32) (d, m float64, ok bool) {
	low, high := bounds(x)
	var weight float64
	for _, v := range w {
		weight += float64(v)
	}
	span, steps := float64(high)-float64(low), float64(g.high)
	start, finite := asHalf(float64(low))
	if !finite {
		return 0, 0, false
	}
	if span < f16Step/2 { // a constant, or as good as one: what the minimum leaves of it is the scale
		span = max(math.Abs(float64(high)-start), f16Step/2)
	}
	n := k.try(0, span/steps, start)
	for _, up := range []float64{-1, -0.6, -0.3, 0, 0.3, 0.6, 0.9, 1.2, 1.6} {
		n = k.try(n, span/(steps+up), float64(low))
	}
	k.sum(g, n, x, w)
	next, nextMin, least := span/steps, start, math.Inf(1)
	for i := range n {
		s := 1 / float64(k.tries[i].inverse)
		change, shift, rest := k.sums[i].fitBoth(weight)
		if e := rest * s * s; e < least {
			next, nextMin, least = s*(1+change), float64(k.tries[i].min)+float64(shift*s), e
		}
	}
	least = math.Inf(1)
	settle := func(s, min float64) {
		for range rounds {
			sd, fine := asHalf(s)
			sm, fineMin := asHalf(min)
			if !fine || !fineMin {
				return
			}
			if sd == 0 {
				sd = math.Copysign(f16Step, s)
			}
			k.try(0, sd, sm)
			k.sum(g, 1, x, w)
			e := k.sums[0].loss(sd)
			if e >= least {
				return
			}
			d, m, least, ok = sd, sm, e, true
			// The minimum first, since its last place counts for more; then the scale with it.
			_, shift, _ := k.sums[0].fitBoth(weight)
			moved, _ := asHalf(sm + float64(shift*sd))
			change, _ := k.sums[0].fitScaleAt((moved-sm)/sd, weight)
			s, min = sd*(1+change), moved
		}
	}
	settle(span/steps, start)
	settle(next, nextMin)
	if ok {
		k.try(0, d, m)
		g.codes(codes, x, k.tries[0])
	}
	return d, m, ok
}

func searchQ4_0(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [32]byte
	d, ok := k.oneScale(grid4, codes[:], x, w)
	packNibbles(dst[2:], &codes)
	return putHalf(dst, float32(d)) && ok
}

func searchQ5_0(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [32]byte
	d, ok := k.oneScale(grid5, codes[:], x, w)
	packFifths(dst[2:], &codes)
	return putHalf(dst, float32(d)) && ok
}

func searchIQ4NL(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [32]byte
	d, ok := k.oneScale(gridIQ4, codes[:], x, w)
	packNibbles(dst[2:], &codes)
	return putHalf(dst, float32(d)) && ok
}

func searchQ4_1(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [32]byte
	d, m, ok := k.oneScaleMin(grid0_4, codes[:], x, w)
	packNibbles(dst[4:], &codes)
	return putHalf(dst, float32(d)) && putHalf(dst[2:], float32(m)) && ok
}

func searchQ5_1(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [32]byte
	d, m, ok := k.oneScaleMin(grid0_5, codes[:], x, w)
	packFifths(dst[4:], &codes)
	return putHalf(dst, float32(d)) && putHalf(dst[2:], float32(m)) && ok
}

// packNibbles stores codes of four bits, j low and j+16 high.
func packNibbles(dst []byte, codes *[32]byte) {
	for j := range 16 {
		dst[j] = codes[j] | codes[j+16]<<4
	}
}
