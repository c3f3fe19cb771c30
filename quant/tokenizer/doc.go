// Package tokenizer turns text into token ids and back, as a tokenizer.json says.
//
// It knows byte-level and byte-fallback BPE and Unigram, with the normalizers,
// splits, templates and decoders that checkpoints in the wild have. Split patterns
// are compiled by this package, whose syntax is what such patterns use: classes,
// Unicode properties, greedy repetition, alternatives, look-ahead.
//
// Promises: ids are those of the tokenizers library, bit for bit, or the file is
// refused with the name of what is not known here: a model, a normalizer, a
// piece of a pattern. Nothing is guessed and nothing is skipped. A Tokenizer may
// be used from many goroutines at once. Chat templates are not executed.
package tokenizer
