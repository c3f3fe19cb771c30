package kernels

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"
)

// quantized is what a quantization wrote.
type quantized struct {
	NVFP4Output
	tap Tap
	m   Matrix
}

func newOutput(m Matrix) NVFP4Output {
	return NVFP4Output{
		Codes: make([]byte, m.Rows*ceilDiv(m.Cols, 2)), Scales: make([]byte, m.Rows*ceilDiv(m.Cols, BlockNVFP4)),
		RowE2: make([]float64, m.Rows), RowW2: make([]float64, m.Rows),
	}
}

func quantize(t testing.TB, set Set, m Matrix, o NVFP4Options) quantized {
	t.Helper()
	q := quantized{NVFP4Output: newOutput(m), m: m}
	var err error
	if q.tap, err = set.NVFP4(m, o, &q.NVFP4Output); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q quantized) decode(t testing.TB, conv Convention) []float32 {
	t.Helper()
	dst := make([]float32, q.m.Rows*q.m.Cols)
	if err := DequantizeNVFP4(dst, q.Codes, q.Scales, q.GlobalScale, conv, q.m.Rows, q.m.Cols); err != nil {
		t.Fatal(err)
	}
	return dst
}

// asF32 is the same matrix with f32 elements.
func asF32(t testing.TB, m Matrix) Matrix {
	t.Helper()
	x := make([]float32, m.Rows*m.Cols)
	if err := DecodeFloats(x, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	return f32Matrix(m.Rows, m.Cols, x)
}

func f32Matrix(rows, cols int, x []float32) Matrix {
	m := Matrix{Element: F32, Rows: rows, Cols: cols, Data: make([]byte, 4*len(x))}
	if err := EncodeFloats(m.Data, F32, x); err != nil {
		panic(err)
	}
	return m
}

func firstDiff[T comparable](got, want []T) string {
	if len(got) != len(want) {
		return fmt.Sprintf("length %d, want %d", len(got), len(want))
	}
	n, first := 0, -1
	for i := range got {
		if got[i] != want[i] {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return fmt.Sprintf("%d of %d differ, first at %d: %v, want %v", n, len(got), first, got[first], want[first])
}

func bitsOf(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		if v != v {
			v = float32(math.NaN())
		}
		out[i] = math.Float32bits(v)
	}
	return out
}

// Codes, scales, global scales and decoded values equal those of the
// libraries, bit for bit.
func TestNVFP4Golden(t *testing.T) {
	files := []string{"gaussian", "heavy_tail", "row_outlier", "zero_blocks", "zero_tensor", "scale_underflow", "tiny", "explicit_scale_2", "ties", "experts_3d"}
	arms := []struct {
		prefix string
		conv   Convention
		names  [3]string
	}{
		{"modelopt", ModelOpt, [3]string{"weight", "weight_scale", "weight_scale_2"}},
		{"ct", CT, [3]string{"weight_packed", "weight_scale", "weight_global_scale"}},
		{"ct32", CT32, [3]string{"weight_packed", "weight_scale", "weight_global_scale"}},
	}
	for _, set := range Available() {
		for _, file := range files {
			g := golden(t, "golden/nvfp4_"+file+".safetensors")
			m := need(t, g, "w").matrix(t)
			for _, arm := range arms {
				if _, ok := g[arm.prefix+"."+arm.names[0]]; !ok {
					continue
				}
				if file == "zero_tensor" && arm.conv == ModelOpt {
					continue // the peer's result is NaN; TestNVFP4Zeros says what ours is
				}
				t.Run(set.Name+"/"+file+"/"+arm.prefix, func(t *testing.T) {
					wantGlobal := need(t, g, arm.prefix+"."+arm.names[2]).f32()[0]
					o := NVFP4Options{Convention: arm.conv}
					if file == "explicit_scale_2" {
						o.GlobalScale = wantGlobal
					}
					src := m
					if arm.conv == CT32 {
						src = asF32(t, m)
					}
					q := quantize(t, set, src, o)
					if q.GlobalScale != wantGlobal {
						t.Errorf("global scale %v, want %v", q.GlobalScale, wantGlobal)
					}
					if want := need(t, g, arm.prefix+"."+arm.names[1]).data; !bytes.Equal(q.Scales, want) {
						t.Errorf("scales: %s", firstDiff(q.Scales, want))
					}
					if want := need(t, g, arm.prefix+"."+arm.names[0]).data; !bytes.Equal(q.Codes, want) {
						t.Errorf("codes: %s", firstDiff(q.Codes, want))
					}
					decoded := q.decode(t, arm.conv)
					if want, ok := g[arm.prefix+".dequant_f32"]; ok {
						if got, want := bitsOf(decoded), bitsOf(want.f32()); !slices.Equal(got, want) {
							t.Errorf("decoded f32: %s", firstDiff(got, want))
						}
					}
					got := make([]uint16, len(decoded))
					for i, v := range decoded {
						got[i] = F32ToBF16(v)
					}
					if want := need(t, g, arm.prefix+".dequant_bf16").u16(); !slices.Equal(got, want) {
						t.Errorf("decoded bf16: %s", firstDiff(got, want))
					}
					checkTap(t, q, decoded)
				})
			}
		}
	}
}

// blockErrors is Σ(w−q)² of each block in f64.
func blockErrors(t testing.TB, q quantized, conv Convention) []float64 {
	t.Helper()
	w := make([]float32, q.m.Rows*q.m.Cols)
	if err := DecodeFloats(w, q.m.Element, q.m.Data); err != nil {
		t.Fatal(err)
	}
	perRow := ceilDiv(q.m.Cols, BlockNVFP4)
	sums := make([]float64, q.m.Rows*perRow)
	for i, v := range q.decode(t, conv) {
		if d := float64(w[i]) - float64(v); w[i]-w[i] == 0 {
			sums[i/q.m.Cols*perRow+i%q.m.Cols/BlockNVFP4] += d * d
		}
	}
	return sums
}

// The static path, the sweep and the peer's default list of 39 multipliers.
func TestNVFP4GoldenSearches(t *testing.T) {
	for _, set := range Available() {
		for _, file := range []string{"mse_small", "mse_medium"} {
			g := golden(t, "golden/nvfp4_"+file+".safetensors")
			m := need(t, g, "w").matrix(t)
			for _, arm := range []string{"max", "sweep", "mult"} {
				if _, ok := g[arm+".weight"]; !ok {
					continue
				}
				t.Run(set.Name+"/"+file+"/"+arm, func(t *testing.T) {
					search := nvfp4Search{top: MaxE4M3}
					switch arm {
					case "sweep":
						search.sweep = true
					case "mult":
						search.multipliers = need(t, g, "mult.multipliers").f32()
					}
					q := quantized{NVFP4Output: newOutput(m), m: m}
					var err error
					if q.tap, err = set.nvfp4(m, ModelOptStatic, search, 0, &q.NVFP4Output); err != nil {
						t.Fatal(err)
					}
					if want := need(t, g, "weight_scale_2").f32()[0]; q.GlobalScale != want {
						t.Errorf("weight_scale_2 %v, want %v", q.GlobalScale, want)
					}
					wantScales, wantCodes := need(t, g, arm+".weight_scale").data, need(t, g, arm+".weight").data
					equal := 0
					for b := range q.Scales {
						if q.Scales[b] != wantScales[b] {
							continue
						}
						equal++
						if !bytes.Equal(q.Codes[b*8:b*8+8], wantCodes[b*8:b*8+8]) {
							t.Errorf("block %d: same scale, other codes", b)
						}
					}
					share := float64(equal) / float64(len(q.Scales))
					total, want := 0.0, 0.0
					for i, e := range blockErrors(t, q, ModelOptStatic) {
						total += e
						want += need(t, g, arm+".block_sse").f64()[i]
					}
					t.Logf("%d of %d scales equal, error over the peer's %.9f", equal, len(q.Scales), total/want)
					if arm == "max" && equal != len(q.Scales) || share < 0.995 {
						t.Errorf("only %d of %d scales equal", equal, len(q.Scales))
					}
					if total > 1.0001*want {
						t.Errorf("error %v, peer %v", total, want)
					}
					checkTap(t, q, q.decode(t, ModelOptStatic))
				})
			}
		}
	}
}
