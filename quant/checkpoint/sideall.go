package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// notSide are the endings of files that are no part of a checkpoint in
// safetensors, or are made anew with it: weights of other kinds, indexes,
// sessions, what is being written.
var notSide = []string{
	weightsSuffix, ".index.json", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".npz", ".npy", ".onnx", ".onnx_data", ".msgpack", ".h5", ".tflite",
	".qscope", ".qscope-wal", ".qscope-shm", ".qscope-journal", ".lock", tempSuffix,
}

// AllSide lists every file beside the weights that belongs to the checkpoint,
// known or not, sorted by name: licences and model cards too, but no config, no
// weights and no hidden files. Of a checkpoint that was opened by one of its
// files it is Side alone, since then anything may lie beside it. A file that
// cannot be read is an error.
func (c *Checkpoint) AllSide() ([]SideFile, error) {
	if !c.whole {
		return slices.Clone(c.Side), nil
	}
	entries, err := fs.ReadDir(c.src.fsys, ".")
	if err != nil {
		return nil, c.src.broken("", err)
	}
	var all []SideFile
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || name == configName || strings.HasPrefix(name, ".") || strings.HasPrefix(name, UnfinishedPrefix) ||
			slices.ContainsFunc(notSide, func(end string) bool { return strings.HasSuffix(name, end) }) {
			continue
		}
		info, err := fs.Stat(c.src.fsys, name)
		switch {
		case err == nil && info.IsDir(): // a link to a folder
			continue
		case err == nil && !info.Mode().IsRegular(), err != nil:
			if _, err = c.src.stat(name); err != nil {
				return nil, err
			}
			continue
		}
		all = append(all, SideFile{Name: name, Size: info.Size(), src: c.src})
	}
	slices.SortFunc(all, func(a, b SideFile) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Open opens the file for reading.
func (f SideFile) Open() (io.ReadCloser, error) {
	if _, err := f.src.stat(f.Name); err != nil { // a pipe would block in open
		return nil, err
	}
	r, err := f.src.fsys.Open(f.Name)
	if err != nil {
		return nil, f.src.broken(f.Name, err)
	}
	return r, nil
}

// Folder is the folder of the operating system that the checkpoint lies in; ok
// is false for one that lies in none, such as the embedded demo.
func (c *Checkpoint) Folder() (dir string, ok bool) {
	if _, ok := c.src.fsys.(folder); !ok {
		return "", false
	}
	return filepath.Clean(c.src.path), true
}

// UnfinishedPrefix begins the names of the files that mark a folder as an
// export that is not finished.
const UnfinishedPrefix = "incomplete-export"

// Unfinished names a file that marks the checkpoint's folder as an export that
// is not finished; "" where there is none.
func (c *Checkpoint) Unfinished() string {
	matches, err := fs.Glob(c.src.fsys, UnfinishedPrefix+"*.json")
	if err != nil || len(matches) == 0 {
		return ""
	}
	return matches[0]
}

// SystemError is the *FileError for what the operating system said of a file; a
// *FileError stays as it is.
func SystemError(file string, err error) error {
	var fe *FileError
	if errors.As(err, &fe) {
		return err
	}
	return systemError(file, err)
}
