package gguf

import (
	"context"
	"fmt"
	"sync"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Loaded is a matrix in memory as it is stored, which is decoded in panels. Its
// methods may be called from many goroutines.
type Loaded struct {
	m      *Model
	w      *Weight
	set    kernels.Set
	data   []byte
	pieces []loadedPiece
}

type loadedPiece struct {
	*piece
	t        *Tensor
	row0     int // of the weight
	data     []byte
	rowBytes int
}

// Load reads a matrix into buf, which is as long as Bytes says and must stay as
// it is while the result is used.
func (m *Model) Load(ctx context.Context, w *Weight, set kernels.Set, buf []byte) (*Loaded, error) {
	if w.Vector || int64(len(buf)) != w.bytes {
		return nil, fmt.Errorf("gguf: %d bytes of memory for %s, which takes %d: %w", len(buf), w.Name, w.bytes, kernels.ErrShape)
	}
	l := &Loaded{m: m, w: w, set: set, data: buf, pieces: make([]loadedPiece, len(w.pieces))}
	row := 0
	for i := range w.pieces {
		p := &w.pieces[i]
		t := &m.Tensors[p.tensor]
		_, n := m.extent(w, p)
		b := buf[:n:n]
		buf = buf[n:]
		if err := m.ReadStored(ctx, t, p.first*rowBytes(t), b); err != nil {
			return nil, err
		}
		l.pieces[i] = loadedPiece{piece: p, t: t, row0: row, data: b, rowBytes: int(rowBytes(t))}
		row += p.rows
	}
	return l, nil
}

// Operand is the matrix as a factor of a product.
func (l *Loaded) Operand() kernels.Operand {
	if p := &l.pieces[0]; len(l.pieces) == 1 && p.inOrder() && !p.turned && !p.scaled {
		for t, e := range map[kernels.GGUFType]kernels.Element{kernels.GGUFF32: kernels.F32, kernels.GGUFF16: kernels.F16, kernels.GGUFBF16: kernels.BF16} {
			if p.t.Type == t {
				return kernels.StoredOperand(kernels.Matrix{Element: e, Rows: l.w.Rows, Cols: l.w.Cols, Data: p.data})
			}
		}
	}
	return kernels.PanelOperand(l.w.Rows, l.w.Cols, l.panel)
}

// panel decodes a block of the matrix, whose columns begin at a multiple of
// kernels.PanelDepth and so of every type's block.
func (l *Loaded) panel(dst []float32, row0, rows, col0, cols int) error {
	for i := range l.pieces {
		p := &l.pieces[i]
		from, to := max(row0, p.row0), min(row0+rows, p.row0+p.rows)
		if from >= to {
			continue
		}
		part := dst[(from-row0)*cols:][:(to-from)*cols]
		if err := l.part(p, part, from-p.row0, to-from, col0, cols); err != nil {
			return &checkpoint.FileError{File: l.m.Parts[p.t.Part].Name, Tensor: p.t.Name, Reason: "cannot be decoded", Err: err}
		}
	}
	return nil
}

// part makes rows of one piece.
func (l *Loaded) part(p *loadedPiece, dst []float32, row0, rows, col0, cols int) error {
	if err := l.decode(p, dst, row0, rows, col0, cols); err != nil {
		return err
	}
	p.rescale(dst)
	return nil
}

// rescale applies the scale that stands beside the tensor.
func (p *piece) rescale(dst []float32) {
	if !p.scaled {
		return
	}
	for i := range dst {
		dst[i] *= p.scale
	}
}

// decode decodes rows of one piece.
func (l *Loaded) decode(p *loadedPiece, dst []float32, row0, rows, col0, cols int) error {
	if p.turned {
		return l.columns(p, dst, row0, rows, col0, cols)
	}
	if p.colTiles != nil {
		return l.tiledColumns(p, dst, row0, rows, col0, cols)
	}
	block, bytes := p.t.Type.Block()
	from, n := col0/block*bytes, cols/block*bytes
	if p.inOrder() && n == p.rowBytes { // whole rows, one after the other
		return l.set.DecodeGGUF(dst, p.t.Type, p.data[row0*n:][:rows*n])
	}
	for r := range rows {
		at := p.storedRow(row0+r)*p.rowBytes + from
		if err := l.set.DecodeGGUF(dst[r*cols:][:cols], p.t.Type, p.data[at:][:n]); err != nil {
			return err
		}
	}
	return nil
}

var columnPool = sync.Pool{New: func() any { return new([]float32) }}

// columns decodes rows that are stored as columns: of each stored row, which is a
// column of the weight, the values that are asked for.
func (l *Loaded) columns(p *loadedPiece, dst []float32, row0, rows, col0, cols int) error {
	scratch := columnPool.Get().(*[]float32)
	defer columnPool.Put(scratch)
	if cap(*scratch) < p.rows {
		*scratch = make([]float32, p.rows)
	}
	line := (*scratch)[:p.rows]
	for c := range cols {
		if err := l.set.DecodeGGUF(line, p.t.Type, p.data[(col0+c)*p.rowBytes:][:p.rowBytes]); err != nil {
			return err
		}
		for r := range rows {
			dst[r*cols+c] = line[row0+r]
		}
	}
	return nil
}

// tiledColumns decodes columns that stand in another order: run by run, each with the
// blocks that it lies in.
func (l *Loaded) tiledColumns(p *loadedPiece, dst []float32, row0, rows, col0, cols int) error {
	block, bytes := p.t.Type.Block()
	scratch := columnPool.Get().(*[]float32)
	defer columnPool.Put(scratch)
	for c := 0; c < cols; {
		at, n := p.colTiles.run(col0+c, cols-c)
		first, last := at/block, (at+n-1)/block+1
		if cap(*scratch) < (last-first)*block {
			*scratch = make([]float32, (last-first)*block)
		}
		line := (*scratch)[:(last-first)*block]
		for r := range rows {
			raw := p.data[p.storedRow(row0+r)*p.rowBytes:][:p.rowBytes]
			if err := l.set.DecodeGGUF(line, p.t.Type, raw[first*bytes:last*bytes]); err != nil {
				return err
			}
			copy(dst[r*cols+c:][:n], line[at-first*block:])
		}
		c += n
	}
	return nil
}

// inOrder says whether rows and columns stand as the weight has them.
func (p *piece) inOrder() bool { return p.heads == 0 && p.rowTiles == nil && p.colTiles == nil }

// ReadRows reads rows of a matrix, one after the other, straight from the file.
func (m *Model) ReadRows(ctx context.Context, w *Weight, rows []int32, dst []float32) error {
	if len(dst) != len(rows)*w.Cols {
		return fmt.Errorf("gguf: %d values for %d rows of %s: %w", len(dst), len(rows), w.Name, kernels.ErrShape)
	}
	p := &w.pieces[0]
	if w.Vector || len(w.pieces) > 1 || p.turned || p.colTiles != nil {
		return fmt.Errorf("gguf: %s cannot be read by rows: %w", w.Name, kernels.ErrUnsupported)
	}
	for i, r := range rows {
		if r < 0 || int(r) >= w.Rows {
			return fmt.Errorf("gguf: row %d of %s, which has %d: %w", r, w.Name, w.Rows, kernels.ErrShape)
		}
		first := (p.first + int64(p.storedRow(int(r)))) * int64(w.Cols)
		if err := m.Decode(ctx, &m.Tensors[p.tensor], first, dst[i*w.Cols:][:w.Cols]); err != nil {
			return err
		}
		p.rescale(dst[i*w.Cols:][:w.Cols])
	}
	return nil
}

// maxVector bounds norms and biases; the widest have a few hundred thousand
// values.
const maxVector = 1 << 24
