package kernels

import (
	"fmt"
	"math"
	"strings"
)

// EncodeGGUF quantizes a rows×cols matrix, row-major, into blocks of a type; dst has
// what the type's Block makes of it. importance is the weight of each column's
// squared error, cols values that are the same for all rows, or nil; a type that
// cannot use them refuses them (TakesImportance). Rows must be whole blocks. A value
// that is not finite is refused with its place (ErrRange), and so is one for which
// the type has no scale. The result is the same however rows are dealt out to calls.
//
// Without importance Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, BF16, TQ1_0, TQ2_0 and MXFP4 are
// the bytes of gguf-py; the others minimize the sum of squared errors. With it, the
// sum of importance times squared error is minimized. A block whose importance is 0
// throughout is quantized as without.
func EncodeGGUF(dst []byte, t GGUFType, rows, cols int, src, importance []float32) error {
	return Reference().EncodeGGUF(dst, t, rows, cols, src, importance)
}

// EncodeGGUF is the package's function of that name by this set: the same bytes.
func (s Set) EncodeGGUF(dst []byte, t GGUFType, rows, cols int, src, importance []float32) error {
	e, err := t.encoder(dst, rows, cols, src, importance)
	if err != nil || rows == 0 || cols == 0 {
		return err
	}
	block, bytes := t.Block()
	scratch := newGGUFScratch(s.grid, e)
	for r := range rows {
		row := src[r*cols : (r+1)*cols]
		for c := 0; c < cols; c += block {
			x := row[c : c+block]
			for i, v := range x {
				if v-v != 0 {
					return placed(t, r, c+i, fmt.Sprintf("is %v", v))
				}
			}
			var imp []float32
			if importance != nil {
				imp = importance[c : c+block]
			}
			if !scratch.encode(dst[:bytes:bytes], x, imp) {
				return placed(t, r, c, "starts a block that is too large for the type's scales")
			}
			dst = dst[bytes:]
		}
	}
	return nil
}

func placed(t GGUFType, row, column int, what string) error {
	return fmt.Errorf("kernels: GGUF %s: row %d, column %d %s: %w", t, row, column, what, ErrRange)
}

// ggufEncoder is how a type is made. Both functions quantize one block of finite
// values and say whether its scales can be stored.
type ggufEncoder struct {
	plain    func(dst []byte, x []float32) bool                    // no importance; nil: searched with weights of 1
	searched func(k *ggufScratch, dst []byte, x, w []float32) bool // with weights; nil: importance is refused
}

// ggufEncoders are the types that can be made, by their numbers.
var ggufEncoders = [...]ggufEncoder{
	GGUFF32:   {encodeGGUFF32, nil},
	GGUFF16:   {encodeGGUFF16, nil},
	GGUFBF16:  {encodeGGUFBF16, nil},
	GGUFQ4_0:  {encodeQ4_0, searchQ4_0},
	GGUFQ4_1:  {encodeQ4_1, searchQ4_1},
	GGUFQ5_0:  {encodeQ5_0, searchQ5_0},
	GGUFQ5_1:  {encodeQ5_1, searchQ5_1},
	GGUFQ8_0:  {encodeQ8_0, nil},
	GGUFQ4_K:  {nil, searchQ4K},
	GGUFQ5_K:  {nil, searchQ5K},
	GGUFQ6_K:  {nil, searchQ6K},
	GGUFIQ4NL: {nil, searchIQ4NL},
	GGUFIQ4XS: {nil, searchIQ4XS},
	GGUFMXFP4: {encodeGGUFMXFP4, searchGGUFMXFP4},
	GGUFNVFP4: {nil, searchGGUFNVFP4},
	GGUFTQ1_0: {encodeTQ1, nil},
	GGUFTQ2_0: {encodeTQ2, nil},
}

func (t GGUFType) encoderOf() ggufEncoder {
	if int64(t) < int64(len(ggufEncoders)) {
		return ggufEncoders[t]
	}
	return ggufEncoder{}
}

// Encodes says whether EncodeGGUF can make the type.
func (t GGUFType) Encodes() bool {
	e := t.encoderOf()
	return e.plain != nil || e.searched != nil
}

// TakesImportance says whether the type's quantizer weights errors.
func (t GGUFType) TakesImportance() bool { return t.encoderOf().searched != nil }

// encoder is the type's, where all lengths fit and the importance can be used.
func (t GGUFType) encoder(dst []byte, rows, cols int, src, importance []float32) (ggufEncoder, error) {
	e := t.encoderOf()
	block, bytes := t.Block()
	switch {
	case !t.Encodes():
		return e, fmt.Errorf("kernels: GGUF %s cannot be made: %w", t, ErrUnsupported)
	case rows < 0 || cols < 0 || cols%block != 0:
		return e, fmt.Errorf("kernels: GGUF %s: rows of %d are no whole blocks of %d: %w", t, cols, block, ErrShape)
	case cols > 0 && len(src)/cols != rows || cols > 0 && len(src)%cols != 0 || cols == 0 && len(src) > 0:
		return e, fmt.Errorf("kernels: GGUF %s: %d values for %d×%d: %w", t, len(src), rows, cols, ErrShape)
	case len(dst) != len(src)/block*bytes:
		return e, fmt.Errorf("kernels: GGUF %s: %d bytes for %d values, want %d: %w", t, len(dst), len(src), len(src)/block*bytes, ErrShape)
	case importance == nil:
		return e, nil
	case e.searched == nil:
		return e, fmt.Errorf("kernels: GGUF %s does not use importance: %w", t, ErrUnsupported)
	case len(importance) != cols:
		return e, fmt.Errorf("kernels: GGUF %s: importance of %d columns for %d: %w", t, len(importance), cols, ErrShape)
	}
	for c, v := range importance {
		if !(v >= 0) || math.IsInf(float64(v), 0) {
			return e, fmt.Errorf("kernels: GGUF %s: the importance of column %d is %v: %w", t, c, v, ErrRange)
		}
	}
	return e, nil
}

// GGUFTypeByName finds a type by its name, whose case does not matter. An unknown name
// is an error that lists the known ones.
func GGUFTypeByName(name string) (GGUFType, error) {
	var known []string
	for t := range GGUFType(len(ggufTypes)) {
		if !t.Known() {
			continue
		}
		if strings.EqualFold(t.String(), name) {
			return t, nil
		}
		known = append(known, t.String())
	}
	return 0, fmt.Errorf("GGUF type %q: %w (known: %s)", name, ErrUnknownFormat, strings.Join(known, ", "))
}
