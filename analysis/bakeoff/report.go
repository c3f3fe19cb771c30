package bakeoff

import "quantscope/analysis/landscape"

// Report is how levers did against a base variant on a sample.
type Report struct {
	Base    string        `json:"base"`
	Metric  string        `json:"metric"`
	Change  string        `json:"change"` // what changes are: relative, or difference
	Method  string        `json:"method"` // of the test and the intervals
	Seed    uint64        `json:"seed"`
	Tensors int           `json:"tensors"` // different ones
	Strata  []StratumInfo `json:"strata"`
	// Overlaps are strata that share tensors: each is measured once and counted in both.
	Overlaps []Overlap `json:"overlaps"`
	LeftOut  int       `json:"left_out"` // tensors that the base variant could not measure, in no stratum
	Levers   []Lever   `json:"levers"`
	Notes    []string  `json:"notes"` // what to bear in mind when reading them
}

// StratumInfo says how a stratum was drawn.
type StratumInfo struct {
	Stratum string `json:"stratum"`
	Asked   string `json:"asked"` // as in --sample
	N       int    `json:"n"`
	Of      int    `json:"of"` // tensors that it was drawn of
}

// Lever is a variant against the base.
type Lever struct {
	Variant       string    `json:"variant"`
	BitsPerWeight float64   `json:"bits_per_weight"`
	BaseBytes     int64     `json:"base_bytes"` // of the compared tensors as the base stores them; -1 where it is not known
	Bytes         int64     `json:"bytes"`
	Outcomes      []Outcome `json:"outcomes"` // by stratum, then over the sample (Stratum is "sample")
	// SameAsBase: no figure of any compared tensor differs from the base's. The
	// lever fell back, or does nothing here.
	SameAsBase bool   `json:"same_as_base"`
	Verdict    string `json:"verdict"`
}

// Whole is the outcome over the sample.
func (l *Lever) Whole() *Outcome { return &l.Outcomes[len(l.Outcomes)-1] }

// Outcome is a lever against the base over some tensors. Figures are over the N pairs whose
// two values are finite.
type Outcome struct {
	Stratum string `json:"stratum"`
	Tensors int    `json:"tensors"`
	Pending int    `json:"pending"`  // not measured yet on one side
	Failed  int    `json:"failed"`   // could not be measured on one side
	LeftOut int    `json:"left_out"` // measured, and a value is not finite
	N       int    `json:"n"`
	Wins    int    `json:"wins"` // of the lever
	Ties    int    `json:"ties"`
	Losses  int    `json:"losses"`

	BaseMean     landscape.Value `json:"base_mean"`
	Mean         landscape.Value `json:"mean"`
	MeanChange   landscape.Value `json:"mean_change"`   // of the mean
	MedianChange landscape.Value `json:"median_change"` // over tensors
	WorstChange  landscape.Value `json:"worst_change"`
	WorstTensor  string          `json:"worst_tensor"` // "" where there is none

	Test Test `json:"wilcoxon"`

	BaseClipping Clipping `json:"base_clipping"`
	Clipping     Clipping `json:"clipping"`
}

// Test is the signed-rank test of the differences.
type Test struct {
	Method string          `json:"method"`
	N      int             `json:"n"`     // differences that are not 0
	Zeros  int             `json:"zeros"` // left out before ranking
	Plus   float64         `json:"plus"`  // rank sums: of differences above 0, and below it
	Minus  float64         `json:"minus"`
	P      landscape.Value `json:"p"` // two-sided
	Log10P landscape.Value `json:"log10_p"`
}

// Clipping is over all blocks of the compared tensors.
type Clipping struct {
	Shallow   landscape.Value `json:"shallow"` // share of blocks
	Deep      landscape.Value `json:"deep"`
	ShallowL2 landscape.Value `json:"shallow_l2"` // share of Σw²
	DeepL2    landscape.Value `json:"deep_l2"`
}
