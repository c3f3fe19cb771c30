package sessions

import (
	"fmt"
	"math"
	"strings"
)

// Metric is a figure of a record that tensors can be ranked and compared by.
type Metric struct {
	Name string // rel_l2
	Help string // one line
	// Of is the value; NaN where the record has none.
	Of func(r *Record) float64
	// Worse is +1 where a larger value is worse, -1 where a smaller one is, 0 for
	// figures that are neither.
	Worse int
	// Relative says how two values are compared: by (b−a)/|a|, else by b−a. Shares
	// are often exactly 0, and a logarithm is a ratio already.
	Relative bool
	// Diverging says that values lie around 0: they are compared and ranked by how far
	// they are from it.
	Diverging bool
}

// Metrics lists them, the one that maps show first.
func Metrics() []Metric { return metrics }

var metrics = []Metric{
	{Name: "rel_l2", Help: "‖w−q‖/‖w‖", Of: func(r *Record) float64 { return r.RelL2 }, Worse: 1, Relative: true},
	{Name: "rel2", Help: "‖w−q‖²/‖w‖²", Of: func(r *Record) float64 { return r.Rel2 }, Worse: 1, Relative: true},
	{Name: "cos", Help: "cosine of w and q", Of: func(r *Record) float64 { return r.Cos }, Worse: -1},
	{Name: "sqnr", Help: "signal to quantization noise, dB", Of: func(r *Record) float64 { return r.SQNR }, Worse: -1},
	{Name: "max_err", Help: "largest |w−q|", Of: func(r *Record) float64 { return r.MaxAbsErr }, Worse: 1, Relative: true},
	{Name: "deep", Help: "share of blocks clipped deeper than 1/16", Of: func(r *Record) float64 { return shareOf(r.Deep, r.Blocks) }, Worse: 1},
	{Name: "shallow", Help: "share of blocks clipped up to 1/16 deep", Of: func(r *Record) float64 { return shareOf(r.Shallow, r.Blocks) }, Worse: 1},
	{Name: "deep_l2", Help: "share of L2 mass in deeply clipped elements", Of: func(r *Record) float64 { return r.DeepL2 }, Worse: 1},
	{Name: "clamped", Help: "share of scales clamped to their format's range", Of: func(r *Record) float64 { return shareOf(r.ScaleHigh+r.ScaleLow, r.Blocks) }, Worse: 1},
	{Name: "amax", Help: "largest |w|", Of: func(r *Record) float64 { return r.Amax }, Relative: true},
	{Name: "global", Help: "scale of the whole tensor, where the format has one", Of: globalScale, Relative: true},
	{Name: "sign_bias", Help: "Σ(q−w)/Σ|w|: above 0 weights grow toward +∞", Of: func(r *Record) float64 { return ofCodebook(r, r.Bias) }, Worse: 1, Diverging: true},
	{Name: "row_bias", Help: "root mean square over rows of Σ(q−w)/Σ|w|", Of: func(r *Record) float64 { return ofCodebook(r, r.RowBias) }, Worse: 1},
}

// ofCodebook is a figure that a record has only where its format has a codebook.
func ofCodebook(r *Record, v float64) float64 {
	if r.Codebook == 0 {
		return math.NaN()
	}
	return v
}

// globalScale is NaN where the format has none; a record then says 0.
func globalScale(r *Record) float64 {
	if r.GlobalScale == 0 {
		return math.NaN()
	}
	return r.GlobalScale
}

func shareOf(n, of int64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return float64(n) / float64(of)
}

// MetricByName finds a metric; the error lists those there are.
func MetricByName(name string) (Metric, error) {
	var known []string
	for _, m := range metrics {
		if m.Name == name {
			return m, nil
		}
		known = append(known, m.Name)
	}
	return Metric{}, fmt.Errorf("metric %q is not known (known: %s)", name, strings.Join(known, ", "))
}
