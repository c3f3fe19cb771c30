package layout

import (
	"encoding/binary"
	"math"

	"quantscope/kernels"
)

// Rows of codes of a module that decodes itself.

// rowOf is what one output's codes stand for.
type rowOf struct {
	m             *Module
	scales, zeros []byte
	global        float32 // that scales of E4M3 are multiplied by
}

// scale is that of a group.
func (x *rowOf) scale(g int) float32 {
	switch x.m.format.Scale {
	case "f16":
		return kernels.F16ToF32(binary.LittleEndian.Uint16(x.scales[2*g:]))
	case "bf16":
		return kernels.BF16ToF32(binary.LittleEndian.Uint16(x.scales[2*g:]))
	case "e8m0":
		return kernels.E8M0ToF32(x.scales[g])
	case "e4m3":
		return kernels.E4M3ToF32(x.scales[g]) * x.global
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(x.scales[4*g:]))
}

// zero is the code of 0 in a group.
func (x *rowOf) zero(g int) byte {
	if x.zeros == nil {
		return x.m.packed.middle
	}
	return x.zeros[g]
}

// element is what a code of a group stands for.
func (x *rowOf) element(code byte, zero byte, scale float32) float32 {
	p := x.m.packed
	if p.values == nil {
		return p.round.of(scale * float32(int(code)-int(zero)))
	}
	v := p.values[code]
	if x.zeros != nil {
		v = p.round.of(v - p.values[zero])
	}
	return p.round.of(v * scale)
}

// run decodes elements of one group, the first of them at column col.
func (x *rowOf) run(dst []float32, codes []byte, col, g int) {
	scale, zero, p := x.scale(g), x.zero(g), x.m.packed
	switch bits := p.bits; {
	case bits == 8:
		x.bytes(dst, codes[col:], zero, scale)
	case bits == 4:
		var table [16]float32
		x.fill(table[:], zero, scale)
		nibbles(dst, codes, col, &table)
	default:
		if bits < 4 {
			var table [16]float32
			x.fill(table[:1<<bits], zero, scale)
			few(dst, codes, col, bits, &table)
			return
		}
		var table [128]float32
		x.fill(table[:1<<bits], zero, scale)
		fields(dst, codes, col, bits, &table)
	}
}

// fill makes the table of what all codes stand for.
func (x *rowOf) fill(table []float32, zero byte, scale float32) {
	p := x.m.packed
	if p.values != nil {
		for c := range table {
			table[c] = x.element(byte(c), zero, scale)
		}
		return
	}
	z := int(zero)
	switch p.round {
	case exact:
		for c := range table {
			table[c] = scale * float32(c-z)
		}
	case toBF16:
		for c := range table {
			table[c] = kernels.BF16ToF32(kernels.F32ToBF16(scale * float32(c-z)))
		}
	default:
		for c := range table {
			table[c] = p.round.of(scale * float32(c-z))
		}
	}
}

// bytes decodes codes of a byte each.
func (x *rowOf) bytes(dst []float32, codes []byte, zero byte, scale float32) {
	p := x.m.packed
	if len(dst) == 0 {
		return
	}
	codes = codes[:len(dst)]
	dst = dst[:len(codes)]
	switch {
	case p.values == nil && p.round == exact:
		z := int(zero)
		for k, c := range codes {
			dst[k] = scale * float32(int(c)-z)
		}
	case p.values != nil && p.round == exact && x.zeros == nil:
		values := p.values
		for k, c := range codes {
			dst[k] = values[c] * scale
		}
	case p.values == nil && p.round == toBF16:
		z := int(zero)
		for k, c := range codes {
			dst[k] = kernels.BF16ToF32(kernels.F32ToBF16(scale * float32(int(c)-z)))
		}
	default:
		for k, c := range codes {
			dst[k] = x.element(c, zero, scale)
		}
	}
}

// nibbles looks codes of four bits up, the first of them that of column col.
func nibbles(dst []float32, codes []byte, col int, table *[16]float32) {
	if col&1 == 1 && len(dst) > 0 {
		dst[0] = table[codes[col/2]>>4]
		dst, col = dst[1:], col+1
	}
	codes = codes[min(col/2, len(codes)):]
	n := len(dst) / 2
	for k, b := range codes[:n] {
		two := dst[2*k:][:2]
		two[0], two[1] = table[b&15], table[b>>4]
	}
	if len(dst)%2 == 1 {
		dst[len(dst)-1] = table[codes[n]&15]
	}
}

// few looks codes of one to three bits up, the first of them that of column col.
func few(dst []float32, codes []byte, col, bits int, table *[16]float32) {
	for len(dst) > 0 && (col*bits%8 != 0 || len(dst) < 8) {
		dst[0] = table[field(codes, col*bits, bits)&15]
		dst, col = dst[1:], col+1
	}
	mask := uint32(1)<<bits - 1
	for codes = codes[min(col*bits/8, len(codes)):]; len(dst) >= 8; dst, codes = dst[8:], codes[bits:] {
		v := uint32(codes[0])
		if bits > 1 {
			v |= uint32(codes[1]) << 8
		}
		if bits > 2 {
			v |= uint32(codes[2]) << 16
		}
		eight := dst[:8]
		for k := range eight {
			eight[k] = table[v&mask&15]
			v >>= bits
		}
	}
	for k := range dst { // a whole number of bytes from where codes begin now
		dst[k] = table[field(codes, k*bits, bits)&15]
	}
}

// fields looks codes of five to seven bits up, the first of them that of column
// col.
func fields(dst []float32, codes []byte, col, bits int, table *[128]float32) {
	for len(dst) > 0 && (col*bits%8 != 0 || len(dst) < 8) {
		dst[0] = table[field(codes, col*bits, bits)&127]
		dst, col = dst[1:], col+1
	}
	mask := uint64(1)<<bits - 1
	for codes = codes[min(col*bits/8, len(codes)):]; len(dst) >= 8; dst, codes, col = dst[8:], codes[bits:], col+8 {
		var v uint64
		if len(codes) >= 8 {
			v = binary.LittleEndian.Uint64(codes)
		} else {
			for k, b := range codes[:bits] {
				v |= uint64(b) << (8 * k)
			}
		}
		eight := dst[:8]
		for k := range eight {
			eight[k] = table[v&mask&127]
			v >>= bits
		}
	}
	for k := range dst { // a whole number of bytes from where codes begin now
		dst[k] = table[field(codes, k*bits, bits)&127]
	}
}

// scattered decodes elements whose groups are given, the first of them at column
// col.
func (x *rowOf) scattered(dst []float32, codes []byte, groups []int32, col int) {
	p := x.m.packed
	var few [256]float32
	scales := few[:]
	if n := p.groups; n > len(few) {
		scales = make([]float32, n)
	}
	for g := range p.groups {
		scales[g] = x.scale(g)
	}
	if zeros := x.zeros; p.bits == 4 && p.values == nil && p.round == exact && zeros != nil {
		for k, g := range groups {
			code := int(codes[(col+k)/2] >> ((col + k) % 2 * 4) & 15)
			dst[k] = scales[g] * float32(code-int(zeros[g]))
		}
		return
	}
	for k, g := range groups {
		var code byte
		if p.bits == 4 {
			code = codes[(col+k)/2] >> ((col + k) % 2 * 4) & 15
		} else {
			code = field(codes, (col+k)*p.bits, p.bits)
		}
		dst[k] = x.element(code, x.zero(int(g)), scales[g])
	}
}
