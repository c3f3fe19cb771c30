package export

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"quantscope/quant/checkpoint"
)

// filesystem is what an export does to its folder. Tests put faults in its
// place.
type filesystem interface {
	create(path string) (file, error) // for reading and writing; what was there is gone
	rename(from, to string) error
	remove(path string) error
	makeFolder(path string) error
	syncFolder(path string) error
	room(dir string, need int64) error // wants that many bytes to be free
}

type file interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// osFiles is the operating system's.
type osFiles struct{}

func (osFiles) create(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFiles) rename(from, to string) error   { return os.Rename(from, to) }
func (osFiles) remove(path string) error       { return os.Remove(path) }
func (osFiles) makeFolder(path string) error   { return os.MkdirAll(path, 0o777) }
func (osFiles) syncFolder(path string) error   { return checkpoint.SyncDir(path) }
func (osFiles) room(dir string, n int64) error { return checkpoint.CheckSpace(dir, n) }

func systemError(path string, err error) error { return checkpoint.SystemError(path, err) }
func isMissing(err error) bool                 { return errors.Is(err, fs.ErrNotExist) }
func tempName(path, tag string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+tag+tempSuffix)
}

const tempSuffix = ".tmp"

// folder is the place that an export is written to. tag tells the temporary
// files of one process from those of another that works in the same folder.
type folder struct {
	dir string
	tag string
	fs  filesystem
}

func (d folder) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// begin creates the temporary file of a name.
func (d folder) begin(name string) (file, error) {
	path := d.path(name)
	if sub := parentFolder(name); sub != "" {
		if err := d.fs.makeFolder(d.path(sub)); err != nil {
			return nil, systemError(d.path(sub), err)
		}
	}
	f, err := d.fs.create(tempName(path, d.tag))
	if err != nil {
		return nil, systemError(path, err)
	}
	return f, nil
}

// commit makes a written file durable under its name.
func (d folder) commit(name string, f file) error {
	path := d.path(name)
	err := f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = d.fs.rename(tempName(path, d.tag), path)
	}
	if err == nil {
		err = d.fs.syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return systemError(path, err)
	}
	return nil
}

// drop throws the temporary file of a name away. What cannot be removed is
// found, and removed, when the export is resumed.
func (d folder) drop(name string, f file) {
	_ = f.Close()
	_ = d.fs.remove(tempName(d.path(name), d.tag))
}

// write writes a whole file: at every moment the name stands for the old
// content, or for none where there was none, or for the new content whole.
func (d folder) write(name string, r io.Reader) (n int64, err error) {
	f, err := d.begin(name)
	if err != nil {
		return 0, err
	}
	if n, err = io.Copy(struct{ io.Writer }{f}, r); err != nil {
		d.drop(name, f)
		return n, systemError(d.path(name), err)
	}
	if err := d.commit(name, f); err != nil {
		d.drop(name, f)
		return n, err
	}
	return n, nil
}
