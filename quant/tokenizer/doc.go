// Package tokenizer turns text into token ids and back, as a tokenizer.json or the
// vocabulary of a GGUF file says.
//
// It knows byte-level and byte-fallback BPE, Unigram and GGUF's pieces by score,
// with the normalizers, splits, templates and decoders that released checkpoints have;
// docs/corpora.md lists them. Split patterns are compiled by this package, to a
// machine that cannot run away.
//
// Promises: ids are those of the tokenizers library, and of llama.cpp for GGUF
// vocabularies, bit for bit, or the file is refused with the name of what is not
// known here: a model, a normalizer, a piece of a pattern. Nothing is guessed and
// nothing is skipped. What is read is bounded: ids, merges, nesting, patterns. A
// Tokenizer may be used from many goroutines at once. Chat templates are not
// executed.
package tokenizer
