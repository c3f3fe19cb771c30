package kld

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"quantscope/quant/checkpoint"
)

// Reader is an opened file. Row may be called from any goroutine.
type Reader struct {
	Layout
	Path   string
	Tokens [][]int32 // by chunk, as they were before a BOS took the place of the first

	f    *os.File
	raw  sync.Pool
	deep atomic.Bool
}

// Open reads the header and the tokens, and holds all sizes against the file's:
// one that is short or long by a byte is refused. Errors wrap ErrFormat or are of
// the system.
func Open(path string) (*Reader, error) {
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{Path: path, f: f}
	if err := r.open(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open() error {
	info, err := r.f.Stat()
	if err != nil {
		return checkpoint.SystemError(r.Path, err)
	}
	size := info.Size()
	head := make([]byte, headerSize)
	if size < int64(headerSize) {
		return r.refuse("%d bytes are too short for a header of %d", size, headerSize)
	}
	if _, err := r.f.ReadAt(head, 0); err != nil {
		return checkpoint.SystemError(r.Path, err)
	}
	if string(head[:len(magic)]) != magic {
		return r.refuse("does not begin with %s", magic)
	}
	field := func(i int) int { return int(int32(binary.LittleEndian.Uint32(head[len(magic)+4*i:]))) }
	r.Layout = Layout{NCtx: field(0), Vocab: field(1), Chunks: field(2)}
	if err := r.check(); err != nil {
		return r.refuse("%v", err)
	}
	switch want := r.Size(); {
	case size < r.header():
		return r.refuse("%d bytes do not hold the %d·%d tokens of its header", size, r.Chunks, r.NCtx)
	case size < want:
		whole := (size - r.header()) / (int64(r.Rows()) * r.rowBytes())
		return r.refuse("%d bytes, want %d: cut after %d of %d chunks", size, want, whole, r.Chunks)
	case size > want:
		return r.refuse("%d bytes, want %d: %d more than the header asks for", size, want, size-want)
	}
	if err := r.tokens(); err != nil {
		return err
	}
	return r.probe()
}

func (r *Reader) refuse(format string, args ...any) error {
	return &checkpoint.FileError{File: r.Path, Reason: fmt.Sprintf(format, args...), Err: ErrFormat}
}

func (r *Reader) tokens() error {
	raw := make([]byte, 4*r.NCtx)
	r.Tokens = make([][]int32, r.Chunks)
	for c := range r.Tokens {
		if _, err := r.f.ReadAt(raw, int64(headerSize)+int64(c)*int64(len(raw))); err != nil {
			return checkpoint.SystemError(r.Path, err)
		}
		ids := make([]int32, r.NCtx)
		for i := range ids {
			ids[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
			if ids[i] < 0 || int(ids[i]) >= r.Vocab {
				return r.refuse("token %d at position %d of chunk %d is outside its vocabulary of %d", ids[i], i, c, r.Vocab)
			}
		}
		r.Tokens[c] = ids
	}
	return nil
}

// probe looks at the first row of some chunks, so that a file with a deeper clamp
// is known before it is scored.
func (r *Reader) probe() error {
	var row Row
	for c := 0; c < r.Chunks; c += max(r.Chunks/16, 1) {
		if err := r.Row(c, 0, &row); err != nil {
			return err
		}
	}
	return nil
}

// Row reads row i of a chunk, that of position First()+i, into dst, whose memory
// is used again.
func (r *Reader) Row(chunk, i int, dst *Row) error {
	if err := r.inside(chunk, i); err != nil {
		return err
	}
	n := int(r.rowBytes())
	p, _ := r.raw.Get().(*[]byte)
	if p == nil {
		b := make([]byte, n)
		p = &b
	}
	defer r.raw.Put(p)
	if _, err := r.f.ReadAt(*p, r.at(chunk, i)); err != nil {
		if err == io.EOF {
			return r.refuse("ends within row %d of chunk %d: it has become shorter", i, chunk)
		}
		return checkpoint.SystemError(r.Path, err)
	}
	dst.decode(*p, r.Vocab)
	switch s, l := float64(dst.Scale), float64(dst.Least); {
	case math.IsNaN(s) || math.IsInf(s, 0) || s < 0 || math.IsNaN(l) || math.IsInf(l, 0):
		return r.refuse("row %d of chunk %d has scale %g and least ln p %g", i, chunk, s, l)
	case s*steps > depth*1.001:
		r.deep.Store(true)
	}
	if sum, clamped := dst.sum(); !(sum > 1-sumError && sum < 1+sumError+clamped) {
		return r.refuse("row %d of chunk %d: its probabilities sum to %.4g", i, chunk, sum)
	}
	return nil
}

// Deep says whether a row read so far reaches further than 16 nats below its
// largest entry. llama.cpp never writes one; a fork of it (ik_llama.cpp) clamps at
// 24 under the same magic, and its statistics are others.
func (r *Reader) Deep() bool { return r.deep.Load() }

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }
