package bakeoff

import (
	"math"
	"slices"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// leastPairs is how many pairs a mean has to have for an interval.
const leastPairs = 3

// meanChange is the change of the mean, or the mean of the change, with its
// interval (stats.MeanChange). Pairs that all say the same give none: what does
// not vary but by rounding has no spread to judge by.
func meanChange(m Metric, a, b []float64) landscape.Value {
	if len(a) == 0 {
		return landscape.Undefined("no pair")
	}
	change, low, high := stats.MeanChange(a, b, m.Relative, landscape.Confidence)
	switch {
	case !isFinite(change):
		return landscape.Undefined("the base's mean is 0")
	case len(a) < leastPairs || !(high-low > 1e-12*math.Abs(change)):
		return landscape.Exact(change)
	}
	return landscape.Value{V: change, Low: low, High: high}
}

// median is that of changes, with the interval between two order statistics.
func median(changes []float64) landscape.Value {
	if len(changes) == 0 {
		return landscape.Undefined("no pair whose change is defined")
	}
	sorted := slices.Sorted(slices.Values(changes))
	v := landscape.Exact(stats.Quantile(sorted, 0.5))
	v.Low, v.High = stats.MedianInterval(sorted, landscape.Confidence)
	return v
}
