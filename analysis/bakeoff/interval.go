package bakeoff

import (
	"slices"

	"quantscope/analysis/landscape"
	"quantscope/analysis/stats"
)

// resamples is of the bootstrap: the ends of a 95 % interval then move by some
// hundredths of its width from seed to seed.
const resamples = 2000

// leastPairs is how many pairs a mean has to have for an interval.
const leastPairs = 3

// meanChange is the change of the mean, or the mean of the change, with its
// percentile interval over resampled pairs. Pairs that all say the same give no
// interval: what does not vary has no spread to judge by.
func meanChange(m Metric, a, b []float64, seed uint64) landscape.Value {
	if len(a) == 0 {
		return landscape.Undefined("no pair")
	}
	change := func(idx []int) float64 {
		var sa, sb float64
		for _, i := range idx {
			sa += a[i]
			sb += b[i]
		}
		if m.Relative {
			return stats.RelativeChange(sa, sb)
		}
		return (sb - sa) / float64(len(idx))
	}
	all := make([]int, len(a))
	for i := range all {
		all[i] = i
	}
	v := landscape.Exact(change(all))
	if !isFinite(v.V) {
		return landscape.Undefined("the base's mean is 0")
	}
	if len(a) < leastPairs {
		return v
	}
	if r := stats.BootstrapCI(len(a), seed, resamples, change, landscape.Confidence); r.Why == "" && r.Low < r.High {
		v.Low, v.High = r.Low, r.High
	}
	return v
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
