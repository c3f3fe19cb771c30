package mend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

const (
	configName = "config.json"
	indexName  = "model.safetensors.index.json"
	shardBytes = 5 << 30 // most of a file of grafted tensors, unless one tensor is more
)

// mtpKeys are what families call the number of MTP layers in config.json.
var mtpKeys = []string{"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}

// graft finds the MTP tensors that are lost, in any of three ways: not stored, stored
// and not in the index, stored and not declared.
func (w *work) graft(s *Step) error {
	var mtp []int
	var bytes int64
	for i, r := range w.src.top.Roles {
		if r.MTP {
			mtp = append(mtp, i)
		}
	}
	if len(mtp) == 0 {
		s.Says = "the source has no MTP tensors"
		return nil
	}
	stray, err := w.stray()
	if err != nil {
		return err
	}
	var lost []int
	registered := map[string]string{}
	for _, i := range mtp {
		t := &w.src.ck.Tensors[i]
		if w.holds(i) {
			continue
		}
		if at, ok := stray[t.Name]; ok {
			if at.dtype != t.DType || !slices.Equal(at.shape, t.Shape) {
				s.Needed, s.Refused = true, fmt.Sprintf("%s holds %s, which is not in the index and is %s %v, not %s %v as the source's", at.file, t.Name, at.dtype, at.shape, t.DType, t.Shape)
				return nil
			}
			registered[t.Name] = at.file
			w.joined = append(w.joined, i)
			continue
		}
		lost = append(lost, i)
		bytes += t.Size
	}
	if err := w.declareMTP(s); err != nil {
		return err
	}
	w.secondName(s)
	if len(lost)+len(registered) == 0 {
		s.Says = fmt.Sprintf("all %d MTP tensors of the source are there", len(mtp))
		if s.Needed {
			s.Says = "the layers are there and not declared"
			if w.second != "" {
				s.Says = "mending was broken off before it was through"
			}
		}
		return nil
	}
	s.Needed = true
	s.Says = fmt.Sprintf("%d of %d MTP tensors are not there", len(lost), len(mtp))
	if len(registered) > 0 {
		s.Says = fmt.Sprintf("of %d MTP tensors %d are not there and %d not in the index", len(mtp), len(lost), len(registered))
	}
	for _, i := range lost {
		w.grafted[w.src.ck.Tensors[i].Name] = i
	}
	w.cut(lost)
	for _, sh := range w.shards {
		s.Changes = append(s.Changes, Change{sh.name, fmt.Sprintf("%d tensors of %s", len(sh.tensors), spanOf(w.src.top, sh.tensors)), "not there", fmt.Sprintf("%d bytes", sh.bytes)})
	}
	return w.reindex(s, registered)
}

// spanOf names the layers that tensors are of.
func spanOf(top *topology.Model, tensors []int) string {
	var names []string
	for _, i := range tensors {
		if n := top.Roles[i].LayerName(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:4], ", "), len(names)-4)
	}
	return strings.Join(names, ", ")
}

// holds says whether the checkpoint has what a tensor of the source is: under its
// name, as a quantized module, or unfused into experts.
func (w *work) holds(i int) bool {
	t, r := &w.src.ck.Tensors[i], w.src.top.Roles[i]
	if _, ok := w.out.ck.Lookup(t.Name); ok {
		return true
	}
	module, _ := layout.Split(t.Name)
	if _, ok := w.out.lay.Lookup(module); ok {
		return true
	}
	for _, have := range w.out.top.Roles {
		if have.Layer != r.Layer || have.Kind != r.Kind {
			continue
		}
		if r.Kind == topology.Expert && (r.Expert < 0) != (have.Expert < 0) && (have.Projection == r.Projection || r.Projection == "gate_up" || have.Projection == "gate_up") {
			return true
		}
	}
	return false
}

// strayTensor is a tensor of a file of the folder that the index does not name.
type strayTensor struct {
	file  string
	dtype checkpoint.DType
	shape []int64
}

// stray reads the headers of all files of weights in the folder.
func (w *work) stray() (map[string]strayTensor, error) {
	dir, ok := w.out.ck.Folder()
	if !ok {
		return nil, nil
	}
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.safetensors"))
	if err != nil {
		return nil, err
	}
	out := map[string]strayTensor{}
	for _, path := range names {
		if strings.HasPrefix(filepath.Base(path), ".") {
			continue
		}
		one, err := checkpoint.OpenFile(path)
		if err != nil {
			continue // not of this checkpoint, or lint says so
		}
		for k := range one.Tensors {
			t := &one.Tensors[k]
			if _, known := w.out.ck.Lookup(t.Name); !known {
				out[t.Name] = strayTensor{filepath.Base(path), t.DType, t.Shape}
			}
		}
		if err := one.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// cut deals lost tensors out to files.
func (w *work) cut(lost []int) {
	for _, i := range lost {
		n := w.src.ck.Tensors[i].Size
		if k := len(w.shards); k == 0 || w.shards[k-1].bytes+n > shardBytes {
			w.shards = append(w.shards, shard{})
		}
		sh := &w.shards[len(w.shards)-1]
		sh.tensors, sh.bytes = append(sh.tensors, i), sh.bytes+n
	}
	taken := map[string]bool{}
	for _, f := range w.out.ck.Files {
		taken[f.Name] = true
	}
	for k, n := 0, 1; k < len(w.shards); n++ {
		name := fmt.Sprintf("model-mtp-%05d.safetensors", n)
		if taken[name] || w.exists(name) {
			continue
		}
		w.shards[k].name = name
		k++
	}
}

func (w *work) exists(name string) bool {
	dir, ok := w.out.ck.Folder()
	if !ok {
		return false
	}
	_, err := os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// same says whether two names in the folder are one file.
func (w *work) same(a, b string) bool {
	dir, ok := w.out.ck.Folder()
	if !ok {
		return false
	}
	x, err := os.Stat(filepath.Join(dir, a))
	if err != nil {
		return false
	}
	y, err := os.Stat(filepath.Join(dir, b))
	return err == nil && os.SameFile(x, y)
}

// secondName finds what mending in place leaves where it is broken off at the worst
// moment: the name that loaders take for the whole, beside the index.
func (w *work) secondName(s *Step) {
	const name = "model.safetensors"
	for _, f := range w.out.ck.Files {
		if f.Name == name {
			return
		}
	}
	for _, f := range w.out.ck.Files {
		if w.same(f.Name, name) {
			w.second = name
			s.Needed = true
			s.Changes = append(s.Changes, Change{name, "name", "a second one of " + f.Name, "not there"})
		}
	}
}

// indexEdit is the index of the result.
type indexEdit struct {
	name string
	data []byte
}

// reindex makes the index name what comes to it. A checkpoint of one file has none;
// it gets one, under which its file cannot keep the name that loaders take for the
// whole.
func (w *work) reindex(s *Step, registered map[string]string) error {
	if len(w.shards) == 0 && len(registered) == 0 {
		return nil
	}
	side, ok, err := w.out.ck.Index()
	if err != nil {
		return err
	}
	name, text, before := indexName, []byte(nil), "no index"
	weights := map[string]string{}
	var total int64
	if ok {
		name = side.Name
		if text, err = side.Read(); err != nil {
			return err
		}
		var ix struct {
			Weights map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(text, &ix); err != nil {
			return &checkpoint.FileError{File: w.out.ck.Path + "/" + name, Reason: "index is not readable", Err: err}
		}
		weights, before = ix.Weights, fmt.Sprintf("%d tensors", len(ix.Weights))
	} else {
		if len(w.out.ck.Files) == 1 && w.out.ck.Files[0].Name == "model.safetensors" {
			w.moved = "model-00001-of-00001.safetensors"
			if w.exists(w.moved) && !w.same(w.moved, "model.safetensors") {
				s.Refused = w.moved + " stands where model.safetensors would go, and is no part of the checkpoint"
				return nil
			}
			s.Changes = append(s.Changes, Change{"model.safetensors", "name", "model.safetensors", w.moved})
		}
		for i := range w.out.ck.Tensors {
			t := &w.out.ck.Tensors[i]
			weights[t.Name] = w.out.ck.Files[t.File].Name
			if w.moved != "" {
				weights[t.Name] = w.moved
			}
		}
		text = []byte("{}\n")
	}
	for n, f := range registered {
		weights[n] = f
	}
	total = w.out.ck.Bytes()
	for _, sh := range w.shards {
		total += sh.bytes
		for _, i := range sh.tensors {
			weights[w.src.ck.Tensors[i].Name] = sh.name
		}
	}
	for n := range registered {
		if t, ok := w.src.ck.Lookup(n); ok {
			total += t.Size
		}
	}
	if text, err = setPath(text, []string{"metadata", "total_size"}, total); err != nil {
		return err
	}
	if text, err = setPath(text, []string{"weight_map"}, weights); err != nil {
		return err
	}
	w.index = &indexEdit{name, text}
	s.Changes = append(s.Changes, Change{name, "weight_map", before, fmt.Sprintf("%d tensors", len(weights))})
	return nil
}

// declareMTP makes config.json declare as many MTP layers as the source's does.
func (w *work) declareMTP(s *Step) error {
	path, value, ok := mtpDeclared(w.src.ck)
	if !ok || value <= 0 {
		return nil
	}
	at, have, declared := mtpDeclared(w.out.ck)
	if declared && have == value {
		return nil
	}
	before := "not there"
	if declared {
		path, before = at, fmt.Sprint(have)
	} else if len(path) > 1 && !hasObject(w.out.ck.ConfigJSON(), path[0]) {
		path = path[len(path)-1:]
	}
	text, err := setPath(w.config, path, value)
	if err != nil {
		return &checkpoint.FileError{File: w.out.ck.Path + "/" + configName, Reason: "cannot be changed", Err: err}
	}
	w.config = text
	s.Needed = true
	s.Changes = append(s.Changes, Change{configName, strings.Join(path, "."), before, fmt.Sprint(value)})
	return nil
}

// mtpDeclared finds the number of MTP layers in a config, and where it stands.
func mtpDeclared(ck *checkpoint.Checkpoint) (path []string, value int64, ok bool) {
	var root map[string]json.RawMessage
	if json.Unmarshal(ck.ConfigJSON(), &root) != nil {
		return nil, 0, false
	}
	for _, in := range []string{"", "text_config", "language_config", "llm_config"} {
		obj := root
		if in != "" {
			obj = nil
			if json.Unmarshal(root[in], &obj) != nil {
				continue
			}
		}
		for _, key := range mtpKeys {
			if raw, found := obj[key]; found && json.Unmarshal(raw, &value) == nil && !bytes.Equal(raw, []byte("null")) {
				path = []string{in, key}
				if in == "" {
					path = path[1:]
				}
				return path, value, true
			}
		}
	}
	return nil, 0, false
}

func hasObject(text []byte, key string) bool {
	var root map[string]json.RawMessage
	var obj map[string]json.RawMessage
	return json.Unmarshal(text, &root) == nil && json.Unmarshal(root[key], &obj) == nil && obj != nil
}
