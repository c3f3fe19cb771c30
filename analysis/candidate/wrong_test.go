package candidate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A checkpoint that lacks what the pass reads, or has it in another shape, is refused
// when it is opened: what a measurement would stumble over is no session's beginning.
func TestTensorsThatDoNotFit(t *testing.T) {
	const q = `"model.layers.1.self_attn.q_proj.weight":{"dtype":"BF16","shape":`
	for _, c := range []struct{ from, to, tensor, says string }{
		{"model.layers.1.mlp.gate.e_score_correction_bias", "model.layers.1.mlp.gate.e_score_correction_bios", "layers.1.mlp.gate", "e_score_correction_bias of layer 1 router is needed"},
		{"model.layers.2.mlp.gate.weight", "model.layers.2.mlp.gate.weighs", "layers.2.mlp.gate", "weight of layer 2 router is needed"},
		{q + "[128,128]", q + "[16384]  ", "model.layers.1.self_attn.q_proj.weight", "is of shape [16384], the config asks for 128×128"},
		{q + "[128,128]", q + "[64,256] ", "model.layers.1.self_attn.q_proj.weight", "is 64×256, the config asks for 128×128"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("../../quant/demo/data/model")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "model.safetensors.index.json")); err != nil {
			t.Fatal(err)
		}
		edited := 0
		for _, f := range []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"} {
			path := filepath.Join(dir, f)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			edited += bytes.Count(b, []byte(c.from))
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(c.from), []byte(c.to)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Open(t.Context(), dir, Options{})
		if err == nil {
			_ = got.Close()
		}
		if edited != 1 || err == nil || !strings.Contains(err.Error(), c.tensor) || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "is not there") > 1 {
			t.Errorf("%s: %d times, %v", c.to, edited, err)
		}
	}
}
