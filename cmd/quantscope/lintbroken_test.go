package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/lint"
	"quantscope/quant/checkpoint"
)

// lintOutput is what lint --json prints, as far as tests look at it.
type lintOutput struct {
	Failed    bool
	Findings  []lint.Finding
	Effective []lint.Share `json:"requested_effective"`
}

func linted(t *testing.T, args ...string) lintOutput {
	t.Helper()
	o := command(t, append([]string{"lint", "--json"}, args...)...)
	var d lintOutput
	if err := json.Unmarshal([]byte(o.out), &d); err != nil {
		t.Fatalf("%v: exit %d: %s%s", err, o.code, o.out, o.err)
	}
	if d.Failed != (o.code == exitCheckFailed) {
		t.Errorf("failed is %v and the exit code %d", d.Failed, o.code)
	}
	return d
}

// What the program writes lints clean, by itself and against its source. FP8 in
// ModelOpt's layout wants input scales that only calibration gives, which the
// export says as well.
func TestGoodExportsLintClean(t *testing.T) {
	for _, c := range []struct{ variant, layout, warns string }{
		{"nvfp4", "modelopt", ""}, {"fp8", "modelopt", "input-scale-missing"}, {"fp8-channel", "modelopt", ""}, {"fp8-block128", "modelopt", ""},
		{"nvfp4+mse", "compressed-tensors", ""}, {"mxfp4", "compressed-tensors", ""}, {"fp8", "compressed-tensors", ""}, {"fp8-channel", "compressed-tensors", ""}, {"fp8-block128", "compressed-tensors", ""},
		{"int4-g128", "compressed-tensors", ""}, {"int4-g32-sym", "compressed-tensors", ""}, {"int4-g128", "quantscope", ""},
	} {
		dir := exported(t, c.layout, c.variant)
		d := linted(t, dir, "--from", "demo", "--weights")
		for _, f := range d.Findings {
			if f.ID != c.warns || f.Severity != lint.Warning {
				t.Errorf("%s as %s: %+v", c.variant, c.layout, f)
			}
		}
		if c.warns != "" && len(d.Findings) == 0 || d.Failed {
			t.Errorf("%s as %s: %d findings, failed %v", c.variant, c.layout, len(d.Findings), d.Failed)
		}
		for _, s := range d.Effective {
			if s.Differs {
				t.Errorf("%s as %s: %+v", c.variant, c.layout, s)
			}
		}
	}
}

// So does a mixture, and a conversion of it: ModelOpt's groups say of FP8 with a scale
// a row and a token that inputs are not dynamic, which its algorithm knows better.
func TestMixturesLintClean(t *testing.T) {
	for layout, other := range map[string]string{"modelopt": "compressed-tensors", "compressed-tensors": "modelopt"} {
		out, converted := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "converted")
		for _, args := range [][]string{
			{"quantize", "demo", "--recipe", "mixed-nvfp4-fp8", "--out", out, "--layout", layout, "--session", filepath.Join(t.TempDir(), "s.qscope")},
			{"convert", out, converted, "--layout", other},
		} {
			if o := command(t, args...); o.code != exitGood {
				t.Fatalf("%v: exit %d: %s", args, o.code, o.err)
			}
		}
		for _, dir := range []string{out, converted} {
			for _, f := range linted(t, dir, "--from", "demo").Findings {
				if f.ID != "head-quantized" || f.Severity != lint.Note {
					t.Errorf("%s from %s: %+v", filepath.Base(dir), layout, f)
				}
			}
		}
	}
}

func isMTP(name string) bool { return strings.HasPrefix(name, "model.layers.5.") }

// broken is a way to break an export, and what is found then.
type broken struct {
	name   string
	layout string // "" is modelopt
	edit   func(*edited)
	args   []string
	id     string
	tensor string
	file   string // where the finding is about one
	words  string // in message or evidence
}

const (
	expert3 = "model.layers.2.mlp.experts.3."
	attn0   = "model.layers.0.self_attn."
)

// scaleBreaks break scales and what stands beside them.
var scaleBreaks = []broken{
	{name: "gate and up under two scales", edit: func(e *edited) { e.scale(expert3+"up_proj.weight_scale_2", 10) },
		id: "globals-differ", tensor: expert3 + "up_proj.weight_scale_2", words: "up/gate 10"},
	{name: "the same where scales divide", layout: "compressed-tensors", edit: func(e *edited) { e.scale(expert3+"up_proj.weight_global_scale", 4) },
		id: "globals-differ", tensor: expert3 + "up_proj.weight_global_scale", words: "up/gate 0.25"},
	{name: "a NaN block scale", edit: func(e *edited) { e.at(expert3 + "down_proj.weight_scale").data[9] = 0x7F },
		id: "scale-nonfinite", tensor: expert3 + "down_proj.weight_scale", words: "1 of 1024 scales are NaN, at [1,1]"},
	{name: "a matrix of zeros", edit: func(e *edited) {
		e.number(expert3+"down_proj.weight_scale_2", 0)
		e.fill(expert3+"down_proj.weight_scale", 0x7F)
	}, id: "zero-matrix", tensor: expert3 + "down_proj.weight_scale", words: "weight_scale_2 is 0"},
	{name: "a second-level scale of 0", edit: func(e *edited) { e.number(expert3+"down_proj.weight_scale_2", 0) },
		id: "scale-zero", tensor: expert3 + "down_proj.weight_scale_2", words: "1 of 1 scales are 0"},
	{name: "a second-level scale of 1", edit: func(e *edited) { e.number(expert3+"down_proj.weight_scale_2", 1) },
		id: "scale-ones", tensor: expert3 + "down_proj.weight_scale_2", words: "exactly 1"},
	{name: "block scales of 1", layout: "compressed-tensors", edit: func(e *edited) { e.fill(expert3+"down_proj.weight_scale", 0x38) },
		id: "scale-ones", tensor: expert3 + "down_proj.weight_scale", words: "all 1024 scales are 1"},
	{name: "static inputs without scales", edit: func(e *edited) {
		e.group()["input_activations"] = map[string]any{"dynamic": false, "num_bits": 4, "type": "float", "group_size": 16}
		e.quant()["quant_algo"] = "NVFP4"
	}, id: "input-scale-missing", tensor: "model.layers.1.mlp.experts.0.down_proj.weight", words: "config_groups.group_0.input_activations"},
	{name: "inputs of FP8", edit: func(e *edited) {
		e.group()["input_activations"] = map[string]any{"dynamic": true, "num_bits": 8, "type": "float"}
	}, id: "nvfp4-fp8-activations", file: "config.json", words: "8-bit float inputs"},
	{name: "exponents where numbers are read", layout: "fp8-block128", edit: func(e *edited) {
		s := e.at(expert3 + "down_proj.weight_scale")
		s.dtype, s.data = checkpoint.U8, []byte{120}
	}, id: "e8m0-as-float", tensor: expert3 + "down_proj.weight_scale", words: "127 stands for 1"},
}

// configBreaks break the quantization config, or what it covers.
var configBreaks = []broken{
	{name: "scales of another shape", edit: func(e *edited) { e.at(expert3 + "down_proj.weight_scale").shape = []int64{64, 16} },
		id: "module-incomplete", tensor: expert3 + "down_proj.weight", words: "[64 16], want [128 8]"},
	{name: "packed and ignored", edit: func(e *edited) { e.unignore(func(string) bool { return false }, strings.TrimSuffix(expert3, ".")) },
		id: "quantized-but-ignored", tensor: expert3 + "down_proj.weight", words: "says that it is not quantized"},
	{name: "a pattern for nothing", edit: func(e *edited) { e.unignore(func(string) bool { return false }, "model.layers.7.*") },
		id: "pattern-unmatched", file: "config.json", words: "model.layers.7.*"},
	{name: "packed and no target", layout: "compressed-tensors", edit: func(e *edited) { e.group()["targets"] = []any{"re:.*(gate|up)_proj$"} },
		id: "quantized-not-declared", tensor: "model.layers.1.mlp.experts.0.down_proj.weight_packed"},
	{name: "bits of another format", layout: "compressed-tensors", edit: func(e *edited) { e.group()["weights"].(map[string]any)["num_bits"] = 8 },
		id: "config-contradicts", tensor: "model.layers.1.mlp.experts.0.down_proj.weight_packed", words: "num_bits 8"},
	{name: "plain attention under the config", edit: func(e *edited) {
		e.unignore(func(p string) bool { return p == "model.layers.1.self_attn*" })
	}, id: "declared-not-quantized", tensor: "model.layers.1.self_attn.k_proj.weight", words: "look for scales"},
	{name: "a router under the config", edit: func(e *edited) { e.unignore(func(p string) bool { return p == "model.layers.3.mlp.gate" }) },
		id: "router-not-ignored", tensor: "model.layers.3.mlp.gate.weight"},
	{name: "MTP under the config", edit: func(e *edited) { e.unignore(isMTP) },
		id: "mtp-not-ignored", tensor: "model.layers.5.eh_proj.weight"},
	{name: "two configs", edit: func(e *edited) {
		e.json("hf_quant_config.json", func(o map[string]any) { o["quantization"].(map[string]any)["exclude_modules"] = []any{"lm_head"} })
	}, id: "configs-disagree", file: "hf_quant_config.json"},
	{name: "a config of another type", edit: func(e *edited) { e.quant()["config_groups"] = 7 },
		id: "quantization-unreadable", words: "not readable"},
	{name: "a packed router", edit: func(e *edited) {
		delete(e.tensors, "model.layers.2.mlp.gate.weight")
		e.move(expert3+"down_proj", "model.layers.2.mlp.gate")
	}, id: "router-quantized", tensor: "model.layers.2.mlp.gate.weight"},
	{name: "a packed embedding", edit: func(e *edited) {
		delete(e.tensors, "model.embed_tokens.weight")
		e.move(expert3+"down_proj", "model.embed_tokens")
	}, id: "embedding-quantized", tensor: "model.embed_tokens.weight"},
	{name: "a packed head that is tied", edit: func(e *edited) {
		delete(e.tensors, "lm_head.weight")
		e.move(expert3+"down_proj", "lm_head")
		e.config["tie_word_embeddings"] = true
	}, id: "head-tied-quantized", tensor: "lm_head.weight"},
	{name: "fused experts in floating point", layout: "compressed-tensors", edit: func(e *edited) {
		e.drop(func(n string) bool { return strings.HasPrefix(n, "model.layers.1.mlp.experts.") })
		e.tensors["model.layers.1.mlp.experts.gate_up_proj"] = &stored{checkpoint.BF16, []int64{16, 256, 128}, make([]byte, 2*16*256*128)}
		e.tensors["model.layers.1.mlp.experts.down_proj"] = &stored{checkpoint.BF16, []int64{16, 128, 128}, make([]byte, 2*16*128*128)}
	}, id: "fused-experts-unquantized", tensor: "model.layers.1.mlp.experts.down_proj", words: "% of the parameters"},
}

// modelBreaks break names, files and the config of the model.
var modelBreaks = []broken{
	{name: "MTP declared and not stored", edit: func(e *edited) { e.drop(isMTP) }, id: "mtp-missing", file: "config.json"},
	{name: "MTP lost without a trace", edit: func(e *edited) { e.drop(isMTP); delete(e.config, "num_nextn_predict_layers") }, args: []string{"--from", "demo"},
		id: "mtp-dropped", tensor: "model.layers.5.mlp.gate.e_score_correction_bias"},
	{name: "a norm that is missing", edit: func(e *edited) { delete(e.tensors, "model.layers.3.input_layernorm.weight") }, args: []string{"--from", "demo"},
		id: "tensors-missing", tensor: "model.layers.3.input_layernorm.weight", words: "norm"},
	{name: "a head that is missing", edit: func(e *edited) { delete(e.tensors, "lm_head.weight") }, id: "head-missing", tensor: "lm_head.weight", words: "tie_word_embeddings is false"},
	{name: "tied weights twice", edit: func(e *edited) { e.config["tie_word_embeddings"] = true }, id: "head-tied-stored", tensor: "lm_head.weight"},
	{name: "tied weights that differ", edit: func(e *edited) { e.config["tie_word_embeddings"] = true }, args: []string{"--weights"}, id: "tied-copies-differ", tensor: "lm_head.weight"},
	{name: "a NaN weight", edit: func(e *edited) { copy(e.at(attn0 + "q_proj.weight").data[2*130:], []byte{0xC0, 0x7F}) }, args: []string{"--weights"},
		id: "weight-nonfinite", tensor: attn0 + "q_proj.weight", words: "NaN [1,2]"},
	{name: "a text model under a class that wraps one", edit: func(e *edited) {
		text := map[string]any{}
		for k, v := range e.config {
			if k != "architectures" && k != "quantization_config" {
				text[k] = v
			}
		}
		e.config = map[string]any{"architectures": []any{"Glm4vMoeForConditionalGeneration"}, "model_type": "glm4v_moe", "text_config": text, "quantization_config": e.config["quantization_config"]}
	}, id: "keys-flat", tensor: "model.layers.0.input_layernorm.weight", words: "Glm4vMoeForConditionalGeneration"},
	{name: "another dtype", edit: func(e *edited) { e.config["torch_dtype"] = "float16" }, id: "dtype-differs", tensor: "lm_head.weight", words: "the config says F16"},
	{name: "heads of two widths", edit: func(e *edited) {
		for _, p := range []string{"q", "k", "v"} {
			s := e.at("model.layers.4.self_attn." + p + "_proj.weight")
			s.shape[0], s.data = s.shape[0]/2, s.data[:len(s.data)/2]
		}
	}, id: "head-dim-mixed", tensor: "model.layers.4.self_attn.q_proj.weight", words: "layers 4: q 64, k 32"},
	{name: "a vision config without a processor", edit: func(e *edited) { e.config["vision_config"] = map[string]any{"hidden_size": 8} }, id: "preprocessor-missing", file: "preprocessor_config.json"},
	{name: "a processor in the newer file alone", edit: func(e *edited) {
		e.config["vision_config"] = map[string]any{"hidden_size": 8}
		e.side["processor_config.json"] = []byte(`{"image_processor": {"size": 4}}`)
	}, id: "preprocessor-reconstructible", file: "preprocessor_config.json"},
	{name: "a tower without a config", edit: func(e *edited) {
		e.tensors["model.visual.blocks.0.attn.proj.weight"] = &stored{checkpoint.BF16, []int64{2, 2}, make([]byte, 8)}
		e.unignore(func(string) bool { return false }, "model.visual*")
	}, id: "vision-config-missing", tensor: "model.visual.blocks.0.attn.proj.weight"},
	{name: "a truncation", edit: func(e *edited) {
		e.json("tokenizer.json", func(o map[string]any) { o["truncation"] = map[string]any{"max_length": 512} })
	}, id: "tokenizer-truncation", file: "tokenizer.json", words: "512"},
	{name: "a padding", edit: func(e *edited) {
		e.json("tokenizer.json", func(o map[string]any) { o["padding"] = map[string]any{"strategy": "BatchLongest"} })
	}, id: "tokenizer-padding", file: "tokenizer.json", words: "BatchLongest"},
	{name: "merges that are missing", edit: func(e *edited) {
		e.json("tokenizer.json", func(o map[string]any) {
			m := o["model"].(map[string]any)
			m["merges"] = m["merges"].([]any)[:5]
		})
	}, args: []string{"--from", "demo"}, id: "tokenizer-differs", file: "tokenizer.json", words: "merges: 5 here"},
	{name: "a tokenizer that is missing", edit: func(e *edited) { delete(e.side, "tokenizer.json") }, args: []string{"--from", "demo"}, id: "tokenizer-missing", file: "tokenizer.json"},
	{name: "a config that was edited", edit: func(e *edited) { e.config["rope_theta"] = 1e6 }, args: []string{"--from", "demo"}, id: "config-differs", file: "config.json", words: "rope_theta"},
	{name: "sampling defaults that are missing", edit: func(e *edited) { delete(e.side, "generation_config.json") }, args: []string{"--from", "demo"}, id: "generation-config-missing", file: "generation_config.json"},
	{name: "ids beyond the embedding", edit: func(e *edited) {
		s := e.at("model.embed_tokens.weight")
		s.shape[0], s.data = 1000, s.data[:2*1000*128]
	}, id: "tokenizer-vocabulary", tensor: "model.embed_tokens.weight", words: "1000 rows"},
	{name: "sampling defaults that are cut", edit: func(e *edited) { e.side["generation_config.json"] = []byte(`{"do_sample": tr`) }, id: "side-unreadable", file: "generation_config.json", words: "is no JSON object: "},
	{name: "a template that is a list", edit: func(e *edited) { e.side["chat_template.json"] = []byte(`[]`) }, id: "side-unreadable", file: "chat_template.json", words: "is no JSON object"},
	{name: "an unfinished export", edit: func(e *edited) { e.side["incomplete-export.json"] = []byte("{}") }, id: "export-unfinished", file: "incomplete-export.json"},
}

// Each broken copy of an export is found with the id, the tensor and the place that
// a person needs, and with what a server does and the fix.
func TestBrokenCopiesAreFound(t *testing.T) {
	good := map[string]string{"": exported(t, "modelopt", "nvfp4"), "compressed-tensors": exported(t, "compressed-tensors", "nvfp4"), "fp8-block128": exported(t, "modelopt", "fp8-block128")}
	for _, b := range slices.Concat(scaleBreaks, configBreaks, modelBreaks) {
		t.Run(b.name, func(t *testing.T) {
			e := editOf(t, good[b.layout])
			b.edit(e)
			b.found(t, linted(t, append([]string{e.write()}, b.args...)...))
		})
	}
}

// found wants the finding among those of a lint.
func (b *broken) found(t *testing.T, d lintOutput) {
	t.Helper()
	i := slices.IndexFunc(d.Findings, func(f lint.Finding) bool { return f.ID == b.id })
	if i < 0 {
		t.Fatalf("no %s: %+v", b.id, d.Findings)
	}
	f := d.Findings[i]
	if f.Tensor != b.tensor || b.file != "" && f.File != b.file || b.tensor == "" && f.File == "" {
		t.Errorf("%s is about %q in %q, want %q in %q", f.ID, f.Tensor, f.File, b.tensor, b.file)
	}
	if f.Explanation == "" || f.Server == "" || f.Fix == "" || f.Rule == "" || f.Severity == "" {
		t.Errorf("a finding does not say all: %+v", f)
	}
	if said := f.Message + fmt.Sprint(f.Evidence); !strings.Contains(said, b.words) {
		t.Errorf("no %q in %s", b.words, said)
	}
	if f.Severity == lint.Error && !d.Failed {
		t.Error("an error does not fail the gate")
	}
}

// MTP tensors that the index forgot are found whether they are in a shard or in a
// file of their own.
func TestMTPThatIsNotIndexed(t *testing.T) {
	dir := exported(t, "modelopt", "nvfp4")
	e := editOf(t, dir)
	b := broken{id: "mtp-not-indexed", tensor: "model.layers.5.eh_proj.weight", file: "model-00002-of-00002.safetensors"}
	d := linted(t, e.writeIndexed(isMTP, func(n string) bool { return n == b.tensor }))
	b.found(t, d)
	lost := e.writeIndexed(isMTP, isMTP) // the second file is not named by the index at all
	d = linted(t, lost)
	b.tensor = ""
	b.found(t, d)
	if !strings.Contains(fmt.Sprint(d.Findings), "model.layers.5.eh_proj.weight") || !slices.ContainsFunc(d.Findings, func(f lint.Finding) bool { return f.ID == "mtp-missing" }) {
		t.Errorf("%+v", d.Findings)
	}
}

// A shard that lists less than it has, and one too many.
func TestIndexAgainstShards(t *testing.T) {
	e := editOf(t, exported(t, "modelopt", "nvfp4"))
	b := broken{id: "index-unlisted", tensor: "model.norm.weight", file: "model-00001-of-00002.safetensors"}
	b.found(t, linted(t, e.writeIndexed(isMTP, func(n string) bool { return n == b.tensor })))
}
