package kernels

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// A matrix of zeros, one with a zero row and a zero group, and one of −0: all
// scales are finite and positive, and what is zero decodes to zero.
func TestBlockCaseAllZero(t *testing.T) {
	g := golden(t, "cases/zeros.safetensors")
	for _, set := range Available() {
		for _, spec := range blockSpecs() {
			for name, x := range g {
				m := x.matrix(t)
				b := quantizeBlocks(t, set, m, spec, 0)
				decoded := b.decode(t, spec, m)
				checkBlockTap(t, m, spec, &b, decoded)
				zeros := 0
				for i, v := range decoded {
					if v-v != 0 {
						t.Errorf("%s %s %s: element %d decodes to %v", set.Name, specName(spec), name, i, v)
					}
					if binary.LittleEndian.Uint16(x.data[2*i:])&0x7fff != 0 {
						continue
					}
					zeros++
					// Under Own a group keeps its minimum, not 0, exactly.
					whole := zeros == len(decoded) || i/m.Cols == 2 && name == "experts.1.down_proj.weight"
					if v != 0 && (whole || spec.Convention != Own) {
						t.Errorf("%s %s %s: element %d decodes to %v", set.Name, specName(spec), name, i, v)
					}
				}
				if zeros == len(decoded) && b.tap.ZeroBlocks != b.tap.Blocks {
					t.Errorf("%s %s %s: %d zero blocks of %d", set.Name, specName(spec), name, b.tap.ZeroBlocks, b.tap.Blocks)
				}
				checkScales(t, specName(spec), spec, b.Scales)
			}
		}
	}
}

// checkScales fails where a stored scale is not positive and finite.
func checkScales(t testing.TB, name string, spec Spec, scales []byte) {
	t.Helper()
	size, _ := quantizers[spec.Format].stored(mustFormat(t, spec.Format), spec.Convention)
	for i := 0; i < len(scales); i += size {
		v := E8M0ToF32(scales[i])
		if size > 1 {
			v = storedScale(t, scales[i:i+size])
		}
		if !(v > 0 && v <= math.MaxFloat32) {
			t.Errorf("%s: scale %d is %v", name, i/size, v)
		}
	}
}

func mustFormat(t testing.TB, name string) Format {
	t.Helper()
	f, err := FormatByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Rows of 60: the short last group of a row has its own scale, and nothing of
// the next row enters it.
func TestBlockCasePartialBlock(t *testing.T) {
	m := need(t, golden(t, "cases/partial.safetensors"), "model.layers.0.mlp.gate_proj.weight").matrix(t)
	rowBytes := 2 * m.Cols
	for _, set := range Available() {
		for _, spec := range blockSpecs() {
			whole := quantizeBlocks(t, set, m, spec, 0)
			decoded := whole.decode(t, spec, m)
			checkBlockTap(t, m, spec, &whole, decoded)
			if spec.Format == "fp8" || spec.Format == "fp8-block128" {
				continue // rows share a scale
			}
			for r := range m.Rows {
				row := Matrix{Element: BF16, Rows: 1, Cols: m.Cols, Data: m.Data[r*rowBytes : (r+1)*rowBytes]}
				alone := quantizeBlocks(t, set, row, spec, 0)
				for c, v := range alone.decode(t, spec, row) {
					if v != decoded[r*m.Cols+c] {
						t.Fatalf("%s %s: row %d column %d depends on other rows", set.Name, specName(spec), r, c)
					}
				}
			}
		}
	}
}

// One value of 40 and the rest near 1e-5: a group with the large value loses the
// others, all other groups keep theirs.
func TestBlockCaseOutlier(t *testing.T) {
	for name, x := range golden(t, "cases/outlier.safetensors") {
		m := x.matrix(t)
		for _, spec := range []Spec{{Format: "mxfp4", Convention: CT32}, {Format: "int4-g32"}, {Format: "int4-g32-sym"}} {
			if spec.Convention = Conventions(spec.Format)[0]; spec.Format == "mxfp4" {
				spec.Convention = CT32
			}
			b := quantizeBlocks(t, Reference(), m, spec, 0)
			decoded := b.decode(t, spec, m)
			checkBlockTap(t, m, spec, &b, decoded)
			if b.tap.ScaleLow != 0 || b.tap.ScaleHigh != 0 {
				t.Errorf("%s %s: %d scales raised, %d lowered", name, spec.Format, b.tap.ScaleLow, b.tap.ScaleHigh)
			}
			lost := 0
			for i, v := range decoded {
				if v == 0 && binary.LittleEndian.Uint16(x.data[2*i:])&0x7fff != 0 {
					lost++
				}
			}
			if lost > len(decoded)/2 {
				t.Errorf("%s %s: %d of %d values are lost", name, spec.Format, lost, len(decoded))
			}
		}
	}
}

// One NVFP4 layer written with a global scale that multiplies and with one that
// divides decodes to the same values.
func TestCaseTwoConventions(t *testing.T) {
	const layer = "model.layers.0.self_attn.o_proj."
	const want = "f7f5c1cf00a1dc1a5768dd58ac59bfb2a84d3d773ca8538f40c9ea682b961e7a"
	for _, c := range []struct {
		file, codes, global string
		conv                Convention
	}{
		{"multiplier", "weight", "weight_scale_2", ModelOpt},
		{"divisor", "weight_packed", "weight_global_scale", CT},
	} {
		g := golden(t, "cases/"+c.file+".safetensors")
		codes := need(t, g, layer+c.codes)
		rows, cols := codes.Shape[0], 2*codes.Shape[1]
		dst := make([]float32, rows*cols)
		global := need(t, g, layer+c.global).f32()[0]
		if err := Dequantize(dst, Spec{Format: "nvfp4", Convention: c.conv}, rows, cols, codes.data, need(t, g, layer+"weight_scale").data, nil, global); err != nil {
			t.Fatal(err)
		}
		if got := hashF32(dst); got != want {
			t.Errorf("%s: decoded values hash to %s, want %s", c.file, got, want)
		}
	}
}

// An FP8 matrix of 200×136 with a grid of 2×2 scales: tiles are of 128×128, as
// the config says, not of what the grid suggests, and the scale multiplies.
func TestCaseFP8Tiles(t *testing.T) {
	const right = "f47fec4042a87db870f9777c5a79ecf8fd47e90cd5d32052de19ae24b8c6bb80"
	const derived = "faae00462bd8bf68c081aa499ade387aa9ab44d86ecc52e773387df30d71762d"
	g := golden(t, "cases/tiles.safetensors")
	const name = "model.layers.0.mlp.down_proj."
	codes, scales := need(t, g, name+"weight"), need(t, g, name+"weight_scale_inv")
	rows, cols := codes.Shape[0], codes.Shape[1]
	dst := make([]float32, rows*cols)
	if err := DequantizeFP8Tiles(dst, DeepSeek, rows, cols, 128, 128, codes.data, scales.data); err != nil {
		t.Fatal(err)
	}
	if got := hashF32(dst); got != right {
		t.Errorf("decoded values hash to %s, want %s", got, right)
	}
	if err := DequantizeFP8Tiles(dst, DeepSeek, rows, cols, 100, 68, codes.data, scales.data); err != nil {
		t.Fatal(err)
	}
	if got := hashF32(dst); got != derived {
		t.Errorf("tiles of 100×68 hash to %s, want %s", got, derived)
	}
	if err := Dequantize(dst, Spec{Format: "fp8-block128", Convention: DeepSeek}, rows, cols, codes.data, scales.data, nil, 0); err != nil || hashF32(dst) != right {
		t.Errorf("as a format: %v, %s", err, hashF32(dst))
	}
	for _, c := range [][2]int{{0, 128}, {128, -1}, {64, 128}} {
		if DequantizeFP8Tiles(dst, DeepSeek, rows, cols, c[0], c[1], codes.data, scales.data) == nil {
			t.Errorf("tiles of %v were accepted", c)
		}
	}
	if err := DequantizeFP8Tiles(dst, Own, rows, cols, 128, 128, codes.data, scales.data); err == nil || !strings.Contains(err.Error(), "deepseek") {
		t.Errorf("a convention without tiles: %v", err)
	}
}
