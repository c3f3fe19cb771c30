// Package checkpoint reads and writes checkpoints: folders of safetensors
// files with config, index and tokenizer.
//
// Promises: Open reads headers only and validates the whole checkpoint before
// it returns; every length is checked against the file and a named maximum
// before anything is allocated; weights are read by positioned reads, never
// mapped, so that a cut or vanished file is an error and not a signal; a
// Checkpoint is safe for concurrent reads and keeps few files open however
// many shards it has. What is unknown is refused by name. Errors are one line:
// file, tensor, reason. A file that is written gets its name when it is
// complete and durable, not before.
//
// A safetensors file:
//
//	+---------+----------------------------------------------+---------+
//	| 8 bytes | n bytes                                      | data    |
//	| n, u64  | {"name":{"dtype":"BF16","shape":[2,3],       | without |
//	| little- |  "data_offsets":[0,12]}, … ,                 | holes   |
//	| endian  |  "__metadata__":{"format":"pt"}} and blanks  |         |
//	+---------+----------------------------------------------+---------+
//
// data_offsets count from the start of the data; shapes count elements; of the
// 4-bit dtype two elements share a byte.
package checkpoint
