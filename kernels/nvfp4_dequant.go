package kernels

import "fmt"

// DequantizeNVFP4 decodes into dst, which has rows·cols elements; codes and
// scales are laid out as in NVFP4Output. The result is, bit for bit, that of
// the library that conv names: ModelOpt multiplies, q = code·(scale·global),
// and reads code 8 as +0; compressed-tensors divides, q = code·(scale/global),
// and reads it as −0. A NaN scale gives NaN.
func DequantizeNVFP4(dst []float32, codes, scales []byte, globalScale float32, conv Convention, rows, cols int) error {
	return Set{}.DequantizeNVFP4(dst, codes, scales, globalScale, conv, rows, cols)
}

// DequantizeNVFP4 is the package's function of that name by this set: the same
// bits, but for a NaN's payload.
func (s Set) DequantizeNVFP4(dst []float32, codes, scales []byte, globalScale float32, conv Convention, rows, cols int) error {
	if conv > CT {
		return fmt.Errorf("nvfp4 decode: %v: %w", conv, ErrUnsupported)
	}
	if n, ok := product(rows, cols); !ok || n != len(dst) {
		return fmt.Errorf("nvfp4 decode: %d elements for %d×%d: %w", len(dst), rows, cols, ErrShape)
	}
	rowCodes, rowScales := ceilDiv(cols, 2), ceilDiv(cols, BlockNVFP4)
	if n, ok := product(rows, rowCodes); !ok || n != len(codes) {
		return fmt.Errorf("nvfp4 decode: %d code bytes for %d×%d: %w", len(codes), rows, cols, ErrShape)
	}
	if n, ok := product(rows, rowScales); !ok || n != len(scales) {
		return fmt.Errorf("nvfp4 decode: %d scales for %d×%d: %w", len(scales), rows, cols, ErrShape)
	}
	values := e2m1Values
	if conv == ModelOpt || conv == ModelOptStatic {
		values[8] = 0
	}
	if cols == 0 {
		return nil
	}
	var w *dequantSpace
	if s.nibbles != nil {
		w = dequantSpaces.Get().(*dequantSpace)
		defer dequantSpaces.Put(w)
	}
	for r := range rows {
		row := dst[r*cols : (r+1)*cols]
		code, scale := codes[r*rowCodes:(r+1)*rowCodes], scales[r*rowScales:(r+1)*rowScales]
		done := 0
		if w != nil {
			done = s.nvfp4Vectors(w, row, code, scale, globalScale, conv, &values)
		}
		for from := done; from < cols; from += BlockNVFP4 { // done is a multiple of two blocks
			step := nvfp4Step(scale[from/BlockNVFP4], globalScale, conv)
			block, packed := row[from:min(from+BlockNVFP4, cols)], code[from/2:]
			for i := 1; i < len(block); i += 2 {
				b := packed[i/2]
				block[i-1], block[i] = float32(values[b&15]*step), float32(values[b>>4]*step)
			}
			if n := len(block); n%2 != 0 {
				block[n-1] = float32(values[packed[n/2]&15] * step)
			}
		}
	}
	return nil
}
