package mend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	strayModules, why := w.join(stray, mtp)
	if why != "" {
		s.Needed, s.Refused = true, why
		return nil
	}
	var lost []int
	for _, i := range mtp {
		t := &w.src.ck.Tensors[i]
		module, _ := layout.Split(t.Name)
		if w.holds(i) || strayModules[module] || len(t.Shape) == 3 && strayModules[stackOf(module)] {
			continue
		}
		lost = append(lost, i)
		bytes += t.Size
	}
	if err := w.declareMTP(s); err != nil {
		return err
	}
	w.secondName(s)
	if len(lost)+len(w.joined) == 0 {
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
	if len(w.joined) > 0 {
		s.Says = fmt.Sprintf("%d of %d MTP tensors of the source are not there, %d that are theirs are stored and not in the index", len(lost), len(mtp), len(w.joined))
	}
	for _, i := range lost {
		w.grafted[w.src.ck.Tensors[i].Name] = i
	}
	w.cut(lost)
	for _, sh := range w.shards {
		s.Changes = append(s.Changes, Change{sh.name, fmt.Sprintf("%d tensors of %s", len(sh.tensors), spanOf(w.src.top, sh.tensors)), "not there", fmt.Sprintf("%d bytes", sh.bytes)})
	}
	return w.reindex(s)
}

// join finds the tensors of MTP parts that are stored and in no index: as the source's
// or quantized. modules are those that come with them, and the stacks that experts of
// theirs make. why says of one that it is neither.
func (w *work) join(stray map[string]strayTensor, mtp []int) (modules map[string]bool, why string) {
	modules = map[string]bool{}
	whole := map[string]bool{} // modules that have a tensor which only quantized ones have
	for name := range stray {
		if module, param := layout.Split(name); param != "weight" && param != "bias" {
			whole[module] = true
		}
	}
	at := map[string]int{}
	var named []string
	for _, i := range mtp {
		at[w.src.ck.Tensors[i].Name] = i
		module, _ := layout.Split(w.src.ck.Tensors[i].Name)
		named = append(named, module)
	}
	for _, name := range slices.Sorted(maps.Keys(stray)) {
		t := stray[name]
		module, _ := layout.Split(name)
		i, known := at[name]
		if !known && !slices.Contains(named, module) && !slices.Contains(named, stackOf(module)) && w.rootIn(module, named) == "" {
			continue
		}
		j := joined{name: name, strayTensor: t, source: -1}
		if known && !whole[module] {
			own := &w.src.ck.Tensors[i]
			if t.dtype != own.DType || !slices.Equal(t.shape, own.Shape) {
				return nil, fmt.Sprintf("%s holds %s, which is not in the index and is %s %v, not %s %v as the source's", t.file, name, t.dtype, t.shape, own.DType, own.Shape)
			}
			j.source = i
		}
		w.joined = append(w.joined, j)
		modules[module], modules[stackOf(module)] = true, true
	}
	return modules, ""
}

// stackOf is the module that experts of a module's name are part of where they are
// stored as one: what stands before the expert's number, with its projection.
func stackOf(module string) string {
	parts := strings.Split(module, ".")
	for k := 1; k < len(parts)-1; k++ {
		if parts[k-1] == "experts" {
			return strings.Join(parts[:k], ".")
		}
	}
	if k := slices.Index(parts, "experts"); k >= 0 {
		return strings.Join(parts[:k+1], ".")
	}
	return module
}

// rootIn is the part of a module's name that is MTP's whole in the source; "" where
// there is none.
func (w *work) rootIn(module string, mtp []string) string {
	if w.plain == nil {
		w.plain = map[string]bool{}
		for i := range w.src.ck.Tensors {
			if w.src.top.Roles[i].MTP {
				continue
			}
			name := w.src.ck.Tensors[i].Name
			for k, c := range name {
				if c == '.' {
					w.plain[name[:k]] = true
				}
			}
		}
	}
	for k, c := range module {
		if c != '.' || w.plain[module[:k]] {
			continue
		}
		if slices.ContainsFunc(mtp, func(m string) bool { return strings.HasPrefix(m, module[:k+1]) }) {
			return module[:k]
		}
		return ""
	}
	return ""
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
	if _, ok := w.src.lay.Lookup(module); ok { // quantized there, and plain here
		if _, ok := w.out.ck.Lookup(module + ".weight"); ok {
			return true
		}
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
	size  int64
}

// joined is a tensor that is stored and comes into the index.
type joined struct {
	name string
	strayTensor
	source int // the source's tensor that it is, -1 where it is of a quantized module
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
				out[t.Name] = strayTensor{filepath.Base(path), t.DType, t.Shape, t.Size}
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
func (w *work) reindex(s *Step) error {
	if len(w.shards) == 0 && len(w.joined) == 0 {
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
	total = w.out.ck.Bytes()
	for _, sh := range w.shards {
		total += sh.bytes
		for _, i := range sh.tensors {
			weights[w.src.ck.Tensors[i].Name] = sh.name
		}
	}
	for _, j := range w.joined {
		weights[j.name] = j.file
		total += j.size
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
