package verify

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// outputState is the output as far as it could be opened.
type outputState struct {
	out      *checkpoint.Checkpoint
	outModel *topology.Model
	layout   *layout.Layout
	dir      string // "" where one file was opened

	lost map[string]bool // modules that the index puts into shards that cannot be read
}

const (
	weightsSuffix = ".safetensors"
	indexName     = "model.safetensors.index.json"
)

// open opens the output. What keeps it from being opened as it stands is a
// problem; whatever of it can be read is read nevertheless.
func (r *run) open(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &checkpoint.FileError{File: path, Err: bare(err)}
	}
	if info.IsDir() {
		r.dir = path
	}
	r.out, err = checkpoint.Open(path)
	if err != nil && r.dir != "" {
		r.out, err = r.salvage(err)
	}
	if err != nil {
		if mark := r.unfinishedMark(); mark != "" {
			return &checkpoint.FileError{File: path, Reason: "holds an export that was not finished (" + mark + ") and no whole shard"}
		}
		return err
	}
	for _, f := range r.out.Findings {
		if r.unreadable(f.File) || matches(unfinishedFiles, f.File) { // said by themselves
			continue
		}
		r.problem(BadIndex, f.File, f.Tensor, "%s", f.Message)
	}
	if r.outModel, err = topology.FromCheckpoint(r.out); err == nil {
		r.layout, err = layout.OpenWith(r.out, r.outModel, r.Layout)
	}
	if err != nil {
		return errors.Join(err, r.out.Close())
	}
	r.rep.Method = r.layout.Method
	for _, f := range r.layout.Findings {
		r.problem(f.ID, f.File, f.Tensor, "%s", f.Message)
	}
	return nil
}

// unfinishedMark names a file that marks the output as not finished, "" where
// there is none.
func (r *run) unfinishedMark() string {
	entries, _ := os.ReadDir(r.dir) // what cannot be listed has none
	for _, e := range entries {
		if matches(unfinishedFiles, e.Name()) {
			return e.Name()
		}
	}
	return ""
}

// bare is the cause in an error of the operating system, without its path.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// salvage opens the shards of a folder one by one, says what is wrong with
// those that cannot be opened and with the index, and opens the others together
// under an index of what they really hold. It returns the first error where
// nothing is left.
func (r *run) salvage(first error) (*checkpoint.Checkpoint, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, first
	}
	held := map[string]string{} // tensor to shard
	before := len(r.rep.Problems)
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), weightsSuffix) {
			continue
		}
		r.shard(e.Name(), held)
	}
	if len(held) == 0 {
		return nil, first
	}
	r.index(held)
	if len(r.rep.Problems) == before {
		r.problem(Unreadable, filepath.Base(r.dir), "", "%s", oneLine(first))
	}
	text, err := json.Marshal(map[string]any{"weight_map": held})
	if err != nil {
		return nil, err
	}
	ck, err := checkpoint.OpenFS(r.dir, indexed{os.DirFS(r.dir), text})
	if err != nil {
		return nil, errors.Join(first, err)
	}
	return ck, nil
}

// shard notes the tensors of one file.
func (r *run) shard(name string, held map[string]string) {
	ck, err := checkpoint.Open(filepath.Join(r.dir, name))
	if err != nil {
		tensor := ""
		var fe *checkpoint.FileError
		if errors.As(err, &fe) {
			tensor = fe.Tensor
		}
		r.problem(Unreadable, name, tensor, "%s", oneLine(err))
		return
	}
	defer func() { _ = ck.Close() }() // of a file that was only read
	twice := false
	for i := range ck.Tensors {
		if other, ok := held[ck.Tensors[i].Name]; ok {
			twice = true
			r.problem(Unreadable, name, ck.Tensors[i].Name, "is in %s too, so that neither file can be told to be right: this one is left out", other)
		}
	}
	for i := range ck.Tensors {
		t := ck.Tensors[i].Name
		if twice {
			r.lose(t)
		} else {
			held[t] = name
		}
	}
}

// index holds the index against what the shards hold.
func (r *run) index(held map[string]string) {
	raw, err := os.ReadFile(filepath.Join(r.dir, indexName))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problem(Unreadable, indexName, "", "%v", bare(err))
		}
		return
	}
	var ix struct {
		Weights map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(raw, &ix); err != nil {
		r.problem(Unreadable, indexName, "", "is not valid: %v", err)
		return
	}
	var names []string
	for t := range ix.Weights {
		names = append(names, t)
	}
	slices.Sort(names)
	absent := map[string]int{}
	type state struct{ gone, unreadable bool }
	shards := map[string]state{} // as they are before a problem of the index is added
	for _, t := range names {
		shard, is := ix.Weights[t], held[t]
		if _, known := shards[shard]; !known {
			_, err := os.Stat(filepath.Join(r.dir, filepath.Base(shard)))
			shards[shard] = state{err != nil, r.unreadable(shard)}
		}
		switch {
		case is == shard:
		case shards[shard].gone:
			absent[shard]++
			r.lose(t)
		case is != "":
			r.problem(BadIndex, indexName, t, "the index says %s, it is in %s", shard, is)
		case shards[shard].unreadable: // said already
			r.lose(t)
		default:
			r.problem(BadIndex, indexName, t, "the index says %s, which does not have it", shard)
		}
	}
	for shard, n := range absent {
		r.problem(Unreadable, shard, "", "is missing; the index says that it holds %d tensors", n)
	}
	for t, shard := range held {
		if _, ok := ix.Weights[t]; !ok {
			r.problem(BadIndex, shard, t, "is not in the index")
		}
	}
}

// lose notes that a tensor is in a shard that cannot be read.
func (r *run) lose(tensor string) {
	if r.lost == nil {
		r.lost = map[string]bool{}
	}
	module, _ := layout.Split(tensor)
	r.lost[module] = true
}

// unreadable says whether a file has a problem of that kind.
func (r *run) unreadable(file string) bool {
	return slices.ContainsFunc(r.rep.Problems, func(p Problem) bool { return p.ID == Unreadable && p.File == file })
}

// oneLine is the reason in an error of package checkpoint, whose file and tensor
// a problem has by themselves.
func oneLine(err error) string {
	text := err.Error()
	var fe *checkpoint.FileError
	if errors.As(err, &fe) {
		if at := strings.Index(text, fe.Reason); at >= 0 && fe.Reason != "" {
			text = text[at:]
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// indexed is a folder with another index than its own.
type indexed struct {
	fs.FS
	index []byte
}

func (d indexed) Open(name string) (fs.File, error) {
	if name == indexName {
		return newMemory(name, d.index), nil
	}
	return d.FS.Open(name)
}

func (d indexed) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(d.FS, name)
	if err != nil || name != "." {
		return entries, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".index.json") })
	info, err := newMemory(indexName, d.index).Stat()
	if err != nil {
		return nil, err
	}
	return append(entries, fs.FileInfoToDirEntry(info)), nil
}
