package views

import (
	"strings"

	"quantscope/kernels"
	"quantscope/sessions"
)

// An axis of scales, codes or choices means something for some formats only.
// Variants whose axes differ are never drawn over each other: a chart shows those
// that are like the current one, and counts the others.

// formatOf is how a variant stores a tensor; the zero Format where its scheme
// is not in the table.
func formatOf(v *sessions.Variant) kernels.Format {
	f, err := kernels.FormatByName(v.Scheme)
	if err != nil {
		return kernels.Format{}
	}
	return f
}

// scaleAxis is what tells bins of scales apart: E4M3 scales come in bins of half
// an octave and count before the global scale, all others are what an element
// is multiplied by, in octaves.
func scaleAxis(v *sessions.Variant) string {
	if formatOf(v).Scale == e4m3Axis {
		return e4m3Axis
	}
	return "octaves"
}

// Axes by the elements' or the scales' number format.
const (
	e2m1Axis = "e2m1"
	e4m3Axis = "e4m3"
	int4Axis = "int4"
)

// codeAxis is what a bin of codes stands for: the elements' number format, or
// where that is not known a number.
func codeAxis(v *sessions.Variant) string {
	if e := formatOf(v).Element; e != "" {
		return e
	}
	return "number"
}

// searchAxis is what a search has chosen from; "" for a variant that does not
// search.
func searchAxis(v *sessions.Variant) string {
	if len(v.Multipliers) < 2 {
		return ""
	}
	name := v.Effective
	if name == "" {
		name = v.Name
	}
	_, method, _ := strings.Cut(name, "+")
	switch method {
	case "mse", "mse_ge1":
		return multipleAxis
	case sweepAxis, fourOverSixAxis, rangeAxis:
		return method
	}
	return "choices"
}

// Axes of searches, by method.
const (
	multipleAxis    = "multiples"
	sweepAxis       = "sweep"
	fourOverSixAxis = "4over6"
	rangeAxis       = "range"
)

// searchTitles name the axes of searches in a chart and beside a sparkline.
var searchTitles = map[string]struct{ chart, short string }{
	multipleAxis:    {"chosen multiples of the largest magnitude, % of blocks", "multipliers"},
	sweepAxis:       {"chosen scale, in codes off the nearest, % of blocks", "code offset"},
	fourOverSixAxis: {"the largest magnitude goes to, % of blocks", "largest to"},
	rangeAxis:       {"chosen share of the range, from … on, % of groups", "range kept"},
	"choices":       {"choices of the search, % of blocks", "choices"},
}

// alike are the variants of a list that share the axis of the current one, or of
// the first one that has an axis where the current one has none; others counts
// those with another axis. "" is no axis.
func alike[T any](list []T, of func(T) *sessions.Variant, current int, axis func(*sessions.Variant) string) (same []T, others int) {
	chosen := ""
	for _, t := range list {
		if a := axis(of(t)); a != "" && (chosen == "" || of(t).ID == current) {
			chosen = a
		}
	}
	for _, t := range list {
		switch axis(of(t)) {
		case "":
		case chosen:
			same = append(same, t)
		default:
			others++
		}
	}
	return same, others
}
