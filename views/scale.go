package views

import (
	"math"
	"slices"
	"sync"
)

// Scale maps values to colours: Lo and below is one end, Hi and above the other.
type Scale struct {
	Lo, Hi    float64
	Diverging bool // around 0: Lo is −Hi
	Far       bool // the loud ends of the colours are both: what counts is how far from 0
	Flip      bool // the loud end of the colours is at Lo: smaller values are worse
	Log       bool // places follow the logarithm, where both limits are positive
	Count     int  // finite values that it was made from
	Under     int  // finite values below Lo
	Over      int  // finite values above Hi
	NonFinite int  // NaN and ±Inf, which entered nothing
}

// robustTail is the share of values that may lie beyond either limit of a
// scale, so that one outlier does not paint all others in one colour.
const robustTail = 0.01

// RobustScale spans the 1st to the 99th percentile of the finite values. A
// percentile is the value at rank round(p·(n−1)) of the sorted values. Without
// finite values both limits are 0.
func RobustScale(values []float64) Scale {
	kept := scratch.Get().(*[]float64)
	defer scratch.Put(kept)
	finite := (*kept)[:0]
	for _, v := range values {
		if v-v == 0 { // neither NaN nor ±Inf
			finite = append(finite, v)
		}
	}
	*kept = finite
	s := Scale{Count: len(finite), NonFinite: len(values) - len(finite)}
	if len(finite) == 0 {
		return s
	}
	n := float64(len(finite) - 1)
	lo, hi := int(math.Round(robustTail*n)), int(math.Round((1-robustTail)*n))
	s.Lo = nth(finite, lo)
	s.Hi = nth(finite[lo:], hi-lo) // nothing before rank lo is larger than what follows
	for _, v := range finite[:lo] {
		if v < s.Lo {
			s.Under++
		}
	}
	for _, v := range finite[hi+1:] {
		if v > s.Hi {
			s.Over++
		}
	}
	return s
}

// scale is the limits of a metric's values.
func (m *Metric) scale(values []float64) Scale {
	if m.Diverging {
		s := SymmetricScale(values)
		s.Far = true
		return s
	}
	return RobustScale(values)
}

// worse says whether a is nearer to the loud end than b.
func (s *Scale) worse(a, b float64) bool {
	switch {
	case s.Far:
		return math.Abs(a) > math.Abs(b)
	case s.Flip:
		return a < b
	}
	return a > b
}

// scratch lends the buffers in which values are put in order: a scale is made
// anew in every frame of a run.
var scratch = sync.Pool{New: func() any { return new([]float64) }}

// SymmetricScale spans −m to m with m the 99th percentile of the finite
// magnitudes; 0 is in the middle.
func SymmetricScale(values []float64) Scale {
	kept := scratch.Get().(*[]float64)
	defer scratch.Put(kept)
	sizes := (*kept)[:0]
	for _, v := range values {
		if v-v == 0 { // neither NaN nor ±Inf
			sizes = append(sizes, math.Abs(v))
		}
	}
	*kept = sizes
	s := Scale{Diverging: true, Count: len(sizes), NonFinite: len(values) - len(sizes)}
	if len(sizes) == 0 {
		return s
	}
	s.Hi = nth(sizes, int(math.Round((1-robustTail)*float64(len(sizes)-1))))
	s.Lo = -s.Hi
	for _, v := range values {
		switch {
		case math.IsInf(v, 0):
		case v < s.Lo:
			s.Under++
		case v > s.Hi:
			s.Over++
		}
	}
	return s
}

// Place is where a value stands on the scale, 0 at the quiet end and 1 at the
// loud end; 0.5 where the scale has no width, NaN for NaN.
func (s Scale) Place(v float64) float64 {
	if s.log() {
		lo, hi := math.Log(s.Lo), math.Log(s.Hi)
		s.Lo, s.Hi = lo, hi
		if v = math.Log(max(v, 0)); math.IsInf(v, -1) {
			v = lo
		}
	}
	span := s.Hi - s.Lo
	f := 0.5
	if span > 0 && !math.IsInf(span, 0) {
		f = (v - s.Lo) / span
	} else if span > 0 { // limits so far apart that their difference overflows
		f = (v/4 - s.Lo/4) / (s.Hi/4 - s.Lo/4)
	}
	if f != f { // what is not a number has no place; a gap stays one
		return f
	}
	f = min(max(f, 0), 1)
	if s.Flip {
		f = 1 - f
	}
	return f
}

// log says that the logarithm is what counts.
func (s Scale) log() bool { return s.Log && s.Lo > 0 && s.Hi > s.Lo }

// level is Place in n steps, 0 to n−1.
func (s Scale) level(v float64, n int) int {
	return max(min(int(s.Place(v)*float64(n)), n-1), 0)
}

// nth is the value at rank k of the sorted values; it reorders them so that what
// is smaller stands before rank k and what is larger after it. Hoare's
// selection with a median of three as pivot takes linear time on average.
func nth(v []float64, k int) float64 {
	for len(v) > 12 {
		a, b, c := v[0], v[len(v)/2], v[len(v)-1]
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := 0, len(v)-1
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			v = v[:j+1]
		case k >= i:
			v, k = v[i:], k-i
		default:
			return v[k]
		}
	}
	slices.Sort(v)
	return v[k]
}
