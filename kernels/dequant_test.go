package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// storedCase is a matrix of some spec in random bytes.
type storedCase struct {
	spec                Spec
	rows, cols          int
	codes, scales, mins []byte
	global              float32
}

func (c storedCase) String() string {
	return fmt.Sprintf("%s by %v of %d×%d", c.spec.Format, c.spec.Convention, c.rows, c.cols)
}

// storedSpecs are all formats in all conventions that decode.
func storedSpecs() (specs []Spec) {
	names := []string{"nvfp4"}
	for name := range quantizers {
		if name != "nvfp4" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		for conv := range conventions {
			spec := Spec{Format: name, Convention: conv}
			if formatHasBook(name) {
				spec = testBook(spec)
			}
			if _, _, err := spec.check(); err == nil {
				specs = append(specs, spec)
			}
		}
	}
	return specs
}

// randomStored fills a matrix; most scales are of moderate size.
func randomStored(tb testing.TB, rng *rand.Rand, spec Spec, rows, cols int) storedCase {
	tb.Helper()
	q, f, err := spec.check()
	if err != nil {
		tb.Fatal(err)
	}
	n, err := f.Scales(rows, cols)
	if err != nil {
		tb.Fatal(err)
	}
	scaleBytes, minBytes := 1, 0
	if f.Name != "nvfp4" {
		scaleBytes, minBytes = q.stored(f, spec.Convention)
	}
	c := storedCase{spec: spec, rows: rows, cols: cols, global: float32(rng.NormFloat64()) * 0.01,
		codes: make([]byte, rows*ceilDiv(cols*f.Bits, 8)), scales: make([]byte, n*scaleBytes), mins: make([]byte, n*minBytes)}
	for _, b := range [][]byte{c.codes, c.scales, c.mins} {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	if rng.IntN(2) == 0 && scaleBytes > 1 {
		for i := scaleBytes - 1; i < len(c.scales); i += scaleBytes {
			c.scales[i] = c.scales[i]&0x81 | 0x3c // near 1
		}
	}
	return c
}

func TestDequantizeOfSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 11))
	specs := storedSpecs()
	if len(specs) < 8 {
		t.Fatalf("only %v", specs)
	}
	for _, spec := range specs {
		for _, dims := range [][2]int{{1, 16}, {3, 32}, {2, 48}, {5, 96}, {1, 31}, {2, 130}, {129, 257}, {3, 256}, {2, 512}, {0, 32}, {4, 0}} {
			c := randomStored(t, rng, spec, dims[0], dims[1])
			want := make([]float32, c.rows*c.cols)
			if err := Dequantize(want, spec, c.rows, c.cols, c.codes, c.scales, c.mins, c.global); err != nil {
				t.Fatal(err)
			}
			for _, s := range Available() {
				got, intact := guardedFloats(len(want), dims[1]%17)
				if err := s.Dequantize(got, spec, c.rows, c.cols, c.codes, c.scales, c.mins, c.global); err != nil {
					t.Fatal(err)
				}
				if i := differs(got, want); i >= 0 {
					t.Fatalf("%s: %v: element %d is %v, want %v", s.Name, c, i, got[i], want[i])
				}
				if !intact() {
					t.Fatalf("%s: %v: wrote outside", s.Name, c)
				}
			}
		}
	}
}

// differs is the first index at which two rows differ, −1 where none does.
func differs(a, b []float32) int {
	for i := range a {
		if !alike(a[i], b[i]) {
			return i
		}
	}
	return -1
}

// Bytes of the fuzzer as the codes and scales of every spec, in rows of any width.
func FuzzDequantize(f *testing.F) {
	f.Add([]byte{0x80, 0x7f, 1, 2, 3}, uint16(70), float32(0.01))
	f.Add([]byte{0xff, 0x80, 0x7f, 0x00}, uint16(256), float32(math.Inf(1)))
	f.Add([]byte{0}, uint16(33), float32(0))
	specs := storedSpecs()
	f.Fuzz(func(t *testing.T, raw []byte, cols uint16, global float32) {
		if len(raw) == 0 {
			return
		}
		for _, spec := range specs {
			c := randomStored(t, rand.New(rand.NewPCG(1, 1)), spec, 3, int(cols%300))
			at := 0
			for _, b := range [][]byte{c.codes, c.scales, c.mins} {
				for i := range b {
					b[i] = raw[at%len(raw)] + byte(at/len(raw))
					at++
				}
			}
			want := make([]float32, c.rows*c.cols)
			if err := Dequantize(want, spec, c.rows, c.cols, c.codes, c.scales, c.mins, global); err != nil {
				t.Fatal(err)
			}
			for _, s := range Available()[1:] {
				got := make([]float32, len(want))
				if err := s.Dequantize(got, spec, c.rows, c.cols, c.codes, c.scales, c.mins, global); err != nil {
					t.Fatal(err)
				}
				if i := differs(got, want); i >= 0 {
					t.Fatalf("%s: %v: element %d is %v, want %v", s.Name, c, i, got[i], want[i])
				}
			}
		}
	})
}

func TestDequantizeFP8TilesOfSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 12))
	for _, tile := range [][2]int{{128, 128}, {1, 7}, {100, 68}, {3, 1000}} {
		const rows, cols = 130, 259
		codes, scales := make([]byte, rows*cols), make([]byte, 4*ceilDiv(rows, tile[0])*ceilDiv(cols, tile[1]))
		for _, b := range [][]byte{codes, scales} {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
		want, got := make([]float32, rows*cols), make([]float32, rows*cols)
		if err := DequantizeFP8Tiles(want, DeepSeek, rows, cols, tile[0], tile[1], codes, scales); err != nil {
			t.Fatal(err)
		}
		for _, s := range Available() {
			clear(got)
			if err := s.DequantizeFP8Tiles(got, DeepSeek, rows, cols, tile[0], tile[1], codes, scales); err != nil {
				t.Fatal(err)
			}
			if i := differs(got, want); i >= 0 {
				t.Fatalf("%s: tiles of %v: element %d is %v, want %v", s.Name, tile, i, got[i], want[i])
			}
		}
	}
}

// BenchmarkDequantize reports the weights/s of a thread that decodes panels of 32
// rows, as a product asks for them.
func BenchmarkDequantize(b *testing.B) {
	const rows, cols = 32, PanelDepth
	dst := make([]float32, rows*cols)
	for _, spec := range storedSpecs() {
		c := randomStored(b, rand.New(rand.NewPCG(6, 13)), spec, rows, cols)
		for _, s := range slices.Concat([]Set{Reference()}, asmSets()) {
			b.Run(fmt.Sprintf("%s-%v/%s", spec.Format, spec.Convention, s.Name), func(b *testing.B) {
				benchDecode(b, rows*cols, func() error {
					return s.Dequantize(dst, spec, rows, cols, c.codes, c.scales, c.mins, c.global)
				})
			})
		}
	}
}

func formatHasBook(name string) bool {
	f, err := FormatByName(name)
	return err == nil && f.Codebook
}

// Rows of any width, element by element: code·(scale·global) or code·(scale/global).
func TestDequantizeNVFP4ByElement(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 23))
	const rows = 3
	for cols := range 70 {
		for conv := ModelOpt; conv <= CT; conv++ {
			rowCodes, rowScales := ceilDiv(cols, 2), ceilDiv(cols, BlockNVFP4)
			codes, scales := make([]byte, rows*rowCodes), make([]byte, rows*rowScales)
			for i := range codes {
				codes[i] = byte(rng.Uint32())
			}
			for i := range scales {
				scales[i] = byte(rng.Uint32())
			}
			global := float32(math.Exp2(20 * (rng.Float64() - 0.5)))
			got := make([]float32, rows*cols)
			if err := DequantizeNVFP4(got, codes, scales, global, conv, rows, cols); err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				r, c := i/cols, i%cols
				nibble := codes[r*rowCodes+c/2] >> (c % 2 * 4) & 15
				step := E4M3ToF32(scales[r*rowScales+c/BlockNVFP4])
				want := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}[nibble&7]
				if nibble > 7 && (nibble != 8 || conv == CT || conv == CT32) {
					want = -want // also of 0: compressed-tensors keeps its sign
				}
				if conv == CT || conv == CT32 {
					want *= step / global
				} else {
					want *= float32(step * global)
				}
				if !alike(v, want) {
					t.Fatalf("%v, %d columns: element %d of row %d is %v, want %v", conv, cols, c, r, v, want)
				}
			}
		}
	}
}
