package layout

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// gptqParts are 64 inputs and 32 outputs of 4 bits in groups of 32, all zeros but
// for the zero points, which are the middle, stored minus 1.
func gptqParts(module string) []part {
	return []part{
		{module + ".qweight", checkpoint.I32, []int64{8, 32}, make([]byte, 8*32*4)},
		{module + ".qzeros", checkpoint.I32, []int64{2, 4}, []byte(strings.Repeat("\x77", 2*4*4))},
		{module + ".scales", checkpoint.F16, []int64{2, 32}, make([]byte, 2*32*2)},
		{module + ".g_idx", checkpoint.I32, []int64{64}, make([]byte, 64*4)},
	}
}

// reshaped is a field with another shape, and as many bytes as that takes.
func reshaped(parts []part, field string, shape ...int64) []part {
	out := slices.Clone(parts)
	for i := range out {
		if strings.HasSuffix(out[i].name, "."+field) {
			n := int64(out[i].dtype.Bits() / 8)
			for _, d := range shape {
				n *= d
			}
			out[i].shape, out[i].data = shape, make([]byte, n)
		}
	}
	return out
}

// without is the fields but one.
func without(parts []part, field string) []part {
	return slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return strings.HasSuffix(p.name, "."+field) })
}

// What cannot be told of GPTQ and AWQ is refused, with what is there and what is
// needed.
func TestPackedThatDoesNotFit(t *testing.T) {
	gptq := func(more string) string { return gptqConfig(4, 32, true, more) }
	good := gptqParts(proj)
	awq := []part{
		{proj + ".qweight", checkpoint.I32, []int64{64, 4}, make([]byte, 64*4*4)},
		{proj + ".qzeros", checkpoint.I32, []int64{2, 4}, make([]byte, 2*4*4)},
		{proj + ".scales", checkpoint.F16, []int64{2, 32}, make([]byte, 2*32*2)},
	}
	gemv := []part{
		{proj + ".qweight", checkpoint.I32, []int64{32, 16}, make([]byte, 32*16*4)},
		{proj + ".qzeros", checkpoint.I32, []int64{32, 1}, make([]byte, 32*4)},
		{proj + ".scales", checkpoint.F16, []int64{32, 8}, make([]byte, 32*8*2)},
	}
	marlin := []part{
		{proj + ".B", checkpoint.I32, []int64{4, 64}, make([]byte, 4*64*4)},
		{proj + ".s", checkpoint.F16, []int64{2, 32}, make([]byte, 2*32*2)},
		{proj + ".workspace", checkpoint.I32, []int64{4}, make([]byte, 16)},
	}
	const awqNone = `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":32}}`
	tests := []struct {
		name, config string
		parts        []part
		id, words    string
	}{
		{"no config", "", good, Incomplete, "no config says whose it is"},
		{"no groups", `{"quantization_config":{"quant_method":"gptq","bits":4}}`, good, Incomplete, "which groups"},
		{"groups of 0", `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":0}}`, good, UnknownForm, "group_size 0"},
		{"zero points too narrow", gptq(""), reshaped(good, "qzeros", 2, 3), Incomplete, "qzeros is of shape [2 3], want [2 4] for 32 outputs of 4 bits in 2 groups"},
		{"scales of fewer groups", gptq(""), reshaped(good, "scales", 1, 32), Incomplete, "scales is [1 32], want [2 32] for 64 inputs in groups of 32"},
		{"codes of fewer inputs", gptq(""), reshaped(good, "qweight", 7, 32), Incomplete, "qweight is [7 32], want [8 32] for the 64 inputs"},
		{"one g_idx too many", gptq(""), reshaped(good, "g_idx", 65), Incomplete, "want [9 32] for the 65 inputs"},
		{"g_idx of two dimensions", gptq(""), reshaped(good, "g_idx", 8, 8), Incomplete, "g_idx is I32 [8 8], want I32 [inputs]"},
		{"no zero points", gptq(""), without(good, "qzeros"), UnknownForm, "known:"},
		{"no scales", gptq(""), without(good, "scales"), UnknownForm, "qweight I32"},
		{"no order", `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32,"sym":true,"desc_act":true}}`, without(good, "g_idx"), Incomplete, "has no g_idx, and desc_act of config.json is not false"},
		{"3 bits without order", gptqConfig(3, 32, true, ""), without(good, "g_idx"), Incomplete, "no whole number of inputs at 3 bits"},
		{"5 bits", gptqConfig(5, 32, true, ""), good, UnknownForm, "GPTQ of 5 bits (known: 2, 3, 4, 8)"},
		{"8-byte words", gptq(`,"pack_dtype":"int64"`), good, UnknownForm, `pack_dtype "int64"`},
		{"planar", gptq(`,"checkpoint_format":"gptq_p"`), good, UnknownForm, `"gptq_p"`},
		{"marlin", gptq(`,"checkpoint_format":"marlin"`), good, UnknownForm, "one GPU kernel"},
		{"marlin's own names", gptq(`,"is_marlin_format":true`), marlin, UnknownForm, "one GPU kernel"},
		{"AWQ as GPTQ", gptq(""), awq, Incomplete, "as AWQ stores it"},
		{"GPTQ as AWQ", awqNone, without(good, "g_idx"), Incomplete, "as GPTQ stores it"},
		{"AWQ of 8 bits", `{"quantization_config":{"quant_method":"awq","bits":8,"group_size":32}}`, awq, UnknownForm, "AWQ of 8 bits"},
		{"AWQ's gemv by its name", `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"version":"GEMV_fast"}}`, gemv, UnknownForm, `version "gemv_fast"`},
		{"AWQ's gemv by its shapes", awqNone, gemv, Incomplete, "as AWQ's gemv stores it"},
		{"AWQ without zero points", `{"quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"zero_point":false}}`, awq, Mislabelled, "zero_point of config.json is false"},
		{"dynamic that cannot be read", gptq(`,"dynamic":{"(?!x).*":{"bits":8}}`), good, UnknownForm, "the pattern \"(?!x).*\" of dynamic"},
		{"dynamic of other bits", gptq(`,"dynamic":{".*q_proj":{"bits":8}}`), good, Incomplete, "want [16 32]"},
		{"dynamic of another format", gptq(`,"dynamic":{".*q_proj":{"method":"fp8"}}`), good, UnknownForm, `"fp8"`},
		{"another method", `{"quantization_config":{"quant_method":"auto-round","bits":4,"group_size":32}}`, good, UnknownForm, `quant_method "auto-round"`},
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

// C30 n20: zero points of 20 outputs in words for 16.
func TestZeroPointsOfPartialWords(t *testing.T) {
	_, l := openPath(t, casePath("C30-group-shape", "n20"))
	if len(l.Modules) != 0 || len(l.Findings) != 1 || !strings.Contains(l.Findings[0].Message, "model.layers.0.mlp.down_proj.qzeros is of shape [2 2], want [2 3] for 20 outputs") {
		t.Errorf("%v", l.Findings)
	}
}

// Without g_idx groups follow one another where the config says that nothing was
// reordered, which is said.
func TestGroupsWithoutIndex(t *testing.T) {
	g := golden(t, "gptq_sym_g128", "")
	delete(g, "g_idx")
	_, l := openPath(t, write(t, gptqConfig(4, 128, true, ""), goldenParts(g, proj, "qzeros_v1")))
	if len(l.Modules) != 1 || len(l.Findings) != 1 || l.Findings[0].ID != NoGroupIndex {
		t.Fatalf("%v", l.Findings)
	}
	sameFloats(t, "decoded", decode(t, &l.Modules[0], 64), g["dequant_f32_out_in"].floats(t))
}

// dynamic: the first pattern that matches from the start of a name decides, in the
// order of the file.
func TestDynamicOverrides(t *testing.T) {
	four, eight := golden(t, "gptq_sym_g128", ""), golden(t, "gptq_w8_sym_g128", "")
	const a, b = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"
	parts := append(goldenParts(four, a, "qzeros_v1"), goldenParts(eight, b, "qzeros_v2")...)
	config := gptqConfig(4, 128, true, `,"checkpoint_format":"gptq","dynamic":{
		"-:.*mtp":{}, "+:model.layers.1.*":{"bits":8,"sym":false,"checkpoint_format":"gptq_v2"}, "layers.0":{"bits":2}, "model.layers.0.self_attn.q":{"desc_act":true}, "model.layers.0.*":{"bits":3}}`)
	_, l := openPath(t, write(t, config, parts))
	if len(l.Modules) != 2 {
		t.Fatalf("%v", l.Findings)
	}
	for _, f := range l.Findings {
		if f.ID != UnmatchedPattern {
			t.Errorf("%v", f)
		}
	}
	if m, ok := l.Lookup(b); !ok || m.Spec.Format != "gptq-int8-g128" {
		t.Errorf("%+v", m)
	} else {
		sameFloats(t, b, decode(t, m, 32), eight["dequant_f32_out_in"].floats(t))
	}
	if m, ok := l.Lookup(a); !ok || m.Spec.Format != "gptq-int4-g128" {
		t.Errorf("%+v", m)
	} else {
		sameFloats(t, a, decode(t, m, 64), four["dequant_f32_out_in"].floats(t))
	}
}

// What is packed though dynamic leaves it out is a finding; a pattern that comes
// first decides.
func TestDynamicExceptions(t *testing.T) {
	for _, c := range []struct {
		dynamic string
		want    []string
	}{
		{`{"-:.*q_proj":{}}`, []string{Ignored}}, {`{".*q_proj":{},"-:.*q_proj":{}}`, nil}, {`{"-:(?!x)y":{}}`, []string{UnreadPattern}}, {`{}`, nil}, {`null`, nil},
		{`{"-:model.layers.7.*":{}}`, []string{UnmatchedPattern}},
	} {
		_, l := openPath(t, write(t, gptqConfig(4, 32, true, `,"dynamic":`+c.dynamic), gptqParts(proj)))
		var ids []string
		for _, f := range l.Findings {
			ids = append(ids, f.ID)
		}
		if !slices.Equal(ids, c.want) || len(l.Modules) != 1 {
			t.Errorf("%s: %v, want %v", c.dynamic, l.Findings, c.want)
		}
	}
}

// AutoAWQ leaves out what has a word anywhere in its name.
func TestExceptionsOfAWQ(t *testing.T) {
	for word, ignored := range map[string]bool{"self_attn": true, "layers.0.": true, "q_proj": true, "visual": false, "layers.1": false} {
		c, err := parseConfig(configFile, []byte(`{"quant_method":"awq","bits":4,"group_size":32,"modules_to_not_convert":["`+word+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		if v := c.cover(newMatchIndex(c.entries).find(nil, []string{proj}, true), true); (v.ignore != nil) != ignored {
			t.Errorf("%q: %+v", word, v)
		}
	}
}

// Older checkpoints of GPTQ have their config in a file of its own, which does not
// name its method.
func TestGPTQConfigOfItsOwn(t *testing.T) {
	g := golden(t, "gptq_sym_g128", "")
	dir := write(t, `{"model_type":"llama"}`, goldenParts(g, proj, "qzeros_v1"))
	path := filepath.Join(dir, gptqFile)
	if err := os.WriteFile(path, []byte(`{"bits":4,"group_size":128,"sym":true,"desc_act":false,"damp_percent":0.01}`), 0o666); err != nil {
		t.Fatal(err)
	}
	_, l := openPath(t, dir)
	if len(l.Modules) != 1 || len(l.Findings) != 0 || l.Method != GPTQ || l.File != gptqFile {
		t.Fatalf("%+v", l)
	}
	if err := os.WriteFile(path, []byte(`{"bits":"four"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	if _, _, err := readConfigs(ck); err == nil || !strings.Contains(err.Error(), gptqFile) {
		t.Errorf("%v", err)
	}
}

// Configs that say nothing readable are refused by name.
func TestBrokenWordConfigs(t *testing.T) {
	for _, text := range []string{
		`{"quant_method":"gptq","dynamic":[1]}`, `{"quant_method":"gptq","dynamic":{"a":7}}`, `{"quant_method":"awq","version":{"a":1}}`, `{"quant_method":"gptq","sym":"yes"}`,
	} {
		if _, err := parseConfig(configFile, []byte(text)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
