package convert

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// part is a tensor of a checkpoint that is written.
type part struct {
	name  string
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

const (
	layer = "model.layers.0."
	proj  = layer + "self_attn.q_proj"
)

// plain are tensors that no conversion touches.
func plain() []part {
	bf16 := func(name string, shape ...int64) part {
		n := int64(1)
		for _, s := range shape {
			n *= s
		}
		var data []byte
		for i := range n {
			data = binary.LittleEndian.AppendUint16(data, kernels.F32ToBF16(float32(i%17)-8))
		}
		return part{name, checkpoint.BF16, shape, data}
	}
	return []part{
		bf16("model.embed_tokens.weight", 16, 32), bf16(layer+"input_layernorm.weight", 32), bf16(layer+"mlp.gate_proj.weight", 64, 32),
		bf16("model.norm.weight", 32), bf16("lm_head.weight", 16, 32),
	}
}

// folder writes a checkpoint of two files: what is quantized in the second, but for
// what is named to be in the first.
func folder(t testing.TB, quant string, parts []part, first ...string) string {
	t.Helper()
	dir := t.TempDir()
	files := [2][]part{plain(), nil}
	for _, p := range parts {
		k := 1
		if slices.Contains(first, p.name) {
			k = 0
		}
		files[k] = append(files[k], p)
	}
	weights := map[string]string{}
	for k, parts := range files {
		name := []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}[k]
		var specs []checkpoint.Spec
		slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
		slices.SortStableFunc(parts, func(a, b part) int { return b.dtype.Bits() - a.dtype.Bits() })
		for _, p := range parts {
			specs = append(specs, checkpoint.Spec{Name: p.name, DType: p.dtype, Shape: p.shape})
			weights[p.name] = name
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, name), specs, map[string]string{"format": "pt"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if _, err := w.Write(p.data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": weights})
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, dir, "model.safetensors.index.json", string(index))
	putFile(t, dir, "config.json", `{"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "torch_dtype": "bfloat16", "quantization_config": `+quant+`}`)
	putFile(t, dir, "tokenizer.json", "{}")
	return dir
}

func putFile(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// golden reads the tensors of a file of golden vectors whose names begin with a prefix.
func golden(t testing.TB, file, prefix string) map[string]part {
	t.Helper()
	path := filepath.Join("..", "layout", "testdata", "golden", file+".safetensors")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join("..", "..", "kernels", "testdata", "golden", file+".safetensors")
	}
	ck, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	out := map[string]part{}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		if name, ok := strings.CutPrefix(x.Name, prefix); ok {
			raw := make([]byte, x.Size)
			if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
				t.Fatal(err)
			}
			out[name] = part{name, x.DType, x.Shape, raw}
		}
	}
	return out
}

// module are the parts of a golden file that a module stores, under its name.
func module(name string, parts map[string]part, params ...string) []part {
	var out []part
	for _, p := range params {
		from, to, renamed := strings.Cut(p, ">")
		if !renamed {
			to = from
		}
		x := parts[from]
		x.name = name + "." + to
		out = append(out, x)
	}
	return out
}

// open opens a checkpoint and its layout for the time of the test.
func open(t testing.TB, dir string) (*checkpoint.Checkpoint, *topology.Model, *layout.Layout) {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	return ck, model, l
}

// planned plans a conversion.
func planned(t testing.TB, dir, to string) (*Plan, error) {
	t.Helper()
	ck, model, l := open(t, dir)
	return New(t.Context(), ck, model, l, Options{Layout: to, Threads: 2})
}

// converted converts into a new folder and wants the report to be good.
func convertTo(t testing.TB, dir, to string) (string, Report) {
	t.Helper()
	p, err := planned(t, dir, to)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, _, err := p.Write(t.Context(), out, WriteOptions{Threads: 2}); err != nil {
		t.Fatal(err)
	}
	r, err := p.Check(t.Context(), out, 2)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.CodesEqual != r.Modules || r.Untouched.Identical != r.Untouched.Tensors || r.Untouched.Tensors < len(plain()) {
		t.Fatalf("%+v", r)
	}
	return out, r
}

// tensors are all tensors of a folder by name.
func tensors(t testing.TB, dir string) map[string]part {
	t.Helper()
	ck, _, _ := open(t, dir)
	out := map[string]part{}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		raw := make([]byte, x.Size)
		if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
			t.Fatal(err)
		}
		out[x.Name] = part{x.Name, x.DType, x.Shape, raw}
	}
	return out
}

// weightFiles are the bytes of the files of weights.
func weightFiles(t testing.TB, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = string(raw)
	}
	return out
}

func sameFiles(t testing.TB, what, a, b string) {
	t.Helper()
	x, y := weightFiles(t, a), weightFiles(t, b)
	if !slices.Equal(slices.Sorted(maps.Keys(x)), slices.Sorted(maps.Keys(y))) {
		t.Fatalf("%s: other files", what)
	}
	for name := range x {
		if x[name] != y[name] {
			t.Errorf("%s: %s is not the same, byte for byte", what, name)
		}
	}
}

// quantConfig is the quantization_config of a folder.
func quantConfig(t testing.TB, dir string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Q map[string]any `json:"quantization_config"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c.Q
}

// link makes a folder with the files of another.
func link(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Mkdir(to, 0o777); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "config.json" {
			continue
		}
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
