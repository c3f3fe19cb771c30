package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// sniffBytes is how much of a file is looked at to say what else it is.
const sniffBytes = 512

// firstRead is how much of a header is read before more memory is asked for.
const firstRead = 1 << 20

// Open opens the checkpoint at a path: a folder, a .safetensors file (then
// that file alone), or an index (.json) of shards. It reads headers only, of
// all files, and validates the whole before it returns.
//
// In a folder the index decides which files belong to it; without one it is
// model.safetensors, and without that every .safetensors file. Links are
// followed. Errors are *FileError; those about things that are unknown rather
// than broken wrap ErrUnsupported, those of the operating system wrap its
// error.
func Open(path string) (*Checkpoint, error) {
	p, err := locate(path)
	if err != nil {
		return nil, err
	}
	return open(path, p)
}

// OpenFile opens one file of safetensors by itself, whatever its name ends in.
func OpenFile(path string) (*Checkpoint, error) {
	f, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, SystemError(path, err)
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	return open(path, &plan{src: source{folder(dir), filepath.Clean(dir)}, weights: []string{name}})
}

// OpenFS opens the checkpoint in the root of a file system, as Open opens a
// folder. Files must implement io.ReaderAt, as those of embed and os do.
func OpenFS(label string, fsys fs.FS) (*Checkpoint, error) {
	p, err := locateFolder(source{fsys, label})
	if err != nil {
		return nil, err
	}
	return open(label, p)
}

func open(path string, p *plan) (_ *Checkpoint, err error) {
	c := &Checkpoint{
		Path:  path,
		Files: make([]File, 0, len(p.weights)),
		src:   p.src,
		whole: p.whole,
		files: newHandles(p.src, p.weights),
	}
	if p.index != nil {
		c.byName = make(map[string]int32, len(p.index.weights))
	} else {
		c.byName = map[string]int32{}
	}
	defer func() {
		if err != nil {
			_ = c.files.close() // the error that ended it says more
		}
	}()
	var buf []byte
	for i := range p.weights {
		if buf, err = c.addFile(i, buf); err != nil {
			return nil, err
		}
	}
	if err := p.complete(); err != nil {
		return nil, err
	}
	p.numbered()
	c.Findings = p.findings
	if p.index != nil {
		if err := p.index.apply(c); err != nil {
			return nil, err
		}
	}
	if err := c.addSide(); err != nil {
		return nil, err
	}
	if mark := c.Unfinished(); mark != "" {
		c.Findings = append(c.Findings, Finding{ID: Unfinished, File: mark, Message: "marks the folder as an export that is not finished"})
	}
	return c, nil
}

// addFile reads and checks the header of file i. buf is memory to use again.
func (c *Checkpoint) addFile(i int, buf []byte) ([]byte, error) {
	name := c.files.names[i]
	f, err := c.files.acquire(i)
	if err != nil {
		return buf, err
	}
	defer c.files.release(f)
	size := f.info.Size()
	buf, err = readHeader(f, size, buf)
	if err != nil {
		return buf, c.src.place(name, err)
	}
	h, err := parseHeader(buf[lengthBytes:], size-int64(len(buf)))
	if err != nil {
		return buf, c.src.place(name, err)
	}
	if err := h.check(size-h.data, c.byName, len(c.Tensors)); err != nil {
		if twice, ok := err.(*duplicateError); ok {
			other := c.Files[c.Tensors[twice.other].File].Name
			err = tensorError(twice.name, "duplicate: %s has it too", quoted(other))
		}
		return buf, c.src.place(name, err)
	}
	h.place(i)
	c.Tensors = append(c.Tensors, h.tensors...)
	sum := sha256.Sum256(buf)
	c.Files = append(c.Files, File{Name: name, Size: size, HeaderSHA256: sum, Metadata: h.metadata})
	c.files.known[i] = stamp{size: size, modTime: f.info.ModTime(), length: int64(len(buf)), sum: sum}
	return buf, nil
}

// readHeader reads the header length and the header, size being that of the
// file. The memory it asks for grows with what the file really has.
func readHeader(r io.ReaderAt, size int64, buf []byte) ([]byte, error) {
	buf = append(buf[:0], make([]byte, min(size, sniffBytes))...)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, size), buf); err != nil {
		return buf, &FileError{Reason: "read", Err: orUnexpectedEOF(bare(err))}
	}
	if what := notWeights(buf, size); what != "" {
		return buf, &FileError{Reason: what}
	}
	if size < lengthBytes {
		return buf, &FileError{Reason: fmt.Sprintf("too short: %d bytes, not even the 8 bytes of a header length", size)}
	}
	n := binary.LittleEndian.Uint64(buf)
	if text := strings.TrimSpace(string(buf[:lengthBytes])); n > maxHeader && printable(text) == text && text != "" {
		return buf, &FileError{Reason: fmt.Sprintf("is not a safetensors file: where a header length should be it has the text %q", buf[:lengthBytes])}
	}
	if n > maxHeader {
		return buf, &FileError{Reason: fmt.Sprintf("header length %d is over the limit of %d bytes", n, maxHeader)}
	}
	total := int64(n) + lengthBytes
	if total > size {
		return buf, &FileError{Reason: fmt.Sprintf("truncated in its header: header length %d, but the file has %d bytes", n, size)}
	}
	have := min(int64(len(buf)), total)
	buf = buf[:have]
	for want := int64(firstRead); have < total; want *= 2 {
		next := min(total, max(want, int64(cap(buf))))
		if int64(cap(buf)) < next {
			buf = append(make([]byte, 0, next), buf...)
		}
		buf = buf[:next]
		if m, err := r.ReadAt(buf[have:], have); int64(m) < next-have {
			reason := fmt.Sprintf("read: %d of %d bytes of the header came", have+int64(m), total)
			return buf, &FileError{Reason: reason, Err: orUnexpectedEOF(bare(err))}
		}
		have = next
	}
	return buf, nil
}
