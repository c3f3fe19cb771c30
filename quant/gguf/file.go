package gguf

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// File is an opened GGUF checkpoint: one file, or all parts of a split one. Its
// fields are not changed after Open; ReadAt may be called from any goroutine.
type File struct {
	Path     string
	Parts    []Part
	Keys     []string // of the metadata, in their order
	Metadata map[string]Value
	Tensors  []Tensor // by part, in the order of its table
	byName   map[string]int
	values   map[string]span // where the values of keys stand
	order    blockOrder
}

// Part is one file.
type Part struct {
	Name      string
	Version   uint32
	BigEndian bool
	Alignment int64
	Size      int64
	data      int64 // where the data begin
	f         io.ReaderAt
	close     func() error
}

// Tensor is one row of a table. Shape is row-major: the reverse of the file's
// order, so that the last dimension is the one along which blocks lie.
type Tensor struct {
	Name   string
	Part   int
	Type   kernels.GGUFType
	Shape  []int64
	Offset int64 // from the start of the part
	Bytes  int64 // -1 for a type that is not known
}

// Elements is the number of elements.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// Open opens a GGUF file, and with one part of a split one all of them.
func Open(path string) (*File, error) { return OpenWith(path, Options{}) }

// OpenWith is Open where more is known of the file than it says.
func OpenWith(path string, o Options) (*File, error) {
	names := []string{path}
	if m := splitName.FindStringSubmatch(filepath.Base(path)); m != nil {
		of, err := strconv.Atoi(m[3])
		if err == nil && of > 0 && of <= 1<<14 {
			names = names[:0]
			present, missing := 0, ""
			for i := range of {
				name := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s-%05d-of-%05d.gguf", m[1], i+1, of))
				names = append(names, name)
				if _, err := os.Stat(name); err == nil {
					present++
				} else if missing == "" {
					missing = name
				}
			}
			if missing != "" {
				return nil, &checkpoint.FileError{File: missing, Reason: fmt.Sprintf("is missing: %d of %d parts are there", present, of)}
			}
		}
	}
	f := &File{Path: path, Metadata: map[string]Value{}, byName: map[string]int{}, values: map[string]span{}}
	f.order.stated = o.Blocks
	for _, name := range names {
		if err := f.add(name); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	if err := f.split(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Sized is a file that is read by places and knows its size.
type Sized interface {
	io.ReaderAt
	Size() int64
}

// OpenReader opens what stands for a file that is whole. name is for messages.
func OpenReader(name string, r Sized) (*File, error) {
	f := &File{Path: name, Metadata: map[string]Value{}, byName: map[string]int{}, values: map[string]span{}}
	f.Parts = append(f.Parts, Part{Name: name, Size: r.Size(), f: r, close: func() error { return nil }})
	if err := f.header(0); err != nil {
		return nil, err
	}
	return f, f.split()
}

// split holds what the metadata say of parts and tensors against what was opened:
// a part under another name is no model with fewer layers.
func (f *File) split() error {
	for _, c := range []struct {
		key, what string
		have      int
	}{{"split.count", "parts", len(f.Parts)}, {"split.tensors.count", "tensors", len(f.Tensors)}} {
		var want int64
		switch n := f.Metadata[c.key].V.(type) {
		case uint64:
			want = int64(min(n, math.MaxInt64))
		case int64:
			want = n
		}
		if parts, ok := f.Metadata["split.count"].V.(uint64); ok && parts > 1 && want != int64(c.have) {
			return &checkpoint.FileError{File: f.Path, Reason: fmt.Sprintf("%s is %d, and there are %d %s: it is a part of a file, under another name?", c.key, want, c.have, c.what)}
		}
	}
	return nil
}

// Close closes the files.
func (f *File) Close() error {
	var first error
	for i := range f.Parts {
		if err := f.Parts[i].close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// add opens one part and reads its header.
func (f *File) add(path string) error {
	file, info, err := checkpoint.OpenRegular(path)
	if err != nil {
		return err
	}
	f.Parts = append(f.Parts, Part{Name: path, Size: info.Size(), f: file, close: file.Close})
	return f.header(len(f.Parts) - 1)
}

func (f *File) header(part int) error {
	p := &f.Parts[part]
	c := &cursor{r: p.f, name: p.Name, size: p.Size, order: binary.LittleEndian, what: "header"}
	magic, err := c.take(8)
	if err != nil {
		return c.fail("%d bytes are too short for a GGUF header", p.Size)
	}
	if string(magic[:4]) != "GGUF" {
		return c.fail("does not begin with GGUF")
	}
	p.Version = c.order.Uint32(magic[4:])
	if p.Version&0xFFFF == 0 { // the number stands the other way round
		c.order, p.BigEndian = binary.BigEndian, true
		p.Version = c.order.Uint32(magic[4:])
	}
	switch p.Version {
	case 2, 3:
	default:
		return &checkpoint.FileError{File: p.Name, Reason: fmt.Sprintf("GGUF version %d; versions 2 and 3 are read", p.Version), Err: checkpoint.ErrUnsupported}
	}
	tensors, err := c.u64()
	if err != nil {
		return err
	}
	pairs, err := c.u64()
	if err != nil {
		return err
	}
	// A tensor takes 24 bytes of the table at least, a pair 13.
	if tensors > maxTensors || tensors > uint64(p.Size/24) || pairs > maxPairs || pairs > uint64(p.Size/13) {
		return c.fail("a count of %d tensors and %d metadata pairs in a file of %d bytes", tensors, pairs, p.Size)
	}
	if err := f.pairs(c, part, int(pairs)); err != nil {
		return err
	}
	if err := f.table(c, part, int(tensors)); err != nil {
		return err
	}
	return f.place(c, part)
}

func (f *File) pairs(c *cursor, part, n int) error {
	seen := map[string]bool{}
	f.Parts[part].Alignment = 32
	for i := range n {
		c.what = fmt.Sprintf("key %d", i)
		key, err := c.text(maxKey)
		if err != nil {
			return err
		}
		c.what = fmt.Sprintf("key %q", key)
		from := c.at
		v, err := c.value(0)
		if err != nil {
			return err
		}
		if seen[key] {
			return c.fail("key %q is a duplicate", key)
		}
		seen[key] = true
		if key == "general.alignment" {
			a, ok := v.V.(uint64)
			if !ok || a == 0 || a%8 != 0 || a > 1<<20 {
				return c.fail("general.alignment is %v, want a multiple of 8", v.V)
			}
			f.Parts[part].Alignment = int64(a)
		}
		if _, have := f.Metadata[key]; !have {
			f.Keys = append(f.Keys, key)
			f.Metadata[key] = v
			f.values[key] = span{part, from, c.at - from}
		}
	}
	return nil
}

func (f *File) table(c *cursor, part, n int) error {
	for i := range n {
		c.what = fmt.Sprintf("tensor %d", i)
		name, err := c.text(maxKey)
		if err != nil {
			return err
		}
		c.what = fmt.Sprintf("tensor %q", name)
		dims, err := c.u32()
		if err != nil {
			return err
		}
		if dims > maxDims {
			return &checkpoint.FileError{File: c.name, Tensor: name, Reason: fmt.Sprintf("%d dimensions", dims)}
		}
		t := Tensor{Name: name, Part: part, Shape: make([]int64, dims)}
		elements := int64(1)
		for d := range dims {
			x, err := c.u64()
			if err != nil {
				return err
			}
			if x > math.MaxInt64 || x > 0 && elements > math.MaxInt64/int64(x) {
				return &checkpoint.FileError{File: c.name, Tensor: name, Reason: "the size of its shape overflows"}
			}
			t.Shape[int(dims-1-d)] = int64(x)
			elements *= int64(x)
		}
		kind, err := c.u32()
		if err != nil {
			return err
		}
		offset, err := c.u64()
		if err != nil {
			return err
		}
		t.Type = kernels.GGUFType(kind)
		if offset > uint64(c.size) {
			return &checkpoint.FileError{File: c.name, Tensor: name, Reason: fmt.Sprintf("offset %d is beyond the end of the file of %d bytes", offset, c.size)}
		}
		t.Offset = int64(offset)
		if t.Bytes, err = t.size(c.name, elements); err != nil {
			return err
		}
		if at, twice := f.byName[name]; twice {
			return &checkpoint.FileError{File: c.name, Tensor: name, Reason: fmt.Sprintf("is a duplicate: it stands in %s too", f.Parts[f.Tensors[at].Part].Name)}
		}
		f.byName[name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// size is the bytes of a tensor, -1 for an unknown type.
func (t *Tensor) size(file string, elements int64) (int64, error) {
	if !t.Type.Known() {
		return -1, nil
	}
	block, bytes := t.Type.Block()
	row := int64(1)
	if n := len(t.Shape); n > 0 {
		row = t.Shape[n-1]
	}
	if row%int64(block) != 0 {
		return 0, &checkpoint.FileError{File: file, Tensor: t.Name, Reason: fmt.Sprintf("rows of %d are no multiple of the block of %d that type %s has", row, block, t.Type)}
	}
	n := elements / int64(block)
	if n > math.MaxInt64/int64(bytes) {
		return 0, &checkpoint.FileError{File: file, Tensor: t.Name, Reason: "its size overflows"}
	}
	return n * int64(bytes), nil
}

// place turns offsets into places in the file and holds them against it and
// against one another.
func (f *File) place(c *cursor, part int) error {
	p := &f.Parts[part]
	p.data = (c.at + p.Alignment - 1) / p.Alignment * p.Alignment
	var order []*Tensor
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Part != part {
			continue
		}
		if t.Offset%p.Alignment != 0 {
			return &checkpoint.FileError{File: p.Name, Tensor: t.Name, Reason: fmt.Sprintf("offset %d is no multiple of the alignment of %d", t.Offset, p.Alignment)}
		}
		if t.Offset > p.Size-p.data || t.Bytes > p.Size-p.data-t.Offset {
			return &checkpoint.FileError{File: p.Name, Tensor: t.Name, Reason: fmt.Sprintf("its %d bytes at %d go beyond the end of the file of %d bytes (truncated?)", t.Bytes, p.data+t.Offset, p.Size)}
		}
		t.Offset += p.data
		order = append(order, t)
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	for i := 1; i < len(order); i++ {
		if a, b := order[i-1], order[i]; a.Bytes > 0 && b.Bytes != 0 && a.Offset+a.Bytes > b.Offset {
			return &checkpoint.FileError{File: p.Name, Tensor: b.Name, Reason: fmt.Sprintf("overlaps %q at byte %d", a.Name, b.Offset)}
		}
	}
	return nil
}

// Lookup finds a tensor by its name.
func (f *File) Lookup(name string) (*Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// ReadAt fills dst with bytes of a tensor from off on, as they are stored.
func (f *File) ReadAt(ctx context.Context, t *Tensor, off int64, dst []byte) error {
	p := &f.Parts[t.Part]
	switch {
	case t.Bytes < 0:
		return f.noDecoder(t)
	case off < 0 || int64(len(dst)) > t.Bytes-off:
		return &checkpoint.FileError{File: p.Name, Tensor: t.Name, Reason: fmt.Sprintf("bytes %d to %d of %d", off, off+int64(len(dst)), t.Bytes)}
	}
	const step = 4 << 20
	for len(dst) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(dst), step)
		if _, err := p.f.ReadAt(dst[:n], t.Offset+off); err != nil {
			return checkpoint.SystemError(p.Name, err)
		}
		dst, off = dst[n:], off+int64(n)
	}
	return nil
}

// noDecoder is the error about the values of a tensor whose type has no decoder.
func (f *File) noDecoder(t *Tensor) error {
	reason := fmt.Sprintf("type %d is not known, so its values cannot be read", uint32(t.Type))
	if t.Type.Known() {
		reason = fmt.Sprintf("type %s (%d) has no decoder here", t.Type, uint32(t.Type))
	}
	return &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: reason, Err: checkpoint.ErrUnsupported}
}

// Decode reads elements of a tensor, from a multiple of its block on, as f32.
func (f *File) Decode(ctx context.Context, t *Tensor, first int64, dst []float32) error {
	if !t.Type.Decodes() {
		return f.noDecoder(t)
	}
	block, bytes := t.Type.Block()
	raw := make([]byte, len(dst)/block*bytes)
	if err := f.ReadStored(ctx, t, first/int64(block)*int64(bytes), raw); err != nil {
		return err
	}
	if err := kernels.DecodeGGUF(dst, t.Type, raw); err != nil {
		return &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: "cannot be decoded", Err: err}
	}
	return nil
}
