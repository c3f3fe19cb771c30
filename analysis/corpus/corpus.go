// Package corpus holds texts as token ids: what a model is measured on, and what
// it is calibrated on.
//
// Promises: a corpus says how it was made (tokenizer, chunking, begin token) and
// carries the SHA-256 of its ids as little-endian int32, which is checked when it
// is read. Ids outside a vocabulary, a begin token twice, a text shorter than a
// chunk and text that is in both calibration and evaluation are refused with the
// place.
package corpus

import "crypto/sha256"

// Corpus is one text, or several, in chunks of token ids. Each chunk goes through
// a model on its own.
type Corpus struct {
	Name      string // prose, code, …
	Source    string // a file, "demo" for an embedded one
	Chunks    [][]int32
	SHA256    [sha256.Size]byte // of all ids, chunk after chunk, as little-endian int32
	Tokenizer string            // identity of the tokenizer that made the ids, "" where it is not known
	BOS       string            // rule of the begin token: none, each (the first of every chunk), text (the first of a text), as-is
	Chunking  string            // how chunks were cut, in words
	Calib     bool              // meant for calibration
}

// Positions is how many predictions the corpus scores: one less than the tokens
// of each chunk.
func (c *Corpus) Positions() int64 {
	var n int64
	for _, k := range c.Chunks {
		n += int64(max(len(k)-1, 0))
	}
	return n
}

// Tokens is how many tokens all chunks have.
func (c *Corpus) Tokens() int64 {
	var n int64
	for _, k := range c.Chunks {
		n += int64(len(k))
	}
	return n
}
