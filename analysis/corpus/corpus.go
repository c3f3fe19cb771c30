// Package corpus holds texts as token ids: what a model is measured on, and what
// it is calibrated on.
//
// Promises: a corpus says how it was made (tokenizer, chunking, begin token) and
// carries the SHA-256 of its ids as little-endian int32, which is checked when it
// is read. Ids outside a vocabulary, a begin token twice, a text shorter than a
// chunk and text that is in both calibration and evaluation are refused with the
// place.
package corpus

import (
	"crypto/sha256"
	"encoding/binary"
)

// Corpus is one text, or several, in chunks of token ids. Each chunk goes through
// a model on its own.
type Corpus struct {
	Name      string // prose, code, …
	Source    string // a file, "demo" for an embedded one
	Chunks    [][]int32
	SHA256    [sha256.Size]byte // of all ids, chunk after chunk, as little-endian int32
	Tokenizer string            // identity of the tokenizer that made the ids, "" where it is not known
	BOS       string            // rule of the begin token: none, each (the first of every chunk), text (the first of a text), replace, as-is
	Chunking  string            // how chunks were cut, in words
	Calib     bool              // meant for calibration

	Behaviour string    // of the tokenizer (tokenizer.Behaviour), "" where it is not known
	Begin     int32     // the begin token, -1 where none is known
	Texts     []Text    // what it was made from, where that is known
	LeftOver  int       // tokens at the end that fill no chunk and are not in it
	Findings  []Finding // what is odd about it
}

// Text is a file, or a line of one, that a corpus was made from.
type Text struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Finding is something odd about a corpus. Perplexities of a corpus with one that
// has Incomparable are not to be reported as comparable with others'.
type Finding struct {
	ID           string `json:"id"` // begin-twice, begin-unchecked, byte-order-mark, tokenizer-spelling
	Message      string `json:"message"`
	Chunk        int    `json:"chunk"`
	Position     int    `json:"position"`
	Token        int32  `json:"token"`
	Incomparable bool   `json:"incomparable"`
}

// Incomparable is why perplexities on this corpus cannot be compared with others',
// "" where they can.
func (c *Corpus) Incomparable() string {
	for _, f := range c.Findings {
		if f.Incomparable {
			return f.Message
		}
	}
	return ""
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

// sum is the SHA-256 of all ids, chunk after chunk, as little-endian int32.
func sum(chunks [][]int32) [sha256.Size]byte {
	h := sha256.New()
	var buf []byte
	for _, k := range chunks {
		buf = buf[:0]
		for _, id := range k {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(id))
		}
		_, _ = h.Write(buf) // a hash never fails
	}
	return [sha256.Size]byte(h.Sum(nil))
}
