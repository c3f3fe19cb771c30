package main

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// stored is a tensor of a copy that is edited.
type stored struct {
	dtype checkpoint.DType
	shape []int64
	data  []byte
}

// edited is a copy of a checkpoint that a test breaks.
type edited struct {
	t       *testing.T
	tensors map[string]*stored
	config  map[string]any
	side    map[string][]byte // other files
}

// editOf reads a checkpoint whole.
func editOf(t *testing.T, dir string) *edited {
	t.Helper()
	ck, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	e := &edited{t: t, tensors: map[string]*stored{}, side: map[string][]byte{}}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		s := &stored{x.DType, slices.Clone(x.Shape), make([]byte, x.Size)}
		if err := ck.ReadAt(t.Context(), x, 0, s.data); err != nil {
			t.Fatal(err)
		}
		e.tensors[x.Name] = s
	}
	if err := json.Unmarshal(ck.Config, &e.config); err != nil {
		t.Fatal(err)
	}
	for _, f := range ck.Side {
		text, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		e.side[f.Name] = text
	}
	return e
}

// write writes the copy to a new folder, in one file.
func (e *edited) write() string {
	e.t.Helper()
	dir := e.t.TempDir()
	text, err := json.MarshalIndent(e.config, "", "  ")
	if err != nil {
		e.t.Fatal(err)
	}
	for name, data := range e.side {
		e.put(filepath.Join(dir, name), data)
	}
	e.put(filepath.Join(dir, "config.json"), text)
	e.writeWeights(filepath.Join(dir, "model.safetensors"), slices.Sorted(maps.Keys(e.tensors)))
	return dir
}

// writeIndexed writes it in two files with an index: second are those of the second
// file, and unlisted those that the index leaves out.
func (e *edited) writeIndexed(second, unlisted func(string) bool) string {
	e.t.Helper()
	dir := e.write()
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		e.t.Fatal(err)
	}
	files := [2]string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
	var lists [2][]string
	weights := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(e.tensors)) {
		k := 0
		if second(name) {
			k = 1
		}
		lists[k] = append(lists[k], name)
		if !unlisted(name) {
			weights[name] = files[k]
		}
	}
	for k := range files {
		e.writeWeights(filepath.Join(dir, files[k]), lists[k])
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": weights})
	if err != nil {
		e.t.Fatal(err)
	}
	e.put(filepath.Join(dir, "model.safetensors.index.json"), text)
	return dir
}

func (e *edited) writeWeights(path string, names []string) {
	e.t.Helper()
	var specs []checkpoint.Spec
	for _, n := range names {
		s := e.tensors[n]
		specs = append(specs, checkpoint.Spec{Name: n, DType: s.dtype, Shape: s.shape})
	}
	w, err := checkpoint.NewWriter(path, specs, map[string]string{"format": "pt"})
	if err != nil {
		e.t.Fatal(err)
	}
	for next, _ := w.Next(); next != nil; next, _ = w.Next() {
		if _, err := w.Write(e.tensors[next.Name].data); err != nil {
			e.t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		e.t.Fatal(err)
	}
}

func (e *edited) put(path string, data []byte) {
	e.t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		e.t.Fatal(err)
	}
}

// at is a tensor of the copy.
func (e *edited) at(name string) *stored {
	e.t.Helper()
	s := e.tensors[name]
	if s == nil {
		e.t.Fatalf("no tensor %s", name)
	}
	return s
}

// fill makes every byte of a tensor one value.
func (e *edited) fill(name string, b byte) {
	s := e.at(name)
	for i := range s.data {
		s.data[i] = b
	}
}

// number makes a tensor of F32 one number.
func (e *edited) number(name string, x float32) {
	e.at(name).data = binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))
}

// scale multiplies a tensor of one F32.
func (e *edited) scale(name string, by float32) {
	s := e.at(name)
	e.number(name, by*math.Float32frombits(binary.LittleEndian.Uint32(s.data)))
}

// move renames the tensors of a module.
func (e *edited) move(from, to string) {
	e.t.Helper()
	n := 0
	for _, name := range slices.Collect(maps.Keys(e.tensors)) {
		if param, ok := strings.CutPrefix(name, from+"."); ok {
			e.tensors[to+"."+param] = e.tensors[name]
			delete(e.tensors, name)
			n++
		}
	}
	if n == 0 {
		e.t.Fatalf("no module %s", from)
	}
}

// drop takes tensors out.
func (e *edited) drop(is func(string) bool) {
	maps.DeleteFunc(e.tensors, func(name string, _ *stored) bool { return is(name) })
}

// quant is the quantization config.
func (e *edited) quant() map[string]any {
	e.t.Helper()
	q, ok := e.config["quantization_config"].(map[string]any)
	if !ok {
		e.t.Fatal("no quantization_config")
	}
	return q
}

// group is its first group.
func (e *edited) group() map[string]any {
	return e.quant()["config_groups"].(map[string]any)["group_0"].(map[string]any)
}

// unignore takes entries off the ignore list, and adds others.
func (e *edited) unignore(is func(string) bool, add ...any) {
	q := e.quant()
	list := slices.DeleteFunc(slices.Clone(q["ignore"].([]any)), func(v any) bool { return is(v.(string)) })
	q["ignore"] = append(list, add...)
}

// json edits a side file that is an object.
func (e *edited) json(name string, edit func(map[string]any)) {
	e.t.Helper()
	var o map[string]any
	if err := json.Unmarshal(e.side[name], &o); err != nil {
		e.t.Fatal(err)
	}
	edit(o)
	text, err := json.Marshal(o)
	if err != nil {
		e.t.Fatal(err)
	}
	e.side[name] = text
}
