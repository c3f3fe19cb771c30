// Package recipe says which matrices of a checkpoint are to be quantized.
//
// Promises: a selection is decided from names, shapes and dtypes, before any
// weight is read; it is in storage order and the same every time. A pattern
// that matches nothing is an error that offers the nearest names; whatever was
// named and is not taken is listed with the reason.
//
// A File is a recipe as YAML: read strictly, with lines in errors, and written
// from an assignment so that, over the same matrices, it resolves to that again.
package recipe
