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
	span := float64(high) - float64(low)
	if span < f16Step/2 {
		b.minWish = float64(low)
		return
	}
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
// minima, which are taken off, with choices and codes.
func (k *ggufScratch) withMinima(g *grid, codes *[256]byte, x, w []float32) (d, dmin float64, ok bool) {
	b := &k.super
	for j := range 8 {
		k.groupWish(g, &b.groups[j], x[32*j:32*j+32], w[32*j:32*j+32])
	}
	next, nextMin := b.minUnits()
	least := math.Inf(1)
	for range rounds {
		unit, fine := asHalf(next)
		unitMin, fineMin := asHalf(nextMin)
		if !fine || !fineMin {
			break
		}
		if next > 0 {
			unit = max(unit, f16Step)
		}
		if nextMin > 0 {
			unitMin = max(unitMin, f16Step)
		}
		var sum float64
		for j := range 8 {
			k.minGroup(g, &b.groups[j], unit, unitMin, x[32*j:32*j+32], w[32*j:32*j+32])
			sum += b.groups[j].loss
		}
		if sum >= least {
			break
		}
		d, dmin, least, ok = unit, unitMin, sum, true
		for j := range 8 {
			b.saved[j] = b.groups[j].superChoice
		}
		next, nextMin = b.refit(unit, unitMin)
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
	return g.minWish - float64(g.lean/g.weight*(scale-g.scaleWish))
}

// minGroup chooses a group's scale and minimum among the multiples of both units
// about its wishes.
func (k *ggufScratch) minGroup(gr *grid, g *superGroup, unit, unitMin float64, x, w []float32) {
	whole := func(wish, unit float64) int {
		if unit == 0 {
			return 0
		}
		return clampInt(wish/unit, 0, 63)
	}
	// Without a scale the group is its minimum throughout.
	g.superChoice, g.sums, g.loss = superChoice{}, gridSums{}, math.Inf(1)
	centre := whole(g.scaleWish, unit)
	if centre <= 1 {
		var mean float64
		for i, v := range x {
			mean += float64(float64(w[i]) * float64(v))
		}
		g.min = whole(-mean/g.weight, unitMin)
		g.loss = 0
		for i, v := range x {
			e := float64(v) + float64(unitMin*float64(g.min))
			g.loss += float64(float64(w[i]) * e * e)
		}
	}
	n := 0
	var choices [9]superChoice
	for s := max(1, centre-1); unit > 0 && s <= min(63, centre+1); s++ {
		wish := -g.minAt(unit * float64(s))
		m := whole(wish, unitMin)
		other := m + 1
		if unitMin*float64(m) > wish {
			other = m - 1
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
		s := unit * float64(choices[i].scale)
		if e := k.sums[i].loss(s); e < g.loss {
			g.superChoice, g.sums, g.loss = choices[i], k.sums[i], e
		}
	}
	if g.scale != 0 { // what suits these codes best
		s := unit * float64(g.scale)
		change, shift, _ := g.sums.fitBoth(g.weight)
		g.scaleWish, g.minWish = s*(1+change), float64(shift*s)-float64(unitMin*float64(g.min))
		g.curve, g.lean = float64(g.sums.ll), float64(g.sums.l)
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
