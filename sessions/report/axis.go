package report

import (
	"math"
	"strconv"
)

// span is a range of finite figures; nothing yet where n is 0.
type span struct {
	lo, hi float64
	n      int
}

// add widens the span; figures that are not finite do not.
func (s *span) add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if s.n == 0 {
		s.lo, s.hi = x, x
	}
	s.lo, s.hi, s.n = min(s.lo, x), max(s.hi, x), s.n+1
}

// padded is the span with some of its width on both sides, and some width where
// it has none.
func (s span) padded(part float64) span {
	pad := part * (s.hi - s.lo)
	if pad == 0 {
		pad = max(math.Abs(s.lo)*0.01, 1e-12)
	}
	return span{s.lo - pad, s.hi + pad, s.n}
}

// axis maps figures of a span to coordinates.
type axis struct {
	span
	from, to float64
}

func (a axis) at(x float64) float64 {
	if !(a.hi > a.lo) {
		return (a.from + a.to) / 2
	}
	return a.from + (x-a.lo)/(a.hi-a.lo)*(a.to-a.from)
}

// tick is a mark of an axis with its label.
type tick struct {
	v     float64
	label string
}

// ticks are marks at round figures within the span: with the largest step of 1,
// 2 or 5 times a power of ten that gives the least number of them.
func (s span) ticks(least int) []tick {
	width := s.hi - s.lo
	if !(width > 0) || math.IsInf(width, 0) || width < 1e-290 {
		return nil
	}
	step := 0.0
	power := math.Pow(10, math.Floor(math.Log10(width)))
	for _, m := range []float64{5, 2, 1, 0.5, 0.2, 0.1} { // 0.1 gives ten and more
		step = m * power
		if int(math.Floor(s.hi/step+1e-9)-math.Ceil(s.lo/step-1e-9))+1 >= least {
			break
		}
	}
	places := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	if places > 12 {
		return nil
	}
	var out []tick
	first := math.Ceil(s.lo/step - 1e-9)
	for i := 0.0; i < 40; i++ {
		v := (first + i) * step
		if v > s.hi+1e-9*width {
			break
		}
		if v == 0 {
			v = 0 // not minus 0
		}
		out = append(out, tick{v, strconv.FormatFloat(v, 'f', places, 64)})
	}
	return out
}
