package exchange

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/quant/demo"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

func demoModel(t testing.TB) *topology.Model {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	m, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// assigned is an assignment by roles: -1 keeps.
func assigned(m *topology.Model, groups []recipe.Group, of func(r topology.Role) int) *Assignment {
	a := &Assignment{Model: m, Groups: groups}
	for i := range m.Matrices {
		a.Of = append(a.Of, of(m.Matrices[i].Role))
	}
	return a
}

func group(scheme string, methods ...string) recipe.Group {
	return recipe.Group{Scheme: scheme, Methods: methods}
}

// plainly says whether a matrix is one that all tools quantize: of attention and MLPs.
func plainly(r topology.Role) bool {
	switch r.Kind {
	case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert:
		return !r.MTP
	}
	return false
}

// Every format takes what it can say and gives it back; Export itself reads what it
// writes, so these are what must not be refused.
func TestRoundTrip(t *testing.T) {
	m := demoModel(t)
	experts := func(r topology.Role) int {
		if r.Kind == topology.Expert && !r.MTP {
			return 0
		}
		return -1
	}
	mixed := func(r topology.Role) int {
		switch {
		case !plainly(r):
			return -1
		case r.Kind == topology.Attention:
			return 1
		case r.Layer == 4 && r.Kind != topology.Expert:
			return -1
		}
		return 0
	}
	whole := func(r topology.Role) int {
		if plainly(r) {
			return 0
		}
		return -1
	}
	for _, c := range []struct {
		name    string
		groups  []recipe.Group
		of      func(topology.Role) int
		formats []string
	}{
		{"experts nvfp4", []recipe.Group{group("nvfp4")}, experts, []string{"llm-compressor", "compressed-tensors", "modelopt", "tensor-type-file", "autoround", "mlx"}},
		{"nvfp4 and fp8", []recipe.Group{group("nvfp4"), group("fp8-channel")}, mixed, []string{"llm-compressor", "compressed-tensors", "modelopt", "autoround"}},
		{"nvfp4 and int4", []recipe.Group{group("nvfp4"), group("int4-g32")}, mixed, []string{"llm-compressor", "compressed-tensors", "tensor-type-file", "autoround", "mlx"}},
		{"int4 of two groups", []recipe.Group{group("int4-g128-sym", "gptq"), group("int4-g32-sym", "gptq")}, mixed, []string{"llm-compressor", "compressed-tensors", "gptqmodel", "autoround"}},
		{"whole int4", []recipe.Group{group("int4-g128")}, whole, []string{"llm-compressor", "compressed-tensors", "gptqmodel", "autoround", "mlx"}},
		{"fp8 in tiles", []recipe.Group{group("fp8-block128")}, whole, []string{"llm-compressor", "compressed-tensors", "modelopt", "autoround"}},
		{"mxfp4", []recipe.Group{group("mxfp4")}, whole, []string{"llm-compressor", "compressed-tensors", "tensor-type-file", "autoround", "mlx"}},
	} {
		a := assigned(m, c.groups, c.of)
		for _, f := range Formats() {
			doc, err := Export(f.Name, a)
			if !slices.Contains(c.formats, f.Name) {
				if !errors.Is(err, ErrCannot) {
					t.Errorf("%s as %s: %v, want %v", c.name, f.Name, err, ErrCannot)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			got, _, err := Import(f.Name, doc.Data, m)
			if err != nil {
				t.Errorf("%s: %v\n%s", c.name, err, doc.Data)
				continue
			}
			if at, same := a.Same(got); !same {
				t.Errorf("%s as %s: %s differs", c.name, f.Name, at)
			}
			file, err := got.Recipe()
			if err != nil {
				t.Fatal(err)
			}
			res, err := file.Resolve(m.Matrices)
			if err != nil || res.Err() != nil {
				t.Fatalf("%s as %s: recipe: %v %v", c.name, f.Name, err, res.Err())
			}
			for i := range m.Matrices {
				want, is := a.scheme(i), ""
				if res.Group[i] >= 0 {
					is = file.Groups[res.Group[i]].Scheme
				}
				if want != is {
					t.Fatalf("%s as %s: recipe stores %s as %q, want %q", c.name, f.Name, m.Matrices[i].Name, is, want)
				}
			}
		}
	}
}

// Whatever the assignment, a format gives it back or refuses it.
func TestAnyAssignment(t *testing.T) {
	m := demoModel(t)
	schemes := []string{"nvfp4", "mxfp4", "fp8", "fp8-channel", "fp8-block128", "int4-g32", "int4-g64-sym", "int4-g128", "int4-channel-sym"}
	taken := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(rt, "groups")
		a := &Assignment{Model: m}
		for range n {
			a.Groups = append(a.Groups, group(rapid.SampledFrom(schemes).Draw(rt, "scheme")))
		}
		type key struct {
			layer, expert int
			kind          topology.Kind
			projection    string
		}
		by := rapid.SampledFrom([]string{"kind", "layer", "projection", "expert", "matrix"}).Draw(rt, "by")
		choice := map[key]int{}
		for i := range m.Matrices {
			r := m.Matrices[i].Role
			k := key{kind: r.Kind, layer: -1, expert: -1}
			switch by {
			case "layer":
				k.layer = r.Layer
			case "projection":
				k.projection = r.Projection
			case "expert":
				k.expert = r.Expert
			case "matrix":
				k = key{r.Layer, r.Expert, r.Kind, r.Projection}
			}
			c, ok := choice[k]
			if !ok {
				c = rapid.IntRange(-1, n-1).Draw(rt, "of")
				choice[k] = c
			}
			if !plainly(r) && r.Kind != topology.Head {
				c = -1
			}
			a.Of = append(a.Of, c)
		}
		for _, f := range Formats() {
			doc, err := Export(f.Name, a)
			if err != nil {
				if !errors.Is(err, ErrCannot) {
					rt.Fatalf("%s: %v", f.Name, err)
				}
				continue
			}
			taken[f.Name]++
			got, _, err := Import(f.Name, doc.Data, m)
			if err != nil {
				rt.Fatalf("%s: %v", f.Name, err)
			}
			if at, same := a.Same(got); !same {
				rt.Fatalf("%s: %s differs", f.Name, at)
			}
		}
	})
	for _, f := range Formats() {
		if taken[f.Name] == 0 {
			t.Errorf("%s took no assignment at all", f.Name)
		}
	}
}

// Files as people have them, held against what the tools themselves made of them over
// the demo's modules (testdata/README.md).
func TestForeignFiles(t *testing.T) {
	m := demoModel(t)
	for _, c := range []struct {
		format, text string
		scheme       func(name string, r topology.Role) string
		notes        []string
	}{
		{"llm-compressor", "quant_stage:\n  quant_modifiers:\n    QuantizationModifier:\n      targets: [Linear]\n      scheme: NVFP4\n      ignore: [lm_head, 're:.*mlp.gate$', 're:.*self_attn.*', 're:model.layers.5.*']\n",
			func(_ string, r topology.Role) string {
				if plainly(r) && r.Kind != topology.Attention {
					return "nvfp4"
				}
				return ""
			}, []string{"activations"}},
		{"llm-compressor", "GPTQModifier:\n  scheme: {W4A16: ['re:.*down_proj$'], W4A16_ASYM: [model.layers.0.mlp.up_proj]}\n  ignore: lm_head\n",
			func(name string, r topology.Role) string {
				switch {
				case r.Projection == "down":
					return "int4-g128-sym"
				case name == "model.layers.0.mlp.up_proj.weight":
					return "int4-g128"
				}
				return ""
			}, nil},
		{"compressed-tensors", `{"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["re:.*experts.*"], "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}},
			"group_1": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "input_activations": {"num_bits": 8}}}, "ignore": ["lm_head", "re:.*layers.5.*"]}}`,
			func(name string, r topology.Role) string {
				switch {
				case r.MTP || r.Kind == topology.Head || r.Kind == topology.Router || r.Kind == topology.Embedding:
					return ""
				case strings.Contains(name, "experts"):
					return "nvfp4"
				}
				return "fp8-channel"
			}, []string{"input_activations", "routers"}},
		{"modelopt", `{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head", "model.layers.*.self_attn*", "model.layers.5*", "model.layers.0.mlp"]}}`,
			func(_ string, r topology.Role) string {
				if plainly(r) && r.Kind != topology.Attention && r.Layer > 0 {
					return "nvfp4"
				}
				return ""
			}, []string{"activations", "routers"}},
		{"tensor-type-file", "blk\\.[1-4]\\.ffn_(gate|up|down)_exps=NVFP4\nffn_down=q4_0 attn=f16\n",
			func(_ string, r topology.Role) string {
				switch {
				case r.Kind == topology.Expert && !r.MTP:
					return "nvfp4"
				case r.Projection == "down":
					return "int4-g32-sym"
				}
				return ""
			}, []string{"match no line"}},
		{"gptqmodel", `{"bits": 4, "group_size": 128, "sym": true, "quant_method": "gptq", "dynamic": {"-:.*self_attn": {}, "+:.*\\.down_proj": {"group_size": 32}, "nowhere": {"bits": 8}}}`,
			func(_ string, r topology.Role) string {
				switch {
				case !plainly(r) || r.Kind == topology.Attention:
					return ""
				case r.Projection == "down":
					return "int4-g32-sym"
				}
				return "int4-g128-sym"
			}, []string{"matches nothing"}},
		{"autoround", `{"self_attn": {"bits": 8, "data_type": "fp", "group_size": -1}, "model.layers.0.self_attn.o_proj": {"bits": 16}, "layers.[12].mlp.experts.*": "NVFP4A16"}`,
			func(name string, r topology.Role) string {
				switch {
				case name == "model.layers.0.self_attn.o_proj.weight":
					return ""
				case r.Kind == topology.Attention:
					return "fp8-channel"
				case r.Kind == topology.Expert && (r.Layer == 1 || r.Layer == 2):
					return "nvfp4"
				}
				return ""
			}, nil},
		{"mlx", `{"quantization": {"group_size": 64, "bits": 4, "model.layers.1.mlp.switch_mlp.gate_proj": {"group_size": 32, "bits": 4, "mode": "mxfp4"}, "model.layers.0.self_attn.q_proj": {"group_size": 64, "bits": 4}, "lm_head": false}}`,
			func(name string, r topology.Role) string {
				switch {
				case r.Kind == topology.Expert && r.Layer == 1 && r.Projection == "gate":
					return "mxfp4"
				case name == "model.layers.0.self_attn.q_proj.weight":
					return "int4-g64"
				}
				return ""
			}, []string{"not named"}},
	} {
		a, notes, err := Import(c.format, []byte(c.text), m)
		if err != nil {
			t.Errorf("%s: %v", c.format, err)
			continue
		}
		for i := range m.Matrices {
			if want := c.scheme(m.Matrices[i].Name, m.Matrices[i].Role); a.scheme(i) != want {
				t.Errorf("%s: %s is %q, want %q", c.format, m.Matrices[i].Name, a.scheme(i), want)
				break
			}
		}
		var said strings.Builder
		for _, n := range notes {
			said.WriteString(n.Place + " " + n.Text + "\n")
		}
		for _, n := range c.notes {
			if !strings.Contains(said.String(), n) {
				t.Errorf("%s: no note says %q: %s", c.format, n, said.String())
			}
		}
	}
}

// What is not understood is an error that says where.
func TestRefusals(t *testing.T) {
	m := demoModel(t)
	for _, c := range []struct{ format, text, says string }{
		{"llm-compressor", "q_stage:\n  q_modifiers:\n    AWQModifier:\n      targets: Linear\n", "line 3: AWQModifier"},
		{"llm-compressor", "QuantizationModifier:\n  scheme: W8A8\n", "line 2: scheme \"W8A8\""},
		{"llm-compressor", "QuantizationModifier:\n  scheme: NVFP4A16\n  tragets: Linear\n", "line 3: key \"tragets\""},
		{"llm-compressor", "QuantizationModifier:\n  targets: [Linear, LlamaMLP]\n  scheme: NVFP4A16\n", "LlamaMLP"},
		{"llm-compressor", "QuantizationModifier:\n  config_groups:\n    a:\n      targets: [Linear]\n      weights: {num_bits: 3, type: int, group_size: 64}\n", "3 bits"},
		{"llm-compressor", "- a\n", "no mapping"},
		{"compressed-tensors", `{"quant_method": "gptq"}`, "gptq"},
		{"compressed-tensors", `{"config_groups": {"g": {"targets": ["re:("], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}}`, "cannot be read here"},
		{"modelopt", `{"quantization": {"quant_algo": "W4A8_AWQ"}}`, "W4A8_AWQ"},
		{"tensor-type-file", "ffn_down=q4_k\n", "line 1"},
		{"tensor-type-file", "# a comment\n", "comments"},
		{"tensor-type-file", "ffn_down\n", "EXPRESSION=TYPE"},
		{"gptqmodel", `{"bits": 3, "group_size": 128}`, "3 bits"},
		{"gptqmodel", `{"bits": 4, "dynamic": {"(?<=x)": {}}}`, "dynamic"},
		{"autoround", `{"self_attn": {"bits": 2}}`, "2 bits"},
		{"mlx", `{"quantization": {"bits": 4, "group_size": 64, "lm_head": true}}`, "true"},
		{"exl3", `{}`, "known: llm-compressor"},
		{"compressed-tensors", `{"config_groups": {}}`, "quantizes nothing"},
	} {
		_, _, err := Import(c.format, []byte(c.text), m)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %q: %v, want a word on %q", c.format, c.text, err, c.says)
		}
	}
}

// No file makes a reader panic, and what one takes can be written again or is refused.
func FuzzImport(f *testing.F) {
	for i, text := range []string{
		"quant_stage:\n  quant_modifiers:\n    QuantizationModifier:\n      targets: [Linear]\n      scheme: NVFP4\n      ignore: [lm_head]\n",
		`{"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}}}`,
		`{"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "FP8"}}}}`,
		"ffn_down=q4_0", `{"bits": 4, "group_size": 128, "dynamic": {"-:.*attn": {}}}`, `{"self_attn": {"bits": 4, "group_size": 128}}`,
		`{"quantization": {"bits": 4, "group_size": 64, "lm_head": {"bits": 4, "group_size": 32}}}`,
	} {
		f.Add(uint8(i), text)
	}
	m := demoModel(f)
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		name := Formats()[int(which)%len(Formats())].Name
		a, _, err := Import(name, []byte(text), m)
		if err != nil {
			return
		}
		doc, err := Export(name, a)
		if err != nil {
			if !errors.Is(err, ErrCannot) {
				t.Fatal(err)
			}
			return
		}
		b, _, err := Import(name, doc.Data, m)
		if err != nil {
			t.Fatal(err)
		}
		if at, same := a.Same(b); !same {
			t.Fatalf("%s differs", at)
		}
	})
}

// Expressions are few where names belong together.
func TestExpressionsAreShort(t *testing.T) {
	m := demoModel(t)
	a := assigned(m, []recipe.Group{group("nvfp4")}, func(r topology.Role) int {
		if r.Kind == topology.Expert && !r.MTP {
			return 0
		}
		return -1
	})
	for name, most := range map[string]int{"llm-compressor": 4000, "compressed-tensors": 4000, "tensor-type-file": 1000} {
		doc, err := Export(name, a)
		if err != nil {
			t.Fatal(err)
		}
		if len(doc.Data) > most {
			t.Errorf("%s takes %d bytes for 192 experts' matrices, want at most %d:\n%s", name, len(doc.Data), most, doc.Data)
		}
	}
}
