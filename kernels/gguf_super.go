package kernels

import "math"

// superBlock is the work on a block of 256 whose groups have small integers for
// scales, and for minima, in units of one f16 each.
type superBlock struct {
	groups [16]superGroup
	saved  [16]superChoice
}

// superChoice is what a group stores.
type superChoice struct{ scale, min int }

// superGroup is a group of a block: what would suit it best, and what it has.
type superGroup struct {
	superChoice
	scaleWish, minWish   float64 // without rounding
	plainScale, plainMin float64 // the wishes without a search
	curve, lean          float64 // Σw·l² and Σw·l at the wish
	weight               float64 // Σw
	zero                 float64 // the error of a group of zeros
	sums                 gridSums
	loss                 float64 // of what it has
}

// units are the f16 that scales may be multiples of, tried in turn: the largest wish
// as so many.
func units(list []float64, most float64, ends []float64) []float64 {
	for _, at := range ends {
		if u, ok := halfUnit(most / at); ok {
			list = append(list, u)
		}
	}
	return list
}

// wholeMagic rounds what is added to it and taken off again to a whole number, ties
// to even.
const wholeMagic = 3 << 51

// wholeWithin is the whole number within bounds that is nearest to v.
func wholeWithin(v, low, high float64) float64 {
	if v > high {
		return high
	}
	if v < low {
		return low
	}
	return v + wholeMagic - wholeMagic
}

func clampInt(v float64, low, high int) int { return int(wholeWithin(v, float64(low), float64(high))) }

// signedType is a type of groups with signed scales and no minima.
type signedType struct {
	grid         *grid
	groups, size int
	low, high    int       // of scales
	ends         []float64 // what the largest scale is tried as
}

var (
	typeQ6K   = &signedType{grid: grid6, groups: 16, size: 16, low: -128, high: 127, ends: []float64{-128, -126, -123, -120, 127, 124}}
	typeIQ4XS = &signedType{grid: gridIQ4, groups: 8, size: 32, low: -32, high: 31, ends: []float64{-32.3, -32, -31.5, -31, -30.5, -30, -29.5, -29, -28, -27, -26, 31, 30.5, 30, 29, 28, 27, 26}}
)

// signed quantizes a block: the unit of scales, with choices and codes. It says
// whether the unit can be stored.
func (k *ggufScratch) signed(t *signedType, codes *[256]byte, x, w []float32) (d float64, ok bool) {
	b := &k.super
	var most, plain float64
	for j := range t.groups {
		g := &b.groups[j]
		xs, ws := x[j*t.size:(j+1)*t.size], w[j*t.size:(j+1)*t.size]
		*g = superGroup{zero: zeroLoss(xs, ws)}
		if u := float64(utmost(xs)); math.Abs(u) >= f16Step/2 {
			g.plainScale = u / t.grid.end
			g.scaleWish, _, g.curve = k.bestScale(t.grid, xs, ws, u)
		}
		most, plain = further(most, g.scaleWish), further(plain, g.plainScale)
	}
	b.saved = [16]superChoice{}
	if most == 0 {
		clear(codes[:])
		return 0, true
	}
	least := math.Inf(1)
	d, ok = k.settleSigned(t, b.signedUnit(t, most), &least, x, w)
	// Where the search has lost to the plain start, it starts there.
	if unit, finite := halfUnit(plain / float64(t.low)); finite {
		for j := range t.groups {
			b.groups[j].scaleWish = b.groups[j].plainScale
		}
		if k.signedLoss(t, unit, 0, x, w) < least {
			if better, found := k.settleSigned(t, unit, &least, x, w); found {
				d, ok = better, true
			}
		}
	}
	if !ok {
		return 0, false
	}
	for j := range t.groups {
		try := gridTry{}
		if s := b.saved[j].scale; s != 0 {
			try.inverse = float32(1 / (d * float64(s)))
		}
		t.grid.codes(codes[j*t.size:(j+1)*t.size], x[j*t.size:(j+1)*t.size], try)
	}
	return d, true
}

// further is the one of the larger magnitude.
func further(a, b float64) float64 {
	if math.Abs(b) > math.Abs(a) {
		return b
	}
	return a
}

// halfUnit is u as an f16 that is not 0, and whether there is one.
func halfUnit(u float64) (float64, bool) {
	stored, finite := asHalf(u)
	if stored == 0 {
		stored = math.Copysign(f16Step, u)
	}
	return stored, finite
}

// settleSigned fits unit, choices and codes to each other until that is no longer
// better than least, saves the best choices and returns their unit.
func (k *ggufScratch) settleSigned(t *signedType, next float64, least *float64, x, w []float32) (d float64, ok bool) {
	b := &k.super
	for range rounds {
		unit, finite := halfUnit(next)
		if !finite {
			break
		}
		sum := k.signedLoss(t, unit, 1, x, w)
		if !(sum < *least) {
			break
		}
		d, *least, ok = unit, sum, true
		var up, down float64
		for j := range t.groups {
			g := &b.groups[j]
			b.saved[j] = g.superChoice
			s := unit * float64(g.scale)
			up += float64(s * s * float64(g.sums.rl))
			down += float64(s * s * float64(g.sums.ll))
			if change, _ := g.sums.fitScale(); g.scale != 0 {
				g.scaleWish = s * (1 + change)
			}
		}
		if down == 0 {
			break
		}
		next = unit * (1 + up/down)
	}
	return d, ok
}

// signedUnit is the unit whose multiples are nearest to what groups wish.
func (b *superBlock) signedUnit(t *signedType, most float64) float64 {
	best, least := most/t.ends[0], math.Inf(1)
	var list [24]float64
	for _, u := range units(list[:0], most, t.ends) {
		var sum float64
		low, high, inverse := float64(t.low), float64(t.high), 1/u
		for j := range t.groups {
			g := &b.groups[j]
			off := float64(u*wholeWithin(g.scaleWish*inverse, low, high)) - g.scaleWish
			sum += float64(g.curve * off * off)
		}
		if sum < least {
			best, least = u, sum
		}
	}
	return best
}

// signedLoss chooses each group's scale among the multiples of unit that are so near
// to its wish, and sums the errors.
func (k *ggufScratch) signedLoss(t *signedType, unit float64, near int, x, w []float32) (sum float64) {
	for j := range t.groups {
		g := &k.super.groups[j]
		g.superChoice, g.sums, g.loss = superChoice{}, gridSums{}, g.zero
		if g.scaleWish != 0 {
			centre := clampInt(g.scaleWish/unit, t.low, t.high)
			k.signedGroup(t, g, unit, max(t.low, centre-near), min(t.high, centre+near), x[j*t.size:(j+1)*t.size], w[j*t.size:(j+1)*t.size])
		}
		sum += g.loss
	}
	return sum
}

// signedGroup chooses among scales from first to last, three at most.
func (k *ggufScratch) signedGroup(t *signedType, g *superGroup, unit float64, first, last int, x, w []float32) {
	n := 0
	var scales [3]int
	for s := first; s <= last; s++ {
		if s != 0 {
			scales[n] = s
			n = k.try(n, unit*float64(s), 0)
		}
	}
	k.sum(t.grid, n, x, w)
	for i := range n {
		if e := k.sums[i].loss(unit * float64(scales[i])); e < g.loss {
			g.scale, g.sums, g.loss = scales[i], k.sums[i], e
		}
	}
}

func searchQ6K(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [256]byte
	d, ok := k.signed(typeQ6K, &codes, x, w)
	clear(dst)
	for n := range 2 {
		for part := range 4 {
			low, high := dst[64*n+32*(part%2):], dst[128+32*n:]
			for l := range 32 {
				c := codes[128*n+32*part+l]
				low[l] |= c & 15 << (4 * (part / 2))
				high[l] |= c >> 4 << (2 * part)
			}
		}
	}
	for j, c := range k.super.saved {
		dst[192+j] = byte(int8(c.scale))
	}
	return putHalf(dst[208:], float32(d)) && ok
}

func searchIQ4XS(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [256]byte
	d, ok := k.signed(typeIQ4XS, &codes, x, w)
	clear(dst)
	for j, c := range k.super.saved[:8] {
		s := c.scale + 32
		dst[4+j/2] |= byte(s&15) << (4 * (j % 2))
		dst[2+j/4] |= byte(s>>4) << (2 * (j % 4))
		packNibbles(dst[8+16*j:], (*[32]byte)(codes[32*j:]))
	}
	return putHalf(dst, float32(d)) && ok
}
