// Package model is the one forward pass: decoder language models, layer by
// layer, over any source of weights.
//
// A Spec says what an architecture computes; it is read from a config, and what
// the config asks for and this package does not know is refused by name. A Source
// gives the weights, by role and not by name, so that a checkpoint, a variant
// made on the fly and somebody's export go through the same arithmetic.
//
// A Pass takes chunks of text through several sources, layer by layer. Promises:
// one layer's weights of a source are in memory at a time, as they are stored, and
// of its experts a part; products expand them in panels; Plan says how much text
// fits beside them. Layers that sources have in common are computed once. The same
// tokens, weights and kernel set give the same bits for any number of threads, for
// any other chunks and sources in the pass, and for a Decoder that takes the text
// token by token or a Batch that takes several so, with tokens that an MTP module drafts or
// without; a Walk, which goes a layer at a time and lets each be changed before
// the text goes on, is the same pass. Activations are f32, sums of norms f64; with Options.BF16 they
// are rounded to bf16 where a bf16 run would store them. A value that is not
// finite stops the pass with layer, chunk and position, or is told of and stays
// with the texts that see it.
package model
