package views

import (
	"math"
	"strconv"
)

// Labels of axes are round: multiples of 1, 2 or 5 times a power of ten, all of
// one axis with the same number of digits behind the point, so that equal steps
// look equal.

// roundValues are the multiples of a round step from lo to hi: about n of them,
// but two where the axis is long enough for two at all; nil where it has no
// length. Those of whole are integers.
func roundValues(lo, hi float64, n int, whole bool) (values []float64, step float64) {
	if !isNumber(lo) || !isNumber(hi) || !(hi > lo) || !isNumber(hi-lo) || n < 1 {
		return nil, 0
	}
	step = niceStep((hi - lo) / float64(n))
	for range 4 {
		if whole {
			step = max(step, 1)
		}
		if values = multiples(lo, hi, step); len(values) > 1 || whole && step == 1 {
			break
		}
		step = niceStep(step / 2.5)
	}
	return values, step
}

// multiples are those of step from lo to hi, at most a thousand.
func multiples(lo, hi, step float64) []float64 {
	if !(step > 0) || !isNumber(step) || !isNumber(lo/step) || math.Abs(lo/step) > 1e15 {
		return nil
	}
	var out []float64
	first := math.Ceil(lo/step - 1e-9)
	for k := range 1000 {
		v := (first + float64(k)) * step
		if v > hi+step*1e-9 {
			break
		}
		out = append(out, v)
	}
	return out
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	e := math.Floor(math.Log10(v))
	for _, m := range []float64{1, 2, 5} {
		if s := tenTimes(m, e); s >= v*(1-1e-9) {
			return s
		}
	}
	return tenTimes(1, e+1)
}

// tenTimes is m·10^e, nearest for negative e too.
func tenTimes(m, e float64) float64 {
	if e < 0 && e > -300 {
		return m / math.Pow(10, -e)
	}
	return m * math.Pow(10, e)
}

// axisLabels writes multiples of a round step, all with the same unit and number
// of digits; 0 is 0.
func axisLabels(values []float64, step float64) []string {
	top := 0.0
	for _, v := range values {
		top = max(top, math.Abs(v))
	}
	unit, suffix := 1.0, ""
	for _, u := range []struct {
		from, unit float64
		suffix     string
	}{{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if top >= u.from {
			unit, suffix = u.unit, u.suffix
			break
		}
	}
	digits := max(int(-math.Floor(math.Log10(step/unit)+1e-9)), 0)
	exponent := top >= 1e15 || digits > 6
	out := make([]string, len(values))
	for i, v := range values {
		switch {
		case math.Abs(v) < step/2:
			out[i] = "0"
		case exponent:
			out[i] = minus(strconv.FormatFloat(v, 'e', max(int(math.Floor(math.Log10(top)+1e-9)-math.Floor(math.Log10(step)+1e-9)), 0), 64))
		default:
			out[i] = minus(strconv.FormatFloat(v/unit, 'f', digits, 64)) + suffix
		}
	}
	return out
}

// widest is the width of the widest label.
func widest(labels []string) int {
	w := 0
	for _, l := range labels {
		w = max(w, Width(l))
	}
	return w
}

// rangeTicks are round values from lo to hi on an axis of n cells, as many as
// stand apart.
func rangeTicks(lo, hi float64, n int) []tick {
	if n < 2 {
		return nil
	}
	for want := max(n/12, 1); ; want-- {
		values, step := roundValues(lo, hi, want, false)
		labels := axisLabels(values, step)
		if room := step / (hi - lo) * float64(n-1); want > 1 && float64(widest(labels)+1) > room {
			continue
		}
		var out []tick
		for i, v := range values {
			out = append(out, tick{min(int(math.Round((v-lo)/(hi-lo)*float64(n-1))), n-1), labels[i]})
		}
		return out
	}
}

// logTicks are values of an axis of n cells that goes from 10^lo to 10^hi: powers
// of ten, over less than two decades with what stands between them, over less than
// one round values at their places.
func logTicks(lo, hi float64, n int) []tick {
	if n < 2 || !isNumber(lo) || !isNumber(hi) || !(hi > lo) || hi > 300 || lo < -300 {
		return nil
	}
	at := func(v float64) int {
		return min(max(int(math.Round((math.Log10(v)-lo)/(hi-lo)*float64(n-1))), 0), n-1)
	}
	some := func(values []float64, label func(i int) string, all bool) []tick {
		var out []tick
		for i, v := range values {
			k := tick{at(v), label(i)}
			if last := len(out) - 1; last >= 0 && k.at-out[last].at < (Width(k.label)+Width(out[last].label))/2+2 {
				if all {
					return nil
				}
				continue
			}
			out = append(out, k)
		}
		return out
	}
	apart := func(values []float64, label func(i int) string) []tick { return some(values, label, true) }
	if hi-lo < 1 {
		for want := max(n/10, 2); want > 0; want-- {
			values, step := roundValues(math.Pow(10, lo), math.Pow(10, hi), want, false)
			labels := axisLabels(values, step)
			if out := some(values, func(i int) string { return labels[i] }, want > 1); out != nil {
				return out
			}
		}
		return nil
	}
	for _, steps := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		var values []float64
		for e := math.Floor(lo); e <= hi; e++ {
			for _, m := range steps {
				if v := tenTimes(m, e); math.Log10(v) >= lo-1e-9 && math.Log10(v) <= hi+1e-9 {
					values = append(values, v)
				}
			}
		}
		if out := apart(values, func(i int) string { return compact(values[i]) }); out != nil {
			return out
		}
	}
	var values []float64 // many decades: as many powers as stand apart
	every := math.Ceil((hi - lo) / (float64(n) / 9))
	for e := math.Ceil(lo/every) * every; e <= hi; e += every {
		values = append(values, tenTimes(1, e))
	}
	return apart(values, func(i int) string { return compact(values[i]) })
}

// upTicks are round values from lo to hi up an axis of rows lines, at counts lines
// from the foot: the line whose middle is nearest where ends says that the lowest
// line is lo and the uppermost hi, else the line that a bar of that height fills.
func upTicks(lo, hi float64, rows int, whole, ends bool) []tick {
	values, step := roundValues(lo, hi, max(rows/3, 1), whole)
	labels := axisLabels(values, step)
	var out []tick
	for i, v := range values {
		f := (v - lo) / (hi - lo)
		at := int(math.Round(f * float64(rows-1)))
		if !ends {
			if at = int(math.Round(f*float64(rows))) - 1; at < 0 && f > 0 {
				at = 0
			}
		}
		if at = min(at, rows-1); at >= 0 && (len(out) == 0 || out[len(out)-1].at < at) {
			out = append(out, tick{at, labels[i]})
		}
	}
	return out
}

// evenTicks spans lo to hi with an axis of rows steps, a little longer where that
// lets every label stand on a row of its own value, at equal distances: in a few
// rows, labels that are rounded to the nearest would not. Where nothing of that
// kind fits, the span stays.
func evenTicks(lo, hi float64, rows int) (from, to float64, ticks []tick) {
	const fewest = 4
	if rows >= fewest && hi > lo && isNumber((hi-lo)/float64(rows)) {
		var unit, step float64
		e := math.Floor(math.Log10((hi - lo) / float64(rows)))
		for _, m := range []float64{1, 2, 2.5, 5, 10, 20, 25, 50, 100} {
			for _, every := range []int{3, 2, 4, 5} { // rows from label to label
				s := tenTimes(m, e)
				u := s / float64(every)
				first := math.Floor(lo/u + 1e-9)
				if fits := (first+float64(rows))*u >= hi-u*1e-9; fits && every <= rows && (m != 2.5 && m != 25 || every < 4) && (unit == 0 || u < unit*(1-1e-9)) {
					unit, step, from = u, s, first*u
				}
			}
		}
		to = from + unit*float64(rows)
		if values := multiples(from, to, step); unit > 0 && len(values) > 1 {
			round := step
			if v := step / tenTimes(1, math.Floor(math.Log10(step))); v > 2.2 && v < 3 { // of 2.5 the half is not lost
				round = step / 5
			}
			labels := axisLabels(values, round)
			for i, v := range values {
				ticks = append(ticks, tick{min(max(int(math.Round((v-from)/unit)), 0), rows), labels[i]})
			}
			return from, to, ticks
		}
	}
	return lo, hi, upTicks(lo, hi, rows+1, false, true)
}
