package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const layoutCases = "../../quant/layout/testdata/cases/"

// C37: what the ignore list forgot is named, what is packed is not, and two files
// that disagree are a finding of their own.
func TestIgnoreListIsHeldAgainstTensors(t *testing.T) {
	found := ofRule("quantization", lintPath(t, layoutCases+"C37-ignore-list"))
	var named []string
	disagree := 0
	for _, f := range found {
		if f.Severity != Error || f.Fix == "" {
			t.Errorf("%+v", f)
		}
		if strings.Contains(f.Message, "disagree") {
			disagree++
			continue
		}
		named = append(named, f.Tensor)
	}
	slices.Sort(named)
	for id, tensor := range map[string]string{"router-not-ignored": "model.layers.0.mlp.gate.weight", "mtp-not-ignored": "mtp.fc.weight", "configs-disagree": ""} {
		if named := of(id, found); len(named) == 0 || named[0].Tensor != tensor {
			t.Errorf("%s: %+v", id, named)
		}
	}
	want := []string{"model.layers.0.mlp.gate.weight", "mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight"}
	if !slices.Equal(named, want) || disagree != 1 {
		t.Errorf("%q and %d that disagree", named, disagree)
	}
}

// A quantization config that cannot be read is a finding, not the end of the lint.
func TestUnreadableQuantizationConfig(t *testing.T) {
	dir := t.TempDir()
	weights, err := os.ReadFile(layoutCases + "C37-ignore-list/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"model.safetensors": weights,
		"config.json":       []byte(`{"model_type":"llama","quantization_config":{"quant_method":"compressed-tensors","config_groups":7}}`),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	found := of("quantization-unreadable", lintPath(t, dir))
	if len(found) != 1 || found[0].Severity != Error || !strings.Contains(found[0].Message, "quantization is not readable") {
		t.Errorf("%+v", found)
	}
}
