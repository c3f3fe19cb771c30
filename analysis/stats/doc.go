// Package stats holds the statistics that comparisons and landscapes quote:
// paired wins and losses, rank tests, analysis of variance, correlations,
// distances of distributions, intervals of shares, adjusted p values, the
// bootstrap.
//
// Promises: functions are safe for concurrent use on distinct arguments; only
// SortKeys changes what it is given; a value that is not finite
// never enters a sum or a rank, it is counted; a result that does not exist is
// NaN, never a panic, and where a struct is returned its Why says why it does
// not exist. p values that underflow are given as their logarithm.
package stats
