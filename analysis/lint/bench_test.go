package lint

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// many writes a mixture of experts in ModelOpt's NVFP4 with matrices of 16×16, so
// that names and scales are all there is.
func many(tb testing.TB, layers, experts int) string {
	tb.Helper()
	dir := tb.TempDir()
	config := fmt.Sprintf(`{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 16, "moe_intermediate_size": 16, "num_hidden_layers": %d, "num_experts": %d, "num_experts_per_tok": 2, "tie_word_embeddings": false,
 "quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}, "ignore": ["lm_head", "*.mlp.gate"]}}`, layers, experts)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
		tb.Fatal(err)
	}
	var specs []checkpoint.Spec
	add := func(name string, d checkpoint.DType, shape ...int64) {
		specs = append(specs, checkpoint.Spec{Name: name, DType: d, Shape: shape})
	}
	for l := range layers {
		for e := range experts {
			for _, p := range []string{"gate", "up", "down"} {
				m := fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.", l, e, p)
				add(m+"weight", checkpoint.U8, 16, 8)
				add(m+"weight_scale", checkpoint.F8E4M3, 16, 1)
				add(m+"weight_scale_2", checkpoint.F32)
			}
		}
		add(fmt.Sprintf("model.layers.%d.mlp.gate.weight", l), checkpoint.BF16, int64(experts), 16)
	}
	add("model.embed_tokens.weight", checkpoint.BF16, 8, 16)
	add("lm_head.weight", checkpoint.BF16, 8, 16)
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for next, _ := w.Next(); next != nil; next, _ = w.Next() {
		data := make([]byte, next.Size)
		for i := range data {
			data[i] = 0x30
		}
		if next.DType == checkpoint.F32 {
			binary.LittleEndian.PutUint32(data, math.Float32bits(0.01))
		}
		if _, err := w.Write(data); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// 43 layers of 288 experts: 37,152 matrices in 111,501 tensors.
func BenchmarkCheck(b *testing.B) {
	c, err := checkpoint.Open(many(b, 43, 288))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	m, err := topology.FromCheckpoint(c)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		rep, err := Check(b.Context(), Input{Checkpoint: c, Model: m})
		if err != nil || len(rep.Findings) != 0 && rep.Findings[0].ID != "layers-missing" {
			b.Fatal(err, rep.Findings)
		}
	}
	b.ReportMetric(float64(len(c.Tensors)), "tensors")
}

// Every matrix broken: the report stays as small as it is asked to be.
func TestManyFindingsAreFew(t *testing.T) {
	dir := many(t, 2, 64)
	e, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(string(e[:len(e)-3])+`, "model.layers*"]}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	found := of("quantized-but-ignored", lintPath(t, dir))
	if len(found) != DefaultMost || found[0].More != 2*64*3-DefaultMost || found[1].More != 0 {
		t.Errorf("%d listed, %d more", len(found), found[0].More)
	}
}
