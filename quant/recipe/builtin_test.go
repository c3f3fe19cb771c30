package recipe

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/topology"
)

// towers is a model with a vision tower and an MTP module of its own name.
func towers() []topology.Named {
	var ts []topology.Named
	add := func(name string, shape ...int64) {
		ts = append(ts, topology.Named{Name: name, DType: "BF16", Shape: shape})
	}
	add("model.visual.blocks.0.attn.qkv.weight", 48, 16)
	add("model.visual.patch_embed.proj.weight", 16, 3, 2, 2)
	add("model.language_model.embed_tokens.weight", 32, 16)
	for _, l := range []string{"0", "1"} {
		p := "model.language_model.layers." + l + "."
		add(p+"input_layernorm.weight", 16)
		add(p+"self_attn.q_proj.weight", 16, 16)
		add(p+"mlp.gate.weight", 2, 16)
		add(p+"mlp.experts.gate_up_proj", 2, 64, 16)
		add(p+"mlp.experts.down_proj", 2, 16, 32)
		add(p+"mlp.shared_expert.up_proj.weight", 32, 16)
		add(p+"mlp.shared_expert_gate.weight", 1, 16)
	}
	add("mtp.fc.weight", 16, 32)
	add("mtp.layers.0.self_attn.q_proj.weight", 16, 16)
	add("lm_head.weight", 32, 16)
	return ts
}

const towersConfig = `{"model_type":"qwen3_5_moe","vision_config":{},"text_config":{"model_type":"qwen3_5_moe_text","hidden_size":16,"num_hidden_layers":2,"num_experts":2,"num_experts_per_tok":1,"moe_intermediate_size":32,"mtp_num_hidden_layers":1,"tie_word_embeddings":false}}`

func TestBuiltinNamesWhatServersLeave(t *testing.T) {
	m := resolve(t, towersConfig, towers())
	for name, want := range map[string]string{
		"moe-nvfp4": `# moe-nvfp4: routed experts in NVFP4, weights only (W4A16); all else keeps the source's bytes
# Written for ` + m.Summary + `
name: moe-nvfp4
origin: '` + builtins[0].Origin + `'
groups:
  - scheme: nvfp4
    targets:
      - 're:model\.language_model\.layers\.[01]\.mlp\.experts\.(?:gate_up_proj|down_proj)$'
ignore:
  - 'model.language_model.embed_tokens'
  - lm_head
  - 're:.*norm.*'
  - 're:model\.language_model\.layers\.[01]\.mlp\.(?:gate|shared_expert_gate)$'
  - 're:^model\.visual.*'
  - 're:^mtp.*'
  - 're:model\.language_model\.layers\.[01]\.self_attn\.q_proj$'
  - 're:model\.language_model\.layers\.[01]\.mlp\.shared_expert\.up_proj$'
`,
		"mixed-nvfp4-fp8": `# mixed-nvfp4-fp8: MLPs and experts in NVFP4; attention, the head and the last layers' MLPs in FP8 with a scale a row
# Written for ` + m.Summary + `
name: mixed-nvfp4-fp8
origin: '` + builtins[1].Origin + `'
groups:
  - scheme: nvfp4
    targets:
      - 're:model\.language_model\.layers\.0\.mlp\.experts\.(?:gate_up_proj|down_proj)$'
      - model.language_model.layers.0.mlp.shared_expert.up_proj
  - scheme: fp8-channel
    targets:
      - 're:model\.language_model\.layers\.[01]\.self_attn\.q_proj$'
      - 're:model\.language_model\.layers\.1\.mlp\.experts\.(?:gate_up_proj|down_proj)$'
      - model.language_model.layers.1.mlp.shared_expert.up_proj
      - lm_head
ignore:
  - model.language_model.embed_tokens
  - 're:.*norm.*'
  - 're:model\.language_model\.layers\.[01]\.mlp\.(?:gate|shared_expert_gate)$'
  - 're:^model\.visual.*'
  - 're:^mtp.*'
`,
	} {
		f, err := Builtin(name, m)
		if err != nil {
			t.Fatal(err)
		}
		text, err := f.Encode()
		if err != nil {
			t.Fatal(err)
		}
		// names that are plain words stand without quotes, those with dots in them
		if got := strings.ReplaceAll(string(text), "'model.language", "model.language"); strings.ReplaceAll(got, "'", "") != strings.ReplaceAll(want, "'", "") {
			t.Errorf("%s\nwant\n%s", text, want)
		}
		back, err := ParseFile(text, name, nil)
		if err != nil || back.Origin != f.Origin || back.Name != name {
			t.Errorf("%+v %v", back, err)
		}
	}
}

// A layer whose experts NVFP4 cannot block stays together.
func TestBuiltinLeavesRaggedExperts(t *testing.T) {
	ts := towers()
	for i := range ts {
		if ts[i].Name == "model.language_model.layers.1.mlp.experts.down_proj" {
			ts[i].Shape = []int64{2, 16, 24}
		}
	}
	f, err := Builtin("moe-nvfp4", resolve(t, strings.Replace(towersConfig, `"moe_intermediate_size":32,`, "", 1), ts))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Groups) != 1 || strings.Join(f.Groups[0].Targets, " ") != `re:model\.language_model\.layers\.0\.mlp\.experts\.(?:gate_up_proj|down_proj)$` {
		t.Errorf("%+v", f.Groups)
	}
}

// What Select takes, and nothing else, is what the recipe of the same targets takes.
// TestBuiltinOfNothing: why a recipe takes nothing is said, of the first matrix that it
// would have taken.
func TestBuiltinOfNothing(t *testing.T) {
	ts := func(inner int64) []topology.Named {
		return []topology.Named{
			{Name: "model.layers.0.self_attn.q_proj.weight", DType: "BF16", Shape: []int64{16, 16}},
			{Name: "model.layers.0.mlp.experts.0.down_proj.weight", DType: "BF16", Shape: []int64{16, inner}},
		}
	}
	for _, c := range []struct {
		tensors []topology.Named
		want    string
	}{
		{ts(24), "rows of model.layers.0.mlp.experts.0.down_proj.weight are 24 wide, no whole number of NVFP4's blocks of 16"},
		{ts(32)[:1], "the checkpoint has none of its targets in floating point"},
	} {
		_, err := Builtin("moe-nvfp4", resolve(t, towersConfig, c.tensors))
		if !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestFromTargets(t *testing.T) {
	m := resolve(t, moeConfig, moe("BF16"))
	for _, targets := range []string{"", "*", "*.q_proj,*.mlp.*", "re:.*up_proj", "lm_head", "*.gate"} {
		s, err := Select(m, targets)
		if err != nil {
			t.Fatal(err)
		}
		f, err := FromTargets(m, targets, "nvfp4", []string{"mse"})
		if err != nil {
			t.Fatal(err)
		}
		if f.Name != "nvfp4+mse" {
			t.Error(f.Name)
		}
		r, err := f.Resolve(m.Matrices)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for k, g := range r.Group {
			if g == 0 {
				got = append(got, m.Matrices[k].Name)
			}
		}
		if !slices.Equal(got, names(s)) {
			t.Errorf("%q: %v, Select takes %v", targets, got, names(s))
		}
	}
	var none *NoMatchError
	if _, err := FromTargets(m, "nothing", "nvfp4", nil); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
}

func TestWithSource(t *testing.T) {
	group := "groups:\n  - scheme: nvfp4 # why\n    targets: ['*']\n"
	for _, c := range []struct{ text, want string }{
		{group, "source: ab12\n" + group},
		{"# head\n\n# more\nname: x\n" + group, "# head\n\n# more\nsource: ab12\nname: x\n" + group},
		{"---\nname: x\n" + group, "---\nsource: ab12\nname: x\n" + group},
		{"source: other\n" + group, "source: other\n" + group},
		{"{groups: [{scheme: nvfp4, targets: ['*']}]}\n", "{groups: [{scheme: nvfp4, targets: ['*']}]}\n"},
	} {
		got, err := WithSource([]byte(c.text), "ab12")
		if err != nil || string(got) != c.want {
			t.Errorf("%s%v", got, err)
		}
		if _, err := ParseFile(got, "r", nil); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	if _, err := WithSource([]byte("groups: 3\n"), "ab12"); !errors.Is(err, ErrFile) {
		t.Errorf("%v", err)
	}
}

// The part that every match holds is only for speed: what an expression matches stays.
func TestLiteralPart(t *testing.T) {
	for _, c := range []struct{ expr, part string }{
		{`.*\.mlp\.gate$`, ".mlp.gate"},
		{`model\.layers\.\d+\.mlp\.experts\.`, ".mlp.experts."},
		{`(?i).*LM_HEAD`, ""},
		{`a|b`, ""},
		{`(?:abc)?x`, "x"},
		{`abc`, "abc"},
		{`.*`, ""},
	} {
		if got := literalPart(c.expr); got != c.part {
			t.Errorf("%s: %q, want %q", c.expr, got, c.part)
		}
	}
	m, err := ParseTarget("re:.*(?i)LM_HEAD")
	if err != nil || !m.Match("model.lm_head") {
		t.Errorf("%v", err)
	}
}
