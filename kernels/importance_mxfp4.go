package kernels

// mxfp4Weighted is the method imatrix of MXFP4: of all powers of two the one with
// the least Σ f·(w−q)², of equals the largest.
//
// Errors are compared in f32, in this order, in units of the largest scale that
// is tried, the least 2^k with 6·2^k not below the largest magnitude:
//
//	u[i] = |w[i]|/2^k
//	d[i] = u[i] − E2M1(u[i]/s)·s     s = 1, 1/2, 1/4, …
//	lane[i mod 16] += (d[i]²)·f[i]   each product rounded
//
// and lanes are added by halves, as those of range. No larger scale can win:
// where nothing is clipped, what codes stand for at a scale is, as far as
// elements reach, among what they stand for at the half of it. Downwards the
// search ends where the clipping of the one element that counts most is as bad as
// the best so far, which is at the latest where that element is clipped to
// nothing.
type mxfp4Weighted struct{ mxfp4Chooser }

func (k mxfp4Weighted) chooseWeighted(w, f []float32, r blockRange, c *blockChoice) {
	k.choose(w, r, c)
	if r.amax == 0 {
		c.choice = exponentBin(0)
		return
	}
	own := int(c.stored)
	mxfp4Chooser(ModelOpt).choose(nil, r, c)
	first := int(c.stored)
	unit := c.inverse
	var u [32]float32
	heaviest, heaviestError := float32(0), float32(-1)
	heaviestFactor := float32(0)
	for i, x := range w {
		if x-x != 0 {
			x = 0
		}
		u[i] = max(x, -x) * unit
		if e := float32(float32(u[i]*u[i]) * f[i]); e > heaviestError {
			heaviest, heaviestError, heaviestFactor = u[i], e, f[i]
		}
	}
	v := u[:len(w)]
	best, least := first, weightedE2M1(v, f, 1, 1)
	s, inverse := float32(1), float32(1)
	for code := first - 1; code >= 0 && least > 0 && inverse < 0x1p120; code-- {
		s, inverse = s/2, inverse*2
		if d := max(heaviest-MaxE2M1*s, 0); float32(float32(d*d)*heaviestFactor) >= least {
			break
		}
		if e := weightedE2M1(v, f, s, inverse); e < least {
			best, least = code, e
		}
	}
	k.choose(w, r, c) // what is counted of clamped scales is what the convention's own would be
	c.take(byte(best))
	c.choice = exponentBin(best - own)
}

// exponentBin is the bin of exponentLabels.
func exponentBin(offset int) int { return min(max(offset+14, 0), MultBins-1) }

// weightedE2M1 is the error of magnitudes under a scale, see mxfp4Weighted.
func weightedE2M1(u, f []float32, s, inverse float32) float32 {
	var lanes [16]float32
	for i, x := range u {
		q := float32(x * inverse) // at most 6 where s is 1, and so below 2¹²⁸
		at := 31
		if q < 7.75 {
			at = int(q * 4)
		}
		d := x - float32(e2m1Quarters[at]*s)
		lanes[i&15] += float32(float32(d*d) * f[i])
	}
	return addHalves(&lanes)
}
