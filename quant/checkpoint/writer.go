package checkpoint

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"unicode/utf8"
)

// Spec is one tensor to be written.
type Spec struct {
	Name  string
	DType DType
	Shape []int64
}

// Size is the tensor's size in bytes; ok is false where it overflows or does
// not fill whole bytes.
func (s Spec) Size() (size int64, ok bool) { return byteSize(s.DType, s.Shape) }

// Writer writes one safetensors file: the header at once, for all sizes are
// known, then the data as it comes, in the order of the specs. The file gets
// its name in Commit; before, or when anything fails, there is none.
//
// The header has __metadata__ first, its keys sorted, then the tensors in the
// given order, which is also the order of their data, and blanks up to a
// multiple of 8 bytes: the same specs and metadata give the same bytes. A
// Writer has one user.
type Writer struct {
	file    *atomicFile
	buf     *bufio.Writer
	path    string
	tensors []Tensor
	next    int   // tensor that is being written
	done    int64 // bytes of it
	header  int64
	err     error // the first; the temporary file is gone
}

// writeBuffer is how much data is gathered before it is written.
const writeBuffer = 1 << 20

// NewWriter begins a file. A path that exists already is refused with
// fs.ErrExist, metadata may be nil. Errors are *FileError.
func NewWriter(path string, specs []Spec, metadata map[string]string) (*Writer, error) {
	head, tensors, err := encodeLayout(path, specs, metadata)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, &FileError{File: path, Reason: "not written over", Err: fs.ErrExist}
	}
	f, err := createAtomic(path)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f, buf: bufio.NewWriterSize(f, writeBuffer), path: path, tensors: tensors, header: int64(len(head))}
	if _, err := w.buf.Write(head); err != nil {
		return nil, w.fail(systemError(path, err))
	}
	w.skipEmpty()
	return w, nil
}

// encodeLayout gives each tensor its place in the data and encodes what stands
// before the data, length included.
func encodeLayout(path string, specs []Spec, metadata map[string]string) (head []byte, tensors []Tensor, err error) {
	if tensors, err = layOut(path, specs); err != nil {
		return nil, nil, err
	}
	for k, v := range metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, nil, &FileError{File: path, Reason: "metadata " + quoted(k) + " is not UTF-8"}
		}
	}
	head = appendHeader(make([]byte, lengthBytes, 1<<12), tensors, metadata)
	if len(head)-lengthBytes > maxHeader {
		return nil, nil, &FileError{File: path, Reason: fmt.Sprintf("header of %d bytes is over the limit of %d", len(head)-lengthBytes, maxHeader)}
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-lengthBytes))
	return head, tensors, nil
}

// layOut gives each tensor its place in the data.
func layOut(path string, specs []Spec) ([]Tensor, error) {
	tensors := make([]Tensor, len(specs))
	seen := make(map[string]bool, len(specs))
	offset := int64(0)
	for i, s := range specs {
		refuse := func(reason string) ([]Tensor, error) {
			return nil, &FileError{File: path, Tensor: s.Name, Reason: reason}
		}
		size, ok := s.Size()
		switch {
		case !ok:
			return refuse(fmt.Sprintf("shape %s of %s has no size in bytes", shapeText(s.Shape), s.DType))
		case size > math.MaxInt64/2-offset: // leaves room for the header
			return refuse("the data overflow")
		case len(s.Shape) > maxRank:
			return refuse(fmt.Sprintf("more than %d dimensions", maxRank))
		case !utf8.ValidString(s.Name):
			return refuse("name is not UTF-8")
		case s.Name == metadataKey:
			return refuse("name is reserved")
		case seen[s.Name]:
			return refuse("duplicate")
		}
		seen[s.Name] = true
		tensors[i] = Tensor{Name: s.Name, DType: s.DType, Shape: slices.Clone(s.Shape), Offset: offset, Size: size}
		offset += size
	}
	return tensors, nil
}

// Size is what the finished file has, in bytes.
func (w *Writer) Size() int64 {
	n := w.header
	if k := len(w.tensors); k > 0 {
		n += w.tensors[k-1].Offset + w.tensors[k-1].Size
	}
	return n
}

// Next is the tensor that the next byte belongs to and how many of its bytes
// are still to come; nil when all have come.
func (w *Writer) Next() (t *Tensor, left int64) {
	if w.next == len(w.tensors) {
		return nil, 0
	}
	t = &w.tensors[w.next]
	return t, t.Size - w.done
}

// Write adds data. It may begin and end anywhere in and between tensors.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	written := 0
	for len(p) > 0 {
		t, left := w.Next()
		if t == nil {
			return written, w.fail(&FileError{File: w.path, Reason: fmt.Sprintf("%d bytes beyond the last tensor", len(p))})
		}
		n, err := w.buf.Write(p[:min(int64(len(p)), left)])
		written += n
		w.done += int64(n)
		if err != nil {
			fe := systemError(w.path, err)
			fe.Tensor = t.Name
			return written, w.fail(fe)
		}
		p = p[n:]
		w.skipEmpty()
	}
	return written, nil
}

// skipEmpty goes on to the tensor that the next byte belongs to.
func (w *Writer) skipEmpty() {
	for w.next < len(w.tensors) && w.done == w.tensors[w.next].Size {
		w.next, w.done = w.next+1, 0
	}
}

// Commit wants all data to have come and gives the file its name.
func (w *Writer) Commit() error {
	if w.err != nil {
		return w.err
	}
	if t, left := w.Next(); t != nil {
		return w.fail(&FileError{File: w.path, Tensor: t.Name, Reason: fmt.Sprintf("incomplete: %d of its %d bytes did not come", left, t.Size)})
	}
	if err := w.buf.Flush(); err != nil {
		return w.fail(systemError(w.path, err))
	}
	w.err = &FileError{File: w.path, Reason: "complete already"}
	return w.file.commit()
}

// Abort throws the file away. After Commit it does nothing, so it may be
// deferred.
func (w *Writer) Abort() {
	if w.err == nil {
		_ = w.fail(&FileError{File: w.path, Reason: "abandoned"}) // is what later calls return
	}
}

// fail keeps the first error and removes the file.
func (w *Writer) fail(err *FileError) error {
	w.err = w.file.abandon(err)
	return w.err
}
