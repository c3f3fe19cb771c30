package layout

import (
	"context"
	"encoding/binary"
	"math"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// affine is MLX's integers: element = scale·code + bias, product and sum each
// rounded to the type of the scales, as mlx.core.dequantize has it.
type affine struct {
	bits, group int
	dtype       checkpoint.DType
}

func (affine) rowMultiple() int { return 1 }

func (affine) read(ctx context.Context, m *Module, s *Stored, first, rows int) error {
	return m.ownRows(ctx, s, first, rows)
}

// row implements own.
func (a affine) row(m *Module, dst []float32, s *Stored, row, col0 int) {
	rowBytes := m.ownRowBytes()
	codes := s.Codes[row*rowBytes:][:rowBytes]
	groups, size := m.Cols/a.group, a.dtype.Bits()/8
	at := row * groups * size
	scales, biases := s.Scales[at:][:groups*size], s.Mins[at:][:groups*size]
	var table [64]float32
	for col := col0; len(dst) > 0; {
		g := col / a.group
		n := min(len(dst), (g+1)*a.group-col)
		scale, bias := a.number(scales, g), a.number(biases, g)
		switch {
		case a.bits == 8:
			for k, c := range codes[col:][:n] {
				dst[k] = a.value(scale, bias, c)
			}
		case n < 1<<a.bits:
			for k := range n {
				dst[k] = a.value(scale, bias, field(codes, (col+k)*a.bits, a.bits))
			}
		default:
			for c := range 1 << a.bits {
				table[c] = a.value(scale, bias, byte(c))
			}
			a.run(dst[:n], codes, col, &table)
		}
		dst, col = dst[n:], col+n
	}
}

// run looks codes up, the first of them at column col.
func (a affine) run(dst []float32, codes []byte, col int, table *[64]float32) {
	if a.bits == 4 && col%2 == 0 {
		codes = codes[col/2:]
		for len(dst) >= 2 {
			dst[0], dst[1] = table[codes[0]&15], table[codes[0]>>4]
			dst, codes = dst[2:], codes[1:]
		}
		col = 0
	}
	for k := range dst {
		dst[k] = table[field(codes, (col+k)*a.bits, a.bits)&63]
	}
}

// value is what a code stands for.
func (a affine) value(scale, bias float32, code byte) float32 {
	product := float32(scale * float32(code))
	switch a.dtype {
	case checkpoint.F16:
		return roundF16(roundF16(product) + bias)
	case checkpoint.BF16:
		return roundBF16(roundBF16(product) + bias)
	}
	return product + bias
}

func roundF16(x float32) float32  { return kernels.F16ToF32(kernels.F32ToF16(x)) }
func roundBF16(x float32) float32 { return kernels.BF16ToF32(kernels.F32ToBF16(x)) }

// number reads a scale or a bias.
func (a affine) number(raw []byte, i int) float32 {
	switch a.dtype {
	case checkpoint.F16:
		return kernels.F16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
	case checkpoint.BF16:
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
}
