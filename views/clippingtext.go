package views

import (
	"fmt"
	"strings"
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
	name string
	sum  clipSum
}

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
	var b strings.Builder
	deep := c.deep > 0
	if deep {
		fmt.Fprintf(&b, "%s clips %s of blocks deeper than the rounding of a scale can explain", shown.name, roughPercent(c.blockShare(c.deep)))
		if mass := c.massShare(c.deepMass); isNumber(mass) {
			fmt.Fprintf(&b, " (%s of the L2 mass)", roughPercent(mass))
		}
	} else {
		fmt.Fprintf(&b, "%s clips no block deeper than the rounding of a scale can explain, and %s within it", shown.name, roughPercent(c.blockShare(c.shallow)))
	}
	var none []string
	for _, o := range others {
		switch {
		case o.sum.blocks == 0:
		case o.sum.deep == 0:
			none = append(none, o.name)
		default:
			fmt.Fprintf(&b, "; %s %s", o.name, roughPercent(o.sum.blockShare(o.sum.deep)))
			if !deep {
				b.WriteString(" deeper")
			}
		}
	}
	if len(none) > 0 {
		fmt.Fprintf(&b, "; %s none", join(none))
		if !deep {
			b.WriteString(" deeper")
		}
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
