package kernels

import (
	"encoding/binary"
	"fmt"
)

// compressed-tensors keeps small integers in int32 words: value v of bits bits
// is stored as v + 2^(bits−1), element i of a row in bits i·bits … (i+1)·bits−1 of
// the row's stream of little-endian words, across words where bits does not
// divide 32. A row begins with a word of its own; what is left of its last word
// is 0.

// PackedWords is how many int32 words a row of cols values takes; −1 where that
// is no number of bits or too large to count.
func PackedWords(cols, bits int) int {
	n, ok := product(cols, bits)
	if !ok || bits < 1 || bits > 8 {
		return -1
	}
	return ceilDiv(n, 32)
}

// PackInt32 packs rows·cols values of −2^(bits−1)…2^(bits−1)−1 into dst, which
// has rows·PackedWords(cols, bits) words of four bytes. bits is 1…8.
func PackInt32(dst []byte, values []int8, rows, cols, bits int) error {
	if err := checkPacked(len(dst), len(values), rows, cols, bits); err != nil {
		return err
	}
	low, high := -1<<(bits-1), 1<<(bits-1)-1
	rowBytes := 4 * PackedWords(cols, bits)
	for r := range rows {
		row := dst[r*rowBytes : (r+1)*rowBytes]
		var word uint64
		have := 0
		for c, v := range values[r*cols : (r+1)*cols] {
			if int(v) < low || int(v) > high {
				return fmt.Errorf("value %d in row %d column %d is not in %d…%d: %w", v, r, c, low, high, ErrRange)
			}
			word |= uint64(int(v)-low) << have
			if have += bits; have >= 32 {
				binary.LittleEndian.PutUint32(row, uint32(word))
				row, word, have = row[4:], word>>32, have-32
			}
		}
		if have > 0 {
			binary.LittleEndian.PutUint32(row, uint32(word))
		}
	}
	return nil
}

// UnpackInt32 is the inverse of PackInt32.
func UnpackInt32(dst []int8, words []byte, rows, cols, bits int) error {
	if err := checkPacked(len(words), len(dst), rows, cols, bits); err != nil {
		return err
	}
	rowBytes := 4 * PackedWords(cols, bits)
	for r := range rows {
		row := words[r*rowBytes : (r+1)*rowBytes]
		var word uint64
		have := 0
		for c := range cols {
			if have < bits {
				word |= uint64(binary.LittleEndian.Uint32(row)) << have
				row, have = row[4:], have+32
			}
			dst[r*cols+c] = int8(int(word&(1<<bits-1)) - 1<<(bits-1))
			word, have = word>>bits, have-bits
		}
	}
	return nil
}

func checkPacked(wordBytes, values, rows, cols, bits int) error {
	if bits < 1 || bits > 8 {
		return fmt.Errorf("values of %d bits: %w (known: 1 to 8)", bits, ErrUnsupported)
	}
	words := PackedWords(cols, bits)
	if n, ok := product(rows, cols); !ok || words < 0 || n != values {
		return fmt.Errorf("%d values for %d×%d: %w", values, rows, cols, ErrShape)
	}
	if n, ok := product(rows, words, 4); !ok || n != wordBytes {
		return fmt.Errorf("%d bytes of words for %d×%d values of %d bits: %w", wordBytes, rows, cols, bits, ErrShape)
	}
	return nil
}

// PackZeroPoints packs the zero points of rows outputs with groups groups each,
// one signed byte each and row by row, along the outputs: dst has
// PackedWords(rows, bits)·groups words, and word i of a group holds its zero
// points of the outputs from i·32/bits on.
func PackZeroPoints(dst, zeros []byte, rows, groups, bits int) error {
	values, words, err := transposable(len(dst), len(zeros), rows, groups, bits)
	if err != nil {
		return err
	}
	for r := range rows {
		for g := range groups {
			values[g*rows+r] = int8(zeros[r*groups+g])
		}
	}
	packed := make([]byte, len(dst))
	if err := PackInt32(packed, values, groups, rows, bits); err != nil {
		return fmt.Errorf("zero points: %w", err)
	}
	for g := range groups {
		for i := range words {
			copy(dst[4*(i*groups+g):][:4], packed[4*(g*words+i):])
		}
	}
	return nil
}

// UnpackZeroPoints is the inverse of PackZeroPoints.
func UnpackZeroPoints(zeros, words []byte, rows, groups, bits int) error {
	values, perGroup, err := transposable(len(words), len(zeros), rows, groups, bits)
	if err != nil {
		return err
	}
	packed := make([]byte, len(words))
	for g := range groups {
		for i := range perGroup {
			copy(packed[4*(g*perGroup+i):][:4], words[4*(i*groups+g):])
		}
	}
	if err := UnpackInt32(values, packed, groups, rows, bits); err != nil {
		return fmt.Errorf("zero points: %w", err)
	}
	for r := range rows {
		for g := range groups {
			zeros[r*groups+g] = byte(values[g*rows+r])
		}
	}
	return nil
}

// transposable checks the lengths for zero points and gives room to turn them
// by a quarter.
func transposable(wordBytes, zeros, rows, groups, bits int) (values []int8, words int, err error) {
	if err := checkPacked(wordBytes, zeros, groups, rows, bits); err != nil {
		return nil, 0, fmt.Errorf("zero points: %w", err)
	}
	return make([]int8, zeros), PackedWords(rows, bits), nil
}

// PackCodesInt32 turns the codes of a Pass over an int4 format into int32 words,
// rows·PackedWords(cols, 4) of them. A code is a value plus 8 in either, so that
// only the ends of rows differ.
func PackCodesInt32(dst, codes []byte, rows, cols int) error {
	return copyRows(dst, codes, rows, 4*PackedWords(cols, 4), ceilDiv(max(cols, 0), 2))
}

// UnpackCodesInt32 is the inverse of PackCodesInt32.
func UnpackCodesInt32(codes, words []byte, rows, cols int) error {
	return copyRows(codes, words, rows, ceilDiv(max(cols, 0), 2), 4*PackedWords(cols, 4))
}

// copyRows copies rows from rows of another length, what is missing as 0.
func copyRows(dst, src []byte, rows, dstBytes, srcBytes int) error {
	d, ok1 := product(rows, dstBytes)
	s, ok2 := product(rows, srcBytes)
	if !ok1 || !ok2 || d != len(dst) || s != len(src) {
		return fmt.Errorf("%d bytes from %d for %d rows of %d from %d: %w", len(dst), len(src), rows, dstBytes, srcBytes, ErrShape)
	}
	for r := range rows {
		row := dst[r*dstBytes : (r+1)*dstBytes]
		clear(row[copy(row, src[r*srcBytes:(r+1)*srcBytes]):])
	}
	return nil
}
