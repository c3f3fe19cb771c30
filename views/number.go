package views

import (
	"math"
	"strconv"
	"strings"
)

// minus gives a number the minus of the screen, which is as wide as a plus, in
// its exponent too.
func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

// compact writes a number in at most six cells or so: 0.0951, 12.3, 4.56k,
// 1.2M, 3.0e−07.
func compact(v float64) string { return minus(compactASCII(v)) }

func compactASCII(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'g', -1, 64)
	case a == 0:
		return "0"
	case a >= 1e15 || a < 1e-4:
		return strconv.FormatFloat(v, 'e', 1, 64)
	case a >= 999.5e9:
		return sig3(v/1e12) + "T"
	case a >= 999.5e6:
		return sig3(v/1e9) + "G"
	case a >= 999.5e3:
		return sig3(v/1e6) + "M"
	case a >= 999.5:
		return sig3(v/1e3) + "k"
	}
	return sig3(v)
}

// sig3 writes a number with three significant digits and no exponent, without
// trailing zeros after the point.
func sig3(v float64) string {
	a := math.Abs(v)
	digits := 2
	if a > 0 {
		digits = min(max(2-int(math.Floor(math.Log10(a))), 0), 8)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits == 0 {
		return s
	}
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}
