package kernels

import "fmt"

// Stored is the matrix that StoredOperand was given; ok is false for an operand
// that was made otherwise, and for a transpose.
func (o Operand) Stored() (m Matrix, ok bool) {
	return o.stored, o.panels == nil && o.stored.Element != 0 && !o.transposed
}

// ExpandRows writes rows first … of an operand that is no transpose to dst, whole
// rows of f32 without gaps, as many as dst holds.
func (s Set) ExpandRows(dst []float32, o Operand, first int) error {
	if o.cols <= 0 {
		return o.check()
	}
	rows := len(dst) / o.cols
	if rows*o.cols != len(dst) {
		return fmt.Errorf("%d elements are no rows of %d: %w", len(dst), o.cols, ErrShape)
	}
	if o.panels == nil || o.cols <= PanelDepth {
		return s.ExpandBlock(dst, o, first, rows, 0, o.cols)
	}
	panel := make([]float32, rows*PanelDepth)
	for col := 0; col < o.cols; col += PanelDepth {
		n := min(PanelDepth, o.cols-col)
		if err := s.ExpandBlock(panel[:rows*n], o, first, rows, col, n); err != nil {
			return err
		}
		for r := range rows {
			copy(dst[r*o.cols+col:][:n], panel[r*n:])
		}
	}
	return nil
}

// ExpandBlock writes rows row0 …, columns col0 … of an operand that is no
// transpose to dst, row-major without gaps. A block of a PanelOperand has the
// columns that PanelSource is asked for.
func (s Set) ExpandBlock(dst []float32, o Operand, row0, rows, col0, cols int) error {
	if err := o.check(); err != nil {
		return err
	}
	n, ok := product(rows, cols)
	if !ok || n != len(dst) || o.transposed || row0 < 0 || rows > o.rows-row0 || col0 < 0 || cols > o.cols-col0 {
		return fmt.Errorf("%d elements for rows %d to %d, columns %d to %d of %d×%d: %w", len(dst), row0, row0+rows, col0, col0+cols, o.rows, o.cols, ErrShape)
	}
	if n == 0 {
		return nil
	}
	if o.panels != nil {
		return o.panels(dst, row0, rows, col0, cols)
	}
	if m := &o.stored; m.Element != 0 {
		s, size := s.orReference(), m.Element.Size()
		if cols == m.Cols {
			return s.DecodeFloats(dst, m.Element, m.Data[row0*cols*size:][:n*size])
		}
		for r := range rows {
			if err := s.DecodeFloats(dst[r*cols:][:cols], m.Element, m.Data[((row0+r)*m.Cols+col0)*size:][:cols*size]); err != nil {
				return err
			}
		}
		return nil
	}
	for r := range rows {
		copy(dst[r*cols:][:cols], o.dense.Data[(row0+r)*o.dense.Stride+col0:])
	}
	return nil
}
