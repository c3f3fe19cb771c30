// Package recode finds the matrices of a checkpoint that are stored as FP4 codes, E2M1
// under the scales of blocks, and reads them for what changes their codes and nothing
// else: two bits of four, where no original in more bits is there.
//
// Promises: which matrices those are is what package layout found in the tensors, not
// what names or configs say. What a person targets and is stored otherwise is left out
// with the reason; what is stored as FP4 and broken is refused by its name. Reading needs
// the memory of one matrix's codes and scales. Scales are never changed.
package recode
