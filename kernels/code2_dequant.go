package kernels

import (
	"fmt"
	"sync"
)

// bookBytes is about how many bytes of four bits are unpacked at a time.
const bookBytes = 1 << 15

var bookSpaces = sync.Pool{New: func() any { return new([]byte) }}

// dequantizeBook is Dequantize of formats with a codebook: codes are unpacked to four
// bits, and these decoded as the format of four bits does.
func (s Set) dequantizeBook(dst []float32, spec Spec, rows, cols int, codes, scales []byte, global float32) error {
	if spec.Codebook == 0 {
		return fmt.Errorf("%s decode: %w", spec.Format, ErrNeedsCodebook)
	}
	f, err := FormatByName(spec.Format)
	if err != nil {
		return err
	}
	wide, _ := CodebookBase(f.Name)
	narrow, nibbles, perRow := ceilDiv(cols, 4), ceilDiv(cols, 2), ceilDiv(cols, f.Group)
	for _, x := range []struct {
		what       string
		have, each int
	}{{"elements", len(dst), cols}, {"code bytes", len(codes), narrow}, {"scale bytes", len(scales), perRow}} {
		if n, ok := product(rows, x.each); !ok || cols < 0 || n != x.have {
			return fmt.Errorf("%s decode: %d %s for %d×%d, want %d: %w", f.Name, x.have, x.what, rows, cols, n, ErrShape)
		}
	}
	if cols == 0 {
		return nil
	}
	atOnce := min(rows, max(bookBytes/nibbles, 1))
	space := bookSpaces.Get().(*[]byte)
	defer bookSpaces.Put(space)
	*space = resize(*space, atOnce*nibbles)
	tables, conv := tablesOfBook(spec.Codebook), spec.Convention
	for first := 0; first < rows; first += atOnce {
		n := min(atOnce, rows-first)
		part := (*space)[:n*nibbles]
		for r := range n {
			tables.unpackRow(part[r*nibbles:][:nibbles], codes[(first+r)*narrow:][:narrow], cols)
		}
		to, scale := dst[first*cols:][:n*cols], scales[first*perRow:][:n*perRow]
		if wide == "nvfp4" {
			err = s.DequantizeNVFP4(to, part, scale, global, conv, n, cols)
		} else {
			err = s.Dequantize(to, Spec{Format: wide, Convention: conv}, n, cols, part, scale, nil, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
