package sessions

// Figure is a float64 that JSON can carry: non-finite values are the strings
// "NaN", "Infinity" and "-Infinity".
type Figure float64

// Summary is what one variant did to all its tensors. Means, spans and worst
// cases are over the finite figures of measured tensors; what was left out is
// counted.
type Summary struct {
	Variant       string  `json:"variant"`
	Effective     string  `json:"effective"`
	BitsPerWeight float64 `json:"bits_per_weight"`

	Tensors   int64 `json:"tensors"`   // measured
	Failed    int64 `json:"failed"`    // could not be measured
	Pending   int64 `json:"pending"`   // not measured yet
	Elements  int64 `json:"elements"`  // weights of measured tensors
	NonFinite int64 `json:"nonfinite"` // non-finite source weights, failed tensors included
	LeftOut   int64 `json:"left_out"`  // measured tensors whose rel_l2 or cosine is not finite
	Blocks    int64 `json:"blocks"`    // of measured tensors

	MeanRel2      Figure `json:"mean_rel2"`
	MeanRelL2     Figure `json:"mean_rel_l2"`
	WorstTensor   string `json:"worst_tensor"` // "" where there is none
	WorstRelL2    Figure `json:"worst_rel_l2"`
	WorstOverMean Figure `json:"worst_over_mean"` // of rel_l2
	CosMin        Figure `json:"cos_min"`
	CosMax        Figure `json:"cos_max"`
	MaxAbsErr     Figure `json:"max_abs_err"`

	ShallowBlocks          Figure `json:"shallow_blocks"`           // share of blocks
	DeepBlocks             Figure `json:"deep_blocks"`              // share of blocks
	SubnormalClippedBlocks Figure `json:"subnormal_clipped_blocks"` // share of blocks, in neither of the two
	ShallowL2              Figure `json:"shallow_l2"`               // share of Σw² in the clipped elements of such blocks
	DeepL2                 Figure `json:"deep_l2"`

	ScalesClamped     int64 `json:"scales_clamped"` // high and low
	ScalesClampedHigh int64 `json:"scales_clamped_high"`
	ScalesClampedLow  int64 `json:"scales_clamped_low"`
	ScalesSubnormal   int64 `json:"scales_subnormal"`
	SubnormalClipped  int64 `json:"subnormal_clipped"` // blocks
	ZeroBlocks        int64 `json:"zero_blocks"`
}

// Summarize reduces one variant of a session. An ID out of range gives the zero
// Summary.
func Summarize(st *State, variant int) Summary { return Summary{} }
