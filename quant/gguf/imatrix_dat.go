package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
)

// readLegacy reads the format that llama-imatrix wrote before GGUF, numbers of
// four bytes:
//
//	+---------+----------------------------------------------------+--------+--------+------+
//	| entries | length, name, calls, values, f32 × values | …      | chunks | length | text |
//	+---------+----------------------------------------------------+--------+--------+------+
//
// where a value is the mean of the squares times calls, and what follows the last
// entry may be missing. Nothing says its byte order: it is little-endian where that
// makes sense of the whole file.
func readLegacy(r io.ReaderAt, path string, size int64) (*Imatrix, error) {
	var first error
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		m, err := readDat(&cursor{r: r, name: path, size: size, order: order, what: "header"})
		if err == nil {
			return m, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func readDat(c *cursor) (*Imatrix, error) {
	const kind = "it is neither GGUF nor the older imatrix format, or it is damaged"
	n, err := c.u32()
	if err != nil {
		return nil, c.fail("%d bytes are too short for an imatrix", c.size)
	}
	// An entry has 17 bytes at least: three numbers, one byte of name, one value.
	if n == 0 || int64(n) > (c.size-4)/17 {
		return nil, c.fail("a count of %d entries in a file of %d bytes: %s", n, c.size, kind)
	}
	m := &Imatrix{Legacy: true}
	seen := map[string]bool{}
	for i := range n {
		c.what = fmt.Sprintf("entry %d", i)
		name, err := c.shortText(maxWrittenName)
		if err != nil {
			return nil, err
		}
		if name == "" || seen[name] {
			return nil, c.fail("entry %d has the name %q, empty or a duplicate", i, name)
		}
		seen[name] = true
		c.what = fmt.Sprintf("entry %q", name)
		calls, err := c.u32()
		if err != nil {
			return nil, err
		}
		values, err := c.u32()
		if err != nil {
			return nil, err
		}
		if values == 0 || values > math.MaxInt32 || calls > math.MaxInt32 || int64(values) > (c.size-c.at)/4 {
			return nil, c.fail("entry %q has %d values of %d calls, and %d bytes follow: %s", name, values, calls, c.size-c.at, kind)
		}
		e := ImatrixEntry{Name: name, Cols: int(values), Matrices: 1, Sum2: make([]float32, values), Counts: []float32{float32(calls)}}
		if err := c.floats(e.Sum2); err != nil {
			return nil, err
		}
		if bad := e.check(); bad != "" {
			return nil, c.fail("entry %q: %s", name, bad)
		}
		m.Entries = append(m.Entries, e)
	}
	slices.SortFunc(m.Entries, byName)
	return m, c.tail(m)
}

// tail reads the number of chunks and the name of the text, where they are there.
func (c *cursor) tail(m *Imatrix) error {
	c.what = "what follows the entries"
	if c.at == c.size {
		return nil
	}
	chunks, err := c.u32()
	if err != nil {
		return err
	}
	if chunks > math.MaxInt32 {
		return c.fail("%d chunks", chunks)
	}
	m.ChunkCount = int(chunks)
	if c.at == c.size {
		return nil
	}
	text, err := c.shortText(maxKey)
	if err != nil {
		return err
	}
	if text != "" {
		m.Datasets = []string{text}
	}
	if c.at != c.size {
		return c.fail("%d bytes follow the end", c.size-c.at)
	}
	return nil
}

// shortText is a text behind a length of four bytes.
func (c *cursor) shortText(most uint32) (string, error) {
	n, err := c.u32()
	if err != nil {
		return "", err
	}
	if n > most || int64(n) > c.size-c.at {
		return "", c.fail("%s: a length of %d bytes goes beyond the end of the file, or beyond %d", c.what, n, most)
	}
	b, err := c.take(int64(n))
	return string(b), err
}

// floats reads values a window at a time.
func (c *cursor) floats(x []float32) error {
	for len(x) > 0 {
		n := min(len(x), windowSize/4)
		b, err := c.take(4 * int64(n))
		if err != nil {
			return err
		}
		for i := range x[:n] {
			x[i] = math.Float32frombits(c.order.Uint32(b[4*i:]))
		}
		x = x[n:]
	}
	return nil
}

// Counted is an imatrix of the older format with tokens for its counts: of so many
// a chunk, as llama.cpp takes it. Means are the same.
func (m *Imatrix) Counted(chunk int) *Imatrix {
	out := *m
	out.Legacy, out.ChunkSize = false, chunk
	out.Entries = make([]ImatrixEntry, len(m.Entries))
	for i, e := range m.Entries {
		sums, counts := make([]float32, len(e.Sum2)), make([]float32, len(e.Counts))
		for k, x := range e.Sum2 {
			sums[k] = x * float32(chunk)
		}
		for k, x := range e.Counts {
			counts[k] = x * float32(chunk)
		}
		e.Sum2, e.Counts = sums, counts
		out.Entries[i] = e
	}
	return &out
}
