package sessions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"quantscope/kernels"
)

// nonFinite says how many weights are not finite and where the first of each
// kind is.
func (w *worker) nonFinite(ctx context.Context, it item, nan, inf int64) (string, error) {
	var parts []string
	for _, k := range []struct {
		word string
		n    int64
		is   func(float32) bool
	}{
		{"NaN", nan, func(f float32) bool { return f != f }},
		{"Inf", inf, func(f float32) bool { return math.IsInf(float64(f), 0) }},
	} {
		if k.n == 0 {
			continue
		}
		s := k.word
		if k.n > 1 {
			s = fmt.Sprintf("%d %s, the first", k.n, k.word)
		}
		switch row, col, err := w.firstElement(ctx, it, k.is); {
		case err == errFound:
			s += fmt.Sprintf(" at [%d,%d]", row, col)
		case err != nil:
			return "", err
		}
		parts = append(parts, s)
	}
	return "weights are not finite: " + strings.Join(parts, "; "), nil
}

// errFound ends a search.
var errFound = errors.New("found")

// firstElement finds the first element, in row-major order, of which is is true;
// the error is errFound then.
func (w *worker) firstElement(ctx context.Context, it item, is func(float32) bool) (row, col int, err error) {
	err = w.eachPiece(ctx, it, w.rowsAtOnce(it.m, 1), func(from int, data []byte) error {
		part := kernels.Matrix{Element: it.m.Element, Data: data}
		for i := range len(data) / it.m.Element.Size() {
			if is(element(part, i)) {
				row, col = from+i/it.m.Cols, i%it.m.Cols
				return errFound
			}
		}
		return nil
	})
	return row, col, err
}

// element is element i of a matrix, NaN and infinities as such. The value of a
// finite f16 element is not exact: only its class is asked for.
func element(m kernels.Matrix, i int) float32 {
	switch m.Element {
	case kernels.F32:
		b := m.Data[4*i:]
		return math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24)
	case kernels.BF16:
		return math.Float32frombits(uint32(m.Data[2*i])<<16 | uint32(m.Data[2*i+1])<<24)
	case kernels.F16:
		bits := uint32(m.Data[2*i]) | uint32(m.Data[2*i+1])<<8
		exp, frac := bits>>10&0x1f, bits&0x3ff
		if exp == 0x1f { // infinity, or NaN with a fraction
			return math.Float32frombits(0x7f800000 | frac<<13)
		}
		return float32(frac)
	}
	return 0
}
