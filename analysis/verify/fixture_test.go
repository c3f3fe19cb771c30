package verify

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// spec is one tensor of a fixture.
type spec struct {
	name  string
	shape []int64
}

// moe is a small mixture-of-experts model in two shards.
var moe = [][]spec{
	{
		{"model.embed_tokens.weight", []int64{32, 64}},
		{"model.layers.0.input_layernorm.weight", []int64{64}},
		{"model.layers.0.self_attn.q_proj.weight", []int64{64, 64}},
		{"model.layers.0.self_attn.k_proj.weight", []int64{32, 64}},
		{"model.layers.0.self_attn.v_proj.weight", []int64{32, 64}},
		{"model.layers.0.self_attn.o_proj.weight", []int64{64, 64}},
		{"model.layers.0.mlp.gate.weight", []int64{2, 64}},
	},
	{
		{"model.layers.0.mlp.experts.0.gate_proj.weight", []int64{32, 64}},
		{"model.layers.0.mlp.experts.0.up_proj.weight", []int64{32, 64}},
		{"model.layers.0.mlp.experts.0.down_proj.weight", []int64{64, 32}},
		{"model.layers.0.mlp.experts.1.gate_proj.weight", []int64{32, 64}},
		{"model.layers.0.mlp.experts.1.up_proj.weight", []int64{32, 64}},
		{"model.layers.0.mlp.experts.1.down_proj.weight", []int64{64, 32}},
		{"model.layers.0.post_attention_layernorm.weight", []int64{64}},
		{"model.norm.weight", []int64{64}},
		{"lm_head.weight", []int64{32, 64}},
	},
}

// fused is the same with the experts in one tensor each.
var fused = [][]spec{
	{
		{"model.embed_tokens.weight", []int64{32, 64}},
		{"model.layers.0.self_attn.q_proj.weight", []int64{64, 64}},
		{"model.layers.0.self_attn.o_proj.weight", []int64{64, 64}},
		{"model.layers.0.mlp.gate.weight", []int64{2, 64}},
	},
	{
		{"model.layers.0.mlp.experts.gate_up_proj", []int64{2, 64, 64}},
		{"model.layers.0.mlp.experts.down_proj", []int64{2, 64, 32}},
		{"model.norm.weight", []int64{64}},
		{"lm_head.weight", []int64{32, 64}},
	},
}

const moeConfig = `{
 "architectures": ["Qwen3MoeForCausalLM"],
 "model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
 "head_dim": 16, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32, "vocab_size": 32, "tie_word_embeddings": false
}
`

var sideFiles = map[string]string{
	"config.json":              moeConfig,
	"tokenizer.json":           `{"version": "1.0"}`,
	"generation_config.json":   `{"do_sample": true}`,
	"preprocessor_config.json": `{"size": 4}`,
	"chat_template.jinja":      "{{ messages }}",
	"LICENSE":                  "do as you like",
}

// normal is a repeatable sequence of about normal values.
type normal uint64

func (s *normal) next() float64 {
	sum := -6.0
	for range 12 {
		*s = *s*6364136223846793005 + 1442695040888963407
		sum += float64(*s>>11) / (1 << 53)
	}
	return sum
}

// writeSource writes a checkpoint of shards with its side files and an index.
func writeSource(t testing.TB, dir string, shards [][]spec) {
	t.Helper()
	seed := normal(1)
	weights := map[string]string{}
	total := int64(0)
	for i, shard := range shards {
		name := shardName(i, len(shards))
		var specs []checkpoint.Spec
		for _, s := range shard {
			specs = append(specs, checkpoint.Spec{Name: s.name, DType: checkpoint.BF16, Shape: s.shape})
			weights[s.name] = name
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, name), specs, map[string]string{"format": "pt"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range specs {
			size, _ := s.Size()
			total += size
			raw := make([]byte, size)
			values := make([]float32, size/2)
			for k := range values {
				values[k] = float32(seed.next() * math.Exp(seed.next()/4) / 16)
			}
			if err := kernels.EncodeFloats(raw, kernels.BF16, values); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(raw); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": weights})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, indexName), index)
	for name, text := range sideFiles {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
}

func shardName(i, n int) string {
	return "model-0000" + string(rune('1'+i)) + "-of-0000" + string(rune('0'+n)) + ".safetensors"
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// openSource opens a checkpoint for the time of the test.
func openSource(t testing.TB, dir string) (*checkpoint.Checkpoint, *topology.Model) {
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
	return ck, model
}

// exported is a source with an export of it, and the record of what was done.
type exported struct {
	ck    *checkpoint.Checkpoint
	model *topology.Model
	dir   string // of the export
	taps  map[string]kernels.Tap
}

// variantWith is a variant under a layout's own convention.
func variantWith(t testing.TB, name, layout string) method.Variant {
	t.Helper()
	v, err := method.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	if v.Spec.Convention, err = export.DefaultConvention(layout, v.Scheme); err != nil {
		t.Fatal(err)
	}
	return v
}

// exportTo quantizes and exports a checkpoint.
func exportTo(t testing.TB, ck *checkpoint.Checkpoint, model *topology.Model, dir, targets, variant, layout string, globals export.Globals) exported {
	t.Helper()
	return exportAs(t, ck, model, dir, targets, variantWith(t, variant, layout), layout, globals)
}

// exportAs is exportTo by any convention, from sources of any type.
func exportAs(t testing.TB, ck *checkpoint.Checkpoint, model *topology.Model, dir, targets string, v method.Variant, layout string, globals export.Globals) exported {
	t.Helper()
	sel, err := recipe.Select(model, targets)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := export.NewPlan(ck, model, sel.Matrices, v, export.Settings{Layout: layout, Globals: globals})
	if err != nil {
		t.Fatal(err)
	}
	return exportPlan(t, ck, model, dir, plan)
}

// exportPlan quantizes and writes what a plan says.
func exportPlan(t testing.TB, ck *checkpoint.Checkpoint, model *topology.Model, dir string, plan *export.Plan) exported {
	t.Helper()
	out := exported{ck: ck, model: model, dir: dir, taps: map[string]kernels.Tap{}}
	w, err := export.Create(t.Context(), plan, dir, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set := kernels.Best()
	data := make([]kernels.Matrix, len(plan.Matrices))
	amax := make([]float32, len(plan.Matrices))
	for i := range data {
		data[i] = readMatrix(t, ck, &plan.Matrices[i])
		if amax[i], err = set.AbsMax(data[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range plan.Groups() {
		top := float32(0)
		for _, i := range g {
			top = max(top, amax[i])
		}
		for _, i := range g {
			amax[i] = top
		}
	}
	for i, m := range data {
		v := plan.VariantOf(i)
		spec, err := v.Prepared(set, kernels.StoredOperand(m), amax[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		pass, err := v.BeginPrepared(set, spec, m.Element, m.Rows, m.Cols, amax[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		n := pass.Sizes(m.Rows)
		o := kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
		if err := pass.Rows(m.Data, &o); err != nil {
			t.Fatal(err)
		}
		if err := w.StoreMade(i, 0, &o, kernels.Spec{Global: pass.Global(), Codebook: spec.Codebook}); err != nil {
			t.Fatal(err)
		}
		tap, err := pass.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // older records have none
			var sums kernels.Moments
			if err := kernels.Reference().Moments(m, &sums); err != nil {
				t.Fatal(err)
			}
			tap.SetMoments(sums)
		}
		out.taps[plan.Matrices[i].Name] = tap
	}
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out
}

// readMatrix reads a matrix of a checkpoint, element by element.
func readMatrix(t testing.TB, ck *checkpoint.Checkpoint, m *topology.Matrix) kernels.Matrix {
	t.Helper()
	src, ok := ck.Lookup(m.Tensor)
	if !ok {
		t.Fatalf("%s is not there", m.Tensor)
	}
	raw := make([]byte, src.Size)
	if err := ck.ReadAt(t.Context(), src, 0, raw); err != nil {
		t.Fatal(err)
	}
	out := kernels.Matrix{Rows: m.Rows, Cols: m.Cols}
	if out.Element, ok = element(src); !ok {
		t.Fatalf("%s is of %s", m.Tensor, src.DType)
	}
	size := out.Element.Size()
	for r := range m.Rows {
		for c := range m.Cols {
			at := int(m.Offset) + (r*int(m.RowStride)+c*int(m.ColStride))*size
			out.Data = append(out.Data, raw[at:at+size]...)
		}
	}
	return out
}

// options fills in what a test leaves open.
func (e *exported) options(o Options) Options {
	if o.Set.Name == "" {
		o.Set = kernels.Best()
	}
	return o
}

// verify runs a comparison.
func (e *exported) verify(t testing.TB, o Options) *Report {
	t.Helper()
	rep, err := Run(t.Context(), e.ck, e.model, e.dir, e.options(o))
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// exportMoE writes a source and an export of its attention and experts.
func exportMoE(t testing.TB, variant, layout string) exported {
	t.Helper()
	src := t.TempDir()
	writeSource(t, src, moe)
	ck, model := openSource(t, src)
	return exportTo(t, ck, model, filepath.Join(t.TempDir(), "out"), "*_proj*", variant, layout, export.Shared)
}
