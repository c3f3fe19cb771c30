package kernels

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// allBooks are the masks of all codebooks.
func allBooks() (masks []uint16) {
	for a := range 15 {
		for b := range a {
			for c := range b {
				for d := range c {
					masks = append(masks, 1<<e2m1Ascending[a]|1<<e2m1Ascending[b]|1<<e2m1Ascending[c]|1<<e2m1Ascending[d])
				}
			}
		}
	}
	return masks
}

// Of −6, −0.5, 1 and 4, eleven elements: the drawing of docs/formats.md in numbers.
func TestPackCode2(t *testing.T) {
	const mask = 1<<15 | 1<<9 | 1<<2 | 1<<6
	// −6 1 4 −0.5 | 4 4 −6 −6 | 1 −0.5 4
	nibbles := []byte{0x2f, 0x96, 0x66, 0xff, 0x92, 0x06}
	want := []byte{0b01_11_10_00, 0b00_00_11_11, 0b11_01_10}
	packed, back := make([]byte, 3), make([]byte, 6)
	if err := PackCode2(packed, nibbles, 1, 11, mask); err != nil || !bytes.Equal(packed, want) {
		t.Errorf("%08b (%v), want %08b", packed, err, want)
	}
	packed[2] |= 0xc0 // what stands behind the last element is not looked at
	if err := UnpackCode2(back, packed, 1, 11, mask); err != nil || !bytes.Equal(back, nibbles) {
		t.Errorf("%x (%v), want %x", back, err, nibbles)
	}
}

// Every codebook packs and unpacks rows of all widths, and every byte that is
// unpacked packs to itself.
func TestPackCode2RoundTrip(t *testing.T) {
	masks := allBooks()
	if slices.Sort(masks); len(masks) != 1365 || len(slices.Compact(masks)) != 1365 {
		t.Fatalf("%d codebooks", len(masks))
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for i, mask := range masks {
		rows, cols := 1+i%3, i%37
		packed := make([]byte, rows*ceilDiv(cols, 4))
		for k := range packed {
			packed[k] = byte(rng.Uint32())
		}
		if rest := cols % 4; rest > 0 {
			for r := range rows {
				packed[(r+1)*ceilDiv(cols, 4)-1] &= 1<<(2*rest) - 1
			}
		}
		nibbles, again := make([]byte, rows*ceilDiv(cols, 2)), bytes.Repeat([]byte{0xff}, len(packed))
		if err := UnpackCode2(nibbles, packed, rows, cols, mask); err != nil {
			t.Fatal(err)
		}
		for r := range rows {
			for c := range cols {
				code := nibbles[r*ceilDiv(cols, 2)+c/2] >> (c % 2 * 4) & 15
				if v := Codebook(mask)[packed[r*ceilDiv(cols, 4)+c/4]>>(c%4*2)&3]; e2m1Values[code] != v || mask>>code&1 == 0 {
					t.Fatalf("%#x: element %d,%d is the code %d, want %v", mask, r, c, code, v)
				}
			}
		}
		if err := PackCode2(again, nibbles, rows, cols, mask); err != nil || !bytes.Equal(again, packed) {
			t.Fatalf("%#x: %d×%d: %x (%v), want %x", mask, rows, cols, again, err, packed)
		}
	}
}

func TestPackCode2Refused(t *testing.T) {
	const mask = 1<<15 | 1<<9 | 1<<2 | 1<<6
	for _, c := range []struct {
		packed, nibbles, rows, cols int
		mask                        uint16
		want                        error
	}{
		{1, 2, 1, 4, 0, ErrNeedsCodebook}, {1, 2, 1, 4, 3, ErrRange}, {1, 2, 1, 4, 0x10f, ErrRange},
		{1, 3, 1, 4, mask, ErrShape}, {2, 2, 1, 4, mask, ErrShape}, {1, 2, -1, 4, mask, ErrShape}, {1, 2, 1, -4, mask, ErrShape},
		{0, 0, math.MaxInt, math.MaxInt, mask, ErrShape}, {1, 2, 1, 4, mask, nil}, {0, 0, 7, 0, mask, nil},
	} {
		packed, nibbles := make([]byte, c.packed), bytes.Repeat([]byte{0x66}, c.nibbles)
		if err := PackCode2(packed, nibbles, c.rows, c.cols, c.mask); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("pack %+v: %v", c, err)
		}
		if err := UnpackCode2(nibbles, packed, c.rows, c.cols, c.mask); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("unpack %+v: %v", c, err)
		}
	}
	if err := PackCode2(make([]byte, 2), []byte{0x66, 0x66, 0x66, 0x86}, 2, 4, mask); !errors.Is(err, ErrRange) || err.Error() != "code2: row 1, column 3 has the code 8, which is not in [-6 -0.5 1 4]: out of range" {
		t.Errorf("−0: %v", err)
	}
}

// FuzzPackCode2 packs bytes of the fuzzer: what is accepted unpacks to itself, what
// is not has a code that is not in the codebook.
func FuzzPackCode2(f *testing.F) {
	f.Add([]byte{0x2f, 0x96, 0x66, 0xff, 0x92, 0x06}, uint16(7), uint8(0))
	f.Add([]byte{0x80}, uint16(1364), uint8(1))
	masks := allBooks()
	f.Fuzz(func(t *testing.T, nibbles []byte, book uint16, odd uint8) {
		mask, cols := masks[int(book)%len(masks)], 2*len(nibbles)
		if odd%2 == 1 && cols > 0 {
			cols--
		}
		packed, back := make([]byte, ceilDiv(cols, 4)), make([]byte, len(nibbles))
		err := PackCode2(packed, nibbles, 1, cols, mask)
		known := true
		for c := range cols {
			known = known && mask>>(nibbles[c/2]>>(c%2*4)&15)&1 == 1
		}
		if known != (err == nil) {
			t.Fatalf("%x by %#x: %v", nibbles, mask, err)
		}
		if err != nil {
			return
		}
		if err := UnpackCode2(back, packed, 1, cols, mask); err != nil {
			t.Fatal(err)
		}
		if odd%2 == 1 && cols > 0 {
			back[len(back)-1] |= nibbles[len(back)-1] & 0xf0
		}
		if !bytes.Equal(back, nibbles) {
			t.Fatalf("%x by %#x comes back as %x", nibbles, mask, back)
		}
	})
}
