package gguf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Imatrix is what llama.cpp's llama-imatrix writes: for the inputs of each
// matrix the sum of squares of every column and how many tokens were counted.
type Imatrix struct {
	Datasets   []string
	ChunkCount int // of ChunkSize tokens
	ChunkSize  int
	Entries    []ImatrixEntry // sorted by name
	Legacy     bool           // read from the .dat format that was before GGUF
	Notes      []string       // about entries, one a line; a key of our own, which llama.cpp passes over
	Others     []string       // names of tensors that are no part of an entry; they are not written
}

// ImatrixEntry is one stored tensor, of one matrix or of a stack of experts. The
// older format knows neither stacks nor tokens: there Matrices is 1, with the columns
// of all experts, and the count is of chunks.
type ImatrixEntry struct {
	Name     string    // of the weight: blk.0.ffn_down_exps.weight
	Cols     int       // inputs
	Matrices int       // experts of a stack, else 1
	Sum2     []float32 // Matrices×Cols: Σx²
	Counts   []float32 // Matrices: tokens
}

// Keys and endings of names, as llama.cpp has them, and a key of our own.
const (
	typeKey       = "general.type"
	imatrixType   = "imatrix"
	datasetsKey   = "imatrix.datasets"
	chunkCountKey = "imatrix.chunk_count"
	chunkSizeKey  = "imatrix.chunk_size"
	notesKey      = "quantscope.imatrix.notes"
	sumSuffix     = ".in_sum2"
	countSuffix   = ".counts"
)

// ReadImatrix reads one, by its content: GGUF of either byte order, or the older
// .dat. Sums and counts that are negative or not finite are refused by their place.
func ReadImatrix(path string) (m *Imatrix, err error) {
	f, info, err := checkpoint.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	magic := make([]byte, 4)
	n, err := f.ReadAt(magic, 0)
	if err != nil && err != io.EOF {
		return nil, errors.Join(checkpoint.SystemError(path, err), f.Close())
	}
	if string(magic[:n]) != "GGUF" {
		defer func() { err = errors.Join(err, f.Close()) }()
		return readLegacy(f, path, info.Size())
	}
	if err := f.Close(); err != nil {
		return nil, checkpoint.SystemError(path, err)
	}
	g, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return ImatrixOf(g)
}

// ImatrixOf takes an opened GGUF file for an imatrix.
func ImatrixOf(f *File) (*Imatrix, error) {
	fail := func(tensor, format string, args ...any) error {
		return &checkpoint.FileError{File: f.Path, Tensor: tensor, Reason: fmt.Sprintf(format, args...)}
	}
	if kind, ok := f.Metadata[typeKey].V.(string); ok && kind != imatrixType {
		return nil, fail("", "%s is %.60q, and an imatrix is wanted", typeKey, kind)
	}
	m := &Imatrix{}
	m.Datasets, _ = f.Metadata[datasetsKey].List.([]string)
	m.Notes, _ = f.Metadata[notesKey].List.([]string)
	for key, to := range map[string]*int{chunkCountKey: &m.ChunkCount, chunkSizeKey: &m.ChunkSize} {
		v, have := f.Metadata[key]
		n, ok := v.V.(uint64)
		if have && (!ok || n > math.MaxInt32) {
			return nil, fail("", "%s is %v, want a count", key, v.V)
		}
		*to = int(n)
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		name, ok := strings.CutSuffix(t.Name, sumSuffix)
		if !ok {
			name, counts := strings.CutSuffix(t.Name, countSuffix)
			if !counts {
				m.Others = append(m.Others, t.Name)
			} else if _, ok := f.Lookup(name + sumSuffix); !ok {
				return nil, fail(t.Name, "stands without %s", name+sumSuffix)
			}
			continue
		}
		c, ok := f.Lookup(name + countSuffix)
		if !ok {
			return nil, fail(t.Name, "stands without %s", name+countSuffix)
		}
		e, err := readEntry(f, name, t, c)
		if err != nil {
			return nil, err
		}
		m.Entries = append(m.Entries, e)
	}
	if len(m.Entries) == 0 {
		return nil, fail("", "has no tensor that ends in %s, so it is no imatrix", sumSuffix)
	}
	slices.SortFunc(m.Entries, byName)
	return m, nil
}

func byName(a, b ImatrixEntry) int { return cmp.Compare(a.Name, b.Name) }

// readEntry reads the two tensors of an entry. Whether sums are laid out in rows
// of experts is decided by the counts, as llama.cpp does.
func readEntry(f *File, name string, sums, counts *Tensor) (ImatrixEntry, error) {
	e := ImatrixEntry{Name: name}
	for _, t := range []*Tensor{sums, counts} {
		if t.Type != kernels.GGUFF32 {
			return e, &checkpoint.FileError{File: f.Path, Tensor: t.Name, Reason: fmt.Sprintf("is of type %s, want F32", t.Type)}
		}
	}
	n, k := sums.Elements(), counts.Elements()
	if n <= 0 || k <= 0 || n%k != 0 || n > math.MaxInt32 {
		return e, &checkpoint.FileError{File: f.Path, Tensor: sums.Name, Reason: fmt.Sprintf("%d sums for %d counts", n, k)}
	}
	e.Matrices, e.Cols = int(k), int(n/k)
	e.Sum2, e.Counts = make([]float32, n), make([]float32, k)
	for _, part := range []struct {
		t *Tensor
		x []float32
	}{{sums, e.Sum2}, {counts, e.Counts}} {
		if err := f.Decode(context.Background(), part.t, 0, part.x); err != nil {
			return e, err
		}
	}
	if bad := e.check(); bad != "" {
		return e, &checkpoint.FileError{File: f.Path, Tensor: name, Reason: bad}
	}
	return e, nil
}

// check says what is wrong with an entry, "" where nothing is.
func (e *ImatrixEntry) check() string {
	if e.Cols <= 0 || e.Matrices <= 0 || len(e.Counts) != e.Matrices || len(e.Sum2)/e.Matrices != e.Cols || len(e.Sum2)%e.Matrices != 0 {
		return fmt.Sprintf("%d sums and %d counts for %d×%d", len(e.Sum2), len(e.Counts), e.Matrices, e.Cols)
	}
	for i, c := range e.Counts {
		if !(c >= 0) || c > math.MaxInt32 || c != float32(math.Trunc(float64(c))) {
			return fmt.Sprintf("count %d is %g, want a number of tokens", i, c)
		}
	}
	for i, x := range e.Sum2 {
		if !(x >= 0) || math.IsInf(float64(x), 1) {
			return fmt.Sprintf("the sum of squares of column %d of matrix %d is %g", i%e.Cols, i/e.Cols, x)
		}
	}
	return ""
}

// WriteImatrix writes one as GGUF, byte for byte as llama-imatrix does where it
// has no notes. An entry that no reader would take is refused.
func WriteImatrix(w io.Writer, m *Imatrix) error {
	if m.ChunkCount < 0 || m.ChunkSize < 0 || m.ChunkCount > math.MaxInt32 || m.ChunkSize > math.MaxInt32 {
		return fmt.Errorf("gguf: %d chunks of %d tokens", m.ChunkCount, m.ChunkSize)
	}
	entries := slices.SortedFunc(slices.Values(m.Entries), byName)
	pairs := []Pair{
		{typeKey, Word(imatrixType)}, {datasetsKey, Words(m.Datasets...)},
		{chunkCountKey, Count(uint32(m.ChunkCount))}, {chunkSizeKey, Count(uint32(m.ChunkSize))},
	}
	if len(m.Notes) > 0 {
		pairs = append(pairs, Pair{notesKey, Words(m.Notes...)})
	}
	var tensors []Tensor
	for i := range entries {
		e := &entries[i]
		if bad := e.check(); bad != "" {
			return fmt.Errorf("gguf: %q: %s", e.Name, bad)
		}
		sums, counts := []int64{int64(e.Cols)}, []int64{1}
		if e.Matrices > 1 {
			sums, counts = []int64{int64(e.Matrices), int64(e.Cols)}, []int64{int64(e.Matrices), 1}
		}
		tensors = append(tensors, F32Tensor(e.Name+sumSuffix, sums...), F32Tensor(e.Name+countSuffix, counts...))
	}
	g, err := NewWriter(w, pairs, tensors)
	if err != nil {
		return err
	}
	for i := range entries {
		if err := errors.Join(g.WriteF32(entries[i].Sum2), g.WriteF32(entries[i].Counts)); err != nil {
			return err
		}
	}
	return g.Close()
}
