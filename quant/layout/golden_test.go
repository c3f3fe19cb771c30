package layout

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// part is a tensor of a checkpoint that a test makes.
type part struct {
	name  string
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

// write makes a checkpoint of one file with a config.
func write(t testing.TB, config string, parts []part) string {
	t.Helper()
	dir := t.TempDir()
	var specs []checkpoint.Spec
	for _, p := range parts {
		specs = append(specs, checkpoint.Spec{Name: p.name, DType: p.dtype, Shape: p.shape})
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if _, err := w.Write(p.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// golden reads tensors of a file: those with a prefix, which is cut off.
func golden(t testing.TB, file, prefix string) map[string]part {
	t.Helper()
	ck, err := checkpoint.Open(filepath.Join("testdata", "golden", file+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	out := map[string]part{}
	for i := range ck.Tensors {
		s := &ck.Tensors[i]
		name, ok := strings.CutPrefix(s.Name, prefix)
		if !ok {
			continue
		}
		raw := make([]byte, s.Size)
		if err := ck.ReadAt(t.Context(), s, 0, raw); err != nil {
			t.Fatal(err)
		}
		out[name] = part{name, s.DType, s.Shape, raw}
	}
	if len(out) == 0 {
		t.Fatalf("%s has nothing that begins with %s", file, prefix)
	}
	return out
}

// floats decodes a part.
func (p part) floats(t testing.TB) []float32 {
	t.Helper()
	out := make([]float32, len(p.data)*8/p.dtype.Bits())
	if err := checkpoint.DecodeF32(out, p.dtype, p.data); err != nil {
		t.Fatal(err)
	}
	return out
}

// sameFloats wants the same bits, of a NaN only that it is one.
func sameFloats(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

const (
	proj = "model.layers.0.self_attn.q_proj"

	ctHead  = `{"model_type":"llama","quantization_config":{"quant_method":"compressed-tensors","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],"weights":`
	ctTail  = `}}}}`
	moHead  = `{"model_type":"llama","quantization_config":{"quant_method":"modelopt","ignore":[],"config_groups":{"group_0":{"targets":["Linear"],"weights":`
	fp8Args = `{"num_bits":8,"type":"float","symmetric":true,"strategy":`
	intArgs = `{"num_bits":4,"type":"int","strategy":"group","group_size":`
)

// What other libraries wrote decodes to what they decode it to, bit for bit.
func TestGoldenLayouts(t *testing.T) {
	tests := []struct {
		file, prefix, dequant, config string
		format                        string
		convention                    kernels.Convention
	}{
		{"mxfp4_gaussian", "ct.", "dequant_bf16", ctHead + `{"num_bits":4,"type":"float","strategy":"group","group_size":32}` + ctTail, "mxfp4", kernels.CT},
		{"int4_ct_asym_g32", "ct.", "dequant", ctHead + intArgs + `32,"symmetric":false}` + ctTail, "int4-g32", kernels.CT},
		{"int4_ct_asym_g32", "ct32.", "dequant", ctHead + intArgs + `32,"symmetric":false}` + ctTail, "int4-g32", kernels.CT32},
		{"int4_ct_sym_g128", "ct.", "dequant", ctHead + intArgs + `128,"symmetric":true}` + ctTail, "int4-g128-sym", kernels.CT},
		{"int4_ct_sym_g128", "ct32.", "dequant", ctHead + intArgs + `128,"symmetric":true}` + ctTail, "int4-g128-sym", kernels.CT32},
		{"fp8_gaussian", "ct.tensor.", "dequant", ctHead + fp8Args + `"tensor"}` + ctTail, "fp8", kernels.CT},
		{"fp8_gaussian", "ct.channel.", "dequant", ctHead + fp8Args + `"channel"}` + ctTail, "fp8-channel", kernels.CT},
		{"fp8_gaussian", "ct.block128.", "dequant", ctHead + fp8Args + `"block","block_structure":[128,128]}` + ctTail, "fp8-block128", kernels.CT},
		{"fp8_gaussian", "ct.block128.", "dequant", ctHead + fp8Args + `"block","block_structure":"128x128"}` + ctTail, "fp8-block128", kernels.CT},
	}
	for _, tt := range tests {
		t.Run(tt.file+" "+tt.prefix, func(t *testing.T) {
			var parts []part
			var want []float32
			for name, p := range golden(t, tt.file, tt.prefix) {
				switch {
				case name == tt.dequant:
					want = p.floats(t)
				case strings.HasPrefix(name, "weight"):
					p.name = proj + "." + name
					parts = append(parts, p)
				}
			}
			_, l := openPath(t, write(t, tt.config, parts))
			if len(l.Modules) != 1 || len(l.Findings) != 0 {
				t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
			}
			m := &l.Modules[0]
			if m.Spec.Format != tt.format || m.Spec.Convention != tt.convention || m.Method != CompressedTensors || m.Declared == "" || m.Name != proj {
				t.Errorf("%+v", m)
			}
			for _, step := range []int{m.RowMultiple(), 3 * m.RowMultiple(), m.Rows} {
				sameFloats(t, "decoded", decode(t, m, step), want)
			}
		})
	}
}

// ModelOpt's FP8 has f32 scales, which the codes are multiplied by.
func TestModelOptFP8(t *testing.T) {
	for prefix, format := range map[string]string{"modelopt.tensor.": "fp8", "modelopt.channel.": "fp8-channel"} {
		g := golden(t, "fp8_gaussian", prefix)
		codes, scales := g["weight"].floats(t), g["weight_scale"].floats(t)
		want := make([]float32, len(codes))
		cols := len(codes) / int(g["weight"].shape[0])
		for i := range want {
			want[i] = codes[i] * scales[i/cols%len(scales)]
		}
		var parts []part
		for name, p := range g {
			p.name = proj + "." + name
			parts = append(parts, p)
		}
		_, l := openPath(t, write(t, moHead+`{"num_bits":8,"type":"float","dynamic":false}`+ctTail, parts))
		if len(l.Modules) != 1 || len(l.Findings) != 0 || l.Modules[0].Spec.Format != format || l.Modules[0].Method != ModelOpt {
			t.Fatalf("%+v", l)
		}
		sameFloats(t, prefix, decode(t, &l.Modules[0], 5), want)
	}
}

// Experts that are stored in one tensor are a module each, with their part of
// every field.
func TestFusedExperts(t *testing.T) {
	const name = "model.layers.0.mlp.experts.gate_up_proj"
	t.Run("modelopt", func(t *testing.T) {
		g := golden(t, "nvfp4_experts_3d", "modelopt.")
		want := g["dequant_f32"].floats(t)
		var parts []part
		for _, p := range []string{"weight", "weight_scale", "weight_scale_2"} {
			part := g[p]
			part.name = name + "." + p
			parts = append(parts, part)
		}
		_, l := openPath(t, write(t, "", parts))
		checkExperts(t, l, name, 4, want, false)
	})
	t.Run("gpt-oss", func(t *testing.T) {
		g := golden(t, "mxfp4_gpt_oss_layout", "")
		want := g["dequant_f32"].floats(t)
		var parts []part
		for _, p := range []string{"blocks", "scales"} {
			part := g["gate_up_proj_"+p]
			part.name = name + "_" + p
			parts = append(parts, part)
		}
		_, l := openPath(t, write(t, `{"model_type":"gpt_oss","quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]}}`, parts))
		checkExperts(t, l, name, 3, want, true)
	})
}

func checkExperts(t *testing.T, l *Layout, name string, n int, want []float32, transposed bool) {
	t.Helper()
	if len(l.Modules) != n || len(l.Findings) != 0 {
		t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
	}
	for e := range n {
		m, ok := l.Lookup(name + "[" + string(rune('0'+e)) + "]")
		if !ok || m.Expert != e || m.Role.Expert != e {
			t.Fatalf("expert %d: %+v", e, m)
		}
		got := decode(t, m, 5)
		part := want[e*len(got) : (e+1)*len(got)]
		if transposed {
			turned := make([]float32, len(got))
			for r := range m.Rows {
				for c := range m.Cols {
					turned[c*m.Rows+r] = got[r*m.Cols+c]
				}
			}
			got = turned
		}
		sameFloats(t, m.Name, got, part)
		size := int64(0)
		for _, f := range m.Fields {
			size += f.Size
			if f.Offset+f.Size > f.Tensor.Size {
				t.Errorf("%s: %+v", m.Name, f)
			}
		}
		if size != m.Bytes() || size == 0 {
			t.Errorf("%s: %d bytes, fields have %d", m.Name, m.Bytes(), size)
		}
	}
}

// Our own layout: value = code·scale + minimum, in bf16.
func TestOwnLayout(t *testing.T) {
	bf := func(v ...float32) (raw []byte) {
		for _, x := range v {
			b := kernels.F32ToBF16(x)
			raw = append(raw, byte(b), byte(b>>8))
		}
		return raw
	}
	codes := make([]byte, 2*32)
	for i := range codes {
		codes[i] = byte(i)
	}
	dir := write(t, `{"model_type":"llama","quantization_config":{"quant_method":"quantscope","version":1,"format":"int4-g32","bits":4,"group_size":32,
		"targets":["Linear"],"ignore":[],"quantscope":{"variant":"int4-g32+range","convention":"own"}}}`, []part{
		{proj + ".weight_packed", checkpoint.U8, []int64{2, 32}, codes},
		{proj + ".weight_scale", checkpoint.BF16, []int64{2, 2}, bf(1, 0.5, 2, 4)},
		{proj + ".weight_min", checkpoint.BF16, []int64{2, 2}, bf(-8, -2, 0, 1)},
	})
	_, l := openPath(t, dir)
	if len(l.Modules) != 1 || len(l.Findings) != 0 || l.Receipt.Variant != "int4-g32+range" {
		t.Fatalf("%+v", l)
	}
	m := &l.Modules[0]
	if m.Spec.Format != "int4-g32" || m.Spec.Convention != kernels.Own {
		t.Errorf("%+v", m.Spec)
	}
	want := make([]float32, 2*64)
	for i := range want {
		code := float32(codes[i/2] >> (i % 2 * 4) & 15)
		g := i / 32
		want[i] = code*[]float32{1, 0.5, 2, 4}[g] + []float32{-8, -2, 0, 1}[g]
	}
	sameFloats(t, "decoded", decode(t, m, 1), want)
}

// C27: tiles are as large as the config says, with partial ones at the edges,
// and weight_scale_inv multiplies.
func TestTilesOfConfig(t *testing.T) {
	want := expectedHashes(t, "C27-fp8-blocks")
	_, l := openPath(t, casePath("C27-fp8-blocks"))
	if len(l.Modules) != 1 || len(l.Findings) != 0 {
		t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
	}
	m := &l.Modules[0]
	if r, c := m.Tile(); r != 128 || c != 128 || m.Method != FP8 {
		t.Errorf("%+v", m)
	}
	for _, step := range []int{128, 256} {
		if got := sum(decode(t, m, step)); got != want[m.Name] {
			t.Errorf("in ranges of %d rows it decodes to %s, want %s", step, got, want[m.Name])
		}
	}
	var s Stored
	if err := m.Read(t.Context(), &s, 64, 64); err == nil {
		t.Error("rows that begin within a tile are read")
	}
	if err := m.Read(t.Context(), &s, 128, 128); err == nil {
		t.Error("rows beyond the end are read")
	}
}

// What does not fit is named and is no module.
func TestWhatDoesNotFit(t *testing.T) {
	codes := part{proj + ".weight", checkpoint.U8, []int64{4, 16}, make([]byte, 64)}
	scale := part{proj + ".weight_scale", checkpoint.F8E4M3, []int64{4, 2}, make([]byte, 8)}
	global := part{proj + ".weight_scale_2", checkpoint.F32, []int64{}, make([]byte, 4)}
	fp8 := part{proj + ".weight", checkpoint.F8E4M3, []int64{4, 16}, make([]byte, 64)}
	words := part{proj + ".weight_packed", checkpoint.I32, []int64{4, 2}, make([]byte, 32)}
	wordScale := part{proj + ".weight_scale", checkpoint.BF16, []int64{4, 1}, make([]byte, 8)}
	shape := part{proj + ".weight_shape", checkpoint.I64, []int64{2}, []byte{4, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0}}
	with := func(p part, change func(*part)) part {
		p.shape, p.data = slices.Clone(p.shape), slices.Clone(p.data)
		change(&p)
		return p
	}
	tests := []struct {
		name, config string
		parts        []part
		id, words    string
	}{
		{"scales too narrow", "", []part{codes, with(scale, func(p *part) { p.shape = []int64{4, 1}; p.data = p.data[:4] }), global}, Incomplete, "want [4 2]"},
		{"two globals", "", []part{codes, scale, with(global, func(p *part) { p.shape = []int64{2}; p.data = make([]byte, 8) })}, Incomplete, "2 elements"},
		{"no global", "", []part{codes, scale}, UnknownForm, "weight U8, weight_scale F8_E4M3"},
		{"scales alone", "", []part{scale, global}, UnknownForm, "known: modelopt nvfp4"},
		{"FP8 without scales", "", []part{fp8}, UnknownForm, "weight F8_E4M3"},
		{"tiles without a size", `{"quantization_config":{"quant_method":"fp8"}}`, []part{fp8, {proj + ".weight_scale_inv", checkpoint.F32, []int64{1, 1}, make([]byte, 4)}}, Incomplete, "weight_block_size"},
		{"tiles of another size", `{"quantization_config":{"quant_method":"fp8","weight_block_size":[2,8]}}`, []part{fp8, {proj + ".weight_scale_inv", checkpoint.F32, []int64{1, 1}, make([]byte, 4)}}, Incomplete, "want [2 2]"},
		{"words without a config", "", []part{words, wordScale, shape}, Incomplete, "how many bits"},
		{"words of 3 bits", ctHead + `{"num_bits":3,"type":"int","group_size":32}` + ctTail, []part{words, wordScale, shape}, Incomplete, "--packing dense or padded"},
		{"words of 9 bits", ctHead + `{"num_bits":9,"type":"int","group_size":32}` + ctTail, []part{words, wordScale, shape}, UnknownForm, "known: 1 to 8"},
		{"groups of 8", ctHead + `{"num_bits":4,"type":"int","group_size":8}` + ctTail, []part{words, wordScale, shape}, Incomplete, "want [4 2]"},
		{"words of another shape", ctHead + intArgs + `32}` + ctTail, []part{words, wordScale, with(shape, func(p *part) { p.data[8] = 17 })}, Incomplete, "want 3 words a row for 17 inputs"},
		{"order of other activations", ctHead + intArgs + `32}` + ctTail, []part{words, wordScale, shape, {proj + ".weight_g_idx", checkpoint.I32, []int64{15}, make([]byte, 60)}}, Incomplete, "want I32 [16]"},
		{"other inputs scaled", "", []part{codes, scale, global, {proj + ".pre_quant_scale", checkpoint.BF16, []int64{31}, make([]byte, 62)}}, Incomplete, "pre_quant_scale is [31], want [32]"},
		{"inputs scaled before plain weights", "", []part{{proj + ".weight", checkpoint.BF16, []int64{2, 4}, make([]byte, 16)}, {proj + ".pre_quant_scale", checkpoint.BF16, []int64{4}, make([]byte, 8)}}, UnknownForm, "pre_quant_scale BF16, weight BF16"},
		{"a matrix of low rank", "", []part{codes, scale, global, {proj + ".svdquant_lora_a", checkpoint.BF16, []int64{2, 32}, make([]byte, 128)}}, UnknownForm, "NVFP4_SVD"},
		{"GPTQ", "", []part{{proj + ".qweight", checkpoint.I32, []int64{2, 4}, make([]byte, 32)}, {proj + ".scales", checkpoint.F16, []int64{1, 4}, make([]byte, 8)}}, UnknownForm, "qweight I32"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, l := openPath(t, write(t, tt.config, tt.parts))
			if len(l.Modules) != 0 || len(l.Unread) != len(tt.parts) {
				t.Errorf("%d modules, unread %v", len(l.Modules), l.Unread)
			}
			if !slices.ContainsFunc(l.Findings, func(f Finding) bool {
				return f.ID == tt.id && strings.HasPrefix(f.Tensor, proj) && f.File == "model.safetensors" && strings.Contains(f.Message, tt.words)
			}) {
				t.Errorf("no %s with %q in %v", tt.id, tt.words, l.Findings)
			}
		})
	}
}

// Of groups that target a module the one that names it counts, then one by an
// expression, then one by class.
func TestClosestGroup(t *testing.T) {
	args := func(bits int) string { return `"weights":{"num_bits":` + string(rune('0'+bits)) + `,"type":"int"}` }
	c, err := parseConfig(configFile, []byte(`{"quant_method":"compressed-tensors","config_groups":{
		"a":{"targets":["Linear"],`+args(3)+`},"b":{"targets":["re:.*q_proj"],`+args(4)+`},"c":{"targets":["`+proj+`"],`+args(5)+`}}}`))
	if err != nil {
		t.Fatal(err)
	}
	ix := newMatchIndex(c.entries)
	for module, bits := range map[string]int{proj: 5, "model.layers.1.self_attn.q_proj": 4, "model.layers.1.self_attn.k_proj": 3} {
		if v := c.cover(ix.find(nil, []string{module}, true), true); v.group == nil || v.group.weights.Bits != bits {
			t.Errorf("%s: %+v, want the group of %d bits", module, v.group, bits)
		}
	}
	if v := c.cover(ix.find(nil, []string{"model.norm"}, false), false); v.group != nil {
		t.Errorf("a norm is in %+v", v.group)
	}
}

// A config that cannot be read is refused, by name.
func TestBrokenConfigs(t *testing.T) {
	codes := part{proj + ".weight", checkpoint.BF16, []int64{1, 2}, make([]byte, 4)}
	for _, config := range []string{
		`{"quantization_config":7}`,
		`{"quantization_config":{"config_groups":{"g":{"targets":"Linear"}}}}`,
		`{"quantization_config":{"config_groups":{"g":{"weights":{"block_structure":"big"}}}}}`,
		`{"quantization_config":{"weight_block_size":[128,-1]}}`,
		`{"quantization_config":{"ignore":{}}}`,
		`{"quantization_config":{"quant_method":"quantscope","version":3,"bits":4}}`,
	} {
		ck, err := checkpoint.Open(write(t, config, []part{codes}))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = readConfigs(ck); err == nil || !strings.Contains(err.Error(), "config.json") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", config, err)
		}
		_ = ck.Close()
	}
}
