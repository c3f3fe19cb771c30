// Package codes keeps what calibrated quantizers chose: codes and group
// parameters, a file a unit (a decoder layer, an MTP layer, the head), written and
// synced as each is done, so that a checkpoint can be packed from them without
// calibrating again.
//
// Promises: a unit is whole or not there; a folder says of which weights, by which
// variant, on which text it was made, and whoever goes on with it must agree; what
// is read back is what was written, or an error that names the file, the tensor and
// the reason.
package codes
