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

// formats write the value of each metric.
var formats = map[string]string{
	"rel_l2": "%.4f", "rel2": "%.5f", "cos": "%.5f", "sqnr": "%.2f", "max_err": "%.3g", "deep": "%.4f", "shallow": "%.4f",
	"deep_l2": "%.5f", "clamped": "%.4f", "amax": "%.3g", "global": "%.3g",
}

var metrics = func() []Metric {
	var list []Metric
	for _, m := range sessions.Metrics() {
		list = append(list, Metric{m.Name, m.Help, formats[m.Name], m.Of, m.Worse})
	}
	return list
}()

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
