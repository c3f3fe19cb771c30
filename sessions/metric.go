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
}

// Metrics lists them, the one that maps show first.
func Metrics() []Metric { return metrics }

var metrics = []Metric{
	{"rel_l2", "‖w−q‖/‖w‖", func(r *Record) float64 { return r.RelL2 }, 1, true},
	{"rel2", "‖w−q‖²/‖w‖²", func(r *Record) float64 { return r.Rel2 }, 1, true},
	{"cos", "cosine of w and q", func(r *Record) float64 { return r.Cos }, -1, false},
	{"sqnr", "signal to quantization noise, dB", func(r *Record) float64 { return r.SQNR }, -1, false},
	{"max_err", "largest |w−q|", func(r *Record) float64 { return r.MaxAbsErr }, 1, true},
	{"deep", "share of blocks clipped deeper than 1/16", func(r *Record) float64 { return shareOf(r.Deep, r.Blocks) }, 1, false},
	{"shallow", "share of blocks clipped up to 1/16 deep", func(r *Record) float64 { return shareOf(r.Shallow, r.Blocks) }, 1, false},
	{"deep_l2", "share of L2 mass in deeply clipped elements", func(r *Record) float64 { return r.DeepL2 }, 1, false},
	{"clamped", "share of scales clamped to their format's range", func(r *Record) float64 { return shareOf(r.ScaleHigh+r.ScaleLow, r.Blocks) }, 1, false},
	{"amax", "largest |w|", func(r *Record) float64 { return r.Amax }, 0, true},
	{"global", "scale of the whole tensor, where the format has one", globalScale, 0, true},
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
