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
	if err := o.check(); err != nil {
		return err
	}
	if o.cols == 0 || o.rows == 0 {
		return nil
	}
	rows := len(dst) / o.cols
	if o.transposed || rows*o.cols != len(dst) || first < 0 || rows > o.rows-first {
		return fmt.Errorf("%d elements from row %d on of %d×%d: %w", len(dst), first, o.rows, o.cols, ErrShape)
	}
	switch {
	case o.panels != nil && o.cols <= PanelDepth:
		return o.panels(dst, first, rows, 0, o.cols)
	case o.panels != nil:
		panel := make([]float32, rows*PanelDepth)
		for col := 0; col < o.cols; col += PanelDepth {
			n := min(PanelDepth, o.cols-col)
			if err := o.panels(panel[:rows*n], first, rows, col, n); err != nil {
				return err
			}
			for r := range rows {
				copy(dst[r*o.cols+col:][:n], panel[r*n:])
			}
		}
		return nil
	case o.stored.Element != 0:
		m := o.stored
		size := m.Element.Size()
		return s.orReference().DecodeFloats(dst, m.Element, m.Data[first*m.Cols*size:][:len(dst)*size])
	}
	for r := range rows {
		copy(dst[r*o.cols:][:o.cols], o.dense.Data[(first+r)*o.dense.Stride:])
	}
	return nil
}
