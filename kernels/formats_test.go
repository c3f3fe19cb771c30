package kernels

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestFormatSizes(t *testing.T) {
	for _, c := range []struct {
		name       string
		bits       float64
		rows, cols int
		bytes      int64
	}{
		{"f32", 32, 3, 5, 60},
		{"bf16", 16, 3, 5, 30},
		{"f16", 16, 3, 5, 30},
		{"nvfp4", 4.5, 4096, 14336, 4096*14336/2 + 4096*14336/16 + 4},
		{"nvfp4", 4.5, 3, 60, 3*30 + 3*4 + 4},
		{"nvfp4", 4.5, 2, 17, 2*9 + 2*2 + 4},
		{"nvfp4", 4.5, 0, 16, 4},
		{"mxfp4", 4.25, 48, 96, 48*48 + 48*3},
		{"code2", 2.5, 4096, 14336, 4096*14336/4 + 4096*14336/16 + 4 + 4},
		{"code2", 2.5, 3, 61, 3*16 + 3*4 + 4 + 4},
		{"code2-mxfp4", 2.25, 48, 96, 48*24 + 48*3 + 4},
		{"fp8", 8, 32, 256, 32*256 + 4},
		{"fp8-channel", 8, 32, 256, 32*256 + 32*4},
		{"fp8-block128", 8 + 32.0/(128*128), 136, 150, 136*150 + 2*2*4},
		{"int4-g128", 4.25, 64, 256, 64*128 + 64*2*4},
		{"int4-g64", 4.5, 64, 256, 64*128 + 64*4*4},
		{"int4-g32", 5, 20, 96, 20*48 + 20*3*4},
		{"int4-g128-sym", 4.125, 64, 256, 64*128 + 64*2*2},
		{"int4-g64-sym", 4.25, 64, 256, 64*128 + 64*4*2},
		{"int4-g32-sym", 4.5, 64, 256, 64*128 + 64*8*2},
		{"int4-channel", 4, 64, 256, 64*128 + 64*4},
		{"int4-channel-sym", 4, 64, 256, 64*128 + 64*2},
	} {
		f, err := FormatByName(c.name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := f.BitsPerWeight(); got != c.bits {
			t.Errorf("%s: %v bits, want %v", c.name, got, c.bits)
		}
		if got, err := f.Bytes(c.rows, c.cols); got != c.bytes || err != nil {
			t.Errorf("%s %d×%d: %d bytes (%v), want %d", c.name, c.rows, c.cols, got, err, c.bytes)
		}
	}
}

// The sizes are those of what the libraries wrote.
func TestFormatSizesGolden(t *testing.T) {
	f, err := FormatByName("nvfp4")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"gaussian", "heavy_tail", "tiny"} {
		g := golden(t, "golden/nvfp4_"+file+".safetensors")
		m := need(t, g, "w").matrix(t)
		want := 0
		for _, name := range []string{"modelopt.weight", "modelopt.weight_scale", "modelopt.weight_scale_2"} {
			want += len(need(t, g, name).data)
		}
		if got, err := f.Bytes(m.Rows, m.Cols); got != int64(want) || err != nil {
			t.Errorf("%s: %d bytes (%v), want %d", file, got, err, want)
		}
	}
}

func TestFormatTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Formats() {
		if seen[f.Name] || f.Name == "" || f.Description == "" || f.Element == "" || f.Bits == 0 {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
		if (f.Scope == ScopeNone) != (f.Scale == "") || (f.Scale == "") != (f.ScaleBits == 0) || f.ScaleBits%8 != 0 || f.MinBits%8 != 0 {
			t.Errorf("%s: scope %d, scale %q of %d bits", f.Name, f.Scope, f.Scale, f.ScaleBits)
		}
		if (f.Scope == ScopeGroup || f.Scope == ScopeTile) != (f.Group > 0) {
			t.Errorf("%s: scope %d, group %d", f.Name, f.Scope, f.Group)
		}
		if f.Codes != nil && !f.Codebook && len(f.Codes) != 1<<f.Bits || f.Codebook && (1<<f.Bits != CodebookValues || len(f.Codes) != 16) {
			t.Errorf("%s: %d codes of %d bits", f.Name, len(f.Codes), f.Bits)
		}
	}
	_, err := FormatByName("nvfp5")
	if !errors.Is(err, ErrUnknownFormat) {
		t.Fatalf("%v", err)
	}
	for _, f := range Formats() {
		if !strings.Contains(err.Error(), f.Name) {
			t.Errorf("%q does not list %s", err, f.Name)
		}
	}
}

func TestFormatRefusesShapes(t *testing.T) {
	for _, f := range Formats() {
		for _, shape := range [][2]int{{-1, 4}, {4, -1}, {math.MaxInt, math.MaxInt}, {math.MaxInt, 2}, {1, math.MaxInt}} {
			n, err := f.Bytes(shape[0], shape[1])
			if err != nil && !errors.Is(err, ErrShape) {
				t.Errorf("%s %v: %v", f.Name, shape, err)
			}
			if err == nil && (n < int64(shape[0]/2) || n < int64(shape[1]/2)) {
				t.Errorf("%s %v: %d bytes", f.Name, shape, n)
			}
			if err == nil && shape[0] < 0 {
				t.Errorf("%s %v was accepted", f.Name, shape)
			}
		}
	}
}

// A scale falls into the bin that begins at or below it.
func TestScaleBins(t *testing.T) {
	for name, starts := range map[string]map[int]float64{
		"nvfp4":     {0: 0, 1: 4 * MinE4M3, 2: 0x1p-6, 14: 1, 31: 384},
		"mxfp4":     {0: 0, 1: 0x1p-23, 24: 1, 31: 128},
		"fp8":       {12: 0x1p-12},
		"int4-g128": {20: 0x1p-4, 32: 0, -1: 0},
	} {
		f, err := FormatByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for bin, want := range starts {
			if got := f.ScaleBinStart(bin); got != want {
				t.Errorf("%s: bin %d begins at %v, want %v", name, bin, got, want)
			}
		}
	}
	f := Format{Scale: "f32"}
	for _, scale := range []float32{0x1p-149, 0x1p-30, 0x1.8p-24, 0x1p-23, 0.7, 1, 100, 127.9, 128, 1e30} {
		bin := scaleBin(scale)
		if float64(scale) < f.ScaleBinStart(bin) || bin < ScaleBins-1 && float64(scale) >= f.ScaleBinStart(bin+1) {
			t.Errorf("%v is in bin %d", scale, bin)
		}
	}
	for name, want := range map[string]float64{"nvfp4": 1, "mxfp4": 1, "fp8-channel": 32, "int4-g32": 1} {
		f, err := FormatByName(name)
		if err != nil || f.ErrorScales() != want {
			t.Errorf("%s: %v (%v)", name, f.ErrorScales(), err)
		}
	}
}
