package bakeoff

import (
	"fmt"
	"math"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// Compare holds levers, arms of a table, against its arm base over a sample of its
// items.
func Compare(t *landscape.Table, base int, levers []int, s *Sample, m Metric) (*Report, error) {
	for _, arm := range append([]int{base}, levers...) {
		if arm < 0 || arm >= len(t.Arms) || len(t.Arms[arm].Samples) != len(t.Items) || len(t.Arms[arm].Bytes) != len(t.Items) {
			return nil, fmt.Errorf("no arm %d with a sample for each item", arm)
		}
	}
	r := &Report{
		Base: t.Arms[base].Name, Metric: m.Name, Change: "difference", Seed: s.Seed, Tensors: len(s.Items),
		Overlaps: s.Overlaps(), LeftOut: s.LeftOut, Strata: []StratumInfo{}, Levers: []Lever{},
		Method: fmt.Sprintf("intervals of %.0f %%: of the mean's change by Student's t, of the median's by order statistics; two-sided p of each lever by itself", 100*landscape.Confidence),
	}
	if m.Relative {
		r.Change = "relative"
	}
	for _, st := range s.Strata {
		r.Strata = append(r.Strata, StratumInfo{st.Spec.Name(), st.Spec.String(), len(st.Items), st.Of})
	}
	r.Notes = notes(s)
	for _, l := range levers {
		r.Levers = append(r.Levers, compare(t, base, l, s, m))
	}
	return r, nil
}

// notes say what a sample cannot show.
func notes(s *Sample) []string {
	out := []string{}
	random := false
	for _, st := range s.Strata {
		switch {
		case st.Spec.Kind == Worst && len(st.Items) < st.Of:
			out = append(out, "worst was chosen by the base's own error, so that a part of what any lever gains there is regression to the mean")
		case st.Spec.Kind == Random:
			random = true
		}
	}
	switch {
	case !random:
		out = append(out, "nothing was drawn at random, so that the sample says nothing of the tensors outside of it")
	case len(s.Strata) > 1:
		out = append(out, "only random stands for all tensors; the sample as a whole has too many of the other strata")
	}
	return out
}

// WholeSample names the outcome over all of a sample.
const WholeSample = "sample"

func compare(t *landscape.Table, base, lever int, s *Sample, m Metric) Lever {
	a, b := &t.Arms[base], &t.Arms[lever]
	l := Lever{Variant: b.Name, BitsPerWeight: b.BitsPerWeight}
	for i := range s.Strata {
		l.Outcomes = append(l.Outcomes, outcome(t, a, b, s.Strata[i].Spec.Name(), s.Strata[i].Items, m))
	}
	l.Outcomes = append(l.Outcomes, outcome(t, a, b, WholeSample, s.Items, m))
	same := 0
	for _, i := range s.Items {
		x, y := &a.Samples[i], &b.Samples[i]
		if x.State != landscape.Measured || y.State != landscape.Measured {
			continue
		}
		if *x == *y {
			same++
		}
		l.BaseBytes, l.Bytes = addBytes(l.BaseBytes, a.Bytes[i]), addBytes(l.Bytes, b.Bytes[i])
	}
	l.SameAsBase = same > 0 && same == l.Whole().N
	l.Verdict = verdict(&l, a.Name, m)
	return l
}

// addBytes adds sizes, of which a negative one is not known.
func addBytes(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}

func outcome(t *landscape.Table, a, b *landscape.Arm, name string, items []int, m Metric) Outcome {
	o := Outcome{Stratum: name, Tensors: len(items)}
	var pairs stats.Paired
	var x, y, differences, changes []float64
	var clipA, clipB clipSums
	worst, worstItem := math.Inf(-1), -1
	undefined := 0
	for _, i := range items {
		sa, sb := &a.Samples[i], &b.Samples[i]
		switch {
		case sa.State == landscape.Failed || sb.State == landscape.Failed:
			o.Failed++
			continue
		case sa.State == landscape.Pending || sb.State == landscape.Pending:
			o.Pending++
			continue
		}
		va, vb := m.of(sa), m.of(sb)
		if !isFinite(va) || !isFinite(vb) {
			o.LeftOut++
			continue
		}
		pairs.Add(va, vb, m.Worse)
		x, y, differences = append(x, va), append(y, vb), append(differences, vb-va)
		clipA.add(sa)
		clipB.add(sb)
		c := m.change(va, vb)
		bad := c * float64(m.Worse)
		if !isFinite(c) { // from exactly 0: worse than any that is defined
			undefined++
			bad = math.MaxFloat64
		} else {
			changes = append(changes, c)
		}
		if bad > worst {
			worst, worstItem = bad, i
		}
	}
	o.N, o.Wins, o.Ties, o.Losses = pairs.N, pairs.Wins, pairs.Ties, pairs.Losses
	o.BaseMean, o.Mean = mean(x), mean(y)
	o.MeanChange, o.MedianChange = meanChange(m, x, y), median(changes)
	o.WorstChange = landscape.Undefined("no pair")
	if worstItem >= 0 {
		o.WorstTensor = t.Items[worstItem].Name
		o.WorstChange = landscape.Exact(worst * float64(m.Worse))
		if undefined > 0 {
			o.WorstChange = landscape.Undefined(fmt.Sprintf("the base's value is 0 and the lever's is not, for %d of %d", undefined, o.N))
		}
	}
	o.Test = signedRank(differences)
	o.BaseClipping, o.Clipping = clipA.clipping(), clipB.clipping()
	return o
}

func mean(values []float64) landscape.Value {
	if len(values) == 0 {
		return landscape.Undefined("no pair")
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return landscape.Exact(sum / float64(len(values)))
}

// clipSums gather the clipping of some tensors.
type clipSums struct {
	blocks, shallow, deep int64
	w2, shallowW2, deepW2 float64
}

func (c *clipSums) add(s *landscape.Sample) {
	c.blocks += s.Blocks
	c.shallow += s.Shallow
	c.deep += s.Deep
	if isFinite(s.W2) && isFinite(s.ShallowL2) && isFinite(s.DeepL2) {
		c.w2 += s.W2
		c.shallowW2 += s.ShallowL2 * s.W2
		c.deepW2 += s.DeepL2 * s.W2
	}
}

func (c *clipSums) clipping() Clipping {
	blocks, weights := landscape.Undefined("no block"), landscape.Undefined("every weight is 0")
	out := Clipping{blocks, blocks, weights, weights}
	if c.blocks > 0 {
		out.Shallow, out.Deep = landscape.Exact(share(c.shallow, c.blocks)), landscape.Exact(share(c.deep, c.blocks))
	}
	if c.w2 > 0 {
		out.ShallowL2, out.DeepL2 = landscape.Exact(c.shallowW2/c.w2), landscape.Exact(c.deepW2/c.w2)
	}
	return out
}
