package layout

import (
	"context"
	"fmt"

	"quantscope/kernels"
)

// own is a way of storing a matrix that decodes itself, since the kernels have no
// such format. read fills what its panel wants of Stored; codes and scales are by
// row. Neither keeps state, so that many goroutines may share one.
type own interface {
	// rowMultiple is what the first row of a range must be a multiple of.
	rowMultiple() int
	// read reads whole rows.
	read(ctx context.Context, m *Module, s *Stored, first, rows int) error
	// row decodes columns col0 … of one row of what was read.
	row(m *Module, dst []float32, s *Stored, row, col0 int)
}

// ownPanel decodes a block of what was read of a module that decodes itself.
func (m *Module) ownPanel(dst []float32, s *Stored, row0, rows, col0, cols int) error {
	rowBytes := m.ownRowBytes()
	have := len(s.Codes) / max(rowBytes, 1)
	if row0 < 0 || rows < 0 || rows > have-row0 || col0 < 0 || cols < 0 || cols > m.Cols-col0 || len(dst) != rows*cols {
		return fmt.Errorf("layout: %s: %d elements for rows %d to %d of %d, columns %d to %d of %d: %w", m.Name, len(dst), row0, row0+rows, have, col0, col0+cols, m.Cols, kernels.ErrShape)
	}
	for r := range rows {
		m.own.row(m, dst[r*cols:][:cols], s, row0+r, col0)
	}
	return nil
}

// ownRowBytes is what the codes of a row take where the module decodes itself.
func (m *Module) ownRowBytes() int { return (m.Cols*m.format.Bits + 7) / 8 }

// ownRows reads codes, scales and what stands beside them where all are by row, as
// they are stored.
func (m *Module) ownRows(ctx context.Context, s *Stored, first, rows int) (err error) {
	if s.Codes, err = m.readPlace(ctx, s.Codes, m.codes, int64(first), int64(rows)); err != nil {
		return err
	}
	if s.Scales, err = m.readPlace(ctx, s.Scales, m.scales, int64(first), int64(rows)); err != nil {
		return err
	}
	s.Mins, err = m.readPlace(ctx, s.Mins, m.mins, int64(first), int64(rows))
	return err
}

// mx8 is E4M3 with a power of two for each 32 inputs, which a byte says.
type mx8 struct{}

func (mx8) rowMultiple() int { return 1 }

func (mx8) read(ctx context.Context, m *Module, s *Stored, first, rows int) error {
	return m.ownRows(ctx, s, first, rows)
}

func (mx8) row(m *Module, dst []float32, s *Stored, row, col0 int) {
	codes := s.Codes[row*m.Cols+col0:][:len(dst)]
	groups := (m.Cols + mxBlock - 1) / mxBlock
	scales := s.Scales[row*groups:][:groups]
	for len(dst) > 0 {
		n := min(len(dst), mxBlock-col0%mxBlock)
		scale := kernels.E8M0ToF32(scales[col0/mxBlock])
		for k, c := range codes[:n] {
			dst[k] = kernels.E4M3ToF32(c) * scale
		}
		dst, codes, col0 = dst[n:], codes[n:], col0+n
	}
}

// mxBlock is how many inputs share a scale in the formats of the MX standard.
const mxBlock = 32

// mx8Format describes E4M3 with powers of two.
func mx8Format() kernels.Format {
	return kernels.Format{
		Name: "mxfp8", Description: "E4M3 in blocks of 32 with E8M0 scales",
		Bits: 8, Element: "e4m3", Scope: kernels.ScopeGroup, Group: mxBlock, Scale: "e8m0", ScaleBits: 8,
	}
}
