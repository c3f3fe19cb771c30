package compare

import "quantscope/analysis/landscape"

// Report is what a comparison found. B is compared with A: a win is a tensor on
// which B is better.
type Report struct {
	Metric Metric `json:"metric"`
	A      Named  `json:"a"`
	B      Named  `json:"b"`

	Tensors   int `json:"tensors"`    // that both sessions have
	Pairs     int `json:"pairs"`      // of which both sides have a finite figure
	Pending   int `json:"pending"`    // one side is not measured yet
	Failed    int `json:"failed"`     // one side could not be measured
	NotFinite int `json:"not_finite"` // one side has a figure that is not finite, or none

	Outcome
	Median       landscape.Value `json:"median_change"` // of the changes, tensor by tensor
	Undefined    int             `json:"undefined"`     // pairs without a relative change: A is 0 and B is not
	Wilcoxon     Wilcoxon        `json:"wilcoxon"`
	Distribution Distribution    `json:"distribution"` // of the changes
	Worst        []Regression    `json:"worst"`        // the worst first
	Layers       []Place         `json:"layers"`
	Projections  []Place         `json:"projections"`
	Size         Size            `json:"size"` // of all tensors that both sessions have
}

// Named says which variant a side is.
type Named struct {
	Session string `json:"session"`
	Variant string `json:"variant"`
	Alone   int    `json:"alone"` // tensors of the session that the other one does not have: left out
}

// Outcome is what a set of pairs says.
type Outcome struct {
	Wins   int `json:"wins"`
	Ties   int `json:"ties"` // equal bit for bit
	Losses int `json:"losses"`
	// The mean of either side, and the change from one to the other with an
	// interval: of a relative metric (ΣB − ΣA)/|ΣA|, else the mean of b − a.
	MeanA  landscape.Value `json:"mean_a"`
	MeanB  landscape.Value `json:"mean_b"`
	Change landscape.Value `json:"mean_change"`
}

// Place is the outcome over one layer or projection.
type Place struct {
	Name  string `json:"name"` // L5, M46 for an MTP layer; down, shared gate
	Pairs int    `json:"pairs"`
	Outcome
}

// WilcoxonMethod names the test.
const WilcoxonMethod = "Wilcoxon signed-rank, two-sided, zeros dropped, normal approximation with tie correction"

// Wilcoxon is the signed-rank test of the differences b − a.
type Wilcoxon struct {
	Method string          `json:"method"`
	N      int             `json:"n"`     // differences that are not 0
	Zeros  int             `json:"zeros"` // dropped
	Plus   float64         `json:"plus"`  // rank sum of the positive differences
	Minus  float64         `json:"minus"`
	Z      landscape.Value `json:"z"`
	P      landscape.Value `json:"p"` // 0 where it underflows
	Log10P landscape.Value `json:"log10_p"`
}

// Distribution is that of the changes. Low … High is cut into bins of equal
// width; what lies outside is counted beside them.
type Distribution struct {
	Why       string     `json:"why,omitempty"` // why there is none
	Quantiles []Quantile `json:"quantiles"`
	Low       float64    `json:"low"`
	High      float64    `json:"high"`
	Below     int        `json:"below"`
	Counts    []int      `json:"counts"`
	Above     int        `json:"above"`
}

// Quantile is one of the distribution.
type Quantile struct {
	Q     float64 `json:"q"`
	Value float64 `json:"value"`
}

// Regression is a tensor on which B is worse.
type Regression struct {
	Item       int             `json:"-"`
	Tensor     string          `json:"tensor"`
	Layer      string          `json:"layer"`
	Projection string          `json:"projection"`
	A          float64         `json:"a"`
	B          float64         `json:"b"`
	Change     landscape.Value `json:"change"`
}

// Size is what the two variants take.
type Size struct {
	Why    string          `json:"why,omitempty"` // why it is not known; the figures are 0 then
	A      int64           `json:"a_bytes"`
	B      int64           `json:"b_bytes"`
	Bytes  int64           `json:"change_bytes"` // B − A
	Change landscape.Value `json:"change"`       // (B − A)/A
	BitsA  landscape.Value `json:"a_bits_per_weight"`
	BitsB  landscape.Value `json:"b_bits_per_weight"`
}
