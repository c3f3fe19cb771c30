package kernels

import "math"

// minSpans are by how many codes a group's span is tried longer than all of them.
var minSpans = steps(-1.2, 2.2, 16)

// What the largest scale and the largest minimum are tried as, of 63.
var minEnds = append([]float64{64.5, 63.7, 63.4}, steps(63, 52, 12)...)

// groupWish finds a group's best scale and its best minimum, which is not above 0.
func (k *ggufScratch) groupWish(g *grid, b *superGroup, x, w []float32) {
	low, high := bounds(x)
	low = min(low, 0)
	*b = superGroup{}
	for _, v := range w {
		b.weight += float64(v)
	}
	span := max(float64(high), 0) - float64(low)
	b.plainScale, b.plainMin = span/float64(g.high), float64(low)
	b.scaleWish, b.minWish = b.plainScale, b.plainMin
	if span < f16Step/2 {
		return
	}
	span = float64(high) - float64(low)
	n := 0
	for _, up := range minSpans {
		n = k.try(n, span/(float64(g.high)+up), float64(low))
	}
	least := k.wishAmong(g, b, n, math.Inf(1), x, w)
	for range 2 { // codes for these parameters, and parameters for the codes
		n = k.try(0, b.scaleWish, b.minWish)
		e := k.wishAmong(g, b, n, least, x, w)
		if e == least {
			break
		}
		least = e
	}
}

// wishAmong sums tries and keeps what suits the codes of the best of them, where it
// is better than least.
func (k *ggufScratch) wishAmong(g *grid, b *superGroup, n int, least float64, x, w []float32) float64 {
	k.sum(g, n, x, w)
	for i := range n {
		sums, s, m := &k.sums[i], 1/float64(k.tries[i].inverse), float64(k.tries[i].min)
		change, shift, rest := sums.fitBoth(b.weight)
		if m+float64(shift*s) > 0 {
			shift = -m / s
			change, rest = sums.fitScaleAt(shift, b.weight)
		}
		if e := rest * s * s; e < least && change > -1 {
			least, b.scaleWish, b.minWish = e, s*(1+change), m+float64(shift*s)
			b.curve, b.lean = float64(sums.ll), float64(sums.l)
		}
	}
	return least
}

// withMinima quantizes a block of eight groups of 32: the units of scales and of
// minima, which are taken off, with choices and codes. It says whether the units can
// be stored.
func (k *ggufScratch) withMinima(g *grid, codes *[256]byte, x, w []float32) (d, dmin float64, ok bool) {
	b := &k.super
	var plain, plainMin float64
	for j := range 8 {
		k.groupWish(g, &b.groups[j], x[32*j:32*j+32], w[32*j:32*j+32])
		plain, plainMin = max(plain, b.groups[j].plainScale), max(plainMin, -b.groups[j].plainMin)
	}
	least := math.Inf(1)
	next, nextMin := b.minUnits()
	d, dmin, ok = k.settleMin(g, next, nextMin, &least, x, w)
	// Where the search has lost to the plain start, it starts there.
	unit, fine := storedUnit(plain / 63)
	unitMin, fineMin := storedUnit(plainMin / 63)
	if fine && fineMin {
		for j := range 8 {
			b.groups[j].scaleWish, b.groups[j].minWish, b.groups[j].lean = b.groups[j].plainScale, b.groups[j].plainMin, 0
		}
		if k.minLoss(g, unit, unitMin, 0, x, w) < least {
			if u, m, found := k.settleMin(g, unit, unitMin, &least, x, w); found {
				d, dmin, ok = u, m, true
			}
		}
	}
	if !ok {
		return 0, 0, false
	}
	for j := range 8 {
		to := codes[32*j : 32*j+32]
		if c := b.saved[j]; c.scale == 0 {
			clear(to)
		} else {
			k.try(0, d*float64(c.scale), -dmin*float64(c.min))
			g.codes(to, x[32*j:32*j+32], k.tries[0])
		}
	}
	return d, dmin, true
}

// storedUnit is u as an f16, which is 0 only where u is, and whether it is finite.
func storedUnit(u float64) (float64, bool) {
	if u == 0 {
		return 0, true
	}
	return halfUnit(u)
}

// settleMin fits units, choices and codes to each other until that is no longer better
// than least, saves the best choices and returns their units.
func (k *ggufScratch) settleMin(g *grid, next, nextMin float64, least *float64, x, w []float32) (d, dmin float64, ok bool) {
	b := &k.super
	for range rounds {
		unit, fine := storedUnit(max(next, 0))
		unitMin, fineMin := storedUnit(max(nextMin, 0))
		if !fine || !fineMin {
			break
		}
		sum := k.minLoss(g, unit, unitMin, 1, x, w)
		if !(sum < *least) {
			break
		}
		d, dmin, *least, ok = unit, unitMin, sum, true
		for j := range 8 {
			b.saved[j] = b.groups[j].superChoice
			b.groups[j].rewish(unit, unitMin)
		}
		next, nextMin = b.refit(unit, unitMin)
	}
	return d, dmin, ok
}

// minUnits are the units whose multiples are nearest to what groups wish: that of the
// scales as if each minimum could follow, then that of the minima.
func (b *superBlock) minUnits() (d, dmin float64) {
	var mostScale, mostMin float64
	for j := range 8 {
		mostScale = max(mostScale, b.groups[j].scaleWish)
		mostMin = max(mostMin, -b.groups[j].minWish)
	}
	var list [24]float64
	var curves, wishes [8]float64
	for j := range 8 {
		g := &b.groups[j]
		curves[j] = g.curve - float64(g.lean*g.lean)/g.weight
	}
	least := math.Inf(1)
	d = mostScale / 63
	if mostScale > 0 {
		for _, u := range units(list[:0], mostScale, minEnds) {
			sum, inverse := 0.0, 1/u
			for j := range 8 {
				off := float64(u*wholeWithin(b.groups[j].scaleWish*inverse, 0, 63)) - b.groups[j].scaleWish
				sum += float64(curves[j] * off * off)
			}
			if sum < least {
				d, least = u, sum
			}
		}
	}
	dmin = mostMin / 63
	if mostMin > 0 {
		for j := range 8 {
			g := &b.groups[j]
			wishes[j] = -g.minWish
			if d > 0 {
				wishes[j] = -g.minAt(d * wholeWithin(g.scaleWish/d, 0, 63))
			}
		}
		least = math.Inf(1)
		for _, u := range units(list[:0], mostMin, minEnds) {
			sum, inverse := 0.0, 1/u
			for j := range 8 {
				off := float64(u*wholeWithin(wishes[j]*inverse, 0, 63)) - wishes[j]
				sum += float64(b.groups[j].weight * off * off)
			}
			if sum < least {
				dmin, least = u, sum
			}
		}
	}
	return d, dmin
}

// minAt is the minimum that suits the group's codes where its scale is not the wish.
func (g *superGroup) minAt(scale float64) float64 {
	return g.minWish - float64(g.lean/g.weight*(float64(scale)-g.scaleWish))
}

// rewish sets the wishes to what suits the codes that the group has.
func (g *superGroup) rewish(unit, unitMin float64) {
	if g.scale == 0 {
		return
	}
	s := unit * float64(g.scale)
	change, shift, _ := g.sums.fitBoth(g.weight)
	g.scaleWish, g.minWish = s*(1+change), float64(shift*s)-float64(unitMin*float64(g.min))
	g.curve, g.lean = float64(g.sums.ll), float64(g.sums.l)
}

// minLoss chooses each group's scale and minimum among the multiples of both units
// that are so near to its wishes, and sums the errors.
func (k *ggufScratch) minLoss(gr *grid, unit, unitMin float64, near int, x, w []float32) (sum float64) {
	for j := range 8 {
		g := &k.super.groups[j]
		k.minGroup(gr, g, unit, unitMin, near, x[32*j:32*j+32], w[32*j:32*j+32])
		sum += g.loss
	}
	return sum
}

// multiples are how many units make a wish, from 0 to 63.
func multiples(wish, unit float64) int {
	if unit == 0 {
		return 0
	}
	return clampInt(wish/unit, 0, 63)
}

func (k *ggufScratch) minGroup(gr *grid, g *superGroup, unit, unitMin float64, near int, x, w []float32) {
	g.superChoice, g.sums, g.loss = superChoice{}, gridSums{}, math.Inf(1)
	centre := multiples(g.scaleWish, unit)
	if centre <= near {
		g.flat(unitMin, x, w)
	}
	n := 0
	var choices [6]superChoice
	for s := max(1, centre-near); unit > 0 && s <= min(63, centre+near); s++ {
		wish := -g.minAt(unit * float64(s))
		m := multiples(wish, unitMin)
		other := m + 1
		if unitMin*float64(m) > wish {
			other = m - 1
		}
		if near == 0 {
			other = -1
		}
		for _, m := range [2]int{m, other} {
			if m < 0 || m > 63 || m > 0 && unitMin == 0 {
				continue
			}
			choices[n] = superChoice{s, m}
			n = k.try(n, unit*float64(s), -unitMin*float64(m))
		}
	}
	k.sum(gr, n, x, w)
	for i := range n {
		if e := k.sums[i].loss(unit * float64(choices[i].scale)); e < g.loss {
			g.superChoice, g.sums, g.loss = choices[i], k.sums[i], e
		}
	}
}

// flat gives a group its minimum throughout.
func (g *superGroup) flat(unitMin float64, x, w []float32) {
	var mean float64
	for i, v := range x {
		mean += float64(float64(w[i]) * float64(v))
	}
	g.min, g.loss = multiples(-mean/g.weight, unitMin), 0
	for i, v := range x {
		e := float64(v) + float64(unitMin*float64(g.min))
		g.loss += float64(float64(w[i]) * e * e)
	}
}

// refit is the pair of units that suits all codes, scales and minima best.
func (b *superBlock) refit(unit, unitMin float64) (d, dmin float64) {
	var aa, ac, cc, ra, rc float64
	for j := range 8 {
		g := &b.groups[j]
		s, m := unit*float64(g.scale), -unitMin*float64(g.min)
		if s == 0 {
			continue
		}
		aa += float64(s * s * float64(g.sums.ll))
		ac += float64(s * m * float64(g.sums.l))
		cc += float64(m * m * g.weight)
		ra += float64(s * s * float64(g.sums.rl))
		rc += float64(s * m * float64(g.sums.r))
	}
	det := float64(aa*cc) - float64(ac*ac)
	switch {
	case det > 1e-9*aa*cc:
		return unit * (1 + (float64(ra*cc)-float64(rc*ac))/det), unitMin * (1 + (float64(aa*rc)-float64(ac*ra))/det)
	case aa > 0:
		return unit * (1 + ra/aa), unitMin
	}
	return unit, unitMin
}

// packScaleMins stores eight scales and minima of six bits; see scaleMin.
func packScaleMins(dst []byte, choices []superChoice) {
	for j := range 4 {
		a, b := choices[j], choices[j+4]
		dst[j] = byte(a.scale | b.scale>>4<<6)
		dst[j+4] = byte(a.min | b.min>>4<<6)
		dst[j+8] = byte(b.scale&15 | b.min&15<<4)
	}
}

func searchQ4K(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [256]byte
	d, m, ok := k.withMinima(grid0_4, &codes, x, w)
	packScaleMins(dst[4:], k.super.saved[:8])
	for j := range 128 {
		at := 64*(j/32) + j%32
		dst[16+j] = codes[at] | codes[at+32]<<4
	}
	return putHalf(dst, float32(d)) && putHalf(dst[2:], float32(m)) && ok
}

func searchQ5K(k *ggufScratch, dst []byte, x, w []float32) bool {
	var codes [256]byte
	d, m, ok := k.withMinima(grid0_5, &codes, x, w)
	packScaleMins(dst[4:], k.super.saved[:8])
	clear(dst[16:48])
	for j := range 128 {
		at := 64*(j/32) + j%32
		dst[48+j] = codes[at]&15 | codes[at+32]&15<<4
		dst[16+j%32] |= codes[at]>>4<<(2*(j/32)) | codes[at+32]>>4<<(2*(j/32)+1)
	}
	return putHalf(dst, float32(d)) && putHalf(dst[2:], float32(m)) && ok
}
