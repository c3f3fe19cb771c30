package bakeoff

import (
	"fmt"
	"strings"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// Metric is a figure by which variants are compared.
type Metric struct {
	Name string
	// Worse is +1 where a larger value is worse, -1 where a smaller one is.
	Worse int
	// Relative: the change is (b − a)/|a|, else b − a.
	Relative bool

	of func(s *landscape.Sample) float64
}

var metrics = []Metric{
	{"rel2", 1, true, func(s *landscape.Sample) float64 { return s.Rel2 }},
	{"rel_l2", 1, true, func(s *landscape.Sample) float64 { return s.RelL2 }},
	{"cos", -1, false, func(s *landscape.Sample) float64 { return s.Cos }},
	{"deep", 1, false, func(s *landscape.Sample) float64 { return share(s.Deep, s.Blocks) }},
	{"deep_l2", 1, false, func(s *landscape.Sample) float64 { return s.DeepL2 }},
}

// share is NaN of nothing.
func share(part, whole int64) float64 { return float64(part) / float64(whole) }

// MetricNames are the known metrics, the default first.
func MetricNames() []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.Name
	}
	return names
}

// MetricByName finds a metric; an unknown name is refused with the known ones.
func MetricByName(name string) (Metric, error) {
	for _, m := range metrics {
		if m.Name == name {
			return m, nil
		}
	}
	return Metric{}, fmt.Errorf("metric %q is not known (known: %s)", name, strings.Join(MetricNames(), ", "))
}

// change is the step from a to b of one tensor.
func (m Metric) change(a, b float64) float64 {
	if m.Relative {
		return stats.RelativeChange(a, b)
	}
	return b - a
}
