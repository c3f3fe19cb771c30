package checkpoint

import "math/bits"

// DType is how the elements of a tensor are stored. The zero value is no
// dtype.
type DType uint8

// DTypes, in the spelling of safetensors without its underscores.
const (
	F64 DType = iota + 1
	F32
	F16
	BF16
	F8E4M3     // 1-4-3, no infinities, NaN is 0x7F and 0xFF
	F8E5M2     // 1-5-2, IEEE-like
	F8E8M0     // a power of two: 2^(code-127), NaN is 255
	F8E4M3FNUZ // 1-4-3, bias 8, one zero, NaN is 0x80
	F8E5M2FNUZ // 1-5-2, bias 16, one zero, NaN is 0x80
	F4         // E2M1, two a byte, the even element in the low nibble
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	Bool // one byte, 0 or 1
	C64  // two F32: real, imaginary
)

// dtypes is the one table of what safetensors stores: spelling and size. The
// spellings are those of the format's Rust reader (enum Dtype).
var dtypes = [...]struct {
	name string
	bits int
}{
	F64: {"F64", 64}, F32: {"F32", 32}, F16: {"F16", 16}, BF16: {"BF16", 16},
	F8E4M3: {"F8_E4M3", 8}, F8E5M2: {"F8_E5M2", 8}, F8E8M0: {"F8_E8M0", 8},
	F8E4M3FNUZ: {"F8_E4M3FNUZ", 8}, F8E5M2FNUZ: {"F8_E5M2FNUZ", 8}, F4: {"F4", 4},
	I8: {"I8", 8}, I16: {"I16", 16}, I32: {"I32", 32}, I64: {"I64", 64},
	U8: {"U8", 8}, U16: {"U16", 16}, U32: {"U32", 32}, U64: {"U64", 64},
	Bool: {"BOOL", 8}, C64: {"C64", 64},
}

// String is the safetensors spelling, for instance F8_E4M3.
func (d DType) String() string {
	if d == 0 || int(d) >= len(dtypes) {
		return "invalid"
	}
	return dtypes[d].name
}

// Bits is the size of one element in bits; 0 for no dtype.
func (d DType) Bits() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].bits
}

// ParseDType is the dtype of a safetensors spelling.
func ParseDType(name string) (DType, bool) {
	for d := F64; int(d) < len(dtypes); d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return 0, false
}

// byteSize is the number of bytes of a tensor; ok is false where the number of
// elements overflows int64 or that of bits overflows uint64 (2 EiB and above),
// or where 4-bit elements do not fill whole bytes.
func byteSize(d DType, shape []int64) (size int64, ok bool) {
	n, ok := elements(shape)
	if !ok || d.Bits() == 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(n), uint64(d.Bits()))
	if hi != 0 || lo%8 != 0 {
		return 0, false
	}
	return int64(lo / 8), true
}

// elements is the product of the dimensions; ok is false where it overflows
// int64, whether or not another dimension is 0.
func elements(shape []int64) (n int64, ok bool) {
	n, zero := 1, false
	for _, d := range shape {
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if d < 0 || hi != 0 || lo > 1<<63-1 {
			return 0, false
		}
		n = int64(lo)
	}
	if zero {
		return 0, true
	}
	return n, true
}
