package checkpoint

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"
)

// maxIdleHandles is how many files stay open between reads. It is far below
// the usual limit of 1,024 descriptors of a process and above the number of
// shards that reads in file order touch at once.
const maxIdleHandles = 64

// handle is one open file.
type handle struct {
	io.ReaderAt
	io.Closer
	info fs.FileInfo
	refs int    // reads under way
	used uint64 // tick of the last acquire
}

// handles opens the files of a checkpoint when they are read and keeps the
// last ones open. Files that are being read stay open, so the number of open
// files is at most maxIdleHandles plus the number of concurrent reads.
type handles struct {
	src   source
	names []string
	known []stamp // what each file was like at first; zero where it was not opened yet

	mu     sync.Mutex
	open   map[int]*handle
	tick   uint64
	closed bool
}

// stamp is what must not change while a checkpoint is open.
type stamp struct {
	size    int64
	modTime time.Time
	length  int64 // of the part that the sum is of
	sum     [32]byte
}

func newHandles(src source, names []string) *handles {
	return &handles{src: src, names: names, known: make([]stamp, len(names)), open: map[int]*handle{}}
}

// acquire is file i, opened. release must follow.
func (hs *handles) acquire(i int) (*handle, error) {
	if h, err := hs.reuse(i); h != nil || err != nil {
		return h, err
	}
	h, err := hs.openFile(i)
	if err != nil {
		return nil, err
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.closed {
		_ = h.Close() // of a file that was only read
		return nil, hs.src.broken(hs.names[i], fs.ErrClosed)
	}
	if other := hs.open[i]; other != nil { // opened meanwhile
		_ = h.Close() // of a file that was only read
		h = other
	} else {
		hs.open[i] = h
	}
	hs.take(h)
	hs.evict()
	return h, nil
}

func (hs *handles) reuse(i int) (*handle, error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.closed {
		return nil, hs.src.broken(hs.names[i], fs.ErrClosed)
	}
	h := hs.open[i]
	if h != nil {
		hs.take(h)
	}
	return h, nil
}

func (hs *handles) take(h *handle) {
	hs.tick++
	h.used = hs.tick
	h.refs++
}

func (hs *handles) release(h *handle) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.refs--
	if hs.closed && h.refs == 0 {
		_ = h.Close() // of a file that was only read
		return
	}
	hs.evict()
}

// evict closes the idle files that were used longest ago while there are too
// many.
func (hs *handles) evict() {
	for len(hs.open) > maxIdleHandles {
		oldest := -1
		for i, h := range hs.open {
			if h.refs == 0 && (oldest < 0 || h.used < hs.open[oldest].used) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		_ = hs.open[oldest].Close() // of a file that was only read
		delete(hs.open, oldest)
	}
}

// openFile opens file i. Where it was open before it must be the same still.
func (hs *handles) openFile(i int) (*handle, error) {
	name := hs.names[i]
	if _, err := hs.src.stat(name); err != nil { // a pipe would block in open
		return nil, err
	}
	f, err := hs.src.fsys.Open(name)
	if err != nil {
		return nil, hs.src.broken(name, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // of a file that was only read
		return nil, hs.src.broken(name, err)
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		_ = f.Close()
		return nil, &FileError{File: hs.src.file(name), Reason: "cannot be read from a position", Err: ErrUnsupported}
	}
	h := &handle{ReaderAt: r, Closer: f, info: info}
	if err := hs.same(i, h); err != nil {
		_ = f.Close()
		return nil, err
	}
	return h, nil
}

// same compares a file that is opened again with what it was at first. A
// changed time alone may be a touch, so then the header decides.
func (hs *handles) same(i int, h *handle) error {
	was := hs.known[i]
	if was.length == 0 {
		return nil
	}
	if h.info.Size() != was.size {
		return hs.src.fail(hs.names[i], "changed since it was opened: %d bytes then, %d now", was.size, h.info.Size())
	}
	if h.info.ModTime().Equal(was.modTime) {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(h, 0, was.length)); err != nil {
		return hs.src.broken(hs.names[i], err)
	}
	if [32]byte(sum.Sum(nil)) != was.sum {
		return hs.src.fail(hs.names[i], "changed since it was opened: its header is another one")
	}
	return nil
}

// close closes what is open; files being read are closed when that is over.
func (hs *handles) close() error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.closed = true
	var errs []error
	for _, h := range hs.open {
		if h.refs == 0 {
			errs = append(errs, h.Close())
		}
	}
	hs.open = map[int]*handle{}
	return errors.Join(errs...)
}
