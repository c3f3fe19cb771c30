package census

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// stored is one tensor of a fixture.
type stored struct {
	name  string
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

// writeFiles writes shards, and an index where there are more than one.
func writeFiles(t testing.TB, config string, shards ...[]stored) string {
	t.Helper()
	dir := t.TempDir()
	weights := map[string]string{}
	for i, shard := range shards {
		name := "model.safetensors"
		if len(shards) > 1 {
			name = "model-0000" + string(rune('1'+i)) + ".safetensors"
		}
		specs := make([]checkpoint.Spec, len(shard))
		for k, x := range shard {
			specs[k] = checkpoint.Spec{Name: x.name, DType: x.dtype, Shape: x.shape}
			weights[x.name] = name
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, name), specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range shard {
			if _, err := w.Write(x.data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if len(shards) > 1 {
		index, err := json.Marshal(map[string]any{"weight_map": weights})
		if err != nil {
			t.Fatal(err)
		}
		put("model.safetensors.index.json", index)
	}
	if config != "" {
		put("config.json", []byte(config))
	}
	return dir
}

// open opens a checkpoint for the time of the test.
func open(t testing.TB, path string) (*checkpoint.Checkpoint, *topology.Model) {
	t.Helper()
	from := checkpoint.Open
	if path == demo.Label {
		from = func(string) (*checkpoint.Checkpoint, error) { return demo.Open() }
	}
	ck, err := from(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	return ck, model
}

// census is the report on a path.
func census(t testing.TB, path string) *Report {
	t.Helper()
	ck, model := open(t, path)
	rep, err := Run(t.Context(), ck, model)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// floats are repeatable values of about this size.
func floats(n int, seed uint64, size float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		sum := -6.0
		for range 12 {
			seed = seed*6364136223846793005 + 1442695040888963407
			sum += float64(seed>>11) / (1 << 53)
		}
		out[i] = float32(sum * size)
	}
	kernels.RoundBF16(out)
	return out
}

// bf16 is a plain tensor.
func bf16(t testing.TB, name string, values []float32, shape ...int64) stored {
	t.Helper()
	raw := make([]byte, 2*len(values))
	if err := kernels.EncodeFloats(raw, kernels.BF16, values); err != nil {
		t.Fatal(err)
	}
	return stored{name, checkpoint.BF16, shape, raw}
}

// packed quantizes a matrix under its own second-level scale, or a given one,
// into the fields of a layout.
func packed(t testing.TB, module, lay string, values []float32, rows, cols int, global float32) []stored {
	t.Helper()
	raw := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	o := kernels.NVFP4Options{GlobalScale: global}
	names := []string{".weight", ".weight_scale", ".weight_scale_2"}
	shape := []int64{}
	if lay == layout.CompressedTensors {
		o.Convention = kernels.CT32
		names = []string{".weight_packed", ".weight_scale", ".weight_global_scale"}
		shape = []int64{1}
	}
	out := kernels.NVFP4Output{Codes: make([]byte, rows*cols/2), Scales: make([]byte, rows*cols/16)}
	if _, err := kernels.Reference().NVFP4(kernels.Matrix{Element: kernels.F32, Rows: rows, Cols: cols, Data: raw}, o, &out); err != nil {
		t.Fatal(err)
	}
	return []stored{
		{module + names[0], checkpoint.U8, []int64{int64(rows), int64(cols / 2)}, out.Codes},
		{module + names[1], checkpoint.F8E4M3, []int64{int64(rows), int64(cols / 16)}, out.Scales},
		scalar(module+names[2], out.GlobalScale, shape...),
	}
}

func scalar(name string, v float32, shape ...int64) stored {
	return stored{name, checkpoint.F32, shape, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))}
}

// exportDemo writes the demo quantized, and says what each matrix became.
func exportDemo(t testing.TB, variant, lay string, globals export.Globals) string {
	t.Helper()
	ck, model := open(t, demo.Label)
	return exported(t, ck, model, "", variant, lay, globals)
}

// exported writes a checkpoint quantized.
func exported(t testing.TB, ck *checkpoint.Checkpoint, model *topology.Model, targets, variant, lay string, globals export.Globals) string {
	t.Helper()
	v, err := method.Parse(variant)
	if err == nil {
		v.Spec.Convention, err = export.DefaultConvention(lay, v.Scheme)
	}
	if err != nil {
		t.Fatal(err)
	}
	sel, err := recipe.Select(model, targets)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := export.NewPlan(ck, model, sel.Matrices, v, export.Settings{Layout: lay, Globals: globals})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	w, err := export.Create(t.Context(), plan, dir, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set := kernels.Best()
	data := make([]kernels.Matrix, len(plan.Matrices))
	amax := make([]float32, len(plan.Matrices))
	for i := range plan.Matrices {
		m := &plan.Matrices[i]
		x, ok := ck.Lookup(m.Tensor)
		if !ok {
			t.Fatal(m.Tensor)
		}
		r := matrixReader{ck: ck, t: x, m: m, elem: kernels.BF16}
		raw, err := r.rows(t.Context(), 0, m.Rows)
		if err != nil {
			t.Fatal(err)
		}
		data[i] = kernels.Matrix{Element: kernels.BF16, Rows: m.Rows, Cols: m.Cols, Data: raw}
		if amax[i], err = set.AbsMax(data[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range plan.Groups() {
		top := float32(0)
		for _, i := range g {
			top = max(top, amax[i])
		}
		for _, i := range g {
			amax[i] = top
		}
	}
	for i, m := range data {
		p, err := set.Begin(plan.Spec, m.Element, m.Rows, m.Cols, amax[i])
		if err != nil {
			t.Fatal(err)
		}
		n := p.Sizes(m.Rows)
		o := kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
		if err := p.Rows(m.Data, &o); err != nil {
			t.Fatal(err)
		}
		if err := w.Store(i, 0, &o, p.Global()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// decoded is a module of a checkpoint, whole.
func decoded(t testing.TB, path, module string) []float32 {
	t.Helper()
	all := decodedAll(t, path, module)
	if all[module] == nil {
		t.Fatalf("%s is not in %s", module, path)
	}
	return all[module]
}

// decodedAll are the modules of a checkpoint, or those that are named.
func decodedAll(t testing.TB, path string, names ...string) map[string][]float32 {
	t.Helper()
	ck, model := open(t, path)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]float32{}
	for i := range l.Modules {
		m := &l.Modules[i]
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		all[m.Name] = make([]float32, m.Rows*m.Cols)
		if err := m.Dequantize(t.Context(), all[m.Name], 0, &layout.Stored{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// demoWeights are the demo's weights by module.
var demoWeights = sync.OnceValues(func() (map[string][]float32, error) {
	ck, err := demo.Open()
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	all := map[string][]float32{}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		name, ok := strings.CutSuffix(x.Name, ".weight")
		if !ok || x.DType != checkpoint.BF16 {
			continue
		}
		raw := make([]byte, x.Size)
		if err := ck.ReadAt(context.Background(), x, 0, raw); err != nil {
			return nil, err
		}
		all[name] = make([]float32, x.Elements())
		if err := kernels.DecodeFloats(all[name], kernels.BF16, raw); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// masterOf is a matrix of the demo.
func masterOf(t testing.TB, module string) []float32 {
	t.Helper()
	all, err := demoWeights()
	if err != nil {
		t.Fatal(err)
	}
	if all[module] == nil {
		t.Fatal(module)
	}
	return all[module]
}
