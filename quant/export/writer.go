package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"quantscope/kernels"
	"quantscope/quant/lockfile"
)

// Options says how an export is written.
type Options struct {
	// Resume goes on with an export that was left unfinished in the folder, or
	// begins one where there is none.
	Resume bool
	// Part of Of: this process writes only the shards of its part, as Split deals
	// the source's files out. 0 of 0 is the same as 1 of 1.
	Part, Of int
	// Progress is told of bytes that were written to shards, from any goroutine:
	// Writer.Total less Writer.Finished of them in all. It must not call the
	// writer; it may be nil.
	Progress func(bytes int64)

	files filesystem // nil is the operating system's
}

// Writer writes an export: matrices as they come, from many goroutines, the
// rest by itself.
//
// The folder of an unfinished export holds incomplete-export.json, which is the
// plan, and incomplete-export-part-K-of-N.json for each part, which lists the
// shards that are whole with their size and XXH3. A shard is written under a
// temporary name and gets its own when it is whole and durable; then the list
// is written anew. When the shards of every part are there, index and
// config.json follow, in this order and last of all files, and then the two
// kinds of mark go. So at every moment a folder is either whole or has a mark,
// and whoever resumes it, with the same plan, ends with the very bytes of an
// export that was never interrupted.
type Writer struct {
	plan *Plan
	folder
	part     partFile
	mine     []bool // shards of this part
	progress func(int64)
	notes    []string
	joined   bool // an earlier run had only the marks left to remove
	held     *lockfile.Lock

	mu     sync.Mutex
	done   []bool // shards that are whole
	open   map[int]*shardFile
	stored []rowSet // by matrix
	books  map[int]uint16
	err    error // the first; nothing is stored after it
	over   bool  // Close or Finish was called

	queue  chan int // shards whose matrices are all there
	ctx    context.Context
	cancel context.CancelFunc
	worker sync.WaitGroup
}

// shardFile is a shard that is being written.
type shardFile struct {
	file
	missing int // matrices that are not whole
}

// ErrOver is the error of a writer that was closed.
var ErrOver = errors.New("the export is over")

// Total is how many bytes of shards this part has.
func (w *Writer) Total() (n int64) {
	for i := range w.plan.Shards {
		if w.mine[i] {
			n += w.plan.Shards[i].Size
		}
	}
	return n
}

// Finished is how many of those bytes are in shards that are whole.
func (w *Writer) Finished() (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.plan.Shards {
		if w.mine[i] && w.done[i] {
			n += w.plan.Shards[i].Size
		}
	}
	return n
}

// Notes says what was found on resuming that is worth a line.
func (w *Writer) Notes() []string { return slices.Clone(w.notes) }

// Wanted says whether a matrix is still to be stored: it is in this part, and
// its shard is not whole from an earlier run.
func (w *Writer) Wanted(matrix int) bool {
	if matrix < 0 || matrix >= len(w.plan.places) {
		return false
	}
	i := w.plan.places[matrix].shard
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mine[i] && !w.done[i]
}

// Store stores rows of a matrix from firstRow on, as many as out.Codes has. It
// is safe for concurrent use; chunks of a matrix come in any order, each row
// once. global is the pass's second-level scale. Nothing of out is kept. With
// the last rows of a shard it is finished in the background; an error of that
// is returned by a later call. After an error nothing more is stored.
func (w *Writer) Store(matrix, firstRow int, out *kernels.Output, global float32) error {
	return w.StoreMade(matrix, firstRow, out, kernels.Spec{Global: global})
}

// StoreMade is Store of rows of which made says the second-level scale and, in a
// format of two bits, the codebook that out.Codes are packed by; nothing else of it
// is looked at.
func (w *Writer) StoreMade(matrix, firstRow int, out *kernels.Output, made kernels.Spec) error {
	if matrix < 0 || matrix >= len(w.plan.of) { // none where units are put
		return fmt.Errorf("matrix %d of %d: %w", matrix, len(w.plan.of), ErrMatrix)
	}
	c, err := w.plan.newChunk(matrix, firstRow, out, made)
	if err != nil {
		return fmt.Errorf("export: %s: %w", w.plan.Matrices[matrix].Name, err)
	}
	if c.unpacked {
		four := buffers.Get().(*[]byte)
		defer buffers.Put(four)
		if err := c.unpack(*four); err != nil {
			return fmt.Errorf("export: %s: %w", w.plan.Matrices[matrix].Name, err)
		}
		*four = c.four
	}
	f, err := w.take(matrix, c.first, c.n)
	if err == nil {
		err = w.oneBook(matrix, c.codebook)
	}
	if err != nil {
		return err
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for t := range w.plan.fieldsOf(matrix) {
		data, offset := c.bytes(t, *buf)
		if t.Field == ZeroPoints || t.Field == Global || t.Field == Shape || t.Field == Codebook {
			*buf = data
		}
		if len(data) == 0 {
			continue
		}
		if _, err := f.WriteAt(data, t.Offset+offset); err != nil {
			return w.fail(systemError(w.path(w.plan.Shards[t.File].Name), err))
		}
		w.wrote(len(data))
	}
	w.add(matrix, c.n)
	return nil
}

// oneBook wants all rows of a matrix to be of one codebook.
func (w *Writer) oneBook(matrix int, book uint16) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, ok := w.books[matrix]; ok && was != book {
		return fmt.Errorf("export: %s: rows of the codebooks %v and %v: %w", w.plan.Matrices[matrix].Name, kernels.Codebook(was), kernels.Codebook(book), ErrMatrix)
	}
	if book != 0 {
		w.books[matrix] = book
	}
	return nil
}

func (w *Writer) wrote(n int) {
	if w.progress != nil {
		w.progress(int64(n))
	}
}

// take reserves rows of a matrix and gives the file that they belong to.
func (w *Writer) take(matrix, first, n int) (file, error) {
	i := w.plan.places[matrix].shard
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return nil, w.err
	case w.over:
		return nil, ErrOver
	case !w.mine[i] || w.done[i]:
		return nil, fmt.Errorf("export: %s: is not wanted: %w", w.plan.Matrices[matrix].Name, ErrMatrix)
	case !w.stored[matrix].take(first, n):
		return nil, fmt.Errorf("export: %s: rows %d to %d were stored before: %w", w.plan.Matrices[matrix].Name, first, first+n, ErrMatrix)
	}
	f, err := w.openShard(i)
	if err != nil {
		w.err = err
		return nil, err
	}
	return f, nil
}

// openShard is the shard's file, begun where it is not; w.mu is held.
func (w *Writer) openShard(i int) (*shardFile, error) {
	if f := w.open[i]; f != nil {
		return f, nil
	}
	sh := &w.plan.Shards[i]
	f, err := w.begin(sh.Name)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(sh.Size); err == nil {
		_, err = f.WriteAt(sh.Header, 0)
	}
	if err != nil {
		w.drop(sh.Name, f)
		return nil, systemError(w.path(sh.Name), err)
	}
	w.wrote(len(sh.Header))
	s := &shardFile{f, len(sh.matrix)}
	w.open[i] = s
	return s, nil
}

// add counts rows that are in the file; the last ones of a shard send it on.
func (w *Writer) add(matrix, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	set, i := &w.stored[matrix], w.plan.places[matrix].shard
	if set.written += n; set.written < w.plan.Matrices[matrix].Rows {
		return
	}
	f := w.open[i]
	if w.over || f == nil {
		return
	}
	if f.missing--; f.missing == 0 {
		w.queue <- i // has room for every shard
	}
}

// fail keeps the first error.
func (w *Writer) fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	return err
}

// rowSet is the rows of a matrix that came, as disjoint runs in order.
type rowSet struct {
	runs    [][2]int // first row and the one after the last
	written int      // rows that are in the file
}

// take adds a run; it is false where some of it is there already.
func (s *rowSet) take(first, n int) bool {
	i, _ := slices.BinarySearchFunc(s.runs, first, func(r [2]int, first int) int { return r[0] - first })
	if i > 0 && s.runs[i-1][1] > first || i < len(s.runs) && s.runs[i][0] < first+n {
		return false
	}
	before := i > 0 && s.runs[i-1][1] == first
	after := i < len(s.runs) && s.runs[i][0] == first+n
	switch {
	case before && after:
		s.runs[i-1][1] = s.runs[i][1]
		s.runs = slices.Delete(s.runs, i, i+1)
	case before:
		s.runs[i-1][1] += n
	case after:
		s.runs[i][0] = first
	default:
		s.runs = slices.Insert(s.runs, i, [2]int{first, first + n})
	}
	return true
}

// savePart writes what the part has finished.
func (w *Writer) savePart() error {
	text, err := marshal(w.part)
	if err == nil {
		_, err = w.write(partName(w.part.Part, w.part.Of), bytes.NewReader(text))
	}
	return err
}
