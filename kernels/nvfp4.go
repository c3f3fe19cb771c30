package kernels

import (
	"errors"
	"fmt"
)

// BlockNVFP4 is how many consecutive elements of a row share an NVFP4 scale.
// The last block of a row is short where the row is not a multiple of it; a
// block never runs into the next row.
const BlockNVFP4 = 16

// Convention is which library's arithmetic an NVFP4 quantization follows.
type Convention uint8

// Conventions. ModelOpt's dynamic path is the default.
const (
	ModelOpt       Convention = iota // weight_scale_2 = amax/2688; block scale = amax_block/(6·weight_scale_2)
	ModelOptStatic                   // the same, block scale = (amax_block/6)·448/(amax/6)
	CT32                             // compressed-tensors from f32: weight_global_scale = 2688/amax, a divisor
	CT                               // compressed-tensors from bf16: two intermediates are rounded to bf16
)

// String is the name under which --compat offers the convention.
func (c Convention) String() string {
	switch c {
	case ModelOpt:
		return "modelopt"
	case ModelOptStatic:
		return "modelopt-static"
	case CT32:
		return "ct32"
	case CT:
		return "ct"
	}
	return fmt.Sprintf("convention(%d)", uint8(c))
}

// NVFP4Method is how an NVFP4 quantizer chooses a block's scale.
type NVFP4Method uint8

// Methods.
const (
	NVFP4RTN         NVFP4Method = iota // the scale that maps the largest magnitude to 6
	NVFP4MSE                            // of nine multiples of that, 0.7 to 1.5, the one with the least squared error
	NVFP4MSEGE1                         // the same over the multiples from 1 up
	NVFP4Sweep                          // of all 126 positive E4M3 scales the one with the least squared error
	NVFP4FourOverSix                    // the largest magnitude goes to 6 or to 4, whichever has less error
)

// String is the method's name in a variant.
func (m NVFP4Method) String() string {
	switch m {
	case NVFP4RTN:
		return "rtn"
	case NVFP4MSE:
		return "mse"
	case NVFP4MSEGE1:
		return "mse_ge1"
	case NVFP4Sweep:
		return "sweep"
	case NVFP4FourOverSix:
		return "4over6"
	}
	return fmt.Sprintf("nvfp4 method(%d)", uint8(m))
}

// Labels name the bins of Tap.Multipliers under this method, in order.
func (m NVFP4Method) Labels() []string {
	switch m {
	case NVFP4RTN:
		return []string{"1.0"}
	case NVFP4MSE:
		return []string{"0.7", "0.8", "0.9", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}
	case NVFP4MSEGE1:
		return []string{"1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}
	case NVFP4Sweep:
		return []string{"≤-8", "-7", "-6", "-5", "-4", "-3", "-2", "-1", "0", "+1", "+2", "+3", "+4", "+5", "+6", "≥+7"}
	case NVFP4FourOverSix:
		return []string{"6", "4"}
	}
	return nil
}

// NVFP4Options says what an NVFP4 quantization does. The zero value is round
// to nearest in ModelOpt's convention with the global scale taken from the
// matrix.
type NVFP4Options struct {
	Convention Convention
	Method     NVFP4Method
	// GlobalScale is the stored global scale to use: weight_scale_2 (ModelOpt)
	// or weight_global_scale (compressed-tensors). 0 takes it from the matrix.
	GlobalScale float32
}

// NVFP4Output is where a quantization writes. Each slice is either nil (not
// wanted) or has exactly the stated length.
type NVFP4Output struct {
	Codes       []byte    // Rows·ceil(Cols/2): the even column in the low nibble; after an odd last column the high nibble is 0
	Scales      []byte    // Rows·ceil(Cols/16): E4M3
	GlobalScale float32   // as stored: weight_scale_2, or weight_global_scale under CT and CT32
	RowE2       []float64 // Rows: Σ(w−q)² of each row
	RowW2       []float64 // Rows: Σw² of each row
}

// Errors of this package that callers tell apart.
var (
	ErrShape       = errors.New("length does not fit the shape")
	ErrUnsupported = errors.New("not supported")
)

// NVFP4 quantizes a matrix and measures the round trip in the same pass. With
// out nil it only measures.
func (s Set) NVFP4(m Matrix, o NVFP4Options, out *NVFP4Output) (Tap, error) {
	return Tap{}, fmt.Errorf("nvfp4 %s: %w", o.Method, ErrUnsupported)
}

// DequantizeNVFP4 decodes into dst, which has rows·cols elements. conv decides
// how the global scale enters; the result is that of the library named by it.
func DequantizeNVFP4(dst []float32, codes, scales []byte, globalScale float32, conv Convention, rows, cols int) error {
	return fmt.Errorf("nvfp4 decode: %w", ErrUnsupported)
}

// FirstNonFinite finds the first NaN or infinity of a matrix in row-major
// order. ok says whether there is one.
func FirstNonFinite(m Matrix) (row, col int, isNaN, ok bool) {
	return 0, 0, false, false
}
