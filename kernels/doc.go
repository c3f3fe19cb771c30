// Package kernels holds the numbers: storage formats, block quantizers with
// their tap records, packing, conversions, matrix products, and what a forward
// pass and its scores do to rows. It knows nothing of files, models or sessions.
//
// Promises: every function is safe for concurrent use on distinct arguments;
// nothing keeps a reference to a caller's slice; lengths are checked and wrong
// ones are errors, never panics. The pure-Go code here is the definition of
// every kernel: other implementations of a Set return the same bits for codes,
// scales, packing and sums.
package kernels
