// Package tier keeps the experts that a workload asks for most in four bits, within a
// budget of bytes, and all others in two. What it decides on is routing: recorded from
// the forward pass, read from a file, or made up after Zipf's law.
//
// Promises: the same trace, shape and policy give the same moves; the bytes that are
// held never exceed the budget, at no moment; hits are counted with the map that was in
// force when a token came, never with the one that its window led to; nothing is an
// average that hides a layer: every figure can be had layer by layer. A map says which
// checkpoint it is of, and is never found half written.
package tier
