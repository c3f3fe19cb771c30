// Package recipe says which matrices of a checkpoint are to be quantized.
//
// Promises: a selection is decided from names, shapes and dtypes, before any
// weight is read; it is in storage order and the same every time. A pattern
// that matches nothing is an error that offers the nearest names; whatever was
// named and is not taken is listed with the reason.
package recipe
