package kld

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	magic      = "_logits_"
	headerSize = len(magic) + 3*4
	rowHead    = 8     // bytes of scale and least ln p
	depth      = 16    // what is kept below the largest ln p, in nats
	cutOff     = -16   // the divergence leaves out what the reference gives less than e^-16
	steps      = 65535 // codes but one
	sumError   = 0.01  // of the sum of a row's probabilities: 16 bits make less than 2e-4 of it
)

// Bounds on what a header may say. The largest vocabularies have a few hundred
// thousand entries, the longest contexts some millions of tokens.
const (
	maxVocab = 1 << 24
	maxCtx   = 1 << 26
)

// ErrFormat is wrapped by errors about a file that is no such file, or is cut.
var ErrFormat = errors.New("not a whole file of log probabilities")

// Layout is the shape of a file.
type Layout struct {
	NCtx   int // tokens of a chunk
	Vocab  int
	Chunks int
}

// First is the first position of a chunk that has a row.
func (l Layout) First() int { return l.NCtx / 2 }

// Rows is how many positions of a chunk have one: First, First+1, …, NCtx−2.
func (l Layout) Rows() int { return l.NCtx - 1 - l.NCtx/2 }

// rowBytes is the size of a row: its head, the codes, and one more where the
// vocabulary is odd.
func (l Layout) rowBytes() int64 { return rowHead + 2*(int64(l.Vocab)+int64(l.Vocab)%2) }

// header is the size of what stands before the rows.
func (l Layout) header() int64 { return int64(headerSize) + 4*int64(l.NCtx)*int64(l.Chunks) }

// Size is the size of the file in bytes.
func (l Layout) Size() int64 {
	return l.header() + int64(l.Chunks)*int64(l.Rows())*l.rowBytes()
}

// check says what is wrong with a layout, in words for after a file's name.
func (l Layout) check() error {
	switch {
	case l.Vocab < 1 || l.Vocab > maxVocab:
		return fmt.Errorf("n_vocab is %d, want 1 to %d", l.Vocab, maxVocab)
	case l.NCtx < 3 || l.NCtx > maxCtx:
		return fmt.Errorf("n_ctx is %d, want 3 to %d", l.NCtx, maxCtx)
	case l.Chunks < 1 || int64(l.Chunks) > maxTokens/int64(l.NCtx):
		return fmt.Errorf("n_chunk is %d with n_ctx %d, want at least 1 and at most %d tokens", l.Chunks, l.NCtx, maxTokens)
	}
	return nil
}

// maxTokens bounds the product of the header's counts, so that sizes below do
// not overflow: 2^31 tokens times rows of 2^25 bytes are below 2^63.
const maxTokens = 1<<31 - 1

func (l Layout) encode() []byte {
	b := []byte(magic)
	for _, n := range []int{l.NCtx, l.Vocab, l.Chunks} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// at is where row i of a chunk begins.
func (l Layout) at(chunk, i int) int64 {
	return l.header() + (int64(chunk)*int64(l.Rows())+int64(i))*l.rowBytes()
}

// inside says whether there is such a row.
func (l Layout) inside(chunk, i int) error {
	if chunk < 0 || chunk >= l.Chunks || i < 0 || i >= l.Rows() {
		return fmt.Errorf("kld: row %d of chunk %d of %d chunks with %d rows", i, chunk, l.Chunks, l.Rows())
	}
	return nil
}
