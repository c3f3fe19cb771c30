package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Dequantize decodes what a Pass of this spec wrote, bit for bit as the library
// of its convention does; the method and Spec.Global make no difference. dst
// has rows·cols elements; codes, scales and mins are those of all rows, laid
// out as Pass.Sizes says. global is Pass.Global: the second-level scale of nvfp4;
// for fp8 it is the tensor's scale where scales is empty, else it is not looked
// at. A NaN scale gives NaN. A format with a codebook is ErrNeedsCodebook without
// Spec.Codebook.
func Dequantize(dst []float32, spec Spec, rows, cols int, codes, scales, mins []byte, global float32) error {
	return Set{}.Dequantize(dst, spec, rows, cols, codes, scales, mins, global)
}

// Dequantize is the package's function of that name by this set: the same bits,
// but for a NaN's payload.
func (s Set) Dequantize(dst []float32, spec Spec, rows, cols int, codes, scales, mins []byte, global float32) error {
	q, f, err := spec.check()
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if f.Codebook {
		return s.dequantizeBook(dst, spec, rows, cols, codes, scales, global)
	}
	if f.Name == "nvfp4" {
		return s.DequantizeNVFP4(dst, codes, scales, global, spec.Convention, rows, cols)
	}
	scaleBytes, minBytes := q.stored(f, spec.Convention)
	if f.Scope == ScopeTensor && len(scales) == 0 {
		scales = make([]byte, scaleBytes)
		bits := math.Float32bits(global)
		if scaleBytes == 2 {
			bits = uint32(F32ToBF16(global))
		}
		putBits(scales, bits)
	}
	n, err := f.Scales(rows, cols)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	elements, ok := product(rows, cols)
	if !ok || elements != len(dst) {
		return fmt.Errorf("%s decode: %d elements for %d×%d: %w", f.Name, len(dst), rows, cols, ErrShape)
	}
	for _, c := range []struct {
		what    string
		have    int
		factors [2]int
	}{
		{"code bytes", len(codes), [2]int{rows, ceilDiv(cols*f.Bits, 8)}},
		{"scale bytes", len(scales), [2]int{n, scaleBytes}},
		{"bytes of minima", len(mins), [2]int{n, minBytes}},
	} {
		if want, ok := product(c.factors[0], c.factors[1]); !ok || want != c.have {
			return fmt.Errorf("%s decode: %d %s for %d×%d, want %d: %w", f.Name, c.have, c.what, rows, cols, want, ErrShape)
		}
	}
	d := blockDecoder{set: &s, scaleBytes: scaleBytes, scales: scales, mins: mins, conv: spec.Convention, symmetric: f.MinBits == 0}
	width, height := f.blockShape(rows, cols)
	d.decode(dst, codes, rows, cols, width, height, d.values(f))
	return nil
}

// DequantizeFP8Tiles decodes E4M3 codes with one scale for each tile of
// tileRows×tileCols, 128×128 or whatever a checkpoint's config says; tiles at
// the right and the lower edge may be partial. scales are little-endian, row by
// row, bf16 under CT and f32 under every other convention, and always multiply,
// weight_scale_inv too.
func DequantizeFP8Tiles(dst []float32, conv Convention, rows, cols, tileRows, tileCols int, codes, scales []byte) error {
	return Set{}.DequantizeFP8Tiles(dst, conv, rows, cols, tileRows, tileCols, codes, scales)
}

// DequantizeFP8Tiles is the package's function of that name by this set: the same
// bits, but for a NaN's payload.
func (s Set) DequantizeFP8Tiles(dst []float32, conv Convention, rows, cols, tileRows, tileCols int, codes, scales []byte) error {
	const name = "fp8-block128"
	if known := quantizers[name].conventions; !slices.Contains(known, conv) {
		return fmt.Errorf("fp8 tiles: convention %v: %w (known: %v)", conv, ErrUnsupported, known)
	}
	if tileRows <= 0 || tileCols <= 0 {
		return fmt.Errorf("fp8 tiles of %d×%d: %w", tileRows, tileCols, ErrShape)
	}
	if n, ok := product(rows, cols); !ok || n != len(dst) || n != len(codes) {
		return fmt.Errorf("fp8 tiles: %d elements of %d codes for %d×%d: %w", len(dst), len(codes), rows, cols, ErrShape)
	}
	size, _ := quantizers[name].stored(Format{}, conv)
	if n, ok := product(ceilDiv(rows, tileRows), ceilDiv(cols, tileCols), size); !ok || n != len(scales) {
		return fmt.Errorf("fp8 tiles: %d scale bytes for %d×%d in tiles of %d×%d, want %d: %w", len(scales), rows, cols, tileRows, tileCols, n, ErrShape)
	}
	d := blockDecoder{set: &s, scaleBytes: size, scales: scales, conv: conv}
	d.decode(dst, codes, rows, cols, tileCols, tileRows, &e4m3Values)
	return nil
}

// blockShape is how many columns and rows share a scale.
func (f Format) blockShape(rows, cols int) (width, height int) {
	switch f.Scope {
	case ScopeTensor:
		return max(cols, 1), max(rows, 1)
	case ScopeChannel:
		return max(cols, 1), 1
	case ScopeTile:
		return f.Group, f.Group
	}
	return f.Group, 1
}

// blockDecoder decodes the formats of blockTap.
type blockDecoder struct {
	set          *Set // its kernels for codes of four bits, where it has some
	conv         Convention
	symmetric    bool
	scaleBytes   int
	scales, mins []byte
	four         bool
	rule         blockRule
}

// values is what each code stands for before scaling, and settles the rule.
func (d *blockDecoder) values(f Format) *[256]float32 {
	switch f.Element {
	case "e4m3":
		return &e4m3Values
	case "e2m1":
		d.four = true
		return &e2m1Wide
	}
	d.four = true
	d.rule = int4Rule(d.conv, d.symmetric)
	if d.rule == ruleIntMin {
		return &int4Unsigned
	}
	return &int4Signed
}

// Values of four-bit codes, repeated for each byte.
var (
	e2m1Wide     = decodeTable(E2M1ToF32)
	int4Unsigned = decodeTable(func(c byte) float32 { return float32(c & 15) })
	int4Signed   = decodeTable(func(c byte) float32 { return float32(int(c&15) - 8) })
)

func (d *blockDecoder) decode(dst []float32, codes []byte, rows, cols, width, height int, values *[256]float32) {
	if cols == 0 {
		return
	}
	if !d.four && d.conv == CT {
		d.rule = ruleE4M3BF16
	}
	perRow := ceilDiv(cols, width)
	rowCodes := cols
	if d.four {
		rowCodes = ceilDiv(cols, 2)
	}
	var w *dequantSpace
	if d.set.nibbles != nil {
		w = dequantSpaces.Get().(*dequantSpace)
		defer dequantSpaces.Put(w)
	}
	for r := range rows {
		row, code := dst[r*cols:(r+1)*cols], codes[r*rowCodes:(r+1)*rowCodes]
		done := 0
		if w != nil {
			done = d.vectors(w, row, code, r/height*perRow, width, values)
		}
		for from := done / width * width; from < cols; from += width {
			block := r/height*perRow + from/width
			scale, offset := d.scale(block), d.offset(block)
			for c := max(from, done); c < min(from+width, cols); c++ {
				b := code[c>>d.shift()]
				if d.four {
					b = b >> (c % 2 * 4) & 15
				}
				if d.rule == ruleIntMin {
					row[c] = minValue(values[b], scale, offset)
				} else {
					row[c] = d.rule.value(values[b]-offset, scale)
				}
			}
		}
	}
}

// shift is log2 of the codes in a byte.
func (d *blockDecoder) shift() int {
	if d.four {
		return 1
	}
	return 0
}

func (d *blockDecoder) scale(block int) float32 {
	s := d.scales[block*d.scaleBytes:]
	switch d.scaleBytes {
	case 1:
		return E8M0ToF32(s[0])
	case 2:
		return BF16ToF32(binary.LittleEndian.Uint16(s))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(s))
}

// offset is the minimum or the zero point of a block.
func (d *blockDecoder) offset(block int) float32 {
	switch {
	case len(d.mins) == 0:
		return 0
	case d.rule == ruleIntMin:
		return BF16ToF32(binary.LittleEndian.Uint16(d.mins[2*block:]))
	}
	return float32(int8(d.mins[block]))
}
