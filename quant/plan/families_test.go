package plan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/quant/topology/topologytest"
)

// What a rank keeps of 1000 tokens in each golden model of the newest families, by
// hand: layers × (keys + values) × 2 bytes × tokens, as many tokens as a window has
// where there is one, an entry for so many tokens where layers compress, and states of
// a sequence where attention is linear.
func TestCachesOfFamilies(t *testing.T) {
	const (
		text   = 1000
		delta  = 4*4*16*16 + 2*(2*2*16+4*16)*3 // f32 state, inputs of three taps
		sparse = text/16*32*2 + text/4*(32*2+16+4)
		open   = 2*4*16*32 + 2*4*(2*4)*(2*32+2*16) // windows of 1/16; of 1/4, twice as wide and two of them
	)
	for _, c := range []struct {
		name      string
		ranks     int
		kv, state int64
		note      string
	}{
		{"qwen3_next", 1, 2 * 2 * 32 * 2 * text, 3 * delta, "layers with linear attention keep 4864 bytes a layer"},
		{"qwen3_next", 2, 2 * 32 * 2 * text, 3 * delta / 2, "keep 2432 bytes a layer and sequence on a rank"},
		{"qwen3_5", 1, 2 * 2 * 16 * 2 * text, 3 * delta, "counted for one sequence"},
		{"qwen3_5_moe", 1, 2 * 2 * 16 * 2 * text, 3 * delta, "counted for one sequence"},
		{"step3p7", 1, 2*2*2*16*2*text + 2*2*16*2*12, 0, "a sliding window keep 12 tokens"},
		{"deepseek_v2", 1, 2 * (16 + 8) * 2 * text, 0, ""},
		{"deepseek_v2", 4, 2 * (16 + 8) * 2 * text, 0, "every rank keeps the whole"},
		{"deepseek_v4", 1, 3*32*2*12 + sparse, open, "one entry for 16 tokens"},
		{"gemma4_moe", 1, 2*2*2*16*2*12 + 2*32*2*text, 0, "one projection gives keys and values both are kept"},
		{"gemma4_moe", 2, 2*2*16*2*12 + 2*32*2*text, 0, ""}, // one head in the layer that sees all
		{"gemma4_ple", 1, 2*16*2*10 + 2*32*2*text, 0, "the last 2 layers use the keys and values of layers before them"},
	} {
		m := topologytest.Model(t, c.name)
		p := resolved(t, m, builtinOf(t, "int4-g128", m), Options{KVTokens: text, Ranks: c.ranks})
		got := p.Before
		if got.KVBytes != c.kv || got.StateBytes != c.state || p.After.KVBytes != c.kv || p.After.StateBytes != c.state {
			t.Errorf("%s over %d: %d bytes and a state of %d, by hand %d and %d", c.name, c.ranks, got.KVBytes, got.StateBytes, c.kv, c.state)
		}
		if c.note != "" && !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, c.note) }) {
			t.Errorf("%s: notes %q, want %q", c.name, got.Notes, c.note)
		}
		none := resolved(t, m, builtinOf(t, "int4-g128", m), Options{Ranks: c.ranks})
		if d := p.DecodeBefore.BytesPerRank - none.DecodeBefore.BytesPerRank; d != c.kv+c.state || none.Before.KVBytes+none.Before.StateBytes != 0 {
			t.Errorf("%s: a token reads %d more, want %d", c.name, d, c.kv+c.state)
		}
	}
}

// goldenFamilies are headers of the newest families' golden models.
var goldenFamilies = []string{"qwen3_next", "qwen3_5", "qwen3_5_moe", "step3p7", "deepseek_v2", "deepseek_v4", "gemma4_moe", "gemma4_ple", "qwen3_5_moe_release", "gemma4_ple_release"}

// storedZeros writes a header of quant/topology's with zeros behind it.
func storedZeros(t testing.TB, name string) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	m := topologytest.Model(t, name)
	dir := t.TempDir()
	var specs []checkpoint.Spec
	for _, x := range m.Tensors {
		dtype, ok := checkpoint.ParseDType(x.DType)
		if !ok {
			t.Fatalf("%s: %s", x.Name, x.DType)
		}
		specs = append(specs, checkpoint.Spec{Name: x.Name, DType: dtype, Shape: x.Shape})
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
	data, err := os.ReadFile(filepath.Join("..", "topology", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Config json.RawMessage }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), f.Config, 0o666); err != nil {
		t.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	if m, err = topology.FromCheckpoint(ck); err != nil {
		t.Fatal(err)
	}
	return ck, m
}

// Of each of the newest families a plan's bytes are an export's, whatever the scheme;
// what is left alone and what groups store are together the checkpoint.
func TestFamiliesAreExports(t *testing.T) {
	written := 0
	for _, name := range goldenFamilies {
		ck, m := storedZeros(t, name)
		for _, c := range []struct{ layout, scheme string }{{"modelopt", "nvfp4"}, {"compressed-tensors", "nvfp4"}, {"compressed-tensors", "fp8-channel"}, {"compressed-tensors", "int4-g32"}} {
			f, err := recipe.FromTargets(m, "", c.scheme, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p, err := New(ck, m, f, Options{Layout: c.layout})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			left, bytes := int64(0), int64(0)
			for _, x := range p.LeftAlone {
				left, bytes = left+x.Params, bytes+x.Bytes
			}
			if left+p.Groups[0].Params != p.Params || bytes+p.Groups[0].BytesBefore != p.BytesBefore {
				t.Errorf("%s, %s: %d parameters left and %d stored of %d, %d and %d bytes of %d", name, c.scheme, left, p.Groups[0].Params, p.Params, bytes, p.Groups[0].BytesBefore, p.BytesBefore)
			}
			if slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Severity == Error && f.ID == RowBlocks }) {
				continue // rows of the golden models are short
			}
			v, err := method.Parse(p.Groups[0].Variant)
			if err != nil {
				t.Fatal(err)
			}
			if convention, err := export.DefaultConvention(c.layout, v.Scheme); err == nil {
				v.Spec.Convention = convention
			}
			x, err := export.NewMixedPlan(ck, m, p.Selection, []method.Variant{v}, p.Of, export.Settings{Layout: c.layout})
			if err != nil {
				t.Errorf("%s, %s in %s: %v", name, c.scheme, c.layout, err)
				continue
			}
			if x.WeightBytes != p.BytesAfter {
				t.Errorf("%s, %s in %s: the plan says %d bytes, the export %d", name, c.scheme, c.layout, p.BytesAfter, x.WeightBytes)
			}
			written++
		}
	}
	if written < 2*len(goldenFamilies) {
		t.Errorf("%d exports", written)
	}
}

// Small parts of attention that a group matches are named; what servers cannot read
// quantized keeps the recipe from being run.
func TestPartsOfAttentionTargeted(t *testing.T) {
	for _, c := range []struct {
		family, target, id string
		severity           Severity
		part               string
	}{
		{"qwen3_next", "*.in_proj_ba", GateTargeted, Warning, "a gate of linear attention: model.layers.0.linear_attn.in_proj_ba.weight, and 2 more"},
		{"qwen3_5", "*.in_proj_a", GateTargeted, Warning, "a gate of linear attention"},
		{"step3p7", "*.g_proj", GateTargeted, Warning, "a gate of attention heads"},
		{"qwen3_next", "*.in_proj_qkvz", "", "", ""},
		{"deepseek_v4", "*.indexer.weights_proj", SparseTargeted, Error, "a matrix that is part of an indexer"},
		{"deepseek_v4", "*.attn.compressor.wkv", SparseTargeted, Error, "a matrix that is part of a compressor"},
		{"deepseek_v4", "*.indexer.wq_b", "", "", ""},
		{"deepseek_v4", "layers.0.hc_attn_fn", MixingTargeted, Error, "mixes the residual stream"},
		{"qwen3_next", "*.shared_expert_gate", RouterTargeted, Error, "a router"},
		{"gemma4_ple", "*embed_tokens_per_layer", EmbedTargeted, Error, "an embedding"},
	} {
		p := resolved(t, topologytest.Model(t, c.family), parse(t, "groups:\n  - {scheme: fp8, targets: ['"+c.target+"']}\n"), Options{})
		f := p.found(c.id)
		switch {
		case c.id == "":
			if f := p.found(GateTargeted); f != nil || p.found(SparseTargeted) != nil || p.Targeted == 0 {
				t.Errorf("%s: %+v", c.target, p.Findings)
			}
		case f == nil || f.Severity != c.severity || !strings.Contains(f.Message, c.part):
			t.Errorf("%s: %+v", c.target, p.Findings)
		}
	}
}
