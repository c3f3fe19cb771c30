// Package align holds two checkpoints against each other matrix by matrix,
// whatever stores them, and undoes first what a tool does to weights without
// changing the model: smoothing, and another order of rows.
//
// Promises: nothing is undone that the evidence does not support, and what is undone
// is said for each matrix, with the figures before and after. A scale that a norm
// was divided by comes from the norm itself and must explain the columns of the
// matrices behind it; one between two linear maps must agree in both; an order of
// rows must match them one to one. Sums are f64, non-finite elements are counted and
// in no sum. Memory is a few rows a worker, and the sums by row and column of one
// layer's matrices.
package align
