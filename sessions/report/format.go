package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"quantscope/analysis/landscape"
)

// none stands where there is no figure.
const none = "–"

// sig writes a figure with so many significant digits and no exponent where it
// is of a size that people read: 0.009049, 1.020, 4.1e-05.
func sig(x float64, digits int) string {
	switch {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 0):
		return strings.TrimPrefix(fmt.Sprintf("%+v", x), "+")
	case x == 0:
		return "0"
	}
	a := math.Abs(x)
	if a < 1e-4 || a >= 1e7 {
		return strconv.FormatFloat(x, 'e', digits-1, 64)
	}
	places := max(digits-1-int(math.Floor(math.Log10(a))), 0)
	return strconv.FormatFloat(x, 'f', places, 64)
}

// fixed writes a figure with so many places after the point.
func fixed(x float64, places int) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return sig(x, 1)
	}
	return strconv.FormatFloat(x, 'f', places, 64)
}

// Share writes a fraction of 1 in percent.
func Share(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return sig(x, 1)
	case x != 0 && math.Abs(x) < 5e-5:
		return sig(100*x, 2) + " %"
	}
	return fixed(100*x, 2) + " %"
}

// Chance writes a probability.
func Chance(p float64) string {
	switch {
	case p == 0:
		return "< 1e-300"
	case p < 1e-3:
		return strconv.FormatFloat(p, 'e', 1, 64)
	}
	return fixed(p, 3)
}

// ratio writes a factor.
func ratio(x float64) string { return "×" + fixed(x, 3) }

// written is a Value in the words of write: the figure and its interval, or
// the reason why there is none.
func written(v landscape.Value, write func(float64) string) (figure, interval, why string) {
	if !v.Defined() {
		return none, "", v.Why
	}
	if v.HasInterval() {
		interval = "[" + write(v.Low) + ", " + write(v.High) + "]"
	}
	return write(v.V), interval, ""
}

// digits is sig as written takes it.
func digits(n int) func(float64) string { return func(x float64) string { return sig(x, n) } }

// Written is a Value as one piece of text: the figure with its interval, or
// the reason why there is none.
func Written(v landscape.Value, write func(float64) string) string {
	figure, interval, why := written(v, write)
	switch {
	case why != "":
		return why
	case interval != "":
		return figure + " " + interval
	}
	return figure
}

// Places writes a figure with so many places.
func Places(n int) func(float64) string { return func(x float64) string { return fixed(x, n) } }

// size writes bytes in powers of 1000, as checkpoints are spoken of.
func size(n int64) string {
	if n < 0 {
		return none
	}
	for _, u := range []struct {
		unit string
		of   float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if x := float64(n) / u.of; x >= 1 {
			return sig(x, max(3, 1+int(math.Log10(x)))) + " " + u.unit
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// counted is a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(int64(n)) + " " + more
}

// thousands writes a count with a narrow space between groups of three digits,
// from 10,000 on.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	if n > -10_000 && n < 10_000 {
		return s
	}
	var b strings.Builder
	for i, c := range s {
		if i > 0 && c != '-' && (len(s)-i)%3 == 0 && s[i-1] != '-' {
			b.WriteRune(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
