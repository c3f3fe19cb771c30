package sessions

import (
	"slices"

	"quantscope/analysis/calibrate"
)

// routedTokens sums counts up; nil where no layer has experts.
func routedTokens(counts []calibrate.Counts) *RoutedTokens {
	var all []int64
	for _, c := range counts {
		all = append(all, c.Expert...)
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	n := len(all)
	r := &RoutedTokens{Experts: n, Min: all[0], Max: all[n-1], Median: float64(all[(n-1)/2]+all[n/2]) / 2}
	for r.Inactive < n && all[r.Inactive] == 0 {
		r.Inactive++
	}
	return r
}
