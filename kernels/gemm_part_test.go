package kernels

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// TestPart: products with rows of a factor are those rows of the product with all of
// it, whatever the factor is made of; rows that are not there are refused.
func TestPart(t *testing.T) {
	const rows, cols, m = 7, PanelDepth + 9, 3
	x, w := gaussian(t, m, cols, 1), gaussian(t, rows, cols+2, 2)
	w.Cols = cols // with gaps between its rows
	stored := Matrix{Element: F32, Rows: rows, Cols: cols}
	for r := range rows {
		for _, v := range w.Data[r*w.Stride:][:cols] {
			stored.Data = binary.LittleEndian.AppendUint32(stored.Data, math.Float32bits(v))
		}
	}
	for name, o := range map[string]Operand{
		"dense": DenseOperand(w), "stored": StoredOperand(stored),
		"panels": PanelOperand(rows, cols, func(dst []float32, row0, n, col0, width int) error {
			for r := range n {
				copy(dst[r*width:(r+1)*width], w.Data[(row0+r)*w.Stride+col0:])
			}
			return nil
		}),
	} {
		for _, s := range Available() {
			whole := Dense{Rows: m, Cols: rows, Stride: rows, Data: make([]float32, m*rows)}
			if err := s.GEMM(whole, DenseOperand(x), o.T(), GEMMOptions{}); err != nil {
				t.Fatal(err)
			}
			for from := range rows {
				for n := range rows - from + 1 {
					p, err := o.Part(from, n)
					if err != nil {
						t.Fatal(err)
					}
					got := Dense{Rows: m, Cols: n, Stride: max(n, 1), Data: make([]float32, m*max(n, 1))}
					if err := s.GEMM(got, DenseOperand(x), p.T(), GEMMOptions{}); err != nil {
						t.Fatal(err)
					}
					for i := range m * n {
						if want := whole.Data[i/n*rows+from+i%n]; got.Data[i] != want {
							t.Fatalf("%s, %s: rows %d to %d: value %d is %g, want %g", s.Name, name, from, from+n, i, got.Data[i], want)
						}
					}
				}
			}
		}
		for _, bad := range [][2]int{{-1, 2}, {0, rows + 1}, {rows, 1}, {2, -1}} {
			if _, err := o.Part(bad[0], bad[1]); !errors.Is(err, ErrShape) {
				t.Errorf("%s: %d rows from %d on: %v", name, bad[1], bad[0], err)
			}
		}
		if _, err := o.T().Part(0, 1); !errors.Is(err, ErrShape) {
			t.Errorf("%s: rows of a transpose: %v", name, err)
		}
	}
}
