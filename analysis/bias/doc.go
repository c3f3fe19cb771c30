// Package bias follows the errors of a quantized model through its depth, and asks
// whether they have a sign: of weights, of what each block adds to the residual
// stream, and of the stream itself. Two candidates of equal error can differ in it,
// and only one of them fails.
//
// Promises: reference and candidates see the same tokens in one pass; sums are f64;
// positions that are not finite are counted and enter nothing else; how large a figure
// is where errors have no sign is measured and stands beside it.
package bias
