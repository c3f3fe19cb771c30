package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// chunk is some rows of a quantized matrix on their way into the file.
type chunk struct {
	format      kernels.Format
	rows, cols  int // of the matrix
	first, n    int // of the chunk
	out         *kernels.Output
	global      float32
	codebook    uint16
	unpacked    bool // codes of two bits are stored in four
	four        []byte
	tileRows    int // rows that share a scale: 1, or a tile's
	scalesOfRow int // scales of one row, or of one row of tiles
	codeBytes   int // of one row
	scaleBytes  int // of one scale
	minBytes    int // of what stands beside it
}

// newChunk measures what came against what the rows should have left.
func (p *Plan) newChunk(matrix, first int, out *kernels.Output, made kernels.Spec) (chunk, error) {
	m, f := &p.Matrices[matrix], p.storeOf(matrix).format
	c := chunk{format: f, rows: m.Rows, cols: m.Cols, first: first, out: out, global: made.Global, codebook: made.Codebook, tileRows: 1}
	if _, book := kernels.CodebookBase(f.Name); book {
		if kernels.CodebookCodes(c.codebook) == nil {
			return c, fmt.Errorf("%s with the codebook %#04x: %w", f.Name, c.codebook, kernels.ErrCodebook)
		}
		c.unpacked = p.storeOf(matrix).scheme.as != ""
	}
	c.codeBytes = (m.Cols*f.Bits + 7) / 8
	for t := range p.fieldsOf(matrix) {
		switch t.Field {
		case Scales:
			c.scaleBytes = t.DType.Bits() / 8
		case Mins:
			c.minBytes = t.DType.Bits() / 8
		case ZeroPoints:
			c.minBytes = 1
		}
	}
	if out == nil || c.codeBytes == 0 || len(out.Codes)%c.codeBytes != 0 {
		return c, fmt.Errorf("codes are no rows of %d bytes: %w", c.codeBytes, kernels.ErrShape)
	}
	c.n = len(out.Codes) / c.codeBytes
	multiple := p.storeOf(matrix).scheme.rowMultiple
	switch {
	case first < 0 || c.n == 0 || c.n > m.Rows-min(first, m.Rows):
		return c, fmt.Errorf("rows %d to %d of %d: %w", first, first+c.n, m.Rows, kernels.ErrShape)
	case first%multiple != 0 || c.n%multiple != 0 && first+c.n != m.Rows:
		return c, fmt.Errorf("rows %d to %d are not cut at multiples of %d: %w", first, first+c.n, multiple, kernels.ErrShape)
	}
	switch f.Scope {
	case kernels.ScopeChannel:
		c.scalesOfRow = 1
	case kernels.ScopeGroup:
		c.scalesOfRow = (m.Cols + f.Group - 1) / f.Group
	case kernels.ScopeTile:
		c.tileRows, c.scalesOfRow = f.Group, (m.Cols+f.Group-1)/f.Group
	}
	scales := (c.n + c.tileRows - 1) / c.tileRows * c.scalesOfRow
	if f.Scope == kernels.ScopeTensor && first == 0 {
		scales = 1
	}
	if len(out.Scales) != scales*c.scaleBytes || c.minBytes > 0 && len(out.Mins) != scales*c.minBytes {
		return c, fmt.Errorf("%d bytes of scales and %d beside them for %d rows, want %d and %d: %w",
			len(out.Scales), len(out.Mins), c.n, scales*c.scaleBytes, scales*c.minBytes, kernels.ErrShape)
	}
	return c, nil
}

// bytes are what the chunk puts into a field, and where in it. The buffer may
// be used for them.
func (c *chunk) bytes(t *Tensor, buf []byte) (data []byte, offset int64) {
	scaleRow := int64(c.first / c.tileRows * c.scalesOfRow)
	switch t.Field {
	case Codes:
		if t.DType == checkpoint.I32 {
			row := (c.cols + rowsPerWord - 1) / rowsPerWord * 4
			return c.words(buf, row), int64(c.first) * int64(row)
		}
		if c.unpacked {
			return c.four, int64(c.first) * int64((c.cols+1)/2)
		}
		return c.out.Codes, int64(c.first) * int64(c.codeBytes)
	case Scales:
		return c.out.Scales, scaleRow * int64(c.scaleBytes)
	case Mins:
		return c.out.Mins, scaleRow * int64(c.minBytes)
	case ZeroPoints:
		return c.columnWords(buf), int64(c.first/rowsPerWord) * int64(c.scalesOfRow) * 4
	}
	if c.first != 0 {
		return nil, 0
	}
	switch t.Field {
	case Codebook:
		return append(buf[:0], kernels.CodebookCodes(c.codebook)...), 0
	case Global:
		return binary.LittleEndian.AppendUint32(buf[:0], math.Float32bits(c.global)), 0
	}
	buf = binary.LittleEndian.AppendUint64(buf[:0], uint64(c.rows))
	return binary.LittleEndian.AppendUint64(buf, uint64(c.cols)), 0
}

// unpack makes codes of two bits those of E2M1 that they stand for.
func (c *chunk) unpack(buf []byte) (err error) {
	c.four = append(buf[:0], make([]byte, c.n*((c.cols+1)/2))...)
	return kernels.UnpackCode2(c.four, c.out.Codes, c.n, c.cols, c.codebook)
}

// words fills rows of nibbles up to whole words with 0. The kernels leave 0
// after an odd last column.
func (c *chunk) words(buf []byte, row int) []byte {
	if row == c.codeBytes {
		return c.out.Codes
	}
	buf = append(buf[:0], make([]byte, c.n*row)...)
	for r := range c.n {
		copy(buf[r*row:], c.out.Codes[r*c.codeBytes:(r+1)*c.codeBytes])
	}
	return buf
}

// rowsPerWord is how many 4-bit values share a 32-bit word.
const rowsPerWord = 8

// columnWords packs eight rows of 4-bit values into a word each, row 8i in the
// low nibble, as value+8; rows beyond the last are 0.
func (c *chunk) columnWords(buf []byte) []byte {
	groups := c.scalesOfRow
	buf = append(buf[:0], make([]byte, (c.n+rowsPerWord-1)/rowsPerWord*groups*4)...)
	for r := range c.n {
		for g := range groups {
			value := uint32(c.out.Mins[r*groups+g]+8) & 15
			at := buf[(r/rowsPerWord*groups+g)*4:]
			binary.LittleEndian.PutUint32(at, binary.LittleEndian.Uint32(at)|value<<(r%rowsPerWord*4))
		}
	}
	return buf
}

// buffers are for what has to be packed anew.
var buffers = sync.Pool{New: func() any { return new([]byte) }}
