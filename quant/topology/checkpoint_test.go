package topology

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quantscope/quant/checkpoint"
)

// writeCheckpoint stores zeros of the given shapes in one safetensors file.
func writeCheckpoint(t *testing.T, dir string, tensors []Named) {
	t.Helper()
	var header strings.Builder
	var at int64
	for i, ts := range tensors {
		dtype, ok := checkpoint.ParseDType(ts.DType)
		n, fits := elements(ts.Shape)
		if !ok || !fits {
			t.Fatalf("%v", ts)
		}
		size := n * int64(dtype.Bits()) / 8
		sep := ","
		if i == 0 {
			sep = "{"
		}
		shape := strings.ReplaceAll(fmt.Sprint(append([]int64{}, ts.Shape...)), " ", ",")
		fmt.Fprintf(&header, "%s%q:{\"dtype\":%q,\"shape\":%s,\"data_offsets\":[%d,%d]}", sep, ts.Name, ts.DType, shape, at, at+size)
		at += size
	}
	header.WriteString("}")
	data := binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))
	data = append(append(data, header.String()...), make([]byte, at)...)
	write(t, dir, "model.safetensors", string(data))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *Model {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	m, err := FromCheckpoint(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A checkpoint on disk resolves as its header does.
func TestFromCheckpoint(t *testing.T) {
	for _, name := range []string{"gpt_oss", "qwen3_5_moe", "case_ignore_list"} {
		f, tensors := load(t, name)
		dir := t.TempDir()
		writeCheckpoint(t, dir, tensors)
		write(t, dir, "config.json", string(f.Config))
		got, want := open(t, dir), resolveFixture(t, name)
		if diff := gocmp.Diff(want.Roles, got.Roles); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := gocmp.Diff(want.Matrices, got.Matrices); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got.Summary != want.Summary {
			t.Errorf("%s: %s, want %s", name, got.Summary, want.Summary)
		}
	}
}

func TestFromCheckpointConfigs(t *testing.T) {
	tensors := []Named{{"model.layers.0.mlp.up_proj.weight", "U8", []int64{4, 16}}, {"model.layers.0.mlp.up_proj.weight_scale", "F8_E4M3", []int64{4, 2}}}
	dir := t.TempDir()
	writeCheckpoint(t, dir, tensors)
	m := open(t, dir)
	if m.Config.Present || m.Family != "unknown" || len(m.Findings) == 0 || !strings.Contains(m.Findings[0].Message, "no config.json") {
		t.Errorf("without a config: %q", m.Findings)
	}
	write(t, dir, "config.json", `{"model_type":"llama","num_hidden_layers":1,"time_step_limit":[0.0, Infinity]}`)
	write(t, dir, "hf_quant_config.json", `{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","group_size":16}}`)
	m = open(t, dir)
	if c := m.Config; !c.Present || c.QuantMethod != "modelopt" || c.QuantFormat != "NVFP4" || c.QuantGroup != 16 {
		t.Errorf("ModelOpt's own file: %+v", c)
	}
	write(t, dir, "hf_quant_config.json", `{"quantization":3}`)
	m = open(t, dir)
	if n := m.Config.Notes; len(n) != 1 || !strings.Contains(n[0], "no quantization section") {
		t.Errorf("notes %q", n)
	}
}

// An empty tensor has no elements, whatever its other sides are.
func TestElementsOfEmptyShapes(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		n     int64
		ok    bool
	}{
		{nil, 1, true}, {[]int64{0}, 0, true}, {[]int64{1 << 62, 0}, 0, true}, {[]int64{0, 1 << 62, 4}, 0, true},
		{[]int64{1 << 62, 4}, 0, false}, {[]int64{-1, 0}, 0, false}, {[]int64{-1}, 0, false}, {[]int64{3, 5}, 15, true},
	} {
		if n, ok := elements(c.shape); n != c.n || ok != c.ok {
			t.Errorf("%v: %d %v, want %d %v", c.shape, n, ok, c.n, c.ok)
		}
	}
}
