// Package mend puts back what quantizing a checkpoint lost beside the weights
// that it meant to change: MTP tensors and their entries in index and config, the
// exceptions of the quantization config, processors, tokenizer, chat template.
//
// Promises: everything is looked at and said before a byte is written; what a step
// takes comes from the source checkpoint, byte for byte, and what cannot be decided
// is refused with the reason. A new folder has its name when it is whole. In place
// every file is written beside and swapped, in an order in which the checkpoint can
// be read at every moment, and what is replaced is kept in a folder beside it. After
// writing the result is opened again: no step may be left to do, and grafted tensors
// are compared with the source's.
package mend
