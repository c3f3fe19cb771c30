package kld

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"quantscope/quant/checkpoint"
)

// Writer writes a file under a temporary name. Row may be called from any
// goroutine, in any order.
type Writer struct {
	Layout
	Path   string
	Tokens [][]int32

	f    *checkpoint.AtomicFile
	mu   sync.Mutex
	done []bool // by row of the file
	left int
	bufs sync.Pool
}

type buffers struct {
	row Row
	raw []byte
}

// Create begins a file of chunks of equal length. A file at path stays as it is
// until Commit.
func Create(path string, vocab int, tokens [][]int32) (*Writer, error) {
	w := &Writer{Path: path, Tokens: tokens, Layout: Layout{Vocab: vocab, Chunks: len(tokens)}}
	if len(tokens) > 0 {
		w.NCtx = len(tokens[0])
	}
	if err := w.check(); err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: err.Error()}
	}
	head := w.encode()
	for c, ids := range tokens {
		if len(ids) != w.NCtx {
			return nil, &checkpoint.FileError{File: path, Reason: fmt.Sprintf("chunk %d has %d tokens and chunk 0 has %d: the file holds chunks of one length", c, len(ids), w.NCtx)}
		}
		for i, id := range ids {
			if id < 0 || int(id) >= vocab {
				return nil, &checkpoint.FileError{File: path, Reason: fmt.Sprintf("token %d at position %d of chunk %d is outside the vocabulary of %d", id, i, c, vocab)}
			}
			head = binary.LittleEndian.AppendUint32(head, uint32(id))
		}
	}
	w.left = w.Chunks * w.Rows()
	w.done = make([]bool, w.left)
	f, err := checkpoint.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	w.f = f
	if _, err := f.WriteAt(head, 0); err != nil {
		w.Abandon()
		return nil, checkpoint.SystemError(path, err)
	}
	return w, nil
}

// Row writes the logits of position First()+i of a chunk and returns −ln p of the
// token that follows there.
func (w *Writer) Row(chunk, i int, logits []float32) (nll float64, err error) {
	if err := w.inside(chunk, i); err != nil {
		return 0, err
	}
	if len(logits) != w.Vocab {
		return 0, fmt.Errorf("kld: %d logits for a vocabulary of %d", len(logits), w.Vocab)
	}
	b, _ := w.bufs.Get().(*buffers)
	if b == nil {
		b = &buffers{raw: make([]byte, w.rowBytes())}
	}
	defer w.bufs.Put(b)
	if nll, err = b.row.Set(logits, w.Tokens[chunk][w.First()+i+1]); err != nil {
		return 0, fmt.Errorf("chunk %d, position %d: %w", chunk, w.First()+i, err)
	}
	b.row.encode(b.raw)
	if _, err := w.f.WriteAt(b.raw, w.at(chunk, i)); err != nil {
		return 0, checkpoint.SystemError(w.Path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := chunk*w.Rows() + i; !w.done[at] {
		w.done[at] = true
		w.left--
	}
	return nll, nil
}

// Commit makes the file durable under its name. One with rows missing is thrown
// away, and the first of them named.
func (w *Writer) Commit() error {
	if w.left > 0 {
		at := slices.Index(w.done, false)
		w.Abandon()
		return &checkpoint.FileError{File: w.Path, Reason: fmt.Sprintf("%d of %d rows were never written, the first of chunk %d", w.left, len(w.done), at/w.Rows())}
	}
	return w.f.Commit()
}

// Abandon throws the file away. After Commit it does nothing.
func (w *Writer) Abandon() { _ = w.f.Abandon() }
