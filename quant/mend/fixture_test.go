package mend

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

func openDemo(t testing.TB) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	return ck
}

func open(t testing.TB, dir string) *checkpoint.Checkpoint {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	return ck
}

// made says what a fixture is.
type made struct {
	method     string                           // of the config; "" for a copy that is not quantized
	single     bool                             // one file, without an index
	drop       func(name string, mtp bool) bool // tensors that are not written
	unindexed  func(name string, mtp bool) bool // tensors that are written and not in the index
	config     func(map[string]any)             // changes config.json
	packMTP    bool                             // routed experts of the MTP layer are quantized as well
	side       map[string]string                // files beside it
	nonlisting bool                             // leave the MTP modules out of the exceptions
}

// write makes a folder of the demo: its routed experts as NVFP4 whose values are
// anything, the rest as it is.
func write(t testing.TB, m made) string {
	t.Helper()
	src := openDemo(t)
	top, err := topology.FromCheckpoint(src)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	type part struct {
		spec checkpoint.Spec
		data []byte
	}
	files := map[string][]part{}
	weights := map[string]string{}
	var ignore, mtpIgnore []string
	for i := range src.Tensors {
		tensor, r := &src.Tensors[i], top.Roles[i]
		if m.drop != nil && m.drop(tensor.Name, r.MTP) {
			continue
		}
		file := "model.safetensors"
		if !m.single {
			file = src.Files[tensor.File].Name
		}
		add := func(name string, dt checkpoint.DType, shape []int64, data []byte) {
			files[file] = append(files[file], part{checkpoint.Spec{Name: name, DType: dt, Shape: shape}, data})
			if m.unindexed == nil || !m.unindexed(tensor.Name, r.MTP) {
				weights[name] = file
			}
		}
		module, param := layout.Split(tensor.Name)
		if m.method != "" && r.Kind == topology.Expert && param == "weight" && (!r.MTP || m.packMTP) {
			out, in := tensor.Shape[0], tensor.Shape[1]
			one := math.Float32bits(1)
			scale2 := []byte{byte(one), byte(one >> 8), byte(one >> 16), byte(one >> 24)}
			codes, scales := make([]byte, out*in/2), slices.Repeat([]byte{0x30}, int(out*in/16))
			if m.method == layout.ModelOpt {
				add(module+".weight", checkpoint.U8, []int64{out, in / 2}, codes)
				add(module+".weight_scale", checkpoint.F8E4M3, []int64{out, in / 16}, scales)
				add(module+".weight_scale_2", checkpoint.F32, nil, scale2)
			} else {
				add(module+".weight_packed", checkpoint.U8, []int64{out, in / 2}, codes)
				add(module+".weight_scale", checkpoint.F8E4M3, []int64{out, in / 16}, scales)
				add(module+".weight_global_scale", checkpoint.F32, []int64{1}, scale2)
			}
			continue
		}
		if param == "weight" && layout.IsLinear(tensor, &r) {
			if r.MTP {
				mtpIgnore = append(mtpIgnore, module)
			} else {
				ignore = append(ignore, module)
			}
		}
		data := make([]byte, tensor.Size)
		if err := src.ReadAt(t.Context(), tensor, 0, data); err != nil {
			t.Fatal(err)
		}
		add(tensor.Name, tensor.DType, tensor.Shape, data)
	}
	total := int64(0)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var specs []checkpoint.Spec
		for _, p := range files[name] {
			specs = append(specs, p.spec)
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, name), specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range files[name] {
			if _, err := w.Write(p.data); err != nil {
				t.Fatal(err)
			}
			if _, in := weights[p.spec.Name]; in {
				total += int64(len(p.data))
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if !m.single {
		put(t, dir, indexName, map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": weights})
	}
	var config map[string]any
	if err := json.Unmarshal(src.Config, &config); err != nil {
		t.Fatal(err)
	}
	if !m.nonlisting {
		ignore = append(ignore, mtpIgnore...)
	}
	switch m.method {
	case layout.ModelOpt:
		config[quantKey] = map[string]any{"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": map[string]any{
			"group_0": map[string]any{"targets": []string{"Linear"}, "weights": map[string]any{"num_bits": 4, "type": "float", "group_size": 16}}}, "ignore": ignore}
		put(t, dir, modelOptName, map[string]any{"producer": map[string]any{"name": "modelopt"}, "quantization": map[string]any{"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ignore}})
	case layout.CompressedTensors:
		config[quantKey] = map[string]any{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": map[string]any{
			"group_0": map[string]any{"targets": []string{"Linear"}, "weights": map[string]any{"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": true}}}, "ignore": ignore}
	}
	if m.config != nil {
		m.config(config)
	}
	put(t, dir, configName, config)
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		if text, ok, err := sideText(src, name); err != nil {
			t.Fatal(err)
		} else if ok {
			putText(t, dir, name, string(text))
		}
	}
	for name, text := range m.side {
		if text == "" {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		putText(t, dir, name, text)
	}
	return dir
}

func put(t testing.TB, dir, name string, v any) {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	putText(t, dir, name, string(text)+"\n")
}

func putText(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func planOf(t testing.TB, out, src *checkpoint.Checkpoint, steps ...string) *Plan {
	t.Helper()
	p, err := NewPlan(out, src, steps)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// needed lists the steps that have something to do.
func needed(p *Plan) []string {
	var ids []string
	for _, s := range p.Steps {
		if s.Needed {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// mended applies a plan into a new folder and wants the check to pass.
func mended(t testing.TB, p *Plan) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "mended")
	res, err := p.Apply(t.Context(), Options{To: to})
	if err != nil {
		t.Fatal(err)
	}
	checked(t, p, res)
	return to
}

func checked(t testing.TB, p *Plan, res Result) {
	t.Helper()
	c, err := p.Check(t.Context(), res)
	if err != nil {
		t.Fatal(err)
	}
	if !c.OK {
		t.Fatalf("after mending: %s", strings.Join(c.Problems, "; "))
	}
}
