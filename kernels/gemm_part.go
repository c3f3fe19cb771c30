package kernels

import "fmt"

// Part is rows from … from+n−1 of an operand, as stored, which must not be a
// transpose. Nothing is moved. A PanelSource is asked for rows of the whole.
func (o Operand) Part(from, n int) (Operand, error) {
	if o.transposed || from < 0 || n < 0 || from > o.rows-n {
		return Operand{}, fmt.Errorf("rows %d to %d of %d×%d: %w", from, from+n, o.rows, o.cols, ErrShape)
	}
	if err := o.check(); err != nil {
		return Operand{}, err
	}
	p := Operand{rows: n, cols: o.cols}
	switch {
	case o.panels != nil:
		p.panels = func(dst []float32, row0, rows, col0, cols int) error {
			return o.panels(dst, from+row0, rows, col0, cols)
		}
	case o.stored.Element != 0:
		row := o.cols * o.stored.Element.Size()
		p.stored = Matrix{Element: o.stored.Element, Rows: n, Cols: o.cols, Data: o.stored.Data[from*row : (from+n)*row]}
	default:
		p.dense = Dense{Rows: n, Cols: o.dense.Cols, Stride: o.dense.Stride}
		if n > 0 && o.cols > 0 {
			p.dense.Data = o.dense.Data[from*o.dense.Stride:][:(n-1)*o.dense.Stride+o.dense.Cols]
		}
	}
	return p, nil
}
