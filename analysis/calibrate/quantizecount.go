package calibrate

import (
	"bytes"
	"fmt"
	"math/bits"

	"quantscope/kernels"
	"quantscope/quant/codes"
)

// mostProducts bounds what measuring one output error may cost: a row takes n²
// multiplications.
const mostProducts = 1 << 28

// leastRows are measured however large a matrix is.
const leastRows = 128

// spread are the rows of a matrix over which its output error is taken: nil for
// all, of a large one as many as mostProducts allows, at even distances from the
// first row on.
func spread(rows, n int) []int {
	most := leastRows
	if hi, lo := bits.Mul64(uint64(n), uint64(n)); hi == 0 && lo > 0 {
		most = max(most, int(min(mostProducts/lo, uint64(rows))))
	}
	if rows <= most {
		return nil
	}
	out := make([]int, most)
	for i := range out {
		hi, lo := bits.Mul64(uint64(i), uint64(rows))
		at, _ := bits.Div64(hi, lo, uint64(most))
		out[i] = int(at)
	}
	return out
}

// diagonalError is Σ_c s_c·(w−q)² and Σ_c s_c·w² over rows, s being the second
// moments of columns: what OutputError would give for a Hessian without anything
// beside its diagonal. Elements that are not finite count as 0.
func diagonalError(set kernels.Set, sum2 []float64, w, q kernels.Operand, rows []int) (e2, w2 float64, err error) {
	n, cols := w.Dims()
	if len(sum2) != cols {
		return 0, 0, fmt.Errorf("second moments of %d columns for %d: %w", len(sum2), cols, kernels.ErrShape)
	}
	if cols == 0 {
		return 0, 0, nil
	}
	if rows != nil {
		n = len(rows)
	}
	a, b := make([]float32, cols), make([]float32, cols)
	for i := range n {
		at := i
		if rows != nil {
			at = rows[i]
		}
		if err := set.ExpandRows(a, w, at); err != nil {
			return 0, 0, err
		}
		if err := set.ExpandRows(b, q, at); err != nil {
			return 0, 0, err
		}
		var re, rw float64
		for c, s := range sum2 {
			x := float64(a[c])
			if x-x != 0 {
				continue
			}
			d := x - float64(b[c])
			re += s * d * d
			rw += s * x * x
		}
		e2, w2 = e2+re, w2+rw
	}
	return e2, w2, nil
}

// changed counts codes, scales, minima and global scales that differ.
func changed(scheme string, a, b *codes.Matrix) (int64, error) {
	f, err := kernels.FormatByName(scheme)
	if err != nil {
		return 0, err
	}
	if f.Codebook {
		if a, err = unpacked(a); err == nil {
			b, err = unpacked(b)
		}
		if err != nil {
			return 0, err
		}
	}
	var n int64
	for _, p := range []struct {
		a, b []byte
		size int // bytes of one; 0: two codes a byte
	}{{a.Codes, b.Codes, f.Bits / 8}, {a.Scales, b.Scales, sizeOf(a.Scales, f.ScaleBits)}, {a.Mins, b.Mins, sizeOf(a.Mins, f.MinBits)}} {
		if len(p.a) != len(p.b) {
			return 0, fmt.Errorf("%d and %d bytes of one and the same field: %w", len(p.a), len(p.b), kernels.ErrShape)
		}
		n += differing(p.a, p.b, p.size)
	}
	if a.Global != b.Global {
		n++
	}
	return n, nil
}

// unpacked is a matrix of two bits with the codes of E2M1 that its codes stand for: an
// index means something else in another codebook.
func unpacked(m *codes.Matrix) (*codes.Matrix, error) {
	out := *m
	out.Codes = make([]byte, m.Rows*((m.Cols+1)/2))
	return &out, kernels.UnpackCode2(out.Codes, m.Codes, m.Rows, m.Cols, m.Codebook)
}

// sizeOf is how many bytes a parameter has that the table of formats says a number
// of bits of; 1 at least.
func sizeOf(field []byte, bits int) int {
	if size := bits / 8; size > 0 && len(field)%size == 0 {
		return size
	}
	return 1
}

// differing counts elements that differ.
func differing(a, b []byte, size int) int64 {
	if bytes.Equal(a, b) {
		return 0
	}
	var n int64
	if size == 0 {
		for i := range a {
			if d := a[i] ^ b[i]; d != 0 {
				if d&0x0f != 0 {
					n++
				}
				if d&0xf0 != 0 {
					n++
				}
			}
		}
		return n
	}
	for i := 0; i < len(a); i += size {
		end := min(i+size, len(a))
		if !bytes.Equal(a[i:end], b[i:end]) {
			n++
		}
	}
	return n
}
