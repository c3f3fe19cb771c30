// Package calibrate measures what goes into every linear map and quantizes by it.
//
// Promises: a method runs on a matrix only where the inputs that it reads were
// measured on that matrix; what falls back is told with the reason and counted by
// share of parameters. Layers are calibrated in order, through the layers quantized
// so far. Results are bit for bit the same for any number of threads, for any memory,
// and whether or not the run was interrupted. A calibrated arm that is its baseline,
// code for code, is an error. Errors name the layer, the tensor and the position.
package calibrate
