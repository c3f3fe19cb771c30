package views

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/sessions"
)

// percent writes a share as a figure of percent, without the sign: a share of
// exactly 0 is 0, and what would round to it is not. It has no more than two
// digits after the point.
func percent(share float64) string {
	p := 100 * share
	switch {
	case !isNumber(p):
		return "–"
	case p == 0:
		return "0"
	case p > 0 && p < 0.005:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", p)
}

// roughPercent is percent for a sentence: one digit after the point.
func roughPercent(share float64) string {
	p := 100 * share
	switch {
	case !isNumber(p):
		return "–"
	case p == 0:
		return "0 %"
	case p > 0 && p < 0.05:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", p)
}

// clipFigure is what a sentence says of one variant.
type clipFigure struct {
	name   string
	format kernels.Format
	sum    clipSum
}

// deepLimit is the limit of deep clipping in words. Rounding a scale explains
// depths up to there where scales are E4M3; under other scales it is a measure
// like any other.
func deepLimit(shown clipFigure, others []clipFigure) (words, within string) {
	if !mixedScales(append([]clipFigure{shown}, others...)) {
		return "deeper than the rounding of a scale can explain", "within it"
	}
	if shown.sum.deep > 0 {
		return "by more than 1/16 of their largest magnitude", "by less"
	}
	return "by more than 1/16 of its largest magnitude", "by less"
}

// mixedScales says whether any scales are not E4M3.
func mixedScales(figures []clipFigure) bool {
	return slices.ContainsFunc(figures, func(f clipFigure) bool { return f.format.Scale != "" && f.format.Scale != e4m3Axis })
}

// scaleReason says how much clipping the scales of a variant account for where
// that is not the limit of deep clipping; "" where it is. A bf16 scale is off by
// 2⁻⁹ at most. The rule for powers of two lets a largest magnitude up to 7 stand
// for 6, which is a seventh (kernels: mxfp4Chooser).
func scaleReason(v *sessions.Variant) string {
	f := formatOf(v)
	switch {
	case f.Scale == "e8m0" && v.Convention == kernels.ModelOpt.String():
		return "scales are powers of two, rounded up: they clip nothing"
	case f.Scale == "e8m0":
		return "scales are powers of two: they alone clip up to 1/7"
	case f.Element == e4m3Axis && v.Convention == kernels.CT.String():
		return "rounding a scale to bf16 explains 1/512 at most"
	case f.Element == e4m3Axis:
		return "rounding an f32 scale clips nothing"
	case f.Element == int4Axis && f.MinBits > 0:
		return "codes reach half a step beyond both ends: rounding a scale clips nothing"
	case f.Element == int4Axis:
		return "rounding a scale to bf16 explains 1/512 at most"
	}
	return ""
}

// e4m3Reason is scaleReason for E4M3 scales, where others stand beside them.
const e4m3Reason = "rounding an E4M3 scale explains 1/16"

// namedAtMost is how many other variants a sentence names; more are counted.
const namedAtMost = 4

// clipSentence says in plain words what the figures of the shown variant mean,
// and how the other variants compare.
func clipSentence(shown clipFigure, others []clipFigure, total int) string {
	c := &shown.sum
	if total == 0 {
		return "No tensor is shown: the filter or the projection hides all of them."
	}
	if c.blocks == 0 {
		return shown.name + " has no block measured yet."
	}
	limit, within := deepLimit(shown, others)
	var b strings.Builder
	deep := c.deep > 0
	if deep {
		fmt.Fprintf(&b, "%s clips %s of blocks %s", shown.name, roughPercent(c.blockShare(c.deep)), limit)
		if mass := c.massShare(c.deepMass); isNumber(mass) {
			fmt.Fprintf(&b, " (%s of the L2 mass)", roughPercent(mass))
		}
	} else {
		fmt.Fprintf(&b, "%s clips no block %s, and %s %s", shown.name, limit, roughPercent(c.blockShare(c.shallow)), within)
	}
	deeper := ""
	if !deep {
		deeper = " deeper"
	}
	var none, some []clipFigure
	for _, o := range others {
		switch {
		case o.sum.blocks == 0:
		case o.sum.deep == 0:
			none = append(none, o)
		default:
			some = append(some, o)
		}
	}
	share := func(o clipFigure) float64 { return o.sum.blockShare(o.sum.deep) }
	if len(some) > namedAtMost {
		most := slices.MaxFunc(some, func(a, b clipFigure) int { return cmp.Compare(share(a), share(b)) })
		fmt.Fprintf(&b, "; %d others up to %s%s (%s)", len(some), roughPercent(share(most)), deeper, most.name)
		some = nil
	}
	for _, o := range some {
		fmt.Fprintf(&b, "; %s %s%s", o.name, roughPercent(share(o)), deeper)
	}
	switch {
	case len(none) > namedAtMost:
		fmt.Fprintf(&b, "; %d others none%s", len(none), deeper)
	case len(none) > 0:
		var names []string
		for _, o := range none {
			names = append(names, o.name)
		}
		fmt.Fprintf(&b, "; %s none%s", join(names), deeper)
	}
	b.WriteByte('.')
	return b.String()
}

// clipNote says on how much the sentence rests, and what it leaves out.
func clipNote(c *clipSum, total int) string {
	var note string
	switch {
	case c.tensors == total:
		note = fmt.Sprintf("all %s measured", plural(total, "tensor"))
	case c.failed > 0:
		note = fmt.Sprintf("%s of %s measured, %s failed", thousands(c.tensors), plural(total, "tensor"), thousands(c.failed))
	default:
		note = fmt.Sprintf("%s of %s measured so far", thousands(c.tensors), plural(total, "tensor"))
	}
	if c.subnormal > 0 {
		note += fmt.Sprintf("; %s clipped under a subnormal scale, which rounds coarser, count as neither", roughPercent(c.blockShare(c.subnormal)))
	}
	return note
}

// join lists words: a, b and c.
func join(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
