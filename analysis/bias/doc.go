// Package bias follows the errors of a quantized model through its depth, and asks
// whether they have a sign: of weights, of what each block adds to the residual
// stream, and of the stream itself. Two candidates of equal error can differ in it; what
// that does to predictions is measured beside it.
//
// Promises: reference and candidates see the same tokens in one pass; sums are f64, of
// a position over its channels in their order and then position by position, of a
// matrix over the columns of a row and then row by row, so that figures are the same
// bits for any number of threads, any memory and any other candidates beside;
// positions that are not finite are counted and enter nothing else; how large a shift
// is where errors have no sign is measured and stands beside it, and what rounding of
// activations alone does is a candidate of its own.
package bias
