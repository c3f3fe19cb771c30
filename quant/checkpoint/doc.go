// Package checkpoint reads checkpoints.
//
// Promises: Open reads headers only and validates the whole checkpoint before
// it returns; every length is checked against the file and a named maximum
// before anything is allocated; weights are read by positioned reads, never
// mapped; a Checkpoint is safe for concurrent reads. What is unknown is refused
// by name. Errors are one line: file, tensor, reason.
package checkpoint
