package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// onDisk writes zeros of these shapes as a checkpoint.
func onDisk(t testing.TB, s shapes, config string) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	dir := t.TempDir()
	var specs []checkpoint.Spec
	for _, x := range s {
		specs = append(specs, checkpoint.Spec{Name: x.Name, DType: checkpoint.BF16, Shape: x.Shape})
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range specs {
		n, _ := spec.Size()
		if _, err := w.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	m, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return ck, m
}

// odd has fused experts, and rows that few schemes can block.
func odd(t testing.TB) (*checkpoint.Checkpoint, *topology.Model) {
	var s shapes
	s.add("model.embed_tokens.weight", 64, 64)
	for _, l := range []string{"0", "1"} {
		p := "model.layers." + l + "."
		s.add(p+"self_attn.q_proj.weight", 64, 64)
		s.add(p+"self_attn.k_proj.weight", 32, 64)
		s.add(p+"self_attn.v_proj.weight", 32, 64)
		s.add(p+"self_attn.o_proj.weight", 64, 64)
		s.add(p+"mlp.gate.weight", 4, 64)
		s.add(p+"mlp.experts.gate_up_proj", 4, 2*24, 64)
		s.add(p+"mlp.experts.down_proj", 4, 64, 24)
	}
	s.add("lm_head.weight", 64, 64)
	return onDisk(t, s, `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
		"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":24,"decoder_sparse_step":1,"tie_word_embeddings":false}`)
}

// What a plan says of sizes is what an export then has, to the byte; and an export
// takes what a plan finds no error in, and refuses what a plan says no layout can write.
func TestPlansAreExports(t *testing.T) {
	type source struct {
		ck *checkpoint.Checkpoint
		m  *topology.Model
	}
	var sources []source
	for _, open := range []func(testing.TB) (*checkpoint.Checkpoint, *topology.Model){openDemo, odd} {
		ck, m := open(t)
		sources = append(sources, source{ck, m})
	}
	var schemes []string
	for _, layout := range export.Layouts() {
		for _, f := range export.Formats(layout) {
			if _, err := method.Parse(f); err == nil && !slices.Contains(schemes, f) {
				schemes = append(schemes, f)
			}
		}
	}
	parts := []string{"*.self_attn.*", "*.mlp.experts.*", "*.mlp.shared_experts.*", "re:.*\\.0\\.mlp\\.(gate|up|down)_proj", "lm_head", "*.layers.0.mlp.experts.*", "*.self_attn.q_proj", "*.experts.gate_up_proj", "*.down_proj"}
	written, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(sources).Draw(t, "source")
		layout := rapid.SampledFrom(export.Layouts()).Draw(t, "layout")
		f := &recipe.File{Name: "drawn", Ignore: []string{"*.layers.5.*"}}
		for _, g := range rapid.SliceOfNDistinct(rapid.SampledFrom(parts), 1, 3, rapid.ID).Draw(t, "targets") {
			of := schemes
			if rapid.Bool().Draw(t, "known") {
				of = slices.DeleteFunc(slices.Clone(schemes), func(f string) bool { return !slices.Contains(export.Formats(layout), f) })
			}
			f.Groups = append(f.Groups, recipe.Group{Targets: []string{g}, Scheme: rapid.SampledFrom(of).Draw(t, "scheme")})
		}
		p, err := New(s.ck, s.m, f, Options{Layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		var variants []method.Variant
		for _, g := range p.Groups {
			v, err := method.Parse(g.Variant)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := export.DefaultConvention(layout, v.Scheme); err == nil {
				v.Spec.Convention = c
			}
			variants = append(variants, v)
		}
		x, err := export.NewMixedPlan(s.ck, s.m, p.Selection, variants, p.Of, export.Settings{Layout: layout})
		unwritable := slices.ContainsFunc(p.Findings, func(f Finding) bool {
			return f.Severity == Error && slices.Contains([]string{NothingTargeted, LayoutScheme, LayoutMixed, RowBlocks, FusedPartly, ServerSplit}, f.ID)
		})
		switch {
		case err == nil && unwritable:
			t.Fatalf("written, though %v", p.Err())
		case err != nil && !unwritable:
			t.Fatalf("%v, and the plan has %+v", err, p.Findings)
		case err != nil:
			refused++
		case x.WeightBytes != p.BytesAfter:
			t.Fatalf("the plan says %d bytes, the export %d", p.BytesAfter, x.WeightBytes)
		default:
			written++
		}
	})
	if written < 20 || refused < 20 {
		t.Errorf("%d written, %d refused", written, refused)
	}
}

// Errors name the checkpoint; options that are none do not.
func TestNewRefuses(t *testing.T) {
	ck, m := openDemo(t)
	for _, c := range []struct {
		text string
		o    Options
		part string
	}{
		{"groups:\n  - {scheme: nvfp5, targets: ['*']}\n", Options{}, `demo: variant "nvfp5"`},
		{"groups:\n  - {scheme: nvfp4, methods: [best], targets: ['*']}\n", Options{}, "best"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*']}\n", Options{Ranks: 1 << 20}, "1048576 ranks: 1 to 4096"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*']}\n", Options{KVTokens: -1}, "-1 tokens"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*']}\n", Options{Bandwidth: -1}, "bandwidth"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*']}\n", Options{Loader: "Thing"}, "ForCausalLM"},
		{"groups:\n  - {scheme: nvfp4, targets: ['*']}\n", Options{Accept: []string{"x"}}, `finding "x": unknown (known: overlap,`},
	} {
		_, err := New(ck, m, parse(t, c.text), c.o)
		if err == nil || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s%+v: %v", c.text, c.o, err)
		}
	}
}
