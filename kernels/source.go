package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Element is how source elements are stored.
type Element uint8

// Elements that a matrix can be read from.
const (
	BF16 Element = iota + 1
	F16
	F32
)

// Size is the bytes of one element; 0 for what is no Element.
func (e Element) Size() int {
	switch e {
	case BF16, F16:
		return 2
	case F32:
		return 4
	}
	return 0
}

// String is the format's name.
func (e Element) String() string {
	switch e {
	case BF16:
		return "bf16"
	case F16:
		return "f16"
	case F32:
		return "f32"
	}
	return fmt.Sprintf("element(%d)", uint8(e))
}

// Matrix is a row-major matrix of little-endian source elements as they stand
// in a file. len(Data) is Rows·Cols·size of one element.
type Matrix struct {
	Element    Element
	Rows, Cols int
	Data       []byte
}

// check makes sure that Data is what the shape says.
func (m Matrix) check() error {
	size := m.Element.Size()
	if size == 0 {
		return fmt.Errorf("%v as a source: %w (known: bf16, f16, f32)", m.Element, ErrUnsupported)
	}
	want, ok := product(m.Rows, m.Cols, size)
	if !ok || want != len(m.Data) {
		return fmt.Errorf("%d bytes for %d×%d %v: %w", len(m.Data), m.Rows, m.Cols, m.Element, ErrShape)
	}
	return nil
}

// product multiplies lengths; ok is false where one is negative or the result
// is no int.
func product(factors ...int) (n int, ok bool) {
	n = 1
	for _, f := range factors {
		if f < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(uint64(n), uint64(f))
		if hi != 0 || lo > math.MaxInt {
			return 0, false
		}
		n = int(lo)
	}
	return n, true
}

// ceilDiv is ⌈n/d⌉ for n ≥ 0, d > 0, without overflow.
func ceilDiv(n, d int) int {
	q := n / d
	if n%d != 0 {
		q++
	}
	return q
}

// FirstNonFinite finds the first NaN or infinity of a matrix in row-major
// order. ok says whether there is one; it is false for a matrix whose Data
// does not fit its shape.
func FirstNonFinite(m Matrix) (row, col int, isNaN, ok bool) {
	if m.check() != nil || len(m.Data) == 0 {
		return 0, 0, false, false
	}
	size := m.Element.Size()
	rowBytes := m.Cols * size
	for r := range m.Rows {
		data := m.Data[r*rowBytes : (r+1)*rowBytes]
		if absMaxRef(m.Element, data) < infF32 {
			continue
		}
		for c := range m.Cols {
			if mag := math.Float32bits(loadElement(m.Element, data[c*size:])) &^ signF32; mag >= infF32 {
				return r, c, mag > infF32, true
			}
		}
	}
	return 0, 0, false, false
}

// loadElement reads the element at the start of src, which is long enough.
func loadElement(e Element, src []byte) float32 {
	switch e {
	case BF16:
		return BF16ToF32(binary.LittleEndian.Uint16(src))
	case F16:
		return F16ToF32(binary.LittleEndian.Uint16(src))
	default:
		return math.Float32frombits(binary.LittleEndian.Uint32(src))
	}
}

// absMaxRef is the largest magnitude among the elements in src, as f32 bits.
// An infinity and a NaN count as their bits say, so that any non-finite
// element gives a result of at least infF32; 0 for no elements.
func absMaxRef(e Element, src []byte) uint32 {
	switch e {
	case BF16:
		return uint32(maxAbs16(src)) << 16
	case F16:
		// F16 magnitudes are ordered like their bits.
		return math.Float32bits(F16ToF32(maxAbs16(src)))
	default:
		var m uint32
		for ; len(src) >= 4; src = src[4:] {
			m = max(m, binary.LittleEndian.Uint32(src)&^signF32)
		}
		return m
	}
}

// finiteAbsMaxRef is the largest magnitude among the finite elements in src, as
// f32 bits.
func finiteAbsMaxRef(e Element, src []byte) uint32 {
	var m uint32
	for size := e.Size(); len(src) >= size; src = src[size:] {
		if mag := math.Float32bits(loadElement(e, src)) &^ signF32; mag < infF32 {
			m = max(m, mag)
		}
	}
	return m
}

// maxAbs16 is the largest of the 16-bit words in src with their top bits
// cleared. It holds four running maxima in the lanes of one word: in every
// lane, (a|0x8000)−b keeps the top bit where a ≥ b, and no lane borrows from
// its neighbour.
func maxAbs16(src []byte) uint16 {
	const top = 0x8000_8000_8000_8000
	var a, b uint64 // two chains, so that one need not wait for the other
	for ; len(src) >= 16; src = src[16:] {
		a = maxLanes(a, binary.LittleEndian.Uint64(src)&^top)
		b = maxLanes(b, binary.LittleEndian.Uint64(src[8:])&^top)
	}
	a = maxLanes(a, b)
	m := max(uint16(a), uint16(a>>16), uint16(a>>32), uint16(a>>48))
	for ; len(src) >= 2; src = src[2:] {
		m = max(m, binary.LittleEndian.Uint16(src)&0x7fff)
	}
	return m
}

// maxLanes is the maximum of each 16-bit lane; all top bits are clear.
func maxLanes(a, b uint64) uint64 {
	const top = 0x8000_8000_8000_8000
	keep := ((a | top) - b) & top // top bit set where a ≥ b
	mask := keep - keep>>15       // 0x7fff in those lanes
	return a&mask | b&^mask
}
