package views

import (
	"fmt"
	"math"

	"quantscope/analysis/stats"
	"quantscope/quant/method"
	"quantscope/sessions"
)

// sizes are what a variant stores each tensor in, in bytes, scales and all; nil
// where this program does not know the variant.
func sizes(state *sessions.State, variant int) []int64 {
	if variant < 0 || variant >= len(state.Variants) {
		return nil
	}
	known := map[string]method.Variant{}
	for _, name := range state.Kinds(variant) {
		v, err := method.Parse(name)
		if err != nil {
			return nil
		}
		known[name] = v
	}
	out := make([]int64, len(state.Tensors))
	for t := range state.Tensors {
		x := &state.Tensors[t]
		how, quantized := state.How(variant, t)
		if v, ok := known[how.Plain()]; ok {
			out[t] = v.Bytes(x.Rows, x.Cols)
		} else if out[t] = -1; !quantized {
			out[t] = sessions.SourceBytes(x)
		}
	}
	return out
}

// sizeOf is a size of a list; -1 where it is not known.
func sizeOf(list []int64, tensor int) int64 {
	if tensor >= len(list) {
		return -1
	}
	return list[tensor]
}

// addSizes adds up what is shown; -1 once one is not known.
func (o *comparison) addSizes(a, b int64) {
	if a < 0 || b < 0 || o.bytesA < 0 {
		o.bytesA, o.bytesB = -1, -1
		return
	}
	o.bytesA, o.bytesB = o.bytesA+a, o.bytesB+b
}

// sizeWords is the size of both sides over what is shown.
func (o *comparison) sizeWords() string {
	if o.bytesA < 0 || o.total == 0 {
		return "–"
	}
	a, b := sizeText(o.bytesA), sizeText(o.bytesB)
	return a + " → " + b
}

// sizeChange is the change of the size: of bytes, where they are known, else of
// bits per weight.
func (o *comparison) sizeChange(a, b *sessions.Variant) float64 {
	if o.bytesA > 0 {
		return stats.RelativeChange(float64(o.bytesA), float64(o.bytesB))
	}
	if !(a.BitsPerWeight > 0) {
		return math.NaN()
	}
	return stats.RelativeChange(a.BitsPerWeight, b.BitsPerWeight)
}

// bitsWords is the bits per weight of both sides.
func bitsWords(a, b *sessions.Variant) string {
	if !(a.BitsPerWeight > 0) || !(b.BitsPerWeight > 0) {
		return "–"
	}
	return fmt.Sprintf("%.4g → %.4g", a.BitsPerWeight, b.BitsPerWeight)
}

// confidence of the interval that is shown beside a change of means.
const confidence = 0.95

// rel2Reach is how far the change of mean rel2 may be off at that confidence,
// taking the pairs as a sample: Student's t times the standard error of a ratio,
// √(Σ(b − a·ΣB/ΣA)²/(n(n−1)))/ā (Cochran 1977, section 6.4). NaN of fewer than
// two pairs.
func (p *pairs) rel2Reach(shown func(t int) bool) float64 {
	sum := &p.outcome.rel2
	n := float64(sum.N)
	if sum.N < 2 || !(sum.SumA > 0) {
		return math.NaN()
	}
	ratio, squares := sum.SumB/sum.SumA, 0.0
	for t := range p.changes {
		a, b := p.left.rel2[t], p.right.rel2[t]
		if d := b - ratio*a; isNumber(d) && shown(t) {
			squares += d * d
		}
	}
	return stats.StudentQuantile((1+confidence)/2, n-1) * math.Sqrt(squares/(n*(n-1))) / (sum.SumA / n)
}
