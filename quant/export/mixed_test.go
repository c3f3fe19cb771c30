package export

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// part is what matrices that match are stored as.
type part struct {
	targets, format, method string
}

// mixedOf plans a mixture; earlier parts win.
func mixedOf(t testing.TB, ck *checkpoint.Checkpoint, model *topology.Model, layout string, parts []part, s Settings) (*Plan, error) {
	t.Helper()
	of := map[string]int{}
	var variants []method.Variant
	for i, x := range parts {
		conv, err := DefaultConvention(layout, x.format)
		if err != nil {
			conv = kernels.CT32 // the layout has no such thing, which is what is tested
		}
		v := variantOf(x.format, conv)
		v.Name += "+" + x.method
		v.Spec.Method = x.method
		variants = append(variants, v)
		sel, err := recipe.Select(model, x.targets)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sel.Matrices {
			if _, taken := of[m.Name]; !taken {
				of[m.Name] = i
			}
		}
	}
	var selection []topology.Matrix
	var index []int
	for _, m := range model.Matrices {
		if v, ok := of[m.Name]; ok {
			selection, index = append(selection, m), append(index, v)
		}
	}
	s.Layout = layout
	return NewMixedPlan(ck, model, selection, variants, index, s)
}

// ours is the mixture of the tests: FP8 attention, NVFP4 MLPs but for one layer.
var ours = []part{
	{"re:.*self_attn", "fp8-channel", "rtn"},
	{"model.layers.0.mlp.*", "nvfp4", "mse"},
	{"re:.*(mlp|experts)", "nvfp4", "rtn"},
}

// A mixture holds for each matrix what an export of its scheme alone holds, and
// everything else as it was.
func TestMixed(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	for _, c := range []struct {
		layout string
		parts  []part
	}{
		{CompressedTensors, ours}, {ModelOpt, ours},
		{CompressedTensors, []part{{"re:.*self_attn", "int4-g32", "rtn"}, {"model.layers.0.mlp.*", "int4-channel-sym", "rtn"}, {"re:.*mlp", "mxfp4", "rtn"}}},
		{CompressedTensors, []part{{"re:.*self_attn", "fp8-block128", "rtn"}, {"re:.*mlp", "nvfp4", "rtn"}}},
		{Own, []part{{"re:.*self_attn", "int4-g32", "rtn"}, {"re:.*mlp", "int4-g32", "range"}}},
		{Own, []part{{"re:.*self_attn", "code2", "l2"}, {"re:.*mlp", "code2", "asym"}}},
		{ModelOpt, []part{{"re:.*self_attn", "fp8-channel", "rtn"}, {"model.layers.0.mlp.*", "code2", "sym"}, {"re:.*(mlp|experts)", "nvfp4", "rtn"}}},
		{CompressedTensors, []part{{"re:.*self_attn", "code2-mxfp4", "sym"}, {"model.layers.0.mlp.*", "code2", "l2"}, {"re:.*(mlp|experts)", "nvfp4", "rtn"}}},
	} {
		t.Run(c.layout+"/"+c.parts[0].format, func(t *testing.T) {
			p, err := mixedOf(t, ck, model, c.layout, c.parts, Settings{Recipe: Recipe{Name: "ours", SHA256: "ab12"}})
			if err != nil {
				t.Fatal(err)
			}
			all := prepare(t, p)
			dir := filepath.Join(t.TempDir(), "out")
			mustWrite(t, p, all, dir, Options{})
			checkExport(t, p, all, dir)
			for i := range p.Matrices {
				one, err := NewPlan(ck, model, p.Matrices[i:i+1], p.VariantOf(i), Settings{Layout: c.layout})
				if err != nil {
					t.Fatal(err)
				}
				var a, b []string
				for f := range p.fieldsOf(i) {
					a = append(a, f.Name+f.DType.String())
				}
				for f := range one.fieldsOf(0) {
					b = append(b, f.Name+f.DType.String())
				}
				if !slices.Equal(a, b) {
					t.Errorf("%s has %v, alone %v", p.Matrices[i].Name, a, b)
				}
			}
			if p.Variant != "recipe:ours" {
				t.Errorf("is called %s", p.Variant)
			}
		})
	}
}

// What the configs of mixtures say, to the byte.
func TestMixedConfigGolden(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	for _, layout := range []string{CompressedTensors, ModelOpt} {
		p, err := mixedOf(t, ck, model, layout, ours, Settings{Recipe: Recipe{Name: "ours", SHA256: "ab12"}})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, layout+"-mixed-config.json", textOf(p, configName))
		if layout == ModelOpt {
			golden(t, layout+"-mixed-hf_quant_config.json", textOf(p, modelOptName))
		}
	}
}

// One scheme made in two ways is declared as that scheme; the receipt keeps them
// apart.
func TestMixedMethods(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p, err := mixedOf(t, ck, model, CompressedTensors, ours[1:], Settings{})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Q struct {
			Groups map[string]struct{ Targets []string } `json:"config_groups"`
			Format string
			Mark   struct{ Groups []receiptGroup } `json:"quantscope"`
		} `json:"quantization_config"`
	}
	if err := json.Unmarshal(textOf(p, configName), &config); err != nil {
		t.Fatal(err)
	}
	q := config.Q
	if len(q.Groups) != 1 || !slices.Equal(q.Groups["group_0"].Targets, []string{"Linear"}) || q.Format != "nvfp4-pack-quantized" || len(q.Mark.Groups) != 2 {
		t.Errorf("%+v", q)
	}
	if p.Variant != "nvfp4+mse, nvfp4+rtn" {
		t.Errorf("is called %s", p.Variant)
	}
	// gate and up of layer 0 share their scale within the scheme
	if n := len(p.Groups()); n != 7 {
		t.Errorf("%d groups share", n)
	}
}

// One variant through the mixed door is the same plan, to the digest.
func TestMixedOfOne(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	one := planOf(t, ck, model, "", ModelOpt, "nvfp4")
	unused := variantOf("fp8", kernels.ModelOpt)
	p, err := NewMixedPlan(ck, model, one.Matrices, []method.Variant{unused, one.VariantOf(0)}, slices.Repeat([]int{1}, len(one.Matrices)), Settings{Layout: ModelOpt})
	if err != nil {
		t.Fatal(err)
	}
	if p.Digest() != one.Digest() {
		t.Errorf("another plan: %s", p.Texts[len(p.Texts)-1].Data)
	}
}

func TestMixedRefusals(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	for _, c := range []struct {
		what, layout string
		parts        []part
		reason       error
		mention      []string
	}{
		{"own", Own, []part{{"re:.*self_attn", "int4-g32", "rtn"}, {"re:.*mlp", "int4-g64", "rtn"}}, ErrLayout, []string{"int4-g32, int4-g64", "compressed-tensors can"}},
		{"modelopt", ModelOpt, []part{{"re:.*layers.0.*o_proj", "fp8-channel", "rtn"}, {"re:.*mlp", "fp8-block128", "rtn"}}, ErrLayout, []string{"fp8-block128 beside fp8-channel", "fp8, fp8-channel, nvfp4"}},
		{"q and k", CompressedTensors, []part{{"re:.*layers.1.self_attn.k_proj", "fp8", "rtn"}, {"re:.*self_attn", "nvfp4", "rtn"}}, ErrMatrix,
			[]string{"model.layers.1.self_attn.k_proj.weight", "is fp8+rtn", "model.layers.1.self_attn.q_proj.weight", "nvfp4+rtn"}},
		{"gate and up", ModelOpt, []part{{"re:.*layers.1.mlp.experts.1.up_proj", "fp8", "rtn"}, {"re:.*mlp", "nvfp4", "rtn"}}, ErrMatrix, []string{"experts.1.up_proj", "experts.1.gate_proj"}},
		{"unknown scheme", ModelOpt, []part{{"re:.*self_attn", "mxfp4", "rtn"}, {"re:.*mlp", "nvfp4", "rtn"}}, ErrLayout, []string{"mxfp4", "available as compressed-tensors"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := mixedOf(t, ck, model, c.layout, c.parts, Settings{})
			if !errors.Is(err, c.reason) {
				t.Fatalf("%v", err)
			}
			for _, m := range c.mention {
				if !strings.Contains(err.Error(), m) {
					t.Errorf("%q does not say %q", err, m)
				}
			}
		})
	}
	sel, err := recipe.Select(model, "")
	if err != nil {
		t.Fatal(err)
	}
	v := []method.Variant{variantOf("nvfp4", kernels.ModelOpt)}
	for _, of := range [][]int{nil, {0}, slices.Repeat([]int{1}, len(sel.Matrices)), slices.Repeat([]int{-1}, len(sel.Matrices))} {
		if _, err := NewMixedPlan(ck, model, sel.Matrices, v, of, Settings{Layout: ModelOpt}); !errors.Is(err, ErrMatrix) {
			t.Errorf("%v: %v", of, err)
		}
	}
	if _, err := NewMixedPlan(ck, model, nil, v, nil, Settings{Layout: ModelOpt}); !errors.Is(err, ErrMatrix) {
		t.Errorf("nothing: %v", err)
	}
}

// A mixture that is given other targets is no continuation of one that was begun.
func TestMixedResume(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	plan := func(parts []part, sum string) *Plan {
		p, err := mixedOf(t, ck, model, CompressedTensors, parts, Settings{Recipe: Recipe{Name: "r", SHA256: sum}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := plan(ours, "1")
	all := prepare(t, p)
	whole := filepath.Join(t.TempDir(), "whole")
	mustWrite(t, p, all, whole, Options{})
	dir := filepath.Join(t.TempDir(), "out")
	w, err := Create(t.Context(), p, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range p.Shards[0].matrix {
		if err := store(w, i, 16, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, other := range []*Plan{plan(ours[:2], "1"), plan([]part{ours[0], {ours[1].targets, "nvfp4", "rtn"}, {ours[2].targets, "nvfp4", "mse"}}, "1"), plan(ours, "2")} {
		if _, err := Create(t.Context(), other, dir, Options{Resume: true}); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", other.Variant, err)
		}
	}
	mustWrite(t, p, all, dir, Options{Resume: true})
	a, b := files(t, whole), files(t, dir)
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs after going on", name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d files, %d", len(a), len(b))
	}
}

// Targets match exactly what they are made for, whatever the names.
func TestTargets(t *testing.T) {
	for _, c := range []struct {
		modules, all, want string
	}{
		{"model.layers.0.a.q model.layers.0.a.k model.layers.1.a.q model.layers.1.a.k", "model.layers.0.a.o lm_head", `re:.*\blayers\.\d+\.a\.(k|q)$`},
		{"model.layers.0.a.q model.layers.2.a.q", "model.layers.1.a.q model.layers.10.a.q", `re:.*\blayers\.(0|2)\.a\.q$`},
		{"model.layers.0.a.q model.layers.1.a.q", "mtp.layers.0.a.q", `re:^model\.layers\.\d+\.a\.q$`},
		{"model.layers.0.e.0.up model.layers.0.e.1.up model.layers.0.e.0.down", "", `re:.*\blayers\.0\.e\.\d+\.up$ model.layers.0.e.0.down`},
		{"model.layers.0.e.0.up model.layers.1.e.1.up", "model.layers.1.e.0.up", "model.layers.0.e.0.up model.layers.1.e.1.up"},
		{"lm_head", "model.lm_head", "lm_head"},
	} {
		modules := strings.Fields(c.modules)
		if got := strings.Join(Targets(modules, append(modules, strings.Fields(c.all)...)), " "); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.modules, c.all, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.Custom(func(t *rapid.T) string {
			s := rapid.SampledFrom([]string{"model.layers.", "layers.", "mtp.layers.", "x."}).Draw(t, "head") + rapid.SampledFrom([]string{"0", "1", "11", "2"}).Draw(t, "layer")
			return s + rapid.SampledFrom([]string{".a.q", ".a.k", ".e.0.up", ".e.1.up", ".e.1.up.up", "", ".a+b.q"}).Draw(t, "tail")
		})
		all := rapid.SliceOfNDistinct(name, 1, 40, rapid.ID[string]).Draw(t, "all")
		modules := all[:rapid.IntRange(0, len(all)).Draw(t, "n")]
		targets := Targets(modules, all)
		for i, m := range all {
			hits := 0
			for _, x := range targets {
				expr, isExpr := strings.CutPrefix(x, "re:")
				if x == m || isExpr && regexp.MustCompile("^(?:"+expr+")").MatchString(m) {
					hits++
				}
			}
			if (i < len(modules)) != (hits == 1) || hits > 1 {
				t.Fatalf("%s: matched by %d of %v", m, hits, targets)
			}
		}
	})
}
