package kernels

import (
	"fmt"
	"sync"
)

// Two bits: an element is the index of its value in Codebook(mask), element 4j of a
// row in the low bits of byte j, the next three above it. Rows begin with a byte; what
// is left of the last one is 0.

// bookTables turn the codes of a codebook into two bits and back.
type bookTables struct {
	indices [16]byte    // by E2M1 code; 4 where it is not in the codebook
	nibbles [256]uint16 // four codes of E2M1, the first in the low four bits, by a byte of four indices
}

var bookTablesOf sync.Map // of masks, of which there are 1,365

// tablesOfBook are the tables of a mask that checkCodebook accepts.
func tablesOfBook(mask uint16) *bookTables {
	if t, ok := bookTablesOf.Load(mask); ok {
		return t.(*bookTables)
	}
	t := new(bookTables)
	var codes [CodebookValues]uint16
	n := 0
	for i := range t.indices {
		t.indices[i] = CodebookValues
	}
	for _, code := range e2m1Ascending {
		if mask&(1<<code) != 0 {
			t.indices[code], codes[n] = byte(n), uint16(code)
			n++
		}
	}
	for b := range t.nibbles {
		for k := range CodebookValues {
			t.nibbles[b] |= codes[b>>(2*k)&3] << (4 * k)
		}
	}
	bookTablesOf.Store(mask, t)
	return t
}

// PackCode2 packs codes of E2M1, two a byte, of which only those of a codebook are
// used, into two bits each: the index of the value in Codebook(mask), element 4j in the
// low bits of byte j. Rows are padded to whole bytes. A code that is not in the
// codebook is ErrRange; −0 is in none. UnpackCode2 undoes it.
func PackCode2(dst, nibbles []byte, rows, cols int, mask uint16) error {
	t, err := checkPacking(len(dst), len(nibbles), rows, cols, mask)
	if err != nil || cols == 0 {
		return err
	}
	packed, wide := ceilDiv(cols, 4), ceilDiv(cols, 2)
	for r := range rows {
		row := nibbles[r*wide:][:wide]
		if at := t.packRow(dst[r*packed:][:packed], row, cols); at < cols {
			code := row[at/2] >> (at % 2 * 4) & 15
			return fmt.Errorf("code2: row %d, column %d has the code %d, which is not in %v: %w", r, at, code, Codebook(mask), ErrRange)
		}
	}
	return nil
}

// UnpackCode2 undoes PackCode2: after an odd last column the high nibble is 0.
// dst is nibbles.
func UnpackCode2(nibbles, packed []byte, rows, cols int, mask uint16) error {
	t, err := checkPacking(len(packed), len(nibbles), rows, cols, mask)
	if err != nil || cols == 0 {
		return err
	}
	narrow, wide := ceilDiv(cols, 4), ceilDiv(cols, 2)
	for r := range rows {
		t.unpackRow(nibbles[r*wide:][:wide], packed[r*narrow:][:narrow], cols)
	}
	return nil
}

func checkPacking(packed, nibbles, rows, cols int, mask uint16) (*bookTables, error) {
	if mask == 0 {
		return nil, fmt.Errorf("code2: %w", ErrNeedsCodebook)
	}
	if err := checkMask(mask); err != nil {
		return nil, err
	}
	if n, ok := product(rows, ceilDiv(cols, 4)); !ok || cols < 0 || n != packed {
		return nil, fmt.Errorf("code2: %d bytes of two bits for %d×%d: %w", packed, rows, cols, ErrShape)
	}
	if n, ok := product(rows, ceilDiv(cols, 2)); !ok || n != nibbles {
		return nil, fmt.Errorf("code2: %d bytes of four bits for %d×%d: %w", nibbles, rows, cols, ErrShape)
	}
	return tablesOfBook(mask), nil
}

// packRow packs a row, and says how many of its elements are in the codebook before
// the first one that is not.
func (t *bookTables) packRow(dst, nibbles []byte, cols int) int {
	for j := range dst {
		var b byte
		for k := range min(CodebookValues, cols-4*j) {
			index := t.indices[nibbles[2*j+k/2]>>(k%2*4)&15]
			if index == CodebookValues {
				return 4*j + k
			}
			b |= index << (2 * k)
		}
		dst[j] = b
	}
	return cols
}

func (t *bookTables) unpackRow(nibbles, packed []byte, cols int) {
	whole := cols / 4
	for j, b := range packed[:whole] {
		four := t.nibbles[b]
		nibbles[2*j], nibbles[2*j+1] = byte(four), byte(four>>8)
	}
	if rest := cols % 4; rest > 0 {
		four := t.nibbles[packed[whole]] & (1<<(4*rest) - 1)
		for i := range nibbles[2*whole:] {
			nibbles[2*whole+i] = byte(four >> (8 * i))
		}
	}
}
