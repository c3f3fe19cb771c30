package verify

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// bytesOf changes the bytes of a tensor in place.
func bytesOf(t testing.TB, dir, tensor string, change func(raw []byte)) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := ck.Lookup(tensor)
	if !ok {
		t.Fatalf("%s is not there", tensor)
	}
	path := filepath.Join(dir, ck.Files[s.File].Name)
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	change(data[s.Offset : s.Offset+s.Size])
	writeFile(t, path, data)
}

// jsonOf changes a JSON file.
func jsonOf(t testing.TB, dir, name string, change func(m map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if data, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, data)
}

// rewrite writes the shards anew with other tensors, and the index with them.
func rewrite(t testing.TB, dir string, change func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := len(ck.Files) - 1
	var specs []checkpoint.Spec
	data := map[string][]byte{}
	for i := range ck.Tensors {
		s := &ck.Tensors[i]
		if s.File != last {
			continue
		}
		specs = append(specs, checkpoint.Spec{Name: s.Name, DType: s.DType, Shape: s.Shape})
		raw := make([]byte, s.Size)
		if err := ck.ReadAt(t.Context(), s, 0, raw); err != nil {
			t.Fatal(err)
		}
		data[s.Name] = raw
	}
	name := ck.Files[last].Name
	if err := ck.Close(); err != nil {
		t.Fatal(err)
	}
	specs = change(specs, data)
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w, err := checkpoint.NewWriter(path, specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]any{}
	for _, s := range specs {
		held[s.Name] = name
		if _, err := w.Write(data[s.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	jsonOf(t, dir, indexName, func(m map[string]any) {
		weights := m["weight_map"].(map[string]any)
		for tensor, shard := range weights {
			if shard == name {
				delete(weights, tensor)
			}
		}
		for tensor, shard := range held {
			weights[tensor] = shard
		}
		delete(m, "metadata")
	})
}

const (
	firstShard  = "model-00001-of-00002.safetensors"
	secondShard = "model-00002-of-00002.safetensors"
	layer       = "model.layers.0."
)

// fault is one thing that is done to a good export, and what must be said.
type fault struct {
	name         string
	do           func(t testing.TB, dir string)
	id           string
	file, tensor string
	words        []string
	more         int // problems beside the one that is named, at most
}

var faults = []fault{
	{name: "flipped byte", id: TensorChanged, file: secondShard, tensor: "lm_head.weight", words: []string{"1 of 4096 bytes", "byte 77"},
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, "lm_head.weight", func(raw []byte) { raw[77] ^= 4 })
		}},
	{name: "changed block scale", id: ScalesDiffer, file: secondShard, tensor: layer + "mlp.experts.1.up_proj.weight_scale", words: []string{"1 scales differ", "[3,1]", "nvfp4"},
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"mlp.experts.1.up_proj.weight_scale", func(raw []byte) { raw[3*4+1]++ })
		}},
	{name: "changed code", id: CodesDiffer, file: firstShard, tensor: layer + "self_attn.q_proj.weight", words: []string{"1 codes differ", "[2,21]"},
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"self_attn.q_proj.weight", func(raw []byte) { raw[2*32+10] ^= 0x10 })
		}},
	{name: "changed global scale", id: GlobalDiffers, file: secondShard, tensor: layer + "mlp.experts.0.gate_proj.weight_scale_2", words: []string{"largest magnitude", "fused"},
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"mlp.experts.0.gate_proj.weight_scale_2", func(raw []byte) { raw[2] ^= 0x40 })
		}},
	{name: "global scale by one unit", id: GlobalDiffers, file: firstShard, tensor: layer + "self_attn.o_proj.weight_scale_2",
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"self_attn.o_proj.weight_scale_2", func(raw []byte) { raw[0] ^= 1 })
		}},
	{name: "infinite global scale", id: ScaleNonFinite, file: firstShard, tensor: layer + "self_attn.k_proj.weight_scale_2", words: []string{"+Inf"},
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"self_attn.k_proj.weight_scale_2", func(raw []byte) {
				binary.LittleEndian.PutUint32(raw, math.Float32bits(float32(math.Inf(1))))
			})
		}},
	{name: "NaN block scale", id: ScaleNonFinite, file: firstShard, tensor: layer + "self_attn.v_proj.weight_scale", words: []string{"[0,2]"}, more: 1,
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"self_attn.v_proj.weight_scale", func(raw []byte) { raw[2] = 0x7F })
		}},
	{name: "zero block scale", id: ScaleZero, file: firstShard, tensor: layer + "self_attn.v_proj.weight_scale", words: []string{"[1,0]"}, more: 1,
		do: func(t testing.TB, dir string) {
			bytesOf(t, dir, layer+"self_attn.v_proj.weight_scale", func(raw []byte) { raw[4] = 0 })
		}},
	{name: "missing ignore entry", id: "declared-not-quantized", file: firstShard, tensor: layer + "mlp.gate.weight", words: []string{"ignore"}, more: 1,
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) {
				q := m["quantization_config"].(map[string]any)
				q["ignore"] = []any{"lm_head"}
			})
		}},
	{name: "ignore entry that matches nothing", id: "pattern-unmatched", file: "config.json", words: []string{"model.layers.7*", "matches no module"},
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) {
				q := m["quantization_config"].(map[string]any)
				q["ignore"] = append(q["ignore"].([]any), "model.layers.7*")
			})
		}},
	{name: "quantized and ignored", id: "quantized-but-ignored", file: firstShard, tensor: layer + "self_attn.q_proj.weight", words: []string{"*q_proj"}, more: 1,
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) {
				q := m["quantization_config"].(map[string]any)
				q["ignore"] = append(q["ignore"].([]any), "*q_proj")
			})
		}},
	{name: "not declared", id: "quantized-not-declared", file: firstShard, tensor: layer + "self_attn.q_proj.weight", more: 10,
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) {
				q := m["quantization_config"].(map[string]any)
				g := q["config_groups"].(map[string]any)["group_0"].(map[string]any)
				g["targets"] = []any{"re:.*experts.*"}
			})
		}},
	{name: "nothing declared", id: "quantized-not-declared", file: "config.json", words: []string{"no config", "10 matrices"},
		do: func(t testing.TB, dir string) {
			if err := os.Remove(filepath.Join(dir, "hf_quant_config.json")); err != nil {
				t.Fatal(err)
			}
			jsonOf(t, dir, "config.json", func(m map[string]any) { delete(m, "quantization_config") })
		}},
	{name: "hf_quant_config.json missing", id: SideMissing, file: "hf_quant_config.json",
		do: func(t testing.TB, dir string) {
			if err := os.Remove(filepath.Join(dir, "hf_quant_config.json")); err != nil {
				t.Fatal(err)
			}
		}},
	{name: "another format declared", id: "config-contradicts", file: firstShard, tensor: layer + "self_attn.q_proj.weight", words: []string{"num_bits 8"}, more: 9,
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) {
				q := m["quantization_config"].(map[string]any)
				g := q["config_groups"].(map[string]any)["group_0"].(map[string]any)
				g["weights"] = map[string]any{"num_bits": 8, "type": "float"}
			})
		}},
	{name: "config files disagree", id: "configs-disagree", file: "hf_quant_config.json", words: []string{"hf_quant_config.json and config.json disagree", layer + "self_attn.k_proj"},
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "hf_quant_config.json", func(m map[string]any) {
				q := m["quantization"].(map[string]any)
				q["exclude_modules"] = append(q["exclude_modules"].([]any), "*self_attn*")
			})
		}},
	{name: "config key changed", id: ConfigChanged, file: "config.json", words: []string{"num_experts_per_tok", "2", "1"},
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) { m["num_experts_per_tok"] = 2 })
		}},
	{name: "stale index row", id: BadIndex, file: indexName, tensor: "model.layers.9.mlp.up_proj.weight", words: []string{secondShard, "does not have it"},
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, indexName, func(m map[string]any) {
				m["weight_map"].(map[string]any)["model.layers.9.mlp.up_proj.weight"] = secondShard
			})
		}},
	{name: "index row of another shard", id: BadIndex, file: indexName, tensor: "lm_head.weight", words: []string{firstShard, secondShard},
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, indexName, func(m map[string]any) { m["weight_map"].(map[string]any)["lm_head.weight"] = firstShard })
		}},
	{name: "no index", id: BadIndex, file: firstShard, words: []string{"2 .safetensors files and no index"},
		do: func(t testing.TB, dir string) {
			if err := os.Remove(filepath.Join(dir, indexName)); err != nil {
				t.Fatal(err)
			}
		}},
	{name: "tensor in two shards", id: Unreadable, file: secondShard, tensor: "model.embed_tokens.weight", words: []string{firstShard + " too"}, more: 1,
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec {
				data["model.embed_tokens.weight"] = make([]byte, 64)
				return append(specs, checkpoint.Spec{Name: "model.embed_tokens.weight", DType: checkpoint.BF16, Shape: []int64{32}})
			})
		}},
	{name: "index that is none", id: Unreadable, file: indexName, words: []string{"is not valid"},
		do: func(t testing.TB, dir string) { writeFile(t, filepath.Join(dir, indexName), []byte("{")) }},
	{name: "total size", id: BadIndex, file: indexName, words: []string{"total_size is 5"},
		do: func(t testing.TB, dir string) {
			jsonOf(t, dir, indexName, func(m map[string]any) { m["metadata"] = map[string]any{"total_size": 5} })
		}},
	{name: "truncated shard", id: Unreadable, file: secondShard, tensor: "*", words: []string{"truncated", "9000 bytes"},
		do: func(t testing.TB, dir string) {
			if err := os.Truncate(filepath.Join(dir, secondShard), 9000); err != nil {
				t.Fatal(err)
			}
		}},
	{name: "shard gone", id: Unreadable, file: secondShard, words: []string{"is missing"},
		do: func(t testing.TB, dir string) {
			if err := os.Remove(filepath.Join(dir, secondShard)); err != nil {
				t.Fatal(err)
			}
		}},
	{name: "leftover temporary", id: Leftover, file: "." + firstShard + ".1f2e3d.tmp", words: []string{"temporary"},
		do: func(t testing.TB, dir string) {
			writeFile(t, filepath.Join(dir, "."+firstShard+".1f2e3d.tmp"), []byte("half"))
		}},
	{name: "unfinished export", id: Unfinished, file: "incomplete-export.json", words: []string{"not whole"},
		do: func(t testing.TB, dir string) {
			writeFile(t, filepath.Join(dir, "incomplete-export.json"), []byte("{}"))
		}},
	{name: "interrupted export", id: Unfinished, file: "incomplete-export.json", words: []string{"not whole"}, more: 24,
		do: func(t testing.TB, dir string) {
			writeFile(t, filepath.Join(dir, "incomplete-export.json"), []byte("{}"))
			for _, name := range []string{secondShard, indexName, "config.json"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}},
	{name: "stray shard", id: BadIndex, file: "extra.safetensors", words: []string{"not named by the index"},
		do: func(t testing.TB, dir string) {
			w, err := checkpoint.NewWriter(filepath.Join(dir, "extra.safetensors"), nil, nil)
			if err == nil {
				err = w.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	{name: "side file missing", id: SideMissing, file: "preprocessor_config.json", words: []string{"is missing"},
		do: func(t testing.TB, dir string) {
			if err := os.Remove(filepath.Join(dir, "preprocessor_config.json")); err != nil {
				t.Fatal(err)
			}
		}},
	{name: "side file changed", id: SideChanged, file: "chat_template.jinja", words: []string{"byte 3"},
		do: func(t testing.TB, dir string) {
			writeFile(t, filepath.Join(dir, "chat_template.jinja"), []byte("{{ Messages }}"))
		}},
	{name: "swapped tensors", id: TensorChanged, file: secondShard, tensor: "model.norm.weight", words: []string{"they are those of " + layer + "post_attention_layernorm.weight"}, more: 1,
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec {
				a, b := "model.norm.weight", layer+"post_attention_layernorm.weight"
				data[a], data[b] = data[b], data[a]
				return specs
			})
		}},
	{name: "swapped experts", id: CodesDiffer, file: secondShard, tensor: layer + "mlp.experts.0.down_proj.weight", more: 5,
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec {
				a, b := layer+"mlp.experts.0.down_proj.weight", layer+"mlp.experts.1.down_proj.weight"
				data[a], data[b] = data[b], data[a]
				return specs
			})
		}},
	{name: "tensor absent", id: TensorMissing, file: secondShard, tensor: "model.norm.weight", words: []string{"not in the output"},
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, _ map[string][]byte) []checkpoint.Spec {
				return without(specs, "model.norm.weight")
			})
		}},
	{name: "quantized tensor absent", id: TensorMissing, file: secondShard, tensor: layer + "mlp.experts.1.up_proj.weight", words: []string{"not in the output"},
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, _ map[string][]byte) []checkpoint.Spec {
				return without(specs, layer+"mlp.experts.1.up_proj.weight", layer+"mlp.experts.1.up_proj.weight_scale", layer+"mlp.experts.1.up_proj.weight_scale_2")
			})
		}},
	{name: "field absent", id: "module-incomplete", file: secondShard, tensor: layer + "mlp.experts.1.up_proj.weight", words: []string{"weight_scale F8_E4M3"},
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, _ map[string][]byte) []checkpoint.Spec {
				return without(specs, layer+"mlp.experts.1.up_proj.weight_scale_2")
			})
		}},
	{name: "extra tensor", id: TensorExtra, file: secondShard, tensor: "model.extra.bias", words: []string{"not in the source"},
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, data map[string][]byte) []checkpoint.Spec {
				data["model.extra.bias"] = make([]byte, 8)
				return append(specs, checkpoint.Spec{Name: "model.extra.bias", DType: checkpoint.F32, Shape: []int64{2}})
			})
		}},
	{name: "another dtype", id: TensorShape, file: secondShard, tensor: "model.norm.weight", words: []string{"F16 [64]", "BF16 [64]"},
		do: func(t testing.TB, dir string) {
			rewrite(t, dir, func(specs []checkpoint.Spec, _ map[string][]byte) []checkpoint.Spec {
				for i := range specs {
					if specs[i].Name == "model.norm.weight" {
						specs[i].DType = checkpoint.F16
					}
				}
				return specs
			})
		}},
}

func without(specs []checkpoint.Spec, names ...string) []checkpoint.Spec {
	var out []checkpoint.Spec
	for _, s := range specs {
		keep := true
		for _, n := range names {
			keep = keep && s.Name != n
		}
		if keep {
			out = append(out, s)
		}
	}
	return out
}

// copied is a copy of the export, to be damaged.
func (e *exported) copied(t testing.TB) exported {
	t.Helper()
	c := *e
	c.dir = filepath.Join(t.TempDir(), "out")
	if err := os.CopyFS(c.dir, os.DirFS(e.dir)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Every fault is found, by its name, in its file and its tensor, and a single
// one does not set off others.
func TestFaults(t *testing.T) {
	good := exportMoE(t, "nvfp4", "modelopt")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			e := good.copied(t)
			f.do(t, e.dir)
			rep := e.verify(t, Options{})
			if rep.OK {
				t.Fatal("it passes")
			}
			found := false
			for _, p := range rep.Problems {
				if p.ID != f.id || p.File != f.file || f.tensor != "*" && p.Tensor != f.tensor {
					continue
				}
				found = true
				for _, w := range f.words {
					if !strings.Contains(p.Message, w) {
						t.Errorf("%q is not in %q", w, p.Message)
					}
				}
			}
			if !found {
				t.Errorf("no %s of %s %s in %v", f.id, f.file, f.tensor, rep.Problems)
			}
			if len(rep.Problems) > 1+f.more {
				t.Errorf("%d problems: %v", len(rep.Problems), rep.Problems)
			}
		})
	}
}
