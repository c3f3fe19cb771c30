package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"quantscope/kernels"
)

// Pair is a key of the metadata with its value.
type Pair struct {
	Key   string
	Value Value
}

// Bounds that llama.cpp has on what it reads: names end before 64 bytes, and
// tensors have four dimensions.
const (
	maxWrittenName = 63
	maxWrittenDims = 4
)

// Writer writes a GGUF file of version 3, little-endian: the header at once, for
// all sizes are known, then the data of the tensors as they come, in their order.
// It has one user. Errors of the writer below come back as they are; whoever wants
// a file that is whole or not there gives it a temporary one.
type Writer struct {
	w         io.Writer
	tensors   []Tensor
	next      int   // tensor that is being written
	done      int64 // bytes of it
	alignment int64
	err       error
}

// NewWriter writes the header. Of tensors, Name, Type and the row-major Shape
// count, and Offset and Bytes are set in a copy. A general.alignment among the pairs
// is obeyed, else it is 32. What readers refuse is refused here: names twice or too
// long, types that are not known, rows that are no whole blocks, values of another
// kind than their type says.
func NewWriter(w io.Writer, pairs []Pair, tensors []Tensor) (*Writer, error) {
	head, placed, alignment, err := Header(pairs, tensors)
	if err != nil {
		return nil, err
	}
	for i := range placed {
		placed[i].Offset -= int64(len(head))
	}
	g := &Writer{w: w, tensors: placed, alignment: alignment}
	if _, err := w.Write(head); err != nil {
		return nil, err
	}
	return g, g.skip()
}

// Header is all that stands before the data, and the tensors with their places in
// the file, for whoever writes them in another order than theirs. The file ends at
// a multiple of the alignment. What NewWriter refuses is refused.
func Header(pairs []Pair, tensors []Tensor) (head []byte, placed []Tensor, alignment int64, err error) {
	g := &Writer{tensors: append([]Tensor(nil), tensors...), alignment: 32}
	head = append([]byte("GGUF"), 3, 0, 0, 0)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(pairs)))
	seen := map[string]bool{}
	for _, p := range pairs {
		switch {
		case p.Key == "" || len(p.Key) > maxKey:
			return nil, nil, 0, fmt.Errorf("gguf: a key of %d bytes", len(p.Key))
		case seen[p.Key]:
			return nil, nil, 0, fmt.Errorf("gguf: key %q is a duplicate", p.Key)
		}
		seen[p.Key] = true
		if p.Key == alignmentKey {
			a, ok := p.Value.V.(uint64)
			if !ok || p.Value.Type != Uint32 || a < 8 || a > 1<<20 || a&(a-1) != 0 {
				return nil, nil, 0, fmt.Errorf("gguf: general.alignment is %v, want a power of two from 8 on, as UINT32", p.Value.V)
			}
			g.alignment = int64(a)
		}
		head = appendText(head, p.Key)
		if p.Value.raw != nil {
			head = append(head, p.Value.raw...)
			continue
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(p.Value.Type))
		if head, err = appendValue(head, p.Value, 0); err != nil {
			return nil, nil, 0, fmt.Errorf("gguf: key %q: %w", p.Key, err)
		}
	}
	if err := g.layOut(); err != nil {
		return nil, nil, 0, err
	}
	for i := range g.tensors {
		t := &g.tensors[i]
		head = appendText(head, t.Name)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(t.Shape)))
		for k := range t.Shape {
			head = binary.LittleEndian.AppendUint64(head, uint64(t.Shape[len(t.Shape)-1-k]))
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, uint64(t.Offset))
	}
	head = append(head, make([]byte, padding(int64(len(head)), g.alignment))...)
	for i := range g.tensors {
		g.tensors[i].Offset += int64(len(head))
	}
	return head, g.tensors, g.alignment, nil
}

// padding is how many bytes are missing to a multiple of the alignment.
func padding(n, alignment int64) int64 { return (alignment - n%alignment) % alignment }

// layOut gives each tensor its place in the data.
func (g *Writer) layOut() error {
	seen := map[string]bool{}
	at := int64(0)
	for i := range g.tensors {
		t := &g.tensors[i]
		refuse := func(format string, args ...any) error {
			return fmt.Errorf("gguf: tensor %q: %s", t.Name, fmt.Sprintf(format, args...))
		}
		elements := int64(1)
		for _, d := range t.Shape {
			if d < 0 || d > 0 && elements > math.MaxInt64/d {
				return refuse("shape %v has no size", t.Shape)
			}
			elements *= d
		}
		switch {
		case t.Name == "" || len(t.Name) > maxWrittenName:
			return refuse("a name of %d bytes; llama.cpp reads at most %d", len(t.Name), maxWrittenName)
		case seen[t.Name]:
			return refuse("is a duplicate")
		case len(t.Shape) > maxWrittenDims:
			return refuse("%d dimensions; llama.cpp reads at most %d", len(t.Shape), maxWrittenDims)
		case !t.Type.Known():
			return refuse("%s is not known", t.Type)
		}
		seen[t.Name] = true
		n, err := t.size("gguf", elements)
		if err != nil {
			return err
		}
		if n > math.MaxInt64/2-at {
			return refuse("the data overflow")
		}
		t.Offset, t.Bytes = at, n
		at += n + padding(n, g.alignment)
	}
	return nil
}

// Write adds data. It may begin and end anywhere in and between tensors; what
// stands between them is written by itself.
func (g *Writer) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 && g.err == nil {
		if g.next == len(g.tensors) {
			g.err = fmt.Errorf("gguf: %d bytes beyond the last tensor", len(p))
			break
		}
		n, err := g.w.Write(p[:min(int64(len(p)), g.tensors[g.next].Bytes-g.done)])
		written += n
		g.done += int64(n)
		p = p[n:]
		if err != nil {
			g.err = err
			break
		}
		g.err = g.skip()
	}
	return written, g.err
}

// WriteF32 adds the values of an F32 tensor.
func (g *Writer) WriteF32(x []float32) error {
	const step = 1 << 14
	buf := make([]byte, 0, 4*min(len(x), step))
	for len(x) > 0 {
		n := min(len(x), step)
		buf = buf[:0]
		for _, v := range x[:n] {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		if _, err := g.Write(buf); err != nil {
			return err
		}
		x = x[n:]
	}
	return g.err
}

// skip ends tensors that are complete, each with its padding.
func (g *Writer) skip() error {
	for g.next < len(g.tensors) && g.done == g.tensors[g.next].Bytes {
		if n := padding(g.done, g.alignment); n > 0 {
			if _, err := g.w.Write(make([]byte, n)); err != nil {
				return err
			}
		}
		g.next, g.done = g.next+1, 0
	}
	return nil
}

// Close wants all data to have come. It does not close what is written to.
func (g *Writer) Close() error {
	if g.err != nil {
		return g.err
	}
	if g.next < len(g.tensors) {
		t := &g.tensors[g.next]
		return fmt.Errorf("gguf: tensor %q: %d of its %d bytes did not come", t.Name, t.Bytes-g.done, t.Bytes)
	}
	return nil
}

// F32Tensor describes a tensor of f32 for a Writer; shape is row-major.
func F32Tensor(name string, shape ...int64) Tensor {
	return Tensor{Name: name, Type: kernels.GGUFF32, Shape: shape}
}
