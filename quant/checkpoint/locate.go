package checkpoint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const weightsSuffix = ".safetensors"

// plan is what makes up a checkpoint, before any header is read.
type plan struct {
	src      source
	weights  []string // file names, sorted
	index    *index   // nil where there is none
	whole    bool     // a folder was opened, not one of its files
	findings []Finding
}

// locate finds the files of the checkpoint at a path of the operating system.
func locate(path string) (*plan, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, absent(path, path, err)
	}
	if info.IsDir() {
		return locateFolder(source{folder(path), path})
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	src := source{folder(dir), filepath.Clean(dir)}
	switch {
	case strings.HasSuffix(name, weightsSuffix):
		return &plan{src: src, weights: []string{name}}, nil
	case strings.HasSuffix(name, ".json"):
		return locateIndex(src, name)
	}
	if start, err := sniff(src, name); err != nil {
		return nil, err
	} else if what := notWeights(start, info.Size()); what != "" {
		return nil, &FileError{File: path, Reason: what, Err: ErrUnsupported}
	}
	return nil, &FileError{File: path, Reason: "is no checkpoint: want a folder, a .safetensors file or its index (.json)", Err: ErrUnsupported}
}

// sniff reads the first bytes of a file.
func sniff(src source, name string) ([]byte, error) {
	if _, err := src.stat(name); err != nil {
		return nil, err
	}
	f, err := src.fsys.Open(name)
	if err != nil {
		return nil, src.broken(name, err)
	}
	defer f.Close()
	start := make([]byte, sniffBytes)
	n, err := f.Read(start)
	if n == 0 && err != nil {
		return nil, nil // empty: nothing to recognize
	}
	return start[:n], nil
}

func locateIndex(src source, name string) (*plan, error) {
	ix, err := readIndex(src, name)
	if err != nil {
		return nil, err
	}
	if err := ix.missing(src); err != nil {
		return nil, err
	}
	return &plan{src: src, weights: ix.shards, index: ix}, nil
}

// locateFolder takes, in this order: the index, if there is one;
// model.safetensors; every .safetensors file.
func locateFolder(src source) (*plan, error) {
	entries, err := fs.ReadDir(src.fsys, ".")
	if err != nil {
		return nil, src.broken("", err)
	}
	var weights, indexes, others []string
	for _, e := range entries {
		name := e.Name()
		switch {
		case e.IsDir():
		case strings.HasSuffix(name, weightsSuffix):
			weights = append(weights, name)
		case strings.HasSuffix(name, indexSuffix):
			indexes = append(indexes, name)
		case slices.Contains([]string{".gguf", ".bin", ".pt", ".pth", ".npz", ".onnx"}, filepath.Ext(name)):
			others = append(others, name)
		}
	}
	slices.Sort(weights)
	if len(indexes) > 0 {
		return locateIndexed(src, weights, indexes)
	}
	if len(weights) == 0 {
		if len(others) > 0 {
			return nil, src.fail("", "has no .safetensors file; %s is of another kind", quoted(others[0]))
		}
		return nil, src.fail("", "has no .safetensors file and no index of one%s", unfinished(src))
	}
	p := &plan{src: src, weights: weights, whole: true}
	if model := "model" + weightsSuffix; slices.Contains(weights, model) {
		p.weights = []string{model}
		p.leftOut(weights, "beside "+model+" and in no index")
	}
	return p, nil
}

func locateIndexed(src source, weights, indexes []string) (*plan, error) {
	name := "model" + indexSuffix
	if !slices.Contains(indexes, name) {
		if len(indexes) > 1 {
			return nil, src.fail("", "has %d indexes, name the one to open: %s", len(indexes), printable(strings.Join(indexes, " ")))
		}
		name = indexes[0]
	}
	p, err := locateIndex(src, name)
	if err != nil {
		return nil, err
	}
	p.whole = true
	p.leftOut(weights, "not named by the index "+printable(name))
	return p, nil
}

// leftOut notes the files of the folder that are not part of the checkpoint.
func (p *plan) leftOut(all []string, why string) {
	for _, name := range all {
		if _, taken := slices.BinarySearch(p.weights, name); !taken {
			p.findings = append(p.findings, Finding{ID: StrayFile, File: name, Message: why + ": left out, though some loaders take every .safetensors file"})
		}
	}
}

// shardName is how numbered shards are called, for instance
// model-00002-of-00046.safetensors.
var shardName = regexp.MustCompile(`^(.*)-(\d{1,6})-of-(\d{1,6})\.safetensors$`)

// complete wants all parts of a numbered set when there is no index that could
// say what belongs together: an interrupted download or export leaves some of
// them.
func (p *plan) complete() error {
	if !p.whole || p.index != nil {
		return nil
	}
	have := map[string]int{} // of each set
	for _, name := range p.weights {
		if m := shardName.FindStringSubmatch(name); m != nil {
			have[m[1]+"-*-of-"+m[3]]++
		}
	}
	for _, name := range p.weights {
		m := shardName.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		want, err := strconv.Atoi(m[3])
		if got := have[m[1]+"-*-of-"+m[3]]; err == nil && got < want {
			return p.src.fail("", "%d of %d shards are missing, there is no index, the first that is here is %s: open that file by itself to look at it%s", want-got, want, quoted(name), unfinished(p.src))
		}
	}
	return nil
}

// unfinished says of a folder that an export into it did not end, where it has
// the mark.
func unfinished(src source) string {
	entries, _ := fs.ReadDir(src.fsys, ".") // what cannot be listed has no mark
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), UnfinishedPrefix) {
			return "; " + quoted(e.Name()) + " marks an export that is not finished"
		}
	}
	return ""
}

// numbered notes that numbered shards came without their index.
func (p *plan) numbered() {
	if p.whole && p.index == nil && len(p.weights) > 1 {
		p.findings = append(p.findings, Finding{ID: NoIndex, File: p.weights[0], Message: fmt.Sprintf("%d .safetensors files and no index: all are taken as shards", len(p.weights))})
	}
}
