package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// ownFiles are side files that say how a checkpoint is quantized, so that they
// need not be the source's.
var ownFiles = []string{"hf_quant_config.json", "quant*_config.json", "recipe.yaml"}

// unfinishedFiles mark an export that is not finished.
var unfinishedFiles = []string{"incomplete-export*", ".incomplete*", "*.incomplete"}

// leftoverFiles are what an interrupted writer, download or copy leaves.
var leftoverFiles = []string{"*.tmp", "*.part", "*.partial", "*.lock", "*.crdownload", ".*" + weightsSuffix + "*", "*~"}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

// folder holds what stands beside the weights against the source.
func (r *run) folder() {
	if r.dir == "" {
		r.note("one file was given, so that config and side files were not compared")
		return
	}
	r.leftovers()
	r.sideFiles()
	r.config()
	r.declaration()
}

// declaration wants a config that says how the quantized modules are stored, in a
// checkpoint of our own all of it. What else an export brings along, licences and
// model cards, serves nobody but people, so that its absence is only noted.
func (r *run) declaration() {
	const hf = "hf_quant_config.json"
	if n := len(r.layout.Modules); n > 0 && r.layout.File == "" {
		r.problem(layout.Undeclared, "config.json", "", "no config says that %d matrices are quantized: a server would read them as plain weights", n)
	}
	if r.layout.Receipt.Variant == "" {
		return
	}
	if r.layout.Method == layout.ModelOpt && r.lacks(hf) {
		r.problem(SideMissing, hf, "", "is missing; the export had it")
	}
	all, err := r.src.AllSide()
	if err != nil {
		r.problem(Unreadable, filepath.Base(r.dir), "", "the source's: %s", oneLine(err))
	}
	var absent []string
	for _, f := range all {
		if _, known := r.src.SideFile(f.Name); !known && r.lacks(f.Name) {
			absent = append(absent, f.Name)
		}
	}
	if n := len(absent); n > 0 {
		r.note("the source has %d files beside its weights that the output has not: %s", n, strings.Join(absent[:min(n, 5)], ", "))
	}
}

// lacks says whether the output's folder has no file of this name.
func (r *run) lacks(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return errors.Is(err, fs.ErrNotExist)
}

func (r *run) leftovers() {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.problem(Unreadable, r.dir, "", "%v", bare(err))
		return
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case matches(unfinishedFiles, name):
			r.problem(Unfinished, name, "", "an export that was not finished leaves it: the checkpoint is not whole")
		case matches(leftoverFiles, name):
			r.problem(Leftover, name, "", "a temporary file of an interrupted writer")
		}
	}
}

// sideFiles wants every side file of the source, with its bytes.
func (r *run) sideFiles() {
	for _, f := range r.src.Side {
		if matches(ownFiles, f.Name) {
			continue
		}
		other, ok := r.out.SideFile(f.Name)
		if !ok {
			r.problem(SideMissing, f.Name, "", "is missing; the source has it, %d bytes", f.Size)
			continue
		}
		if f.Size != other.Size {
			r.problem(SideChanged, f.Name, "", "has %d bytes, the source's has %d", other.Size, f.Size)
			continue
		}
		want, err := f.Read()
		if err != nil {
			r.problem(Unreadable, f.Name, "", "the source's: %s", oneLine(err))
			continue
		}
		have, err := other.Read()
		if err != nil {
			r.problem(Unreadable, f.Name, "", "%s", oneLine(err))
			continue
		}
		if !bytes.Equal(want, have) {
			r.problem(SideChanged, f.Name, "", "differs from the source's from byte %d on", firstDiff(want, have))
		}
	}
}

// firstDiff is the first index at which two slices of one length differ.
func firstDiff(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// freeKeys are keys of config.json that say who wrote it, not what the model is.
var freeKeys = []string{"quantization_config", "transformers_version", "_name_or_path", "torch_dtype", "dtype"}

// config wants every key of the source's config.json, quantization apart.
func (r *run) config() {
	const name = "config.json"
	switch {
	case r.src.Config == nil && r.out.Config == nil:
		return
	case r.out.Config == nil:
		r.problem(SideMissing, name, "", "is missing; the source has it, %d bytes", len(r.src.Config))
		return
	case r.src.Config == nil:
		return
	}
	want, err := keysOf(r.src)
	if err != nil {
		r.note("the source's config.json is not valid JSON, so that it was not compared: %v", err)
		return
	}
	have, err := keysOf(r.out)
	if err != nil {
		r.problem(Unreadable, name, "", "is not valid JSON: %v", err)
		return
	}
	var names []string
	for k := range want {
		names = append(names, k)
	}
	for k := range have {
		if _, ok := want[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		if slices.Contains(freeKeys, k) {
			continue
		}
		a, inSource := want[k]
		b, inOutput := have[k]
		switch {
		case !inOutput:
			r.problem(ConfigChanged, name, "", "key %q of the source is missing", k)
		case !inSource:
			r.problem(ConfigChanged, name, "", "key %q is not in the source", k)
		case !sameJSON(a, b):
			r.problem(ConfigChanged, name, "", "key %q is %s, in the source %s", k, brief(b), brief(a))
		}
	}
}

func keysOf(c *checkpoint.Checkpoint) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	err := json.Unmarshal(c.ConfigJSON(), &m)
	return m, err
}

// sameJSON compares two values but for blanks.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return false
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// brief is a value for a message.
func brief(raw json.RawMessage) string {
	text := strings.Join(strings.Fields(string(raw)), " ")
	if len(text) > 60 {
		return strings.ToValidUTF8(text[:60], "") + "…"
	}
	return text
}
