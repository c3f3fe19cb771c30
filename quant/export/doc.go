// Package export writes quantized checkpoints in the layouts that servers
// read.
//
// Promises: everything is known and checked before a weight is read: names,
// shapes, sizes, config, index, the space on the disk. A tensor that is not
// targeted is copied byte for byte, a shard keeps its name and its tensors, and
// every side file comes along. What a layout cannot say is refused by name.
// The same plan gives the same bytes, whatever the order in which the parts of
// the matrices come, however often the work was interrupted, and in however
// many parts it was done.
//
// A folder that is not finished says so: it has files whose names begin with
// incomplete-export, no index and no config.json. See Writer for the protocol
// and docs/formats.md for the layouts, byte by byte.
package export
