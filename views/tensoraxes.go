package views

import (
	"slices"
	"strconv"
	"strings"

	"quantscope/kernels"
	"quantscope/sessions"
)

func variantOf(t tapOf) *sessions.Variant { return t.variant }

// leastOctaves is how many octaves of scales are drawn at the least, so that few
// are not spread over the whole width.
const leastOctaves = 8

// scaleChart is the stored scales by value, over the bins that are used. Bins of
// E4M3 scales are half octaves, which is four codes, and drawn in whole octaves.
func scaleChart(taps []tapOf, current int) tensorChart {
	taps, others := alike(taps, variantOf, current, scaleAxis)
	c := tensorChart{title: "scales by octave, % of scales", others: others}
	halves := len(taps) > 0 && scaleAxis(taps[0].variant) == e4m3Axis
	if halves {
		c.title = "E4M3 block scales before the global one, % of blocks"
	}
	lo, hi := kernels.ScaleBins, 0
	for _, t := range taps {
		for i, n := range t.tap.Scales {
			if n > 0 {
				lo, hi = min(lo, i), max(hi, i+1)
			}
		}
	}
	if lo >= hi {
		c.note = "no block has a scale"
		return c
	}
	if halves {
		lo, hi = lo&^1, (hi+1)&^1
	} else if few := leastOctaves - (hi - lo); few > 0 {
		lo = max(min(lo-few/2, kernels.ScaleBins-leastOctaves), 0)
		hi = max(hi, lo+leastOctaves)
	}
	for i := lo; i < hi; i++ {
		c.labels = append(c.labels, scaleLabel(formatOf(taps[0].variant), i))
	}
	for _, t := range taps {
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, percents(t.tap.Scales[lo:hi], t.tap.ScaleCount)})
	}
	return c
}

// scaleLabel is the scale at which a bin begins, "" where the bin begins within
// an octave. The first bin begins at 0, the last one of octaves has no end.
func scaleLabel(f kernels.Format, bin int) string {
	halves := f.Scale == e4m3Axis
	if halves && bin%2 != 0 {
		return ""
	}
	label := powerLabel(f.ScaleBinStart(bin))
	if !halves && bin == kernels.ScaleBins-1 {
		return "≥" + label
	}
	return label
}

// powerLabel writes a power of two in few cells: 4, 1/8, 2⁻¹¹.
func powerLabel(v float64) string {
	switch {
	case v <= 0:
		return "0"
	case v >= 1:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case v >= 1.0/64:
		return "1/" + strconv.FormatFloat(1/v, 'f', -1, 64)
	}
	exponent := 0
	for ; v < 1; v *= 2 {
		exponent++
	}
	return "2⁻" + strings.Map(func(r rune) rune { return []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0'] }, strconv.Itoa(exponent))
}

// Values of codes 0 to 7 of the formats whose upper half is negative: of E2M1,
// and of the upper four bits of E4M3, whose bins are two octaves of which the
// smaller end is named.
var (
	fp4Values = [8]string{"0", ".5", "1", "1.5", "2", "3", "4", "6"}
	fp8Values = [8]string{"0", "1/32", "1/8", "1/2", "2", "8", "32", "128"}
)

// codeChart is the use of codes, by value where they have one: E2M1 codes, the
// ranges of E4M3 codes, symmetric integers; asymmetric ones by number.
func codeChart(taps []tapOf, current int) tensorChart {
	taps, others := alike(taps, variantOf, current, codeAxis)
	c := tensorChart{title: "codes by number, % of elements", others: others}
	if len(taps) == 0 {
		return c
	}
	order, label := codeOrder(taps[0].variant), strconv.Itoa
	switch codeAxis(taps[0].variant) {
	case e2m1Axis:
		c.title, label = "E2M1 codes by value, % of elements", signedLabel(fp4Values)
	case e4m3Axis:
		c.title, label = "E4M3 codes by value, from … on, % of elements", signedLabel(fp8Values)
	case int4Axis:
		c.title = "int4 codes by number, % of elements"
		if !slices.ContainsFunc(taps, func(t tapOf) bool { return formatOf(t.variant).MinBits > 0 }) {
			c.title = "int4 codes by value in scales, % of elements"
			label = func(code int) string { return minus(strconv.Itoa(code - 8)) }
		}
	}
	for _, code := range order {
		c.labels = append(c.labels, label(code))
	}
	for _, t := range taps {
		all := percents(t.tap.Codes[:], t.tap.Elements)
		values := make([]float64, len(order))
		for i, code := range order {
			values[i] = all[code]
		}
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, values})
	}
	return c
}

// signedLabel names a code by its magnitude; codes from 8 on are negative.
func signedLabel(magnitudes [8]string) func(code int) string {
	return func(code int) string {
		if code >= 8 {
			return "−" + magnitudes[code-8]
		}
		return magnitudes[code]
	}
}

// codeOrder lists codes from the least value to the largest. Of floats 15 is the
// least, and 8 is −0.
func codeOrder(v *sessions.Variant) []int {
	out := make([]int, 16)
	floats := codeAxis(v) == e2m1Axis || codeAxis(v) == e4m3Axis
	for i := range out {
		out[i] = i
		if floats && i < 8 {
			out[i] = 15 - i
		} else if floats {
			out[i] = i - 8
		}
	}
	return out
}

// searchChart is what searches have chosen. Those that choose from different
// lists of the same kind share an axis of all that is in them.
func searchChart(taps []tapOf, current int) tensorChart {
	taps, others := alike(taps, variantOf, current, searchAxis)
	c := tensorChart{title: "choices of the search, % of blocks", others: others}
	if len(taps) > 0 {
		c.title = searchTitles[searchAxis(taps[0].variant)].chart
	}
	for _, t := range taps {
		c.labels = unite(c.labels, t.variant.Multipliers)
	}
	for _, t := range taps {
		var all int64
		for _, n := range t.tap.Multipliers {
			all += n
		}
		if all == 0 {
			continue
		}
		names := t.variant.Multipliers[:min(len(t.variant.Multipliers), kernels.MultBins)]
		values := spreadOver(c.labels, names, percents(t.tap.Multipliers[:len(names)], all))
		c.series = append(c.series, Series{Clean(t.variant.Name), t.variant.ID, values})
	}
	if len(c.series) == 0 {
		c.note = "no variant searches"
	}
	for i, l := range c.labels {
		c.labels[i] = minus(Clean(l))
	}
	return c
}
