package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantscope/quant/recipe"
	"quantscope/quant/topology/topologytest"
)

// Each recipe is wrong in one way, and is good without it.
func TestBrokenRecipes(t *testing.T) {
	_, m := openDemo(t)
	const experts = "groups:\n  - scheme: nvfp4\n    targets:\n      - '*.layers.[1-4].mlp.experts.*'\n"
	if p := resolved(t, m, parse(t, experts), Options{}); len(p.Findings) != 0 {
		t.Fatalf("the good one: %+v", p.Findings)
	}
	for _, c := range []struct {
		name, text string
		o          Options
		id         string
		severity   Severity
		where      string
		parts      []string // of the message
	}{
		{"overlap", experts + "  - {scheme: fp8, targets: ['*.layers.4.mlp.experts.3.*']}\n", Options{}, Overlap, Error, "groups[0], groups[1]",
			[]string{"groups 1 (nvfp4) and 2 (fp8) both match model.layers.4.mlp.experts.3.down_proj.weight and 2 more"}},
		{"one layer less", "groups:\n  - {scheme: nvfp4, targets: ['*.layers.[1-3].mlp.experts.*']}\n", Options{}, ExpertCount, Error, "",
			[]string{"144 of 192", "4 layers × 16 experts × 3 projections", "48 are in no group: layer 4: all 48"}},
		{"one expert less", "groups:\n  - {scheme: nvfp4, targets: ['re:.*layers\\.[1-4]\\.mlp\\.experts\\.(?:[0-9]|1[0-4])\\.']}\n", Options{}, ExpertCount, Error, "",
			[]string{"180 of 192", "layer 1: 3 of 48, the first model.layers.1.mlp.experts.15.down_proj.weight"}},
		{"a part of the MTP layer", experts + "      - '*.layers.5.mlp.experts.0.*'\n", Options{}, ExpertCount, Error, "",
			[]string{"195 of 240", "and 1 MTP layer like them", "MTP layer 5: 45 of 48"}},
		{"MTP", experts + "      - '*.layers.5.mlp.experts.*'\n", Options{}, MTPTargeted, Warning, "groups[0].targets[1]", []string{"and 47 more"}},
		{"MTP joint", experts + "      - '*.eh_proj'\n", Options{}, MTPJoint, Error, "groups[0].targets[1]", []string{"model.layers.5.eh_proj.weight"}},
		{"router", experts + "      - '*.layers.[1-4].mlp.gate'\n", Options{}, RouterTargeted, Error, "groups[0].targets[1]", []string{"a router: model.layers.1.mlp.gate.weight, and 3 more"}},
		{"embedding", experts + "      - '*embed_tokens*'\n", Options{}, EmbedTargeted, Error, "groups[0].targets[1]", []string{"an embedding: model.embed_tokens.weight, and 1 more"}},
		{"head among others", experts + "      - 're:(?:lm_head|model\\.layers\\.0\\.mlp)'\n", Options{}, HeadTargeted, Warning, "groups[0].targets[1]", []string{"lm_head.weight"}},
		{"no match", experts + "      - '*.expert.*.up_proj'\n", Options{}, TargetNoMatch, Error, "groups[0].targets[1]", []string{"matches no matrix; nearest: model.layers."}},
		{"a vector", experts + "      - '*.input_layernorm'\n", Options{}, TargetNoMatch, Error, "groups[0].targets[1]", []string{"of tensors it matches model.layers.0.input_layernorm.weight, a vector, and 5 more"}},
		{"ignore", experts + "ignore: ['*.mlp.gates']\n", Options{}, IgnoreNoMatch, Error, "ignore[0]", []string{`"*.mlp.gates" matches no matrix, tensor or module`, "nearest"}},
		{"exemption", experts + "exemptions: ['*.q_proj']\n", Options{}, ExemptionNoUse, Error, "exemptions[0]", []string{"takes nothing out of a group (it matches 6 matrices)"}},
		{"an empty group", experts + "  - {scheme: fp8, targets: ['*.q_proj']}\nignore: ['*.self_attn.*']\n", Options{}, GroupEmpty, Warning, "groups[1]", []string{"fp8 stores nothing"}},
		{"nothing", experts + "ignore: ['*']\n", Options{}, NothingTargeted, Error, "", nil},
		{"q and k apart", experts + "  - {scheme: fp8, targets: ['*.layers.[0-4].self_attn.q_proj']}\n  - {scheme: fp8-channel, targets: ['*.layers.[0-4].self_attn.[kv]_proj']}\n", Options{}, ServerSplit, Error, "",
			[]string{"model.layers.0.self_attn.", "(5 groups like this)"}},
		{"k kept", experts + "  - {scheme: fp8, targets: ['*.layers.[0-4].self_attn.[qv]_proj']}\n", Options{}, ServerKept, Warning, "", []string{"model.layers.0.self_attn.k_proj.weight is kept as it is"}},
		{"an expert kept", experts + "exemptions: ['*.layers.2.mlp.experts.7.*']\n", Options{}, ExpertsSplit, Warning, "", []string{"of 1 layer, the first layer 2,"}},
		{"scheme", experts, Options{Layout: "quantscope"}, LayoutScheme, Error, "groups[0]", []string{"layout quantscope cannot say nvfp4"}},
		{"mixture", "groups:\n  - {scheme: int4-g128, targets: ['*.layers.[12].mlp.experts.*']}\n  - {scheme: int4-g64, targets: ['*.layers.[34].mlp.experts.*']}\n", Options{Layout: "quantscope"}, LayoutMixed, Error, "", []string{"int4-g128, int4-g64"}},
		{"other source", "source: '0123'\n" + experts, Options{}, "", "", "", nil}, // of no identity nothing can be said
	} {
		p := resolved(t, m, parse(t, c.text), c.o)
		f := p.found(c.id)
		switch {
		case c.id == "" && len(p.Findings) > 0:
			t.Errorf("%s: %+v", c.name, p.Findings)
		case c.id == "":
		case f == nil:
			t.Errorf("%s: no %s in %+v", c.name, c.id, p.Findings)
		case f.Severity != c.severity || f.Where != c.where || f.Fix == "":
			t.Errorf("%s: %+v", c.name, f)
		default:
			for _, part := range c.parts {
				if !strings.Contains(f.Message, part) {
					t.Errorf("%s: %q is not in %q", c.name, part, f.Message)
				}
			}
			if c.severity == Error && (p.Err() == nil || !strings.Contains(p.Err().Error(), c.id) && p.Findings[0].ID == c.id) {
				t.Errorf("%s: %v", c.name, p.Err())
			}
			o := c.o
			o.Accept = []string{c.id}
			if a := resolved(t, m, parse(t, c.text), o).found(c.id); a == nil || a.Severity != Warning {
				t.Errorf("%s: accepted, %+v", c.name, a)
			}
		}
	}
}

// Fused experts are targeted whole or not at all, and a recipe for 2-D weights does
// not pass over them in silence.
func TestFusedExperts(t *testing.T) {
	m := topologytest.Model(t, "case_fused_experts") // attention 4·16·16, experts 4·32·16 and 4·16·16
	for _, c := range []struct{ text, id, part string }{
		{"groups:\n  - {scheme: nvfp4, targets: ['*.weight']}\n", FusedMissed, "reaches 25.0 % of the parameters of linear maps; 75.0 % stand in 2 3-D tensors"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*.experts.gate_up_proj']}\n", FusedPartly, "8 of the 12 matrices of model.layers.0.mlp.experts"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*.experts.gate_up_proj[[]?]*', '*.down_proj[[][0-2]]']}\n", FusedPartly, "11 of the 12"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*.experts.*']}\n", "", ""},
		{"groups:\n  - {scheme: nvfp4, targets: ['*.weight']}\nignore: ['*.experts.*']\n", "", ""},
	} {
		p := resolved(t, m, parse(t, c.text), Options{})
		if f := p.found(c.id); c.id != "" && (f == nil || !strings.Contains(f.Message, c.part)) {
			t.Errorf("%s: %+v", c.text, p.Findings)
		}
		if err := p.Err(); (err == nil) != (c.id == "") {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	bias := topologytest.Model(t, "gpt_oss")
	p := resolved(t, bias, parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*.experts.*']}\n"), Options{})
	if f := p.found(FusedBias); f == nil || !strings.HasSuffix(f.Tensor, "_bias") {
		t.Errorf("%+v", p.Findings)
	}
}

// A config that says more experts, or another number of layers, than names do.
func TestStoredExperts(t *testing.T) {
	config := func(layers, dense, experts string) string {
		return `{"model_type":"glm4_moe","hidden_size":64,"num_hidden_layers":` + layers + `,"first_k_dense_replace":` + dense + `,"n_routed_experts":` + experts + `,"num_experts_per_tok":2,"moe_intermediate_size":64,"tie_word_embeddings":true}`
	}
	var s shapes
	for _, l := range []string{"1", "2"} {
		for _, x := range []string{"0", "1"} {
			s.mlp("model.layers."+l+".mlp.experts."+x+".", 64, 64)
		}
	}
	f := parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*.experts.*']}\n")
	for _, c := range []struct{ config, part string }{
		{config("3", "1", "2"), ""},
		{config("4", "1", "2"), "3 layers × 2 experts × 3 projections: layer 3 stores 0 of 6"},
		{config("3", "0", "2"), "layer 0 stores 0 of 6"},
		{config("3", "1", "4"), "2 layers × 4 experts × 3 projections: layer 1 stores 6 of 12; layer 2 stores 6 of 12"},
	} {
		got := resolved(t, s.model(t, c.config), f, Options{}).found(ExpertStored)
		if (got != nil) != (c.part != "") || got != nil && !strings.Contains(got.Message, c.part) {
			t.Errorf("%s: %+v", c.config, got)
		}
	}
}

// What is packed already has no matrix to quantize; what stands beside it has.
func TestQuantizedAlready(t *testing.T) {
	for _, name := range []string{"case_gptq", "case_awq"} {
		if _, err := Resolve(topologytest.Model(t, name), parse(t, "groups:\n  - {scheme: fp8, targets: ['*']}\n"), Options{}); err == nil || !strings.Contains(err.Error(), "no matrix stands in BF16, F16 or F32 (the config says: quantized by ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := topologytest.Model(t, "case_ignore_list")
	p := resolved(t, m, parse(t, "groups:\n  - {scheme: nvfp4, targets: ['mtp.*']}\n"), Options{})
	if p.found(AlreadyQuant) == nil {
		t.Errorf("%+v", p.Findings)
	}
}

// A plan keeps everything but the selection through JSON.
func TestPlanAsJSON(t *testing.T) {
	ck, m := openDemo(t)
	p, err := New(ck, m, parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*.mlp.*', '*.nothing']}\n"), Options{Ranks: 2, KVTokens: 100, Bandwidth: 1e12})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Plan
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	want := *p
	want.Selection, want.Of = nil, nil
	if !reflect.DeepEqual(back, want) {
		t.Errorf("%+v\n%+v", back, want)
	}
	for _, null := range []string{"null", `""`} {
		if null == "null" && strings.Contains(string(text), null) {
			t.Errorf("a list that is not there: %s", text)
		}
	}
	if len(p.Selection) != p.Targeted || len(p.Of) != p.Targeted || p.Targeted+p.Ignored+p.Exempted+p.Untargeted != p.Matrices {
		t.Errorf("%d selected, %d targeted of %d", len(p.Selection), p.Targeted, p.Matrices)
	}
}

// docs/recipes.md lists every kind of finding, every loader's class and every
// built-in recipe.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, k := range Kinds() {
		if !strings.Contains(doc, "| `"+k.ID+"` | "+string(k.Severity)+" | "+k.Help+" |") {
			t.Errorf("%s: %s is not there as it is", k.ID, k.Help)
		}
	}
	for _, name := range append(Loaders(), recipe.Builtins()...) {
		if !strings.Contains(doc, name+"`") {
			t.Errorf("%s is not there", name)
		}
	}
}

// A list that was made for another checkpoint is a finding a pattern, and names of
// what looks like it stand at the first ones: to look for them costs more than all
// the rest.
func TestManyPatternsMatchNothing(t *testing.T) {
	_, m := openDemo(t)
	var b strings.Builder
	b.WriteString("groups:\n  - scheme: nvfp4\n    targets:\n      - '*.layers.[1-4].mlp.experts.*'\n")
	for i := range 3 * maxGuesses {
		fmt.Fprintf(&b, "      - model.layers.%d.mlp.experts.0.up_proj\n", 100+i)
	}
	p := resolved(t, m, parse(t, b.String()), Options{})
	missing, guessed := 0, 0
	for _, f := range p.Findings {
		if f.ID == TargetNoMatch {
			missing++
			if strings.Contains(f.Message, "nearest: ") {
				guessed++
			}
		}
	}
	if missing != 3*maxGuesses || guessed != maxGuesses {
		t.Errorf("%d findings, %d with names", missing, guessed)
	}
}
