// Package suite is what gates ask: probes as data, read from YAML, with their cases
// written out or made from a seed.
//
// Promises: a suite's cases are the same, byte for byte, wherever it is read; an
// unknown field, grader or generator is refused with the line and the known ones; a
// suite that could pass without an answer is refused.
package suite
