package stats

import "math"

// ZeroMethod says what the signed-rank test does with differences of exactly 0.
type ZeroMethod uint8

// Zero methods, named as scipy.stats.wilcoxon names them.
const (
	DropZeros  ZeroMethod = iota // wilcox: zeros are left out before ranking
	Pratt                        // pratt: zeros are ranked, then their ranks are left out
	SplitZeros                   // zsplit: zeros are ranked, each side takes half of their ranks
)

// Alternative is the hypothesis that a small p value speaks for.
type Alternative uint8

// Alternatives: the differences lie off 0, below it, above it.
const (
	TwoSided Alternative = iota
	Less
	Greater
)

// Options of the signed-rank test; the zero value is scipy's default with
// method "asymptotic".
type Options struct {
	Zeros       ZeroMethod
	Alternative Alternative
	Correction  bool // move the rank sum half a rank towards its mean
}

// SignedRank is the result of a Wilcoxon signed-rank test.
type SignedRank struct {
	N         int     // differences that entered, zeros included where they are ranked
	Zeros     int     // differences of exactly 0
	NotFinite int     // differences left out because they are not finite
	Plus      float64 // sum of the ranks of positive differences, zeros' share included
	Minus     float64 // the same of negative ones
	Statistic float64 // min(Plus, Minus) if two-sided, Plus otherwise
	Z         float64 // NaN where every difference is 0 or there is none
	P         float64 // 0 where it underflows
	Log10P    float64 // log10 of P, also where P underflows
}

// Wilcoxon tests whether paired differences are symmetric about 0, by the
// normal approximation with tie correction (Wilcoxon 1945; for Pratt's zeros
// Cureton 1967). With n ranks, of which z belong to zeros, and ties of t
// ranks each, the rank sum of the positive side has mean
// (n(n+1) − z(z+1))/4 and variance
// (n(n+1)(2n+1) − z(z+1)(2z+1) − Σ(t³−t)/2)/24, z being 0 unless the method is
// Pratt's.
func Wilcoxon(differences []float64, o Options) SignedRank {
	keys := make([]uint64, 0, len(differences))
	for _, d := range differences {
		if k, ok := SignedKey(d); ok {
			keys = append(keys, k)
		}
	}
	SortKeys(keys, nil)
	res := WilcoxonKeys(keys, o)
	res.NotFinite = len(differences) - len(keys)
	return res
}

// SignedKey packs a difference into a key that sorts by magnitude: the bits of
// |d| moved up by one, and below them 1 where d is negative. Both zeros have
// key 0; ok is false where d is not finite.
func SignedKey(d float64) (key uint64, ok bool) {
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return 0, false
	}
	if d == 0 {
		return 0, true
	}
	bits := math.Float64bits(d)
	return bits<<1 | bits>>63, true
}

// WilcoxonKeys is Wilcoxon on keys that SignedKey made and SortKeys sorted. It
// allocates nothing.
func WilcoxonKeys(sorted []uint64, o Options) SignedRank {
	var res SignedRank
	for res.Zeros < len(sorted) && sorted[res.Zeros] == 0 {
		res.Zeros++
	}
	zeros := res.Zeros // that the mean and the variance are corrected for
	if o.Zeros == DropZeros {
		sorted = sorted[res.Zeros:]
	}
	if o.Zeros != Pratt {
		zeros = 0
	}
	res.N = len(sorted)

	// Rank sums are kept doubled, in integers: they are exact up to 3e9 pairs.
	var plus2, minus2, zero2 uint64
	var ties float64
	for i := 0; i < len(sorted); {
		j, positive := i, 0
		for magnitude := sorted[i] >> 1; j < len(sorted) && sorted[j]>>1 == magnitude; j++ {
			positive += int(1 - sorted[j]&1)
		}
		rank2 := uint64(i + j + 1) // twice the mean of ranks i+1 … j
		if sorted[i] == 0 {
			zero2 = rank2 * uint64(j-i)
		} else {
			plus2 += rank2 * uint64(positive)
			minus2 += rank2 * uint64(j-i-positive)
		}
		if t := float64(j - i); sorted[i] != 0 || o.Zeros != Pratt {
			ties += t*t*t - t
		}
		i = j
	}
	res.Plus, res.Minus = float64(plus2)/2, float64(minus2)/2
	if o.Zeros == SplitZeros {
		res.Plus += float64(zero2) / 4
		res.Minus += float64(zero2) / 4
	}

	n, z := float64(res.N), float64(zeros)
	mean := (n*(n+1) - z*(z+1)) / 4
	deviation := math.Sqrt((n*(n+1)*(2*n+1) - z*(z+1)*(2*z+1) - ties/2) / 24)
	res.Statistic = res.Plus
	if o.Alternative == TwoSided {
		res.Statistic = min(res.Plus, res.Minus)
	}
	if res.N == 0 || !(deviation > 0) {
		res.Z, res.P, res.Log10P = math.NaN(), math.NaN(), math.NaN()
		return res
	}
	res.Z = (res.Plus - mean) / deviation
	if o.Correction {
		res.Z -= o.sign(res.Z) / 2 / deviation
	}
	tail, sides := res.Z, 1.0
	switch o.Alternative {
	case Less:
		tail = -res.Z
	case TwoSided:
		tail, sides = math.Abs(res.Z), 2
	}
	res.P = min(1, sides*NormalTail(tail))
	res.Log10P = min(0, LogNormalTail(tail)+math.Log(sides)) / math.Ln10
	return res
}

// sign is the side on which the rank sum is moved towards its mean.
func (o Options) sign(z float64) float64 {
	switch {
	case o.Alternative == Greater:
		return 1
	case o.Alternative == Less:
		return -1
	case z > 0:
		return 1
	case z < 0:
		return -1
	}
	return 0
}
