package kernels

import (
	"errors"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// Every codebook comes back from its codes, which ascend by value, and every other
// list of four bytes is refused with what is wrong in it.
func TestCodebookCodes(t *testing.T) {
	n := 0
	for mask := range uint16(1 << 15) {
		mask = mask&0xff | mask&0x7f00<<1 // no −0
		codes := CodebookCodes(mask)
		if bits.OnesCount16(mask) != CodebookValues {
			if codes != nil {
				t.Fatalf("%#04x: %v", mask, codes)
			}
			continue
		}
		n++
		var values []float32
		for _, c := range codes {
			values = append(values, e2m1Values[c])
		}
		if !slices.Equal(values, Codebook(mask)) || !slices.IsSorted(values) {
			t.Fatalf("%#04x: %v stand for %v, want %v", mask, codes, values, Codebook(mask))
		}
		if back, err := CodebookMask(codes); err != nil || back != mask {
			t.Fatalf("%#04x: %#04x, %v", mask, back, err)
		}
	}
	if n != 1365 {
		t.Errorf("%d codebooks, want 1365", n)
	}
	for _, c := range []struct {
		codes []byte
		word  string
	}{
		{[]byte{15, 9, 0}, "3 codes, want 4"}, {nil, "0 codes"}, {[]byte{15, 9, 0, 3, 5}, "5 codes"},
		{[]byte{15, 9, 8, 3}, "−0"}, {[]byte{15, 9, 9, 3}, "the value -0.5 twice"}, {[]byte{15, 9, 3, 15}, "the value -6 twice"},
		{[]byte{15, 0, 9, 3}, "-0.5 after 0"}, {[]byte{9, 15, 0, 3}, "-6 after -0.5"}, {[]byte{15, 9, 0, 16}, "code 16"},
	} {
		if mask, err := CodebookMask(c.codes); mask != 0 || !errors.Is(err, ErrCodebook) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%v: %#04x, %v, want %q", c.codes, mask, err, c.word)
		}
	}
}
