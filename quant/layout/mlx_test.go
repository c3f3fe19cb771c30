package layout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// mlxConfig is what mlx_lm writes for all modules and, where more is not "", for
// some.
func mlxConfig(mode string, bits, group int, more string) string {
	return fmt.Sprintf(`{"model_type":"llama","quantization":{"group_size":%d,"bits":%d,"mode":%q%s}}`, group, bits, mode, more)
}

// mlxParts are the tensors of one golden matrix and what mlx.core.dequantize made
// of it.
func mlxParts(t testing.TB, prefix string) (parts []part, want []float32) {
	t.Helper()
	all := golden(t, "mlx", prefix)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if name == "dequant" {
			want = p.floats(t)
			continue
		}
		if p.dtype == checkpoint.U16 { // bf16, which numpy does not know
			p.dtype = checkpoint.BF16
		}
		p.name = proj + "." + name
		parts = append(parts, p)
	}
	return parts, want
}

// What mlx.core.quantize wrote decodes to what mlx.core.dequantize makes of it, bit
// for bit.
func TestGoldenMLX(t *testing.T) {
	type test struct{ prefix, config, format string }
	tests := []test{
		{"mxfp4.", mlxConfig("mxfp4", 4, 32, ""), "mxfp4"},
		{"nvfp4.", mlxConfig("nvfp4", 4, 16, ""), "nvfp4"},
		{"mxfp8.", mlxConfig("mxfp8", 8, 32, ""), "mxfp8"},
		{"global.", mlxConfig("nvfp4", 4, 16, ""), "nvfp4"},
		{"affine.bf16.5.64.", `{"quantization_config":{"group_size":64,"bits":5,"mode":"affine"}}`, "mlx-int5-g64"},
		{"affine.bf16.6.32.", `{"text_config":{"quantization":{"group_size":32,"bits":6}}}`, "mlx-int6-g32"},
		{"affine.f16.3.32.", mlxConfig("affine", 4, 64, `,"`+proj+`":{"group_size":32,"bits":3}`), "mlx-int3-g32"},
		{"affine.f16.4.64.", mlxConfig("mxfp4", 4, 32, `,"`+proj+`":{}`), "mlx-int4-g64"},
	}
	for _, dtype := range []string{"f16", "bf16", "f32"} {
		for _, bits := range mlxBits {
			for _, group := range []int{32, 64, 128} {
				tests = append(tests, test{fmt.Sprintf("affine.%s.%d.%d.", dtype, bits, group), mlxConfig("affine", bits, group, ""), fmt.Sprintf("mlx-int%d-g%d", bits, group)})
			}
		}
	}
	for _, tt := range tests {
		parts, want := mlxParts(t, tt.prefix)
		_, l := openPath(t, write(t, tt.config, parts))
		if len(l.Modules) != 1 || len(l.Findings) != 0 {
			t.Fatalf("%s: %d modules, findings %v", tt.prefix, len(l.Modules), l.Findings)
		}
		m := &l.Modules[0]
		if m.Spec.Format != tt.format || m.Method != MLX || m.Declared == "" {
			t.Errorf("%s: %s of %q, declared by %q", tt.prefix, m.Spec.Format, m.Method, m.Declared)
		}
		for _, step := range []int{1, 2, m.Rows} {
			same(t, tt.prefix, decode(t, m, step), want)
		}
		var s Stored
		if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
			t.Fatal(err)
		}
		if !m.OwnPanels() {
			continue
		}
		for _, at := range [][2]int{{0, m.Cols}, {1, 5}, {31, 2}, {30, 70}, {m.Cols - 3, 3}} {
			got := make([]float32, 2*at[1])
			if err := m.Panel(got, &s, 1, 2, at[0], at[1]); err != nil {
				t.Fatal(err)
			}
			same(t, tt.prefix, got, append(slices.Clone(want[m.Cols+at[0]:][:at[1]]), want[2*m.Cols+at[0]:][:at[1]]...))
		}
		if err := m.Panel(make([]float32, 4), &s, 0, 1, m.Cols-3, 4); err == nil {
			t.Errorf("%s: a panel beyond the last column is decoded", tt.prefix)
		}
	}
}

// How a module is read is said in words that tell the conventions apart.
func TestMLXReading(t *testing.T) {
	for prefix, tt := range map[string][2]string{
		"affine.f16.3.32.": {mlxConfig("affine", 3, 32, ""), "3-bit codes as one stream of words along the inputs, the first in the lowest bits, scale times code plus bias, product and sum rounded to F16 each"},
		"mxfp8.":           {mlxConfig("mxfp8", 8, 32, ""), "E4M3 in words along the inputs, the first in the lowest bits, scales are powers of two in U8 (E8M0)"},
		"global.":          {mlxConfig("nvfp4", 4, 16, ""), "E2M1 in words along the inputs, the first in the lowest bits, scales are E4M3 in U8, times the largest magnitude over 2688"},
	} {
		parts, _ := mlxParts(t, prefix)
		_, l := openPath(t, write(t, tt[0], parts))
		if got := l.Modules[0].Reading(); got != tt[1] {
			t.Errorf("%s: %q, want %q", prefix, got, tt[1])
		}
	}
}

// same wants equal values; mlx gives code 8 of E2M1 no sign.
func same(t testing.TB, what string, got, want []float32) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	for _, list := range [][]float32{got, want} {
		for i, v := range list {
			if v == 0 {
				list[i] = 0
			}
		}
	}
	sameFloats(t, what, got, want)
}

// What shapes, types and config do not make clear is refused with the tensor, the
// shapes and what is known.
func TestMLXRefused(t *testing.T) {
	affine, _ := mlxParts(t, "affine.bf16.4.64.")
	nvfp4, _ := mlxParts(t, "nvfp4.")
	global, _ := mlxParts(t, "global.")
	mx, _ := mlxParts(t, "mxfp8.")
	change := func(parts []part, param string, f func(*part)) []part {
		parts = slices.Clone(parts)
		for i := range parts {
			if strings.HasSuffix(parts[i].name, "."+param) {
				f(&parts[i])
			}
		}
		return parts
	}
	drop := func(parts []part, param string) []part {
		return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return strings.HasSuffix(p.name, "."+param) })
	}
	for _, tt := range []struct {
		config string
		parts  []part
		id     string
		want   string
	}{
		{"", affine, Incomplete, "no config says how many bits"},
		{`{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":64}}`, affine, UnknownForm, `quant_method "gptq" of config.json with MLX's tensors`},
		{mlxConfig("affine", 4, 128, ""), affine, Incomplete, "[3 16] and " + proj + ".scales [3 2]: not 4 bits in groups of 128, as quantization of config.json says"},
		{mlxConfig("affine", 3, 64, ""), affine, Incomplete, "no whole number of inputs at 3 bits"},
		{mlxConfig("affine", 7, 64, ""), affine, UnknownForm, "affine of 7 bits"},
		{mlxConfig("affine", 4, 0, ""), affine, UnknownForm, "affine in groups of 0"},
		{mlxConfig("mxfp4", 4, 32, ""), affine, Incomplete, "has biases, which affine has, but quantization of config.json says mode mxfp4"},
		{mlxConfig("affine", 4, 64, ""), drop(affine, "biases"), UnknownForm, "mlx affine: weight+scales+biases"},
		{mlxConfig("affine", 4, 64, ""), change(affine, "biases", func(p *part) { p.shape = []int64{2, 3} }), Incomplete, "biases BF16 [2 3]"},
		{mlxConfig("nvfp4", 4, 16, ""), change(nvfp4, "scales", func(p *part) { p.shape, p.data = []int64{3, 7}, p.data[:21] }), Incomplete, "2, 4 or 8 words share a scale"},
		{mlxConfig("mxfp4", 4, 32, ""), nvfp4, Contradicts, "is stored as nvfp4, but quantization of config.json says mode mxfp4"},
		{mlxConfig("mxfp8", 8, 32, ""), append(slices.Clone(mx), global[slices.IndexFunc(global, func(p part) bool { return strings.HasSuffix(p.name, "global_scale") })]), Incomplete, "mxfp8 has no scale of the tensor"},
		{mlxConfig("affine", 4, 64, `,"`+proj+`":false`), affine, Ignored, `quantization "` + proj + `" of config.json says that it is not quantized`},
	} {
		_, l := openPath(t, write(t, tt.config, tt.parts))
		if !slices.ContainsFunc(l.Findings, func(f Finding) bool {
			return f.ID == tt.id && strings.Contains(f.Message, tt.want) && strings.HasPrefix(f.Tensor, proj)
		}) {
			t.Errorf("%s: %v, want %s: …%s…", tt.config, l.Findings, tt.id, tt.want)
		}
	}
	for config, want := range map[string]string{
		mlxConfig("nf4", 4, 64, ""):                     `mode "nf4" is not known (known: affine, mxfp4, mxfp8, nvfp4)`,
		mlxConfig("affine", 0, 64, ""):                  "bits is 0",
		mlxConfig("affine", 4, 64, `,"a":{"bits":"x"}`): "a: json",
	} {
		if _, err := tryOpen(t, write(t, config, affine)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

// tryOpen opens a checkpoint's layout.
func tryOpen(t testing.TB, dir string) (*Layout, error) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return Open(ck, model)
}
