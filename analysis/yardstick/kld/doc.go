// Package kld reads and writes the files that llama-perplexity keeps a
// reference's log probabilities in (--kl-divergence-base), and computes and
// prints its statistics.
//
// Promises: a file made here is read by that program and the other way round;
// scores follow its arithmetic, cut-offs and ties included, so that the same
// logits print the same digits. Sizes are checked against the file's before
// anything is allocated, and a file is read a row at a time. What the file cannot
// say (model, tokenizer, text, whether the first token of a chunk was replaced by
// BOS) is left unknown, never assumed.
//
//	+----------+-------+---------+---------+-----------------+------+------+---
//	| _logits_ | n_ctx | n_vocab | n_chunk | tokens          | row  | row  | …
//	| 8 bytes  | i32   | i32     | i32     | i32 [chunk·ctx] |      |      |
//	+----------+-------+---------+---------+-----------------+------+------+---
//
// All little-endian. A chunk has n_ctx−1−n_ctx/2 rows: those of its positions from
// n_ctx/2 on, each of which predicts the next token, but for the last, which has
// none. A row is
//
//	+-----------+------------------+---------------+-------------------------+
//	| f32 scale | f32 least ln p   | u16 [n_vocab] | u16 of padding to even  |
//	+-----------+------------------+---------------+-------------------------+
//
// and stands for ln p = scale·code + least, where what is more than 16 below the
// largest is raised to that.
package kld
