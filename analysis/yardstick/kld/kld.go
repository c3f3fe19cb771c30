// Package kld reads and writes the files that llama-perplexity keeps a
// reference's log probabilities in (--kl-divergence-base), and computes and
// prints its statistics.
//
// Promises: a file made here is read by that program and the other way round;
// scores follow its arithmetic, cut-offs and ties included, so that the same
// logits print the same digits. Sizes are checked against the file's before
// anything is allocated. What the file cannot say (model, tokenizer, text) is
// stated as unknown, never assumed.
package kld
