// Package model is the one forward pass: decoder language models, layer by
// layer, over any source of weights.
//
// A Spec says what an architecture computes; it is read from a config, and what
// the config asks for and this package does not know is refused by name. A Source
// gives the weights, by role and not by name, so that a checkpoint, a variant
// made on the fly and somebody's export go through the same arithmetic.
//
// Promises: one layer's weights are in memory at a time, as they are stored;
// products expand them in panels. The same tokens, weights and kernel set give
// the same bits for any number of threads and for any other chunks in the pass.
// Activations are f32, sums of norms f64; with Options.BF16 they are rounded to
// bf16 where a bf16 run would store them. A value that is not finite stops the
// pass with the layer and the position.
package model
