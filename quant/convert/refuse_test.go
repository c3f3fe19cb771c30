package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout/layouttest"
)

// small is a GPTQ matrix of 32×64.
func small(f layouttest.Form) []part {
	w := make([]float32, 32*64)
	for i := range w {
		w[i] = float32(i%13)/7 - 0.8
	}
	return packed(proj, layouttest.Pack(w, 32, 64, f, 1), f)
}

var sym4 = layouttest.Form{Bits: 4, Group: 32, Sym: true}

// What the other layout cannot say is refused by name, and nothing is written.
func TestRefusals(t *testing.T) {
	gptq := gptqQuant(4, 32, true, false, "gptq")
	nv := module(proj, golden(t, "nvfp4_gaussian", "modelopt."), "weight", "weight_scale", "weight_scale_2")
	nvQuant := `{"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head", "model.layers.0.mlp*"]%s, "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}`
	fp8Quant := `{"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}%s}}}`
	fp8Parts := module(proj, golden(t, "fp8_gaussian", "ct32.channel."), "weight", "weight_scale")
	extra := func(name string) part {
		return part{proj + "." + name, checkpoint.BF16, []int64{64}, make([]byte, 128)}
	}
	mx := module(proj, golden(t, "mxfp4_gaussian", "ct."), "weight_packed", "weight_scale")
	mxQuant := `{"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}}}`
	for _, c := range []struct {
		what, quant, to string
		parts           []part
		reason          error
		mention         []string
	}{
		{"unknown layout", gptq, "gguf", small(sym4), export.ErrUnknown, []string{`"gguf"`, "compressed-tensors, gptq, quantscope, modelopt"}},
		{"form", gptq, ModelOpt, small(sym4), ErrRefused, []string{proj, "compressed-tensors, gptq, quantscope"}},
		{"already", gptq, GPTQ, small(sym4), export.ErrSource, []string{"in layout gptq already"}},
		{"nothing quantized", `null`, GPTQ, nil, export.ErrSource, []string{"holds no quantized module"}},
		{"bits", gptqQuant(8, 32, true, false, "gptq"), Own, small(layouttest.Form{Bits: 8, Group: 32, Sym: true}), ErrRefused, []string{"8 bits"}},
		{"order", gptqQuant(4, 32, true, true, "gptq"), Own, small(layouttest.Form{Bits: 4, Group: 32, Sym: true, Order: true}), ErrRefused, []string{"order of activations"}},
		{"groups", gptqQuant(4, 16, true, false, "gptq"), Own, small(layouttest.Form{Bits: 4, Group: 16, Sym: true}), ErrRefused, []string{"groups of 16"}},
		{"pre_quant_scale", fmt.Sprintf(nvQuant, ""), CompressedTensors, append(slices.Clone(nv), part{proj + ".pre_quant_scale", checkpoint.BF16, []int64{128}, make([]byte, 256)}), ErrRefused, []string{"pre_quant_scale", "scaled inputs"}},
		{"kv scale", fmt.Sprintf(nvQuant, ""), CompressedTensors, append(slices.Clone(nv), part{layer + "self_attn.k_proj.k_scale", checkpoint.F32, []int64{}, make([]byte, 4)}), ErrRefused, []string{"k_scale", "key-value cache"}},
		{"kv scheme", fmt.Sprintf(nvQuant, `, "kv_cache_scheme": {"num_bits": 8}`), CompressedTensors, nv, ErrRefused, []string{"kv_cache_scheme"}},
		{"output scale", fmt.Sprintf(nvQuant, ""), CompressedTensors, append(slices.Clone(nv), extra("output_scale")), ErrRefused, []string{"output_scale"}},
		{"algo", strings.Replace(fmt.Sprintf(nvQuant, ""), "W4A16_NVFP4", "W4A8_NVFP4_FP8", 1), CompressedTensors, nv, nil, []string{"W4A8_NVFP4_FP8"}},
		{"output activations", fmt.Sprintf(fp8Quant, `, "output_activations": {"num_bits": 8, "type": "float"}`), ModelOpt, fp8Parts, ErrRefused, []string{"quantizes outputs"}},
		{"int activations", fmt.Sprintf(fp8Quant, `, "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true}`), ModelOpt, fp8Parts, ErrRefused, []string{"not known here", "type int"}},
		{"weights alone", fmt.Sprintf(fp8Quant, ""), ModelOpt, fp8Parts, ErrRefused, []string{"activations that are not quantized", "no word in layout modelopt"}},
		{"mxfp4", mxQuant, ModelOpt, mx, ErrRefused, []string{"mxfp4", "already", "compressed-tensors"}[:1]},
		{"config against tensors", strings.Replace(gptq, `"-:.*mlp.gate_proj$"`, `"-:.*proj$"`, 1), CompressedTensors, small(sym4), export.ErrSource, []string{"quantized-but-ignored"}},
		{"bytes", `{"quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head", "re:.*gate_proj"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true}}}}`, GPTQ,
			[]part{{proj + ".weight", checkpoint.I8, []int64{32, 64}, make([]byte, 2048)}, {proj + ".weight_scale", checkpoint.F32, []int64{32, 1}, make([]byte, 128)}}, ErrRefused, []string{proj, "cannot be said in another layout"}},
		{"unread", gptqQuant(5, 32, true, false, "gptq"), CompressedTensors, small(sym4), export.ErrSource, []string{"are not read", proj}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p, err := planned(t, folder(t, c.quant, c.parts), c.to)
			if err == nil {
				t.Fatalf("is planned: %+v", p)
			}
			if c.reason != nil && !errors.Is(err, c.reason) {
				t.Errorf("%v: is no %v", err, c.reason)
			}
			for _, m := range c.mention {
				if !strings.Contains(err.Error(), m) {
					t.Errorf("%q does not say %q", err, m)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
}

// A module that two formats of the source share a config with becomes a group of its own;
// GPTQ says it by dynamic, our own layout cannot.
func TestSeveralSchemes(t *testing.T) {
	other := layer + "self_attn.k_proj"
	f8 := layouttest.Form{Bits: 8, Group: 64, Sym: true}
	w := make([]float32, 32*64)
	for i := range w {
		w[i] = float32(i%29) - 14
	}
	parts := append(small(sym4), packed(other, layouttest.Pack(w, 32, 64, f8, 2), f8)...)
	quant := `{"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true, "desc_act": false, "checkpoint_format": "gptq", "dynamic": {"+:.*k_proj$": {"bits": 8, "group_size": 64}, "-:.*gate_proj$": {}}}`
	dir := folder(t, quant, parts)
	out, _ := convertTo(t, dir, CompressedTensors)
	groups := quantConfig(t, out)["config_groups"].(map[string]any)
	if len(groups) != 2 || fmt.Sprint(groups["group_0"].(map[string]any)["targets"], groups["group_1"].(map[string]any)["targets"]) != "["+other+"] ["+proj+"]" {
		t.Errorf("%v", groups)
	}
	if f := quantConfig(t, out)["format"]; f != "pack-quantized" {
		t.Errorf("format %v", f)
	}
	back, _ := convertTo(t, out, GPTQ)
	sameFiles(t, "back", dir, back)
	if _, err := planned(t, dir, Own); !errors.Is(err, ErrRefused) {
		t.Errorf("our own: %v", err)
	}
}

// An interrupted conversion goes on to the very bytes of one that was not, and of another
// layout or another source it is none.
func TestResume(t *testing.T) {
	dir := folder(t, gptqQuant(4, 32, true, false, "gptq"), small(sym4))
	whole, _ := convertTo(t, dir, CompressedTensors)
	p, err := planned(t, dir, CompressedTensors)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	stop := errors.New("stop")
	p.pieces[0].write = func(write func(context.Context, put) error) func(context.Context, put) error {
		return func(c context.Context, put put) error {
			if err := write(c, put); err != nil {
				return err
			}
			return stop
		}
	}(p.pieces[0].write)
	if _, _, err := p.Write(t.Context(), out, WriteOptions{}); !errors.Is(err, stop) {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "config.json")); err == nil {
		t.Error("has a config, and is not whole")
	}
	again, err := planned(t, dir, CompressedTensors)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := again.Write(t.Context(), out, WriteOptions{}); !errors.Is(err, export.ErrOutput) {
		t.Errorf("without being told: %v", err)
	}
	foreign, err := planned(t, dir, Own)
	if err == nil {
		if _, _, err = foreign.Write(t.Context(), out, WriteOptions{Resume: true}); !errors.Is(err, export.ErrChanged) {
			t.Errorf("another layout: %v", err)
		}
	}
	if _, _, err := again.Write(t.Context(), out, WriteOptions{Resume: true}); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, "gone on with", whole, out)
}

// A copy that is not what was promised is found out, wherever a byte is another.
func TestCheckFinds(t *testing.T) {
	dir := folder(t, gptqQuant(4, 32, false, false, "gptq"), small(layouttest.Form{Bits: 4, Group: 32}))
	nv := folder(t, `{"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "ignore": ["lm_head", "model.layers.0.mlp*"]}`, module(proj, golden(t, "nvfp4_gaussian", "modelopt."), "weight", "weight_scale", "weight_scale_2"))
	for _, c := range []struct{ source, tensor, mention string }{
		{dir, proj + ".weight_packed", "codes of outputs"}, {dir, proj + ".weight_scale", "scale 0"}, {dir, proj + ".weight_zero_point", "zero point 0"},
		{dir, "model.norm.weight", "other bytes"}, {dir, "lm_head.weight", "other bytes"},
		{nv, proj + ".weight_packed", "codes of outputs"}, {nv, proj + ".weight_scale", "block scales"}, {nv, proj + ".weight_global_scale", "want"},
	} {
		t.Run(c.tensor, func(t *testing.T) {
			p, err := planned(t, c.source, CompressedTensors)
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "out")
			if _, _, err := p.Write(t.Context(), out, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			ck, err := checkpoint.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			x, ok := ck.Lookup(c.tensor)
			if !ok {
				t.Fatal("no such tensor")
			}
			file := filepath.Join(out, ck.Files[x.File].Name)
			at := x.Offset
			_ = ck.Close()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			raw[at] ^= 1
			if err := os.WriteFile(file, raw, 0o666); err != nil {
				t.Fatal(err)
			}
			r, err := p.Check(t.Context(), out, 2)
			if err != nil {
				t.Fatal(err)
			}
			if r.OK() || !slices.ContainsFunc(r.Problems, func(x Problem) bool { return strings.Contains(x.Message, c.mention) }) {
				t.Errorf("%+v", r.Problems)
			}
		})
	}
}
