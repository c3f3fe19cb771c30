package candidate

import (
	"cmp"
	"fmt"
	"sync"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/layout"
)

// coded is a matrix in memory as codes and scales, which is decoded in panels.
// Row r of the matrix is row first+r·step of what is stored.
type coded struct {
	set         kernels.Set
	spec        kernels.Spec
	book        uint16 // the codebook that E2M1 codes were changed to; 0 elsewhere
	format      kernels.Format
	rows, cols  int
	first, step int

	codes, scales, mins []byte // as kernels.Sizes has them
	global              float32
	tileR, tileC        int // of a format of tiles, else 0

	columns []float32 // what the weights of each input are multiplied by; nil elsewhere

	own    *layout.Module // that decodes what was read by itself; nil elsewhere
	stored *layout.Stored // what was read of it

	codeRow            int // bytes of a row's codes
	scaleSize, minSize int // bytes of one
	perRow             int // scales of a row, or of a row of tiles
}

// newCoded takes the codes of a stored matrix of rows×cols and checks that they
// are as many as its format says. Its own tiles, where a layout states them, are
// tileR×tileC.
func newCoded(set kernels.Set, spec kernels.Spec, rows, cols, tileR, tileC int, codes, scales, mins []byte, global float32) (*coded, error) {
	f, err := kernels.FormatByName(spec.Format)
	if err != nil {
		return nil, err
	}
	c := &coded{
		set: set, spec: spec, format: f, rows: rows, cols: cols, step: 1, codes: codes, scales: scales, mins: mins, global: global,
		codeRow: (cols*f.Bits + 7) / 8,
	}
	n := 0
	switch f.Scope {
	case kernels.ScopeTile:
		if tileR <= 0 || tileC <= 0 {
			tileR, tileC = f.Group, f.Group
		}
		c.tileR, c.tileC, c.perRow = tileR, tileC, ceil(cols, tileC)
		n = ceil(rows, tileR) * c.perRow
	case kernels.ScopeChannel:
		c.perRow, n = 1, rows
	case kernels.ScopeGroup:
		if kernels.PanelDepth%f.Group != 0 {
			return nil, fmt.Errorf("groups of %d do not fit panels of %d: %w", f.Group, kernels.PanelDepth, kernels.ErrUnsupported)
		}
		c.perRow = ceil(cols, f.Group)
		n = rows * c.perRow
	case kernels.ScopeTensor:
		n = 1
	}
	if len(codes) != rows*c.codeRow {
		return nil, fmt.Errorf("%d bytes of codes for %d×%d of %s: %w", len(codes), rows, cols, spec.Format, kernels.ErrShape)
	}
	if n > 0 {
		c.scaleSize, c.minSize = len(scales)/n, len(mins)/n
	}
	if len(scales) != n*c.scaleSize || len(mins) != n*c.minSize {
		return nil, fmt.Errorf("%d bytes of scales and %d beside them for %d×%d of %s: %w", len(scales), len(mins), rows, cols, spec.Format, kernels.ErrShape)
	}
	return c, nil
}

// part is c with only the rows first, first+step, ….
func (c *coded) part(rows, first, step int) (*coded, error) {
	if rows < 0 || first < 0 || step < 1 || rows > 0 && first+(rows-1)*step >= c.rows {
		return nil, fmt.Errorf("%d rows from %d on by %d of %d: %w", rows, first, step, c.rows, kernels.ErrShape)
	}
	p := *c
	p.rows, p.first, p.step = rows, first, step
	return &p, nil
}

// size is the bytes that c holds.
func (c *coded) size() int64 { return int64(len(c.codes) + len(c.scales) + len(c.mins)) }

// weight is c as a factor.
func (c *coded) weight() model.Weight {
	return model.Weight{Rows: c.rows, Cols: c.cols, Operand: kernels.PanelOperand(c.rows, c.cols, c.panel), Codebook: cmp.Or(c.spec.Codebook, c.book)}
}

// gathered is memory for the codes and scales of a panel.
type gathered struct{ codes, scales, mins []byte }

var gatherPool = sync.Pool{New: func() any { return new(gathered) }}

// panel decodes a block, whose first column is a multiple of kernels.PanelDepth,
// by the format's own formula.
func (c *coded) panel(dst []float32, row0, rows, col0, cols int) error {
	if rows == 0 || cols == 0 {
		return nil
	}
	if c.own != nil {
		return c.ownPanel(dst, row0, rows, col0, cols)
	}
	if err := c.decode(dst, row0, rows, col0, cols); err != nil || c.columns == nil {
		return err
	}
	s := layout.Stored{Columns: c.columns}
	s.Multiply(dst, col0, cols)
	return nil
}

// decode decodes a block of one of the kernels' formats.
func (c *coded) decode(dst []float32, row0, rows, col0, cols int) error {
	g := gatherPool.Get().(*gathered)
	defer gatherPool.Put(g)
	if c.tileR > 0 {
		return c.tiles(g, dst, row0, rows, col0, cols)
	}
	codes := c.gather(&g.codes, c.codes, c.codeRow, col0*c.format.Bits/8, (cols*c.format.Bits+7)/8, row0, rows)
	scales, mins := c.scales, c.mins
	switch c.format.Scope {
	case kernels.ScopeChannel:
		scales = c.gather(&g.scales, c.scales, c.scaleSize, 0, c.scaleSize, row0, rows)
		mins = c.gather(&g.mins, c.mins, c.minSize, 0, c.minSize, row0, rows)
	case kernels.ScopeGroup:
		from, n := col0/c.format.Group, ceil(cols, c.format.Group)
		scales = c.gather(&g.scales, c.scales, c.perRow*c.scaleSize, from*c.scaleSize, n*c.scaleSize, row0, rows)
		mins = c.gather(&g.mins, c.mins, c.perRow*c.minSize, from*c.minSize, n*c.minSize, row0, rows)
	}
	return c.set.Dequantize(dst, c.spec, rows, cols, codes, scales, mins, c.global)
}

// ownPanel decodes a block of a module that does so by itself.
func (c *coded) ownPanel(dst []float32, row0, rows, col0, cols int) error {
	if c.step == 1 {
		return c.own.Panel(dst, c.stored, c.first+row0, rows, col0, cols)
	}
	for r := range rows {
		if err := c.own.Panel(dst[r*cols:][:cols], c.stored, c.first+(row0+r)*c.step, 1, col0, cols); err != nil {
			return err
		}
	}
	return nil
}

// gather brings bytes from … of rows of a field together, in place where they
// are.
func (c *coded) gather(buf *[]byte, field []byte, rowBytes, from, n, row0, rows int) []byte {
	if rowBytes == 0 {
		return nil
	}
	if n == rowBytes && c.step == 1 {
		return field[(c.first+row0)*rowBytes:][:rows*rowBytes]
	}
	out := (*buf)[:0]
	for r := row0; r < row0+rows; r++ {
		out = append(out, field[(c.first+r*c.step)*rowBytes+from:][:n]...)
	}
	*buf = out
	return out
}

// tiles decodes a block of a format of tiles: rows that share tiles together
// where the block begins with a tile, else piece by piece.
func (c *coded) tiles(g *gathered, dst []float32, row0, rows, col0, cols int) error {
	for r := 0; r < rows; {
		row := c.first + (row0+r)*c.step
		n := 1
		if c.step == 1 {
			n = min(rows-r, c.tileR-row%c.tileR)
		}
		scales := c.scales[row/c.tileR*c.perRow*c.scaleSize:][:c.perRow*c.scaleSize]
		if col0%c.tileC == 0 {
			from := col0 / c.tileC
			codes := c.gather(&g.codes, c.codes, c.codeRow, col0, cols, row0+r, n)
			err := c.set.DequantizeFP8Tiles(dst[r*cols:][:n*cols], c.spec.Convention, n, cols, n, c.tileC, codes, scales[from*c.scaleSize:][:ceil(cols, c.tileC)*c.scaleSize])
			if err != nil {
				return err
			}
			r += n
			continue
		}
		for col := col0; col < col0+cols; {
			tile := col / c.tileC
			m := min((tile+1)*c.tileC, col0+cols) - col
			codes := c.codes[row*c.codeRow+col:][:m]
			if err := c.set.DequantizeFP8Tiles(dst[r*cols+col-col0:][:m], c.spec.Convention, 1, m, 1, m, codes, scales[tile*c.scaleSize:][:c.scaleSize]); err != nil {
				return err
			}
			col += m
		}
		r++
	}
	return nil
}

// row decodes one whole row.
func (c *coded) row(dst []float32, row int) error {
	for col := 0; col < c.cols; col += kernels.PanelDepth {
		n := min(kernels.PanelDepth, c.cols-col)
		if err := c.panel(dst[col:][:n], row, 1, col, n); err != nil {
			return err
		}
	}
	return nil
}

// lookup decodes rows of a matrix of embeddings.
func (c *coded) lookup(name string, rows []int32, dst []float32) error {
	if len(dst) != len(rows)*c.cols {
		return fmt.Errorf("candidate: %d values for %d rows of %s: %w", len(dst), len(rows), name, kernels.ErrShape)
	}
	for k, row := range rows {
		if row < 0 || int(row) >= c.rows {
			return fmt.Errorf("candidate: row %d of %s, which has %d: %w", row, name, c.rows, kernels.ErrShape)
		}
		if err := c.row(dst[k*c.cols:][:c.cols], int(row)); err != nil {
			return fmt.Errorf("candidate: %s: %w", name, err)
		}
	}
	return nil
}

// ceil is ⌈n/d⌉.
func ceil(n, d int) int { return (n + d - 1) / d }
