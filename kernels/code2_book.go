package kernels

import "math"

// Codebook lists the values of a mask of codes, ascending.
func Codebook(mask uint16) []float32 {
	var out []float32
	for _, code := range e2m1Ascending {
		if mask&(1<<code) != 0 {
			out = append(out, e2m1Values[code])
		}
	}
	return out
}

// e2m1Ascending are the codes in the order of their values, but for −0.
var e2m1Ascending = [15]byte{15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7}

// Every place where the nearest value can change is a multiple of a quarter:
// cells are a quarter wide, from −7 up, and their ends are open.
const (
	bookCells = 56
	bookFirst = -28 // quarters
)

// bookCell is the cell of x = w/step. What lies on the border of two is in the
// one nearer to 0, and a 0 in the one of its sign: where ±v are as near, −0 is what is
// left of a weight below 0, and an error of one sign for all zeros is a bias.
func bookCell(x float32) int {
	t := math.Float32frombits(math.Float32bits(x)&^signF32) * 4
	if !(t < -bookFirst) {
		t = -bookFirst
	}
	k, below := int32(t), int32(math.Float32bits(x))>>31 // −1 of what is below 0
	if float32(k) == t {
		if k == 0 {
			return -bookFirst + int(below)
		}
		k--
	}
	return -bookFirst + int(k^below) // −1−k cells on the other side
}

// bookCellOf is the cell of an E2M1 code.
func bookCellOf(code int) int {
	if code == 8 {
		return bookCell(float32(math.Copysign(0, -1)))
	}
	return bookCell(e2m1Values[code])
}

// codebook finds the nearest of four values.
type codebook struct {
	codes  [bookCells]byte
	values [bookCells]float32
	reach  float64
}

func newCodebook(mask uint16) *codebook {
	b := new(codebook)
	for cell := range b.codes {
		middle := (float64(cell+bookFirst) + 0.5) / 4
		least := math.Inf(1)
		for _, code := range e2m1Ascending {
			if d := math.Abs(float64(e2m1Values[code]) - middle); mask&(1<<code) != 0 && d < least {
				b.codes[cell], b.values[cell], least = code, e2m1Values[code], d
			}
		}
		b.reach = max(b.reach, math.Abs(float64(b.values[cell])))
	}
	return b
}
