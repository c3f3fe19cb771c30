package views

import (
	"math"

	"quantscope/sessions"
)

// Metric is a figure of a record that can colour a map and rank tensors.
type Metric struct {
	Name   string // rel_l2
	Help   string // one line
	Format string // of fmt, for one value
	// Of is the value; NaN where the record has none.
	Of func(r *sessions.Record) float64
	// Worse is +1 where a larger value is worse, -1 where a smaller one is, 0 for
	// figures that are neither.
	Worse int
}

// Metrics lists what a map can be coloured by, the default first.
func Metrics() []Metric { return metrics }

var metrics = []Metric{
	{"rel_l2", "‖w−q‖/‖w‖", "%.4f", func(r *sessions.Record) float64 { return r.RelL2 }, 1},
	{"rel2", "‖w−q‖²/‖w‖²", "%.5f", func(r *sessions.Record) float64 { return r.Rel2 }, 1},
	{"cos", "cosine of w and q", "%.5f", func(r *sessions.Record) float64 { return r.Cos }, -1},
	{"sqnr", "signal to quantization noise, dB", "%.2f", func(r *sessions.Record) float64 { return r.SQNR }, -1},
	{"max_err", "largest |w−q|", "%.3g", func(r *sessions.Record) float64 { return r.MaxAbsErr }, 1},
	{"deep", "share of blocks clipped deeper than 1/16", "%.4f", func(r *sessions.Record) float64 { return share(r.Deep, r.Blocks) }, 1},
	{"shallow", "share of blocks clipped up to 1/16 deep", "%.4f", func(r *sessions.Record) float64 { return share(r.Shallow, r.Blocks) }, 1},
	{"deep_l2", "share of L2 mass in deeply clipped elements", "%.5f", func(r *sessions.Record) float64 { return r.DeepL2 }, 1},
	{"clamped", "share of scales clamped to their format's range", "%.4f", func(r *sessions.Record) float64 { return share(r.ScaleHigh+r.ScaleLow, r.Blocks) }, 1},
	{"amax", "largest |w|", "%.3g", func(r *sessions.Record) float64 { return r.Amax }, 0},
	{"global", "scale of the whole tensor, where the format has one", "%.3g", globalScale, 0},
}

// globalScale is NaN where the format has none; a record then says 0.
func globalScale(r *sessions.Record) float64 {
	if r.GlobalScale == 0 {
		return math.NaN()
	}
	return r.GlobalScale
}

func share(n, of int64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return float64(n) / float64(of)
}

// MetricByName finds a metric.
func MetricByName(name string) (Metric, bool) {
	for _, m := range metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}
