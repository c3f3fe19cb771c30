package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

// encodes are the types that EncodeGGUF makes.
func encodes() (types []GGUFType) {
	for t := range GGUFType(64) {
		if t.Encodes() {
			types = append(types, t)
		}
	}
	return types
}

// encodeGGUF encodes with a set, or fails.
func encodeGGUF(t testing.TB, s Set, typ GGUFType, rows, cols int, x, importance []float32) []byte {
	t.Helper()
	block, size := typ.Block()
	dst := make([]byte, rows*cols/block*size)
	if err := s.EncodeGGUF(dst, typ, rows, cols, x, importance); err != nil {
		t.Fatal(err)
	}
	return dst
}

// decodeGGUF decodes, or fails.
func decodeGGUF(t testing.TB, typ GGUFType, src []byte) []float32 {
	t.Helper()
	block, size := typ.Block()
	out := make([]float32, len(src)/size*block)
	if err := DecodeGGUF(out, typ, src); err != nil {
		t.Fatal(err)
	}
	return out
}

// squaredError is the sum of squared errors, weighted by column where there is an
// importance.
func squaredError(x, q, importance []float32) (sum float64) {
	for i := range x {
		e, w := float64(x[i])-float64(q[i]), 1.0
		if importance != nil {
			w = float64(importance[i%len(importance)])
		}
		sum += w * e * e
	}
	return sum
}

// Round to nearest is gguf-py's, byte for byte.
func TestGGUFBytesOfGGUFPy(t *testing.T) {
	g := golden(t, "golden/gguf_quantize.safetensors")
	x := need(t, g, "x")
	for _, typ := range []GGUFType{GGUFQ4_0, GGUFQ4_1, GGUFQ5_0, GGUFQ5_1, GGUFQ8_0, GGUFBF16, GGUFTQ1_0, GGUFTQ2_0, GGUFMXFP4} {
		want := need(t, g, typ.String()+".bytes")
		for _, s := range Available() {
			got := encodeGGUF(t, s, typ, x.Shape[0], x.Shape[1], x.f32(), nil)
			if i := firstDifference(got, want.data); i >= 0 {
				t.Errorf("%s: %s: byte %d is %#x, want %#x", s.Name, typ, i, got[i], want.data[i])
			}
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// Errors are no larger than ggml's, matrix by matrix, with and without importance.
func TestGGUFErrorsAgainstGGML(t *testing.T) {
	g := golden(t, "golden/gguf_ggml.safetensors")
	for _, matrix := range []string{"demo0", "demo1", "demo2", "gaussian", "heavy"} {
		x := need(t, g, matrix+".x")
		importance := need(t, g, matrix+".importance").f32()
		rows, cols := x.Shape[0], x.Shape[1]
		for _, typ := range encodes() {
			peer := map[bool]string{false: ".bytes", true: ".weighted.bytes"}
			if _, ok := g[matrix+"."+typ.String()+".bytes"]; !ok {
				continue // a type of single elements
			}
			for _, weighted := range []bool{false, true} {
				var w []float32
				if weighted {
					if w = importance; !typ.TakesImportance() {
						continue
					}
				}
				theirs := squaredError(x.f32(), decodeGGUF(t, typ, need(t, g, matrix+"."+typ.String()+peer[weighted]).data), w)
				ours := squaredError(x.f32(), decodeGGUF(t, typ, encodeGGUF(t, Best(), typ, rows, cols, x.f32(), w)), w)
				t.Logf("%-8s %-7s weighted %-5t ratio %.4f", matrix, typ, weighted, ours/theirs)
				if !(ours <= theirs*(1+1e-6)) {
					t.Errorf("%s %s, weighted %t: error %v, ggml's %v: %.4f of it", matrix, typ, weighted, ours, theirs, ours/theirs)
				}
			}
		}
	}
}

// What cannot be stored is refused with its place.
func TestGGUFEncodingRefusals(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	with := func(at int, v float32) []float32 {
		x := make([]float32, 512)
		x[at] = v
		return x
	}
	for name, c := range map[string]struct {
		typ        GGUFType
		x, w       []float32
		cols, size int
		is         error
		words      string
	}{
		"not a number":       {GGUFQ4_K, with(300, nan), nil, 256, 288, ErrRange, "row 1, column 44 is NaN"},
		"infinite":           {GGUFQ8_0, with(5, -inf), nil, 256, 544, ErrRange, "row 0, column 5 is -Inf"},
		"no f16 scale":       {GGUFQ6_K, with(290, 1e30), nil, 256, 420, ErrRange, "row 1, column 0 starts a block that is too large"},
		"no f16 scale, Q4_0": {GGUFQ4_0, with(290, 1e6), nil, 256, 288, ErrRange, "row 1, column 32 starts a block"},
		"no f16 minimum":     {GGUFQ4_1, with(290, -1e6), nil, 256, 320, ErrRange, "row 1, column 32 starts a block"},
		"no f16":             {GGUFF16, with(290, 1e6), nil, 256, 1024, ErrRange, "row 1, column 34 starts"},
		"no scale of NVFP4":  {GGUFNVFP4, with(290, 1e6), nil, 256, 288, ErrRange, "row 1, column 0 starts a block"},
		"half a block":       {GGUFQ4_K, with(0, 0), nil, 128, 288, ErrShape, "rows of 128"},
		"too few bytes":      {GGUFQ4_K, with(0, 0), nil, 256, 287, ErrShape, "287 bytes"},
		"negative weights":   {GGUFQ4_K, with(0, 0), with(3, -1)[:256], 256, 288, ErrRange, "column 3 is -1"},
		"weights of NaN":     {GGUFQ4_K, with(0, 0), with(3, nan)[:256], 256, 288, ErrRange, "column 3 is NaN"},
		"infinite weights":   {GGUFQ4_K, with(0, 0), with(3, inf)[:256], 256, 288, ErrRange, "column 3 is +Inf"},
		"too few weights":    {GGUFQ4_K, with(0, 0), make([]float32, 255), 256, 288, ErrShape, "importance of 255 columns"},
		"unused weights":     {GGUFQ8_0, with(0, 0), make([]float32, 256), 256, 544, ErrUnsupported, "does not use importance"},
		"no encoder":         {GGUFQ2_K, with(0, 0), nil, 256, 168, ErrUnsupported, "Q2_K cannot be made"},
		"an unknown type":    {42, with(0, 0), nil, 256, 168, ErrUnsupported, "type 42 cannot be made"},
	} {
		for _, s := range Available() {
			err := s.EncodeGGUF(make([]byte, c.size), c.typ, 512/c.cols, c.cols, c.x, c.w)
			if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: %s: %v", s.Name, name, err)
			}
		}
	}
	if err := EncodeGGUF(nil, GGUFQ4_K, 0, 256, nil, nil); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

// Rows are encoded alike however they are dealt out, and by every set.
func TestGGUFEncodingBySplitAndSet(t *testing.T) {
	g := golden(t, "golden/gguf_ggml.safetensors")
	for _, matrix := range []string{"demo0", "heavy"} {
		x, importance := need(t, g, matrix+".x"), need(t, g, matrix+".importance").f32()
		rows, cols := x.Shape[0], x.Shape[1]
		for _, typ := range encodes() {
			w := importance
			if !typ.TakesImportance() {
				w = nil
			}
			want := encodeGGUF(t, Reference(), typ, rows, cols, x.f32(), w)
			for _, s := range Available() {
				got := append(encodeGGUF(t, s, typ, 5, cols, x.f32()[:5*cols], w), encodeGGUF(t, s, typ, rows-5, cols, x.f32()[5*cols:], w)...)
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %s differs", s.Name, typ)
				}
			}
		}
	}
}

// The bytes are the same on every machine; a change of these sums is a change of what
// is written.
func TestGGUFBytesAreTheSameEverywhere(t *testing.T) {
	g := golden(t, "golden/gguf_ggml.safetensors")
	x, importance := need(t, g, "heavy.x"), need(t, g, "heavy.importance").f32()
	for typ, want := range map[GGUFType][2]string{
		GGUFQ4_0:  {"c9c8100db149", "95878da8ce08"},
		GGUFQ4_1:  {"82dd5ece2172", "43cf284ecf30"},
		GGUFQ5_0:  {"7875c6a12283", "3d5cfe184f74"},
		GGUFQ5_1:  {"839c3fdf5d23", "9bf8c7292855"},
		GGUFQ8_0:  {"37eac809b6a4", ""},
		GGUFQ4_K:  {"4b7b8cf77fbf", "95cce5dc18e0"},
		GGUFQ5_K:  {"7d6ab24a0862", "3c4da2c8192e"},
		GGUFQ6_K:  {"b014c627f3c1", "3f1c8361e725"},
		GGUFIQ4NL: {"ebdb8297ddda", "26f5498962cd"},
		GGUFIQ4XS: {"e09d8a50d594", "864f341a6d9f"},
		GGUFMXFP4: {"c5b9f652e3b0", "52f934f70096"},
		GGUFNVFP4: {"72d4522b50d6", "a7cb416527cd"},
		GGUFTQ1_0: {"4edac2f7ccaf", ""},
		GGUFTQ2_0: {"2a0d0ce73d3e", ""},
	} {
		for i, w := range [][]float32{nil, importance} {
			if w != nil && !typ.TakesImportance() {
				continue
			}
			sum := sha256.Sum256(encodeGGUF(t, Reference(), typ, x.Shape[0], x.Shape[1], x.f32(), w))
			if got := hex.EncodeToString(sum[:6]); got != want[i] {
				t.Errorf("%s, weighted %t: %s, want %s", typ, w != nil, got, want[i])
			}
		}
	}
}
