package model

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// TestIntegerVectors: a vector that is stored as whole numbers is refused by name; its
// bits are another's, and as numbers they would be finite.
func TestIntegerVectors(t *testing.T) {
	for _, c := range []struct {
		model, tensor string
		at            Place
		param         string
	}{
		{"qwen3_5", "model.language_model.layers.0.linear_attn.dt_bias", Place{topology.Attention, 0, -1, "dt"}, "bias"},
		{"gemma4_ple", "model.layers.0.layer_scalar", Place{topology.Mixing, 0, -1, "layer_scalar"}, "weight"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", c.model))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "model.safetensors")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := bytes.Index(data, []byte(`"`+c.tensor+`"`))
		if name < 0 {
			t.Fatalf("%s has no %s", c.model, c.tensor)
		}
		copy(data[name+bytes.Index(data[name:], []byte(`"BF16"`)):], `"I16" `)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		ck, err := checkpoint.Open(dir)
		f := fixtureOf(t, ck, err)
		_, err = f.source().Vector(t.Context(), c.at, c.param)
		var at *checkpoint.FileError
		if !errors.As(err, &at) || at.Tensor != c.tensor || at.Reason != "values of type I16" {
			t.Errorf("%s: %v", c.tensor, err)
		}
	}
}
