package export

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func textOf(p *Plan, name string) []byte {
	for _, x := range p.Texts {
		if x.Name == name {
			return x.Data
		}
	}
	return nil
}

// What the configs of every layout say, to the byte.
func TestConfigGolden(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	for _, c := range []struct{ layout, format, targets string }{
		{ModelOpt, "nvfp4", ""}, {ModelOpt, "fp8", "model.layers.0.*proj.weight"}, {ModelOpt, "fp8-channel", "model.layers.1.*"},
		{CompressedTensors, "nvfp4", ""}, {CompressedTensors, "mxfp4", ""}, {CompressedTensors, "fp8", ""}, {CompressedTensors, "fp8-channel", ""},
		{CompressedTensors, "fp8-block128", ""}, {CompressedTensors, "int4-g32", ""}, {CompressedTensors, "int4-channel-sym", ""},
		{Own, "int4-g64", ""}, {Own, "int4-channel", ""},
	} {
		p := planOf(t, ck, model, c.targets, c.layout, c.format)
		name := c.layout + "-" + c.format
		var config struct {
			Quantization json.RawMessage `json:"quantization_config"`
		}
		if err := json.Unmarshal(textOf(p, configName), &config); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(config.Quantization, '\n'))
		if hf := textOf(p, modelOptName); hf != nil {
			golden(t, name+"."+modelOptName, hf)
		} else if c.layout == ModelOpt {
			t.Errorf("%s: no %s", name, modelOptName)
		}
	}
	p := planOf(t, ck, model, "", CompressedTensors, "nvfp4")
	golden(t, configName, textOf(p, configName))
	golden(t, indexName, textOf(p, indexName))
}

// A config keeps every byte but for the new member; one file needs no index.
func TestConfigKept(t *testing.T) {
	s := dense()
	ck, model := openModel(t, s.write(t))
	p := planOf(t, ck, model, "", CompressedTensors, "nvfp4")
	config := string(textOf(p, configName))
	if !strings.HasPrefix(config, strings.TrimSuffix(s.config, "}")+`, "quantization_config": {`) || !strings.HasSuffix(config, "}}") {
		t.Errorf("%s", config)
	}
	if textOf(p, indexName) != nil {
		t.Error("an index of one file")
	}
	var names []string
	for _, f := range p.Side {
		names = append(names, f.Name)
	}
	if want := []string{"LICENSE", "chat_template.jinja", "generation_config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"}; !cmp.Equal(names, want) {
		t.Errorf("side files %v", names)
	}
	if !strings.Contains(config, `"lm_head"`) {
		t.Error("the tied head is not in the list of exceptions")
	}
}

// covered says whether a list of exceptions matches a module, as servers read
// it: names and wildcards, or names and expressions.
func covered(list []string, module string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		if expr, ok := strings.CutPrefix(pattern, "re:"); ok {
			return regexp.MustCompile("^(?:" + expr + ")").MatchString(module)
		}
		ok, _ := path.Match(strings.ReplaceAll(pattern, "/", "?"), module)
		return ok || pattern == module
	})
}

// Every linear module that is not quantized is in the list of exceptions, no
// quantized one is, and each entry matches something.
func TestIgnore(t *testing.T) {
	for name, s := range map[string]synthetic{"dense": dense(), "mixture": mixture(), "fused": fusedOutIn(), "transposed": fusedInOut()} {
		ck, model := openModel(t, s.write(t))
		for _, targets := range []string{"", "re:.*self_attn", "re:.*(self_attn|experts)", "re:.*down_proj", "re:.*layers.0"} {
			sel, err := recipe.Select(model, targets)
			if err != nil {
				continue
			}
			for _, layout := range []string{ModelOpt, CompressedTensors} {
				conv, _ := DefaultConvention(layout, "nvfp4")
				p, err := NewPlan(ck, model, sel.Matrices, variantOf("nvfp4", conv), Settings{Layout: layout})
				if err != nil {
					if !errors.Is(err, ErrMatrix) { // a part of fused experts
						t.Errorf("%s %s: %v", name, targets, err)
					}
					continue
				}
				var config struct {
					Quantization struct {
						Ignore []string `json:"ignore"`
					} `json:"quantization_config"`
				}
				if err := json.Unmarshal([]byte(strings.ReplaceAll(string(textOf(p, configName)), "NaN", "0")), &config); err != nil {
					t.Fatal(err)
				}
				list := config.Quantization.Ignore
				for _, m := range p.Modules {
					if covered(list, m) {
						t.Errorf("%s %s %s: %s is quantized and in the list %v", name, targets, layout, m, list)
					}
				}
				modules := []string{"lm_head"}
				for i := range model.Tensors {
					x, role := &model.Tensors[i], &model.Roles[i]
					if slices.ContainsFunc(p.Matrices, func(m topology.Matrix) bool { return m.Tensor == x.Name }) || len(x.Shape) < 2 || role.Kind == topology.Embedding {
						continue
					}
					if isStacked(role) {
						modules = append(modules, expertsOf(x.Name), expertsOf(x.Name)+".0.gate_proj")
						continue
					}
					modules = append(modules, strings.TrimSuffix(x.Name, ".weight"))
				}
				for _, m := range modules {
					if !covered(list, m) && !(layout == ModelOpt && strings.HasSuffix(m, ".0.gate_proj")) {
						t.Errorf("%s %s %s: %s is not in the list %v", name, targets, layout, m, list)
					}
				}
				for _, pattern := range list {
					if !slices.ContainsFunc(modules, func(m string) bool { return covered([]string{pattern}, m) }) {
						t.Errorf("%s %s %s: %s matches nothing", name, targets, layout, pattern)
					}
				}
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	fusedCk, fusedModel := openModel(t, fusedOutIn().write(t))
	sel, err := recipe.Select(model, "")
	if err != nil {
		t.Fatal(err)
	}
	all, err := recipe.Select(fusedModel, "")
	if err != nil {
		t.Fatal(err)
	}
	quantized := *model
	quantized.Config.QuantMethod = "gptq"
	foreign := slices.Clone(sel.Matrices)
	foreign[0].Name = "nobody"
	for _, c := range []struct {
		what    string
		plan    func() (*Plan, error)
		reason  error
		mention []string
	}{
		{"layout", func() (*Plan, error) {
			return NewPlan(ck, model, sel.Matrices, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: "gguf"})
		}, ErrUnknown, []string{`"gguf"`, "modelopt, compressed-tensors, quantscope"}},
		{"scheme", func() (*Plan, error) {
			return NewPlan(ck, model, sel.Matrices, variantOf("mxfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrLayout, []string{"mxfp4", "nvfp4, fp8, fp8-channel, fp8-block128", "available as compressed-tensors"}},
		{"convention", func() (*Plan, error) {
			return NewPlan(ck, model, sel.Matrices, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: CompressedTensors})
		}, ErrLayout, []string{"modelopt", "ct32, ct"}},
		{"columns", func() (*Plan, error) {
			return NewPlan(ck, model, sel.Matrices, variantOf("int4-g128", kernels.CT), Settings{Layout: CompressedTensors})
		}, ErrMatrix, []string{"model.layers.1.mlp.experts.0.", "[32 64]", "64 inputs are no multiple of 128"}},
		{"rows", func() (*Plan, error) {
			return NewPlan(ck, model, sel.Matrices, variantOf("fp8-block128", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrMatrix, []string{"no multiple of 128"}},
		{"quantized", func() (*Plan, error) {
			return NewPlan(ck, &quantized, sel.Matrices, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrSource, []string{ck.Path, "gptq"}},
		{"nothing", func() (*Plan, error) {
			return NewPlan(ck, model, nil, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrMatrix, []string{"nothing"}},
		{"foreign", func() (*Plan, error) {
			return NewPlan(ck, model, foreign, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrMatrix, []string{`"nobody"`}},
		{"twice", func() (*Plan, error) {
			return NewPlan(ck, model, append(slices.Clone(sel.Matrices), sel.Matrices[0]), variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrMatrix, []string{"twice"}},
		{"part of a fused tensor", func() (*Plan, error) {
			return NewPlan(fusedCk, fusedModel, all.Matrices[1:], variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrMatrix, []string{all.Matrices[0].Tensor, "target all or none"}},
		{"one of two fused tensors", func() (*Plan, error) {
			only := slices.DeleteFunc(slices.Clone(all.Matrices), func(m topology.Matrix) bool { return m.Role.Projection == "down" })
			return NewPlan(fusedCk, fusedModel, only, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		}, ErrMatrix, []string{"experts.down_proj", "target all or none"}},
		{"variant", func() (*Plan, error) {
			return NewPlan(ck, model, sel.Matrices, method.Variant{}, Settings{Layout: ModelOpt})
		}, ErrLayout, []string{"modelopt"}},
	} {
		_, err := c.plan()
		if !errors.Is(err, c.reason) {
			t.Errorf("%s: %v, want %v", c.what, err, c.reason)
			continue
		}
		for _, m := range c.mention {
			if !strings.Contains(err.Error(), m) {
				t.Errorf("%s: %q does not mention %q", c.what, err, m)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than a line: %q", c.what, err)
		}
	}
}

// Experts with biases in one tensor, weights that stand [in, out], names that are
// taken, and names that a config would read as patterns cannot be said.
func TestRefusedTensors(t *testing.T) {
	withBias := fusedOutIn()
	withBias.shards[0] = append(withBias.shards[0], shape{"model.language_model.layers.0.mlp.experts.gate_up_proj_bias", []int64{3, 32}})
	taken := mixture()
	taken.shards[2] = append(taken.shards[2], shape{"model.layers.1.mlp.experts.0.gate_proj.weight_scale", []int64{2}})
	conv1D := synthetic{
		config: `{"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2}`,
		shards: [][]shape{{{"transformer.wte.weight", []int64{16, 32}}, {"transformer.h.0.attn.c_attn.weight", []int64{32, 96}}, {"transformer.h.0.mlp.c_fc.weight", []int64{32, 128}}}},
	}
	expression, wildcard := mixture(), mixture()
	expression.shards[0] = append(expression.shards[0], shape{"re:extra.weight", []int64{4, 64}})
	wildcard.shards[0] = append(wildcard.shards[0], shape{"extra[0].weight", []int64{4, 64}})
	for name, c := range map[string]struct {
		s       synthetic
		mention string
	}{"expression": {expression, `"re:extra.weight"`}, "wildcard": {wildcard, `"extra[0].weight"`}, "bias": {withBias, "gate_up_proj_bias"}, "conv1D": {conv1D, "[in, out]"}, "name": {taken, "experts.0.gate_proj.weight_scale"}} {
		ck, model := openModel(t, c.s.write(t))
		sel, err := recipe.Select(model, "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = NewPlan(ck, model, sel.Matrices, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
		if !errors.Is(err, ErrMatrix) || !strings.Contains(err.Error(), c.mention) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExpertsOf(t *testing.T) {
	for tensor, want := range map[string]string{
		"model.layers.0.mlp.experts.gate_up_proj":             "model.layers.0.mlp.experts",
		"model.layers.0.mlp.experts.down_proj.weight":         "model.layers.0.mlp.experts",
		"model.layers.3.moe.gate_proj.weight":                 "model.layers.3.moe.experts",
		"model.layers.3.block_sparse_moe.input_linear.weight": "model.layers.3.block_sparse_moe.experts",
		"experts.down_proj":                                   "experts",
	} {
		if got := expertsOf(tensor); got != want {
			t.Errorf("%s: %s, want %s", tensor, got, want)
		}
	}
}

// Matrices that a server fuses share a global scale, and only those.
func TestSharedGroups(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", ModelOpt, "nvfp4")
	var got []string
	in := map[int]bool{}
	for _, g := range p.Groups() {
		var names []string
		for _, i := range g {
			if in[i] {
				t.Errorf("%s is in two groups", p.Modules[i])
			}
			in[i] = true
			names = append(names, strings.TrimPrefix(p.Modules[i], "model.layers."))
		}
		slices.Sort(names)
		got = append(got, strings.Join(names, " "))
	}
	var want []string
	for _, m := range []string{"0.mlp", "1.mlp.experts.0", "1.mlp.experts.1", "1.mlp.shared_experts", "2.mlp.experts.0", "2.mlp.experts.1", "2.mlp.shared_experts"} {
		want = append(want, m+".gate_proj "+m+".up_proj")
	}
	for _, l := range []string{"0", "1", "2"} {
		want = append(want, l+".self_attn.k_proj "+l+".self_attn.q_proj "+l+".self_attn.v_proj")
	}
	slices.Sort(got)
	if slices.Sort(want); !cmp.Equal(got, want) {
		t.Errorf("%s", cmp.Diff(want, got))
	}
	if one := planOf(t, ck, model, "re:.*k_proj", ModelOpt, "nvfp4"); len(one.Groups()) != 0 || len(one.Notes) != 1 || !strings.Contains(one.Notes[0], "3 groups") {
		t.Errorf("groups %v, notes %q", one.Groups(), one.Notes)
	}
	if fp8 := planOf(t, ck, model, "", ModelOpt, "fp8"); fp8.Groups() != nil {
		t.Errorf("fp8 shares %v", fp8.Groups())
	}
}

// The scale of a group is what a pass over its largest matrix stores.
func TestGlobalScale(t *testing.T) {
	for _, c := range []struct {
		spec kernels.Spec
		amax float32
		want float32
	}{
		{kernels.Spec{Format: "nvfp4", Convention: kernels.ModelOpt}, 2688, 1},
		{kernels.Spec{Format: "nvfp4", Convention: kernels.CT32}, 1344, 2},
		{kernels.Spec{Format: "nvfp4", Convention: kernels.CT}, 1344, 2},
		{kernels.Spec{Format: "nvfp4", Convention: kernels.ModelOpt, Method: "4over6"}, 1536, 1},
		{kernels.Spec{Format: "nvfp4", Convention: kernels.ModelOpt, Global: 7}, 2688, 1},
		{kernels.Spec{Format: "int4-g128", Convention: kernels.Own}, 3, 0},
	} {
		if got, err := GlobalScale(c.spec, c.amax); err != nil || got != c.want {
			t.Errorf("%+v of %v: %v, %v, want %v", c.spec, c.amax, got, err, c.want)
		}
	}
}
