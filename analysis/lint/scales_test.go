package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// scaled writes a module with a weight of 1×32 and its scales, and a config that says
// so, and lints it.
func scaled(t *testing.T, quant string, weight checkpoint.DType, param string, scales checkpoint.DType, data []byte, shape ...int64) []Finding {
	t.Helper()
	dir := t.TempDir()
	const module = "model.layers.0.mlp.up_proj."
	cols := int64(32)
	if weight == checkpoint.U8 {
		cols /= 2
	}
	specs := []checkpoint.Spec{
		{Name: module + "weight", DType: weight, Shape: []int64{shape[0], cols}},
		{Name: module + param, DType: scales, Shape: shape},
	}
	slices.SortStableFunc(specs, func(a, b checkpoint.Spec) int { return b.DType.Bits() - a.DType.Bits() })
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for next, _ := w.Next(); next != nil; next, _ = w.Next() {
		raw := data
		if strings.HasSuffix(next.Name, ".weight") {
			raw = slices.Repeat([]byte{0x38}, int(shape[0]*cols))
		}
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"llama","num_hidden_layers":1,"hidden_size":32,"quantization_config":`+quant+`}`), 0o666); err != nil {
		t.Fatal(err)
	}
	return lintPath(t, dir)
}

// A block of zeros may have a scale of 0, so some of them are a warning; a matrix whose
// scales are all 0 is lost.
func TestZeroScales(t *testing.T) {
	const quant = `{"quant_method":"modelopt","quant_algo":"W4A16_NVFP4"}`
	for _, c := range []struct {
		data []byte
		want Severity
	}{{[]byte{0x38, 0, 0x30, 0x38}, Warning}, {[]byte{0, 0, 0, 0}, Error}} {
		found := of("scale-zero", scaled(t, quant, checkpoint.U8, "weight_scale", checkpoint.F8E4M3, c.data, 2, 2))
		if len(found) != 1 || found[0].Severity != c.want {
			t.Errorf("%v: %+v, want severity %v", c.data, found, c.want)
		}
	}
}

// Exponents that the config announces (scale_fmt ue8m0) are what they are taken for,
// in the dtype of exponents; in plain bytes nothing takes them so.
func TestExponentsInPlaceOfNumbers(t *testing.T) {
	quant := func(format string) string {
		return `{"quant_method":"fp8","weight_block_size":[128,128],"activation_scheme":"dynamic"` + format + `}`
	}
	const announced = `,"scale_fmt":"ue8m0"`
	for _, c := range []struct {
		format string
		dtype  checkpoint.DType
		want   []Severity
	}{
		{announced, checkpoint.F8E8M0, nil},
		{`,"scale_fmt":"UE8M0"`, checkpoint.F8E8M0, nil},
		{"", checkpoint.F8E8M0, []Severity{Warning}},
		{announced, checkpoint.U8, []Severity{Error}},
		{"", checkpoint.I8, []Severity{Error}},
	} {
		var got []Severity
		for _, f := range of("e8m0-as-float", scaled(t, quant(c.format), checkpoint.F8E4M3, "weight_scale_inv", c.dtype, []byte{120}, 1, 1)) {
			got = append(got, f.Severity)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q as %s: %v, want %v", c.format, c.dtype, got, c.want)
		}
	}
}
