package candidate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNotComputed: what is stored and not asked for is told, with its number; of the
// golden models of every family nothing is.
func TestNotComputed(t *testing.T) {
	dirs, err := filepath.Glob("../model/testdata/*/model.safetensors")
	if err != nil || len(dirs) < 25 {
		t.Fatal(len(dirs), err)
	}
	for _, file := range dirs {
		for _, f := range open(t, filepath.Dir(file)).Findings {
			if f.ID == "not-computed" {
				t.Errorf("%s: %+v", file, f)
			}
		}
	}
	for _, c := range []struct {
		model string
		edit  func(map[string]any)
		want  string
		more  string
	}{
		{"qwen3_next", func(c map[string]any) { c["shared_expert_intermediate_size"] = 0 }, "layers.0.mlp.shared_expert", "(and 15 more like it)"},
		{"qwen3", func(c map[string]any) { c["num_hidden_layers"], c["layer_types"] = 1, nil }, "layers.1.", "(and 10 more like it)"},
		{"glm4_moe_group2", func(c map[string]any) { c["n_shared_experts"] = 0 }, "layers.1.mlp.shared_experts", "(and 2 more like it)"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("../model/testdata/"+c.model)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		config := map[string]any{}
		if err := json.Unmarshal(data, &config); err != nil {
			t.Fatal(err)
		}
		c.edit(config)
		if data, err = json.Marshal(config); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range open(t, dir).Findings {
			if f.ID != "not-computed" {
				continue
			}
			n++
			if !strings.Contains(f.Tensor, c.want) || !strings.HasSuffix(f.Message, c.more) {
				t.Errorf("%s: %+v", c.model, f)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d findings", c.model, n)
		}
	}
}
