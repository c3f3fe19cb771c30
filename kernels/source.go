package kernels

// Element is how source elements are stored.
type Element uint8

// Elements that a matrix can be read from.
const (
	BF16 Element = iota + 1
	F16
	F32
)

// Matrix is a row-major matrix of little-endian source elements as they stand
// in a file. len(Data) is Rows·Cols·size of one element.
type Matrix struct {
	Element    Element
	Rows, Cols int
	Data       []byte
}
