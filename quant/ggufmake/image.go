package ggufmake

import (
	"encoding/binary"
	"io"
	"math"

	"quantscope/quant/gguf"
)

// image is a file of which only the header and the factors of its rope are there;
// its other data read as zeros.
type image struct {
	head    []byte
	placed  []gguf.Tensor
	factors []float32
}

// Size is the size of the whole file.
func (m *image) Size() int64 {
	size := int64(len(m.head))
	for i := range m.placed {
		size = max(size, m.placed[i].Offset+m.placed[i].Bytes)
	}
	return size
}

// ReadAt implements io.ReaderAt.
func (m *image) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(m.head)) {
		copy(p, m.head[off:])
	}
	for i := range m.placed {
		t := &m.placed[i]
		if t.Name != "rope_freqs.weight" || off >= t.Offset+t.Bytes || off+int64(len(p)) <= t.Offset {
			continue
		}
		for k := range p {
			if at := off + int64(k) - t.Offset; at >= 0 && at < t.Bytes && int(at/4) < len(m.factors) {
				var b [4]byte
				binary.LittleEndian.PutUint32(b[:], math.Float32bits(m.factors[at/4]))
				p[k] = b[at%4]
			}
		}
	}
	if n := m.Size() - off; n < int64(len(p)) {
		return int(max(n, 0)), io.EOF
	}
	return len(p), nil
}
