package layouttest

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
)

// tensor is one of a checkpoint that is written.
type tensor struct {
	checkpoint.Spec
	data []byte
}

// Demo writes the demo with its attention, dense and expert matrices packed, and
// its twin in f32.
func Demo(t testing.TB, f Form) (packed, twin string) {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	var a, b []tensor
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		raw := make([]byte, x.Size)
		if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutSuffix(x.Name, ".weight")
		if !ok || len(x.Shape) != 2 || !strings.HasSuffix(name, "_proj") && !(f.Head && name == "lm_head") {
			same := tensor{checkpoint.Spec{Name: x.Name, DType: x.DType, Shape: x.Shape}, raw}
			a, b = append(a, same), append(b, same)
			continue
		}
		w := make([]float32, x.Elements())
		if err := checkpoint.DecodeF32(w, x.DType, raw); err != nil {
			t.Fatal(err)
		}
		p := Pack(w, int(x.Shape[0]), int(x.Shape[1]), f, uint64(i))
		a = append(a, p.fields(name, f)...)
		var q []byte
		for _, v := range p.Decoded {
			q = binary.LittleEndian.AppendUint32(q, math.Float32bits(v))
		}
		b = append(b, tensor{checkpoint.Spec{Name: x.Name, DType: checkpoint.F32, Shape: x.Shape}, q})
	}
	packed, twin = filepath.Join(t.TempDir(), "packed"), filepath.Join(t.TempDir(), "twin")
	write(t, packed, ck, a, f.Config())
	write(t, twin, ck, b, nil)
	return packed, twin
}

// fields are the tensors of a packed matrix.
func (p *Packed) fields(name string, f Form) []tensor {
	groups := []int64{int64(p.Groups), int64(p.Rows)}
	out := []tensor{
		{checkpoint.Spec{Name: name + ".qweight", DType: checkpoint.I32, Shape: p.QweightShape}, p.Qweight},
		{checkpoint.Spec{Name: name + ".qzeros", DType: checkpoint.I32, Shape: p.QzerosShape}, p.Qzeros},
		{checkpoint.Spec{Name: name + ".scales", DType: checkpoint.F16, Shape: groups}, p.Scales},
	}
	if !f.AWQ {
		out = append(out, tensor{checkpoint.Spec{Name: name + ".g_idx", DType: checkpoint.I32, Shape: []int64{int64(p.Cols)}}, p.Index})
	}
	return out
}

// Config is the quantization config that the form's tools write.
func (f Form) Config() map[string]any {
	if f.AWQ {
		return map[string]any{"quant_method": "awq", "bits": f.Bits, "group_size": f.Group, "zero_point": true, "version": "gemm", "modules_to_not_convert": []string{"lm_head"}}
	}
	format := "gptq"
	if f.V2 {
		format = "gptq_v2"
	}
	return map[string]any{"quant_method": "gptq", "bits": f.Bits, "group_size": f.Group, "sym": f.Sym, "desc_act": f.Order, "lm_head": f.Head, "checkpoint_format": format}
}

// write writes a folder with the demo's side files.
func write(t testing.TB, dir string, ck *checkpoint.Checkpoint, tensors []tensor, quant map[string]any) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var specs []checkpoint.Spec
	for _, x := range tensors {
		specs = append(specs, x.Spec)
	}
	w, err := checkpoint.NewWriter(filepath.Join(dir, "model.safetensors"), specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors {
		if _, err := w.Write(x.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"config.json": ck.ConfigJSON()}
	for _, side := range ck.Side {
		if strings.HasSuffix(side.Name, ".json") && !strings.HasSuffix(side.Name, ".index.json") {
			if files[side.Name], err = side.Read(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if quant != nil {
		Configure(t, dir, quant)
	}
}

// Configure writes a quantization config into a folder.
func Configure(t testing.TB, dir string, quant map[string]any) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]json.RawMessage // numbers stay as they are written
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if config["quantization_config"], err = json.Marshal(quant); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}
