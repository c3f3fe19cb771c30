// Package census looks at the second-level scales of projections that a server
// fuses (gate and up; q, k and v): are they equal, what does a server that uses
// the first one for all do to the others, and what would mend it.
//
// Promises: a census reads scales of one number and nothing else; the proof reads
// the matrices of one pair at a time. The source checkpoint is never written to.
// What cannot be compared is listed with the reason.
package census
