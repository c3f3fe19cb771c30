package kernels

import "math"

// gptqBookLanes is how often each number of a gptqBook stands in a row: for every
// lane of the widest set.
const gptqBookLanes = 16

// gptqBook is the grid of a codebook: three borders, each the last target of the
// value below it, and four values, ascending. A code is an index into the values.
type gptqBook struct {
	limits [CodebookValues - 1][gptqBookLanes]float32
	values [CodebookValues][gptqBookLanes]float32
}

// newGPTQBook is the grid of a mask of codes. Borders are halfway between values,
// and what lies on one goes to the smaller magnitude, of ±v to the positive value: a
// border that is not positive belongs to the value above it. A target of −0 is a 0, whose
// sign errors that moved there have given it.
func newGPTQBook(mask uint16) *gptqBook {
	b := new(gptqBook)
	spread := func(to *[gptqBookLanes]float32, x float32) {
		for i := range to {
			to[i] = x
		}
	}
	values := Codebook(mask)
	for i, v := range values {
		spread(&b.values[i], v)
		if i == 0 {
			continue
		}
		limit := (values[i-1] + v) / 2
		if limit <= 0 {
			limit = math.Nextafter32(limit, float32(math.Inf(-1)))
		}
		spread(&b.limits[i-1], limit)
	}
	return b
}

// code is the index of the value that is nearest to a finite target over the step,
// and what it decodes to. A step of 0 makes every target a 0.
func (b *gptqBook) code(t, step float32) (code byte, q float32) {
	u := float32(0)
	if step != 0 {
		u = t / step
	}
	for i := range b.limits {
		if u > b.limits[i][0] {
			code++
		}
	}
	return code, float32(b.values[code][0] * step)
}
