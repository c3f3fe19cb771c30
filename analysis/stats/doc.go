// Package stats holds the small statistics that a comparison quotes: paired
// wins and losses, the Wilcoxon signed-rank test, quantiles.
//
// Promises: functions are safe for concurrent use on distinct arguments; only
// SortKeys changes what it is given; a value that is not finite
// never enters a sum or a rank, it is counted; a result that does not exist is
// NaN, never a panic. p values that underflow are given as their logarithm.
package stats
