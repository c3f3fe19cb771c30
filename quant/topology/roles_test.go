package topology

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// roleTable is one line for each kind of name, with the numbers of layers and
// experts taken out of it.
func roleTable(m *Model) string {
	type row struct{ text string }
	rows, counts := []row{}, map[string]int{}
	for i, role := range m.Roles {
		var segs []string
		for seg := range strings.SplitSeq(m.Tensors[i].Name, ".") {
			if _, ok := number(seg, maxLayers); ok {
				seg = "N"
			}
			segs = append(segs, seg)
		}
		in := "outside"
		switch {
		case role.Layer >= 0 && role.MTP:
			in = "mtp layer"
		case role.Layer >= 0:
			in = "layer"
		case role.MTP:
			in = "mtp"
		}
		if role.Expert >= 0 {
			in += ", one expert"
		}
		text := fmt.Sprintf("%-72s %-13s %-26s %-24s %s", strings.Join(segs, "."), role.Kind, cmp.Or(role.Projection, "-"), role.Param, in)
		if counts[text] == 0 {
			rows = append(rows, row{text: text})
		}
		counts[text]++
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.text, b.text) })
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%4d %s\n", counts[r.text], r.text)
	}
	return b.String()
}

func TestRoleTables(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			m := resolveFixture(t, name)
			got := m.Summary + "\n" + roleTable(m)
			path := filepath.Join("testdata", name+".roles")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v (go test ./quant/topology -update writes it)", err)
			}
			if diff := gocmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every tensor of every model that transformers wrote has a role, every fused
// tensor a layout, and the counts are those of the config.
func TestModels(t *testing.T) {
	type counts struct{ layers, mtp, moe, mtpMoE, experts, matrices, shared int }
	tests := map[string]struct {
		counts
		tied, head bool
		findings   int
	}{
		"demo":               {counts{5, 1, 4, 1, 16, 5 * 16 * 3, 1}, false, true, 0},
		"deepseek_v2":        {counts{2, 0, 1, 0, 8, 8 * 3, 2}, false, true, 0},
		"deepseek_v3":        {counts{2, 0, 1, 0, 8, 8 * 3, 1}, false, true, 1}, // MTP declared, not stored
		"deepseek_v3_mtp":    {counts{2, 1, 1, 1, 8, 2 * 8 * 3, 1}, false, true, 0},
		"deepseek_v4":        {counts{3, 0, 3, 0, 4, 3 * 4 * 3, 1}, false, true, 1}, // the same
		"gemma3_text":        {counts{3, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"gemma4_moe":         {counts{3, 0, 3, 0, 5, 3 * 5 * 3, 0}, true, false, 0},
		"gemma4_ple":         {counts{4, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"glm4_moe":           {counts{3, 0, 2, 0, 8, 2 * 8 * 3, 1}, false, true, 0},
		"glm4_moe_group2":    {counts{2, 0, 1, 0, 8, 8 * 3, 2}, false, true, 0},
		"glm4_moe_mtp":       {counts{2, 1, 1, 1, 6, 2 * 6 * 3, 1}, false, true, 0},
		"gpt_oss":            {counts{2, 0, 2, 0, 4, 2 * 4 * 3, 0}, false, true, 0},
		"llama_rope_dynamic": {counts{2, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"llama_rope_linear":  {counts{2, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"llama_rope_llama3":  {counts{2, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"llama_rope_yarn":    {counts{2, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"llama_tied":         {counts{2, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"llama_untied":       {counts{3, 0, 0, 0, 0, 0, 0}, false, true, 0},
		"mixtral":            {counts{2, 0, 2, 0, 4, 2 * 4 * 3, 0}, false, true, 0},
		"qwen2":              {counts{2, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"qwen3":              {counts{2, 0, 0, 0, 0, 0, 0}, false, true, 0},
		"qwen3_5":            {counts{4, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"qwen3_5_moe":        {counts{4, 0, 4, 0, 4, 4 * 4 * 3, 1}, false, true, 0},
		"qwen3_moe":          {counts{2, 0, 2, 0, 8, 2 * 8 * 3, 0}, false, true, 0},
		"qwen3_next":         {counts{4, 0, 4, 0, 4, 4 * 4 * 3, 1}, false, true, 0},
		"step3p7":            {counts{3, 0, 2, 0, 6, 2 * 6 * 3, 1}, false, true, 0},

		// As they are released: towers, MTP layers, the configs' own spelling.
		"deepseek_v4_release":      {counts{3, 1, 3, 1, 4, 4 * 4 * 3, 1}, false, true, 0},
		"deepseek_v4_transformers": {counts{3, 0, 3, 0, 4, 3 * 4 * 3, 1}, false, true, 1}, // MTP declared, not stored
		"gemma4_moe_release":       {counts{3, 0, 3, 0, 5, 3 * 5 * 3, 0}, true, false, 0},
		"gemma4_ple_release":       {counts{4, 0, 0, 0, 0, 0, 0}, true, false, 0},
		"qwen3_5_moe_release":      {counts{4, 1, 4, 1, 4, 5 * 4 * 3, 1}, false, true, 0},
		"qwen3_5_release":          {counts{4, 1, 0, 0, 0, 0, 0}, true, false, 0},
		"qwen3_next_release":       {counts{4, 1, 4, 1, 4, 5 * 4 * 3, 1}, false, true, 0},
		"step3p7_release":          {counts{3, 3, 2, 0, 6, 2 * 6 * 3, 1}, false, true, 0},
	}
	for _, name := range fixtures(t) {
		if strings.HasPrefix(name, "case_") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want, ok := tests[name]
			if !ok {
				t.Fatal("no expectation for this fixture")
			}
			m := resolveFixture(t, name)
			got := counts{m.Layers, m.MTPLayers, m.ExpertLayers, m.MTPExpertLayers, m.Experts, m.ExpertMatrices, m.SharedExperts}
			if got != want.counts {
				t.Errorf("counts %+v, want %+v", got, want.counts)
			}
			if m.Tied != want.tied || m.HeadStored != want.head {
				t.Errorf("tied %t, head %t; want %t, %t", m.Tied, m.HeadStored, want.tied, want.head)
			}
			if len(m.Unknown)+len(m.Unresolved) > 0 {
				t.Errorf("unknown %v, unresolved %v", m.Unknown, m.Unresolved)
			}
			if len(m.Findings) != want.findings {
				t.Errorf("findings %q, want %d", m.Findings, want.findings)
			}
			// All but one are bf16, so each expert matrix can be worked on.
			if name == "deepseek_v4_release" {
				want.matrices = 0
			}
			if n := countKind(m, Expert); n != want.matrices {
				t.Errorf("%d matrices of experts, want %d", n, want.matrices)
			}
		})
	}
}

func countKind(m *Model, k Kind) int {
	n := 0
	for i := range m.Matrices {
		if m.Matrices[i].Role.Kind == k {
			n++
		}
	}
	return n
}

// The config of a release and the one that transformers writes name the same
// things differently.
func TestHubConfigs(t *testing.T) {
	seen := 0
	for _, name := range fixtures(t) {
		f, tensors := load(t, name)
		if f.Hub == nil {
			continue
		}
		seen++
		ours := resolveFixture(t, name)
		hub, err := FromConfig(f.Hub, tensors)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(ours.Roles, hub.Roles); diff != "" {
			t.Errorf("%s: roles: %s", name, diff)
		}
		if diff := gocmp.Diff(ours.Matrices, hub.Matrices); diff != "" {
			t.Errorf("%s: matrices: %s", name, diff)
		}
		if ours.Summary != hub.Summary || ours.ActiveParams != hub.ActiveParams {
			t.Errorf("%s: %s (%d), from the release %s (%d)", name, ours.Summary, ours.ActiveParams, hub.Summary, hub.ActiveParams)
		}
		for l := range ours.Layers {
			a, aok := ours.Config.MoELayer(l)
			b, bok := hub.Config.MoELayer(l)
			if aok && bok && a != b {
				t.Errorf("%s: layer %d is MoE: %t, from the release %t", name, l, a, b)
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d fixtures have a released config, want 3", seen)
	}
}

// Roles of layouts that no fixture has, from the releases of these families.
func TestOtherNames(t *testing.T) {
	type row struct {
		name string
		want Role
	}
	at := func(k Kind, layer, expert int, proj, param string, mtp bool) Role {
		return Role{Kind: k, Layer: layer, Expert: expert, Projection: proj, Param: param, MTP: mtp}
	}
	tests := map[string][]row{
		`{"model_type":"step3p5","num_hidden_layers":2,"num_nextn_predict_layers":1}`: {
			{"model.layers.1.moe.gate", at(Router, 1, -1, "", "weight", false)},
			{"model.layers.1.moe.router_bias", at(Router, 1, -1, "", "router_bias", false)},
			{"model.layers.1.moe.up_proj", at(Expert, 1, -1, "up", "weight", false)},
			{"model.layers.2.transformer.shared_head.norm.weight", at(MTPExtra, 2, -1, "shared_head.norm", "weight", true)},
			{"model.layers.2.transformer.shared_head.output.weight", at(MTPExtra, 2, -1, "shared_head.head", "weight", true)},
			{"model.layers.2.self_attn.q_proj.weight", at(Attention, 2, -1, "q", "weight", true)},
		},
		`{"model_type":"qwen3_next","num_hidden_layers":4,"num_nextn_predict_layers":1}`: {
			{"model.layers.3.mlp.experts.7.up_proj.weight_scale_2", at(Expert, 3, 7, "up", "weight_scale_2", false)},
			{"mtp.fc.weight", at(MTPExtra, -1, -1, "fc", "weight", true)},
			{"mtp.pre_fc_norm_hidden.weight", at(MTPExtra, -1, -1, "pre_fc_norm_hidden", "weight", true)},
			{"mtp.norm.weight", at(MTPExtra, -1, -1, "norm", "weight", true)},
			{"mtp.layers.0.mlp.experts.3.down_proj.weight", at(Expert, 4, 3, "down", "weight", true)},
			{"mtp.layers.0.mlp.shared_expert_gate.weight", at(Router, 4, -1, "shared_gate", "weight", true)},
		},
		`{"model_type":"deepseek_v4","num_hidden_layers":3}`: {
			{"mtp.0.e_proj.weight", at(MTPExtra, 3, -1, "e_proj", "weight", true)},
			{"mtp.0.norm.weight", at(MTPExtra, 3, -1, "norm", "weight", true)},
			{"mtp.0.hc_head_fn", at(Mixing, 3, -1, "hc_head_fn", "weight", true)},
			{"mtp.0.ffn.experts.9.w1.weight", at(Expert, 3, 9, "gate", "weight", true)},
			{"layers.2.ffn.experts.9.w3.scale", at(Expert, 2, 9, "up", "scale", false)},
		},
		`{"model_type":"gpt_oss","num_hidden_layers":1}`: {
			{"model.layers.0.mlp.experts.gate_up_proj_blocks", at(Expert, 0, -1, "gate_up", "blocks", false)},
			{"model.layers.0.mlp.experts.gate_up_proj_scales", at(Expert, 0, -1, "gate_up", "scales", false)},
			{"model.layers.0.mlp.experts.down_proj_bias", at(Expert, 0, -1, "down", "bias", false)},
			{"model.layers.0.mlp.router.bias", at(Router, 0, -1, "", "bias", false)},
		},
		`{"model_type":"llama4","text_config":{"model_type":"llama4_text","num_hidden_layers":1}}`: {
			{"language_model.model.layers.0.feed_forward.experts.gate_up_proj_weight_scale", at(Expert, 0, -1, "gate_up", "weight_scale", false)},
			{"language_model.model.layers.0.feed_forward.shared_expert.down_proj.weight", at(SharedExpert, 0, -1, "down", "weight", false)},
			{"language_model.lm_head.weight", at(Head, -1, -1, "", "weight", false)},
			{"vision_model.model.layers.0.self_attn.q_proj.weight", at(Vision, -1, -1, "", "weight", false)},
			{"multi_modal_projector.linear_1.weight", at(Vision, -1, -1, "", "weight", false)},
		},
		`{"model_type":"glm4_moe","num_hidden_layers":3,"num_nextn_predict_layers":1}`: {
			{"model.layers.2.self_attn.k_proj.k_scale", at(Attention, 2, -1, "k", "k_scale", false)},
			{"model.layers.2.self_attn.v_scale", at(Attention, 2, -1, "v", "v_scale", false)},
			{"model.layers.2.mlp.gate_up_proj.weight_packed", at(MLP, 2, -1, "gate_up", "weight_packed", false)},
			{"model.layers.2.self_attn.qkv_proj.weight_global_scale", at(Attention, 2, -1, "qkv", "weight_global_scale", false)},
		},
		`{"model_type":"ernie4_5_moe","num_hidden_layers":2,"num_nextn_predict_layers":1}`: {
			{"model.mtp_block.0.mlp.up_proj.weight", at(MLP, 2, -1, "up", "weight", true)},
			{"model.mtp_linear_proj.0.weight", at(MTPExtra, 2, -1, "eh_proj", "weight", true)},
			{"model.layers.1.mlp.moe_statics.e_score_correction_bias", at(Router, 1, -1, "", "e_score_correction_bias", false)},
		},
		`{"model_type":"qwen","num_hidden_layers":1}`: {
			{"transformer.h.0.attn.c_attn.weight", at(Attention, 0, -1, "qkv", "weight", false)},
			{"transformer.h.0.mlp.w2.weight", at(MLP, 0, -1, "gate", "weight", false)},
			{"transformer.wte.weight", at(Embedding, -1, -1, "", "weight", false)},
		},
		`{"model_type":"internlm2","num_hidden_layers":1}`: {
			{"model.layers.0.attention.wqkv.weight", at(Attention, 0, -1, "qkv", "weight", false)},
			{"model.layers.0.feed_forward.w2.weight", at(MLP, 0, -1, "down", "weight", false)},
			{"model.tok_embeddings.weight", at(Embedding, -1, -1, "", "weight", false)},
			{"output.weight", at(Head, -1, -1, "", "weight", false)},
		},
		``: {
			{"gpt_neox.layers.4.attention.query_key_value.weight", at(Attention, 4, -1, "qkv", "weight", false)},
			{"gpt_neox.layers.4.mlp.dense_4h_to_h.bias", at(MLP, 4, -1, "down", "bias", false)},
			{"transformer.blocks.3.attn.Wqkv.weight", at(Attention, 3, -1, "qkv", "weight", false)},
			{"model.layers.0.mlp.up_proj.weight.absmax", at(MLP, 0, -1, "up", "weight.absmax", false)},
			{"model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4", at(MLP, 0, -1, "up", "weight.quant_state", false)},
			{"model.layers.5.eh_proj.weight", at(MTPExtra, 5, -1, "eh_proj", "weight", true)},
			{"model.layers.5.mlp.up_proj.weight", at(MLP, 5, -1, "up", "weight", true)},
		},
	}
	for _, config := range slices.Sorted(maps.Keys(tests)) {
		var tensors []Named
		for _, r := range tests[config] {
			tensors = append(tensors, Named{r.name, "BF16", []int64{8}})
		}
		m, err := FromConfig([]byte(config), tensors)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range tests[config] {
			if m.Roles[i] != r.want {
				t.Errorf("%s: %+v, want %+v", r.name, m.Roles[i], r.want)
			}
		}
	}
}

func TestKindText(t *testing.T) {
	for k := Unknown; k <= Mixing; k++ {
		text, err := k.MarshalText()
		if err != nil || string(text) != k.String() {
			t.Fatalf("%d: %s, %v", k, text, err)
		}
		var back Kind
		if err := back.UnmarshalText(text); err != nil || back != k {
			t.Errorf("%s reads as %v, %v", text, back, err)
		}
	}
	var k Kind
	if err := k.UnmarshalText([]byte("experts")); err == nil || !strings.Contains(err.Error(), "shared_expert") {
		t.Errorf("an unknown kind must list the known ones: %v", err)
	}
	if _, err := Kind(200).MarshalText(); err == nil || Kind(200).String() != "kind(200)" {
		t.Error("a kind without a name must not be written")
	}
}
