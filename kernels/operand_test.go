package kernels

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
)

// Rows and blocks of every kind of operand expand to the matrix, and a panel source is
// asked for panels only as a product would ask for them.
func TestExpandRows(t *testing.T) {
	const rows, cols = 5, 2*PanelDepth + 7
	want := make([]float32, rows*cols)
	bf16, f32 := make([]byte, 2*len(want)), make([]byte, 4*len(want))
	for i := range want {
		want[i] = float32(i%251) - 100
		binary.LittleEndian.PutUint16(bf16[2*i:], F32ToBF16(want[i]))
		binary.LittleEndian.PutUint32(f32[4*i:], math.Float32bits(want[i]))
	}
	strided := make([]float32, rows*(cols+3))
	for r := range rows {
		copy(strided[r*(cols+3):], want[r*cols:][:cols])
	}
	panels := func(dst []float32, row0, n, col0, m int) error {
		if col0%PanelDepth != 0 || m > PanelDepth {
			t.Errorf("a panel of columns %d to %d", col0, col0+m)
		}
		for r := range n {
			copy(dst[r*m:][:m], want[(row0+r)*cols+col0:])
		}
		return nil
	}
	for name, o := range map[string]Operand{
		"dense":  DenseOperand(Dense{Rows: rows, Cols: cols, Stride: cols + 3, Data: strided}),
		"bf16":   StoredOperand(Matrix{Element: BF16, Rows: rows, Cols: cols, Data: bf16}),
		"f32":    StoredOperand(Matrix{Element: F32, Rows: rows, Cols: cols, Data: f32}),
		"panels": PanelOperand(rows, cols, panels),
	} {
		for first := range rows {
			for n := range rows - first {
				got := make([]float32, n*cols)
				if err := Best().ExpandRows(got, o, first); err != nil || !slices.Equal(got, want[first*cols:][:n*cols]) {
					t.Errorf("%s: rows %d to %d: %v", name, first, first+n, err)
				}
			}
		}
		got := make([]float32, 3*20)
		if err := Best().ExpandBlock(got, o, 1, 3, PanelDepth, 20); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for r := range 3 {
			if !slices.Equal(got[r*20:][:20], want[(1+r)*cols+PanelDepth:][:20]) {
				t.Errorf("%s: row %d of a block differs", name, 1+r)
			}
		}
		if m, ok := o.Stored(); ok != (name == "bf16" || name == "f32") || ok && len(m.Data) == 0 {
			t.Errorf("%s: stored is %v", name, ok)
		}
		for what, err := range map[string]error{
			"a part of a row":      Best().ExpandRows(make([]float32, 3), o, 0),
			"a row too many":       Best().ExpandRows(make([]float32, 2*cols), o, rows-1),
			"rows before":          Best().ExpandRows(make([]float32, cols), o, -1),
			"rows of a transpose":  Best().ExpandRows(make([]float32, rows), o.T(), 0),
			"rows far behind":      Best().ExpandRows(make([]float32, cols), o, math.MaxInt),
			"rows from the bottom": Best().ExpandRows(make([]float32, cols), o, rows),
		} {
			if !errors.Is(err, ErrShape) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}
