package sessions

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Summary is what one variant did to all its tensors. Means, spans and worst
// cases are over the finite figures of measured tensors; what was left out is
// counted. A figure of nothing is NaN. Shares of blocks are of all blocks of
// measured tensors; shares of L2 are of Σw² over them.
type Summary struct {
	Variant       string  `json:"variant"`
	Effective     string  `json:"effective"` // what really ran, with the number of tensors where something fell back
	BitsPerWeight float64 `json:"bits_per_weight"`

	Tensors   int64 `json:"tensors"`   // measured
	Failed    int64 `json:"failed"`    // could not be measured
	Pending   int64 `json:"pending"`   // not measured yet
	Kept      int64 `json:"kept"`      // a recipe leaves them as the source has them
	Elements  int64 `json:"elements"`  // weights of measured tensors
	Blocks    int64 `json:"blocks"`    // of measured tensors
	NonFinite int64 `json:"nonfinite"` // non-finite source weights, failed tensors included
	LeftOut   int64 `json:"left_out"`  // measured tensors with a figure that is not finite

	MeanRel2      Figure `json:"mean_rel2"`
	MeanRelL2     Figure `json:"mean_rel_l2"`
	WorstTensor   string `json:"worst_tensor"` // "" where there is none
	WorstRelL2    Figure `json:"worst_rel_l2"`
	WorstOverMean Figure `json:"worst_over_mean"` // of rel_l2
	CosMin        Figure `json:"cos_min"`
	CosMax        Figure `json:"cos_max"`
	MaxAbsErr     Figure `json:"max_abs_err"`

	ShallowBlocks Figure `json:"shallow_blocks"` // share of blocks
	DeepBlocks    Figure `json:"deep_blocks"`
	ShallowL2     Figure `json:"shallow_l2"` // share of Σw² in the clipped elements of such blocks
	DeepL2        Figure `json:"deep_l2"`

	// Blocks whose scale is subnormal, so that its rounding is coarser than what
	// tells shallow from deep, are counted apart.
	SubnormalClipped       int64  `json:"subnormal_clipped"`        // blocks
	SubnormalClippedBlocks Figure `json:"subnormal_clipped_blocks"` // share of blocks

	ScalesClamped     int64 `json:"scales_clamped"` // high and low
	ScalesClampedHigh int64 `json:"scales_clamped_high"`
	ScalesClampedLow  int64 `json:"scales_clamped_low"`
	ScalesSubnormal   int64 `json:"scales_subnormal"`
	ZeroBlocks        int64 `json:"zero_blocks"`

	// Of formats with a codebook; absent of others. Means are over measured tensors.
	SignBias  *Figure        `json:"sign_bias,omitempty"` // mean of the sign biases' magnitudes
	MeanBias  *Figure        `json:"mean_bias,omitempty"` // mean of the sign biases
	RowBias   *Figure        `json:"row_bias,omitempty"`  // mean of the root mean squares over rows
	Codebooks []CodebookUsed `json:"codebooks,omitempty"` // most used first
}

// CodebookUsed is a codebook, and how many tensors have it.
type CodebookUsed struct {
	Values  string `json:"values"` // ascending: -6 -1 0 3
	Tensors int64  `json:"tensors"`
}

// Summarize reduces one variant of a session. An ID out of range gives the zero
// Summary.
func Summarize(st *State, variant int) Summary {
	if variant < 0 || variant >= len(st.Variants) || variant >= len(st.Records) {
		return Summary{}
	}
	v := st.Variants[variant]
	nan := math.NaN()
	a := totals{worst: nan, worstTensor: -1, cosMin: nan, cosMax: nan, maxAbsErr: nan}
	a.s = Summary{Variant: v.Name, Effective: effective(st, v), BitsPerWeight: v.BitsPerWeight}
	r := st.RecipeOf(variant)
	for t := range st.Records[variant] {
		if r != nil && t < len(r.Of) && r.Of[t] < 0 {
			a.s.Kept++
			continue
		}
		a.add(&st.Records[variant][t])
	}
	if a.worstTensor >= 0 {
		a.s.WorstTensor = st.Tensors[a.worstTensor].Name
	}
	return a.summary()
}

// totals are what a Summary is made of. Sums of f64 are over finite values.
type totals struct {
	s Summary // its counts

	rel2, relL2           mean
	worst, cosMin, cosMax float64 // NaN before any
	maxAbsErr             float64
	worstTensor           int
	shallow, deep         int64
	w2, shallowW2, deepW2 float64

	bias, absBias, rowBias mean
	books                  map[uint16]int64
}

func (a *totals) add(r *Record) {
	s := &a.s
	s.NonFinite += r.NonFinite
	switch {
	case r.Seq == 0:
		s.Pending++
		return
	case r.Failed:
		s.Failed++
		return
	}
	s.Tensors++
	s.Elements += r.Elements
	s.Blocks += r.Blocks
	s.ScalesClampedHigh += r.ScaleHigh
	s.ScalesClampedLow += r.ScaleLow
	s.ScalesSubnormal += r.ScaleSubnormal
	s.ZeroBlocks += r.ZeroBlocks
	s.SubnormalClipped += r.SubnormalClipped
	a.shallow += r.Shallow
	a.deep += r.Deep
	if !isFinite(r.Rel2) || !isFinite(r.RelL2) || !isFinite(r.Cos) {
		s.LeftOut++
	}
	a.rel2.add(r.Rel2)
	a.relL2.add(r.RelL2)
	if isFinite(r.RelL2) && !(r.RelL2 <= a.worst) {
		a.worst, a.worstTensor = r.RelL2, r.Tensor
	}
	if isFinite(r.Cos) && !(r.Cos >= a.cosMin) {
		a.cosMin = r.Cos
	}
	if isFinite(r.Cos) && !(r.Cos <= a.cosMax) {
		a.cosMax = r.Cos
	}
	if isFinite(r.MaxAbsErr) && !(r.MaxAbsErr <= a.maxAbsErr) {
		a.maxAbsErr = r.MaxAbsErr
	}
	if r.Codebook != 0 {
		a.bias.add(r.Bias)
		a.absBias.add(math.Abs(r.Bias))
		a.rowBias.add(r.RowBias)
		if a.books == nil {
			a.books = map[uint16]int64{}
		}
		a.books[r.Codebook]++
	}
	if isFinite(r.W2) && isFinite(r.ShallowL2) && isFinite(r.DeepL2) {
		a.w2 += r.W2
		a.shallowW2 += r.ShallowL2 * r.W2
		a.deepW2 += r.DeepL2 * r.W2
	}
}

func (a *totals) summary() Summary {
	s := a.s
	s.ScalesClamped = s.ScalesClampedHigh + s.ScalesClampedLow
	s.MeanRel2, s.MeanRelL2, s.WorstRelL2 = Figure(a.rel2.value()), Figure(a.relL2.value()), Figure(a.worst)
	s.WorstOverMean = Figure(a.worst / a.relL2.value())
	if a.worst == 0 { // all are exact: none is worse than the mean
		s.WorstOverMean = 1
	}
	s.CosMin, s.CosMax, s.MaxAbsErr = Figure(a.cosMin), Figure(a.cosMax), Figure(a.maxAbsErr)
	blocks := float64(s.Blocks) // 0 gives NaN: shares of nothing
	s.ShallowBlocks, s.DeepBlocks = Figure(float64(a.shallow)/blocks), Figure(float64(a.deep)/blocks)
	s.SubnormalClippedBlocks = Figure(float64(s.SubnormalClipped) / blocks)
	s.ShallowL2, s.DeepL2 = Figure(share(a.shallowW2, a.w2)), Figure(share(a.deepW2, a.w2))
	if s.Tensors == 0 {
		s.ShallowL2, s.DeepL2 = Figure(math.NaN()), Figure(math.NaN())
	}
	a.summarizeBias(&s)
	return s
}

// summarizeBias fills in what is of formats with a codebook alone.
func (a *totals) summarizeBias(s *Summary) {
	if len(a.books) == 0 {
		return
	}
	figure := func(m *mean) *Figure {
		f := Figure(m.value())
		return &f
	}
	s.SignBias, s.MeanBias, s.RowBias = figure(&a.absBias), figure(&a.bias), figure(&a.rowBias)
	for mask, n := range a.books {
		s.Codebooks = append(s.Codebooks, CodebookUsed{CodebookText(mask), n})
	}
	slices.SortFunc(s.Codebooks, func(x, y CodebookUsed) int {
		return cmp.Or(cmp.Compare(y.Tensors, x.Tensors), cmp.Compare(x.Values, y.Values))
	})
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// mean is a mean of the finite values among those added.
type mean struct {
	sum float64
	n   int64
}

func (m *mean) add(x float64) {
	if isFinite(x) {
		m.sum += x
		m.n++
	}
}

func (m *mean) value() float64 { return m.sum / float64(m.n) } // NaN of none

// effective names what ran under a variant: its own effective name, and in
// brackets what some tensors fell back to.
func effective(st *State, v Variant) string {
	fell := map[string]map[int]bool{}
	for _, e := range st.Log {
		if e.Kind != EventFallback || e.Variant != v.ID {
			continue
		}
		if fell[e.Effective] == nil {
			fell[e.Effective] = map[int]bool{}
		}
		fell[e.Effective][e.Tensor] = true
	}
	name := v.Effective
	if name == v.Plain() {
		name = v.Name // with the label of a joined state
	}
	if len(fell) == 0 {
		return name
	}
	var parts []string
	for what, tensors := range fell {
		parts = append(parts, fmt.Sprintf("%s for %s", what, count(int64(len(tensors)), "tensor")))
	}
	slices.Sort(parts)
	return name + " (" + strings.Join(parts, ", ") + ")"
}
