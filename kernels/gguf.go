package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// GGUFType is a way in which a GGUF file stores the elements of a tensor, by
// the number that the file has for it.
type GGUFType uint32

// Types of GGUF tensors. The numbers are the format's.
const (
	GGUFF32    GGUFType = 0
	GGUFF16    GGUFType = 1
	GGUFQ4_0   GGUFType = 2
	GGUFQ4_1   GGUFType = 3
	GGUFQ5_0   GGUFType = 6
	GGUFQ5_1   GGUFType = 7
	GGUFQ8_0   GGUFType = 8
	GGUFQ2_K   GGUFType = 10
	GGUFQ3_K   GGUFType = 11
	GGUFQ4_K   GGUFType = 12
	GGUFQ5_K   GGUFType = 13
	GGUFQ6_K   GGUFType = 14
	GGUFIQ2XXS GGUFType = 16
	GGUFIQ2XS  GGUFType = 17
	GGUFIQ3XXS GGUFType = 18
	GGUFIQ1S   GGUFType = 19
	GGUFIQ4NL  GGUFType = 20
	GGUFIQ3S   GGUFType = 21
	GGUFIQ2S   GGUFType = 22
	GGUFIQ4XS  GGUFType = 23
	GGUFI8     GGUFType = 24
	GGUFI16    GGUFType = 25
	GGUFI32    GGUFType = 26
	GGUFI64    GGUFType = 27
	GGUFF64    GGUFType = 28
	GGUFIQ1M   GGUFType = 29
	GGUFBF16   GGUFType = 30
	GGUFTQ1_0  GGUFType = 34
	GGUFTQ2_0  GGUFType = 35
	GGUFMXFP4  GGUFType = 39
	GGUFNVFP4  GGUFType = 40
)

// ggufInfo describes a type: Block elements along a row take Bytes bytes.
type ggufInfo struct {
	name         string
	block, bytes int
	decode       func(dst []float32, src []byte) // one block; nil where elements are no weights
}

// ggufTypes are the known types by their numbers; others have no name.
var ggufTypes = [...]ggufInfo{
	GGUFF32:   {"F32", 1, 4, func(d []float32, s []byte) { d[0] = math.Float32frombits(binary.LittleEndian.Uint32(s)) }},
	GGUFF16:   {"F16", 1, 2, func(d []float32, s []byte) { d[0] = half(s) }},
	GGUFBF16:  {"BF16", 1, 2, func(d []float32, s []byte) { d[0] = BF16ToF32(binary.LittleEndian.Uint16(s)) }},
	GGUFF64:   {"F64", 1, 8, func(d []float32, s []byte) { d[0] = float32(math.Float64frombits(binary.LittleEndian.Uint64(s))) }},
	GGUFI8:    {"I8", 1, 1, nil},
	GGUFI16:   {"I16", 1, 2, nil},
	GGUFI32:   {"I32", 1, 4, nil},
	GGUFI64:   {"I64", 1, 8, nil},
	GGUFQ4_0:  {"Q4_0", 32, 18, decodeQ4_0},
	GGUFQ4_1:  {"Q4_1", 32, 20, decodeQ4_1},
	GGUFQ5_0:  {"Q5_0", 32, 22, decodeQ5_0},
	GGUFQ5_1:  {"Q5_1", 32, 24, decodeQ5_1},
	GGUFQ8_0:  {"Q8_0", 32, 34, decodeQ8_0},
	GGUFQ2_K:  {"Q2_K", 256, 84, decodeQ2K},
	GGUFQ3_K:  {"Q3_K", 256, 110, decodeQ3K},
	GGUFQ4_K:  {"Q4_K", 256, 144, decodeQ4K},
	GGUFQ5_K:  {"Q5_K", 256, 176, decodeQ5K},
	GGUFQ6_K:  {"Q6_K", 256, 210, decodeQ6K},
	GGUFIQ4NL: {"IQ4_NL", 32, 18, decodeIQ4NL},
	GGUFIQ4XS: {"IQ4_XS", 256, 136, decodeIQ4XS},
	GGUFMXFP4: {"MXFP4", 32, 17, decodeGGUFMXFP4},

	GGUFNVFP4:  {"NVFP4", 64, 36, decodeGGUFNVFP4},
	GGUFIQ2XXS: {"IQ2_XXS", 256, 66, decodeIQ2XXS},
	GGUFIQ2XS:  {"IQ2_XS", 256, 74, decodeIQ2XS},
	GGUFIQ2S:   {"IQ2_S", 256, 82, decodeIQ2S},
	GGUFIQ3XXS: {"IQ3_XXS", 256, 98, decodeIQ3XXS},
	GGUFIQ3S:   {"IQ3_S", 256, 110, decodeIQ3S},
	GGUFIQ1S:   {"IQ1_S", 256, 50, decodeIQ1S},
	GGUFIQ1M:   {"IQ1_M", 256, 56, decodeIQ1M},
	GGUFTQ1_0:  {"TQ1_0", 256, 54, decodeTQ1},
	GGUFTQ2_0:  {"TQ2_0", 256, 66, decodeTQ2},

	// Blocks of activations, which no file holds: names and sizes only. Numbers
	// above 40 mean different things in different programs, and are not known.
	9: {"Q8_1", 32, 36, nil}, 15: {"Q8_K", 256, 292, nil},
}

// info describes a type that is known.
func (t GGUFType) info() (i ggufInfo, known bool) {
	if int64(t) < int64(len(ggufTypes)) {
		i = ggufTypes[t]
	}
	return i, i.block > 0
}

// String is the type's name, or its number where it is not known.
func (t GGUFType) String() string {
	if i, ok := t.info(); ok {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Known says whether the type is known.
func (t GGUFType) Known() bool { _, ok := t.info(); return ok }

// Block is how many elements along a row are stored together, and in how many
// bytes; 0 and 0 for an unknown type.
func (t GGUFType) Block() (elements, bytes int) {
	i, _ := t.info()
	return i.block, i.bytes
}

// Decodes says whether DecodeGGUF can make weights of the type.
func (t GGUFType) Decodes() bool { i, _ := t.info(); return i.decode != nil }

// DecodeGGUF decodes len(dst) elements, which src must hold exactly. Products
// are taken in f32, (d·scale)·q and then minus the minimum, as gguf-py does.
func DecodeGGUF(dst []float32, t GGUFType, src []byte) error {
	i, err := t.decoder(dst, src)
	if err != nil {
		return err
	}
	i.blocks(dst, src)
	return nil
}

// decoder is the type's description, where src holds len(dst) elements of it.
func (t GGUFType) decoder(dst []float32, src []byte) (ggufInfo, error) {
	i, ok := t.info()
	switch {
	case !ok || i.decode == nil:
		return i, fmt.Errorf("kernels: GGUF %s cannot be decoded", t)
	case len(dst)%i.block != 0:
		return i, fmt.Errorf("kernels: %d elements are no whole blocks of %d of GGUF %s", len(dst), i.block, t)
	case len(src)%i.bytes != 0 || len(dst)/i.block != len(src)/i.bytes:
		return i, fmt.Errorf("kernels: %d bytes for %d elements of GGUF %s, want %d", len(src), len(dst), t, len(dst)/i.block*i.bytes)
	}
	return i, nil
}

// blocks decodes one block after the other.
func (i ggufInfo) blocks(dst []float32, src []byte) {
	for len(dst) > 0 {
		i.decode(dst[:i.block:i.block], src[:i.bytes:i.bytes])
		dst, src = dst[i.block:], src[i.bytes:]
	}
}

func half(s []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(s)) }
