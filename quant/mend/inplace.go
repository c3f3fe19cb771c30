package mend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"quantscope/quant/checkpoint"
)

// inPlace swaps files of the checkpoint's own folder. The order is that in which a
// reader finds a whole checkpoint at every moment: new files of weights, which nothing
// names yet; the only file of weights under its second name; the index that names all;
// the first name away; what stands beside; config.json last.
func (w *writer) inPlace() (Result, error) {
	dir, err := w.source()
	if err != nil {
		return Result{}, err
	}
	if !w.Needed() {
		w.res.Dir = dir
		return w.res, nil
	}
	var need int64
	for _, sh := range w.shards {
		need += sh.bytes + 1<<20
	}
	if err := checkpoint.CheckSpace(dir, need); err != nil {
		return Result{}, err
	}
	w.res.Dir = dir
	if err := w.grafts(dir); err != nil {
		return w.res, err
	}
	if err := w.ctx.Err(); err != nil {
		return w.res, err
	}
	if w.moved != "" {
		// A link, so that the weights are under one of the names all the time.
		if err := w.stop(); err != nil {
			return w.res, err
		}
		from, to := filepath.Join(dir, w.out.ck.Files[0].Name), filepath.Join(dir, w.moved)
		if err := os.Link(from, to); err != nil && !errors.Is(err, fs.ErrExist) { // NewPlan looked what is there
			return w.res, checkpoint.SystemError(to, err)
		}
		if err := checkpoint.SyncDir(dir); err != nil {
			return w.res, err
		}
	}
	if w.index != nil {
		if err := w.swap(dir, file{w.index.name, w.index.data}); err != nil {
			return w.res, err
		}
	}
	if w.moved != "" {
		if err := w.stop(); err != nil {
			return w.res, err
		}
		if err := os.Remove(filepath.Join(dir, w.out.ck.Files[0].Name)); err != nil {
			return w.res, checkpoint.SystemError(w.Out, err)
		}
		w.wrote(w.moved, w.out.ck.Files[0].Size)
	}
	if w.second != "" {
		if err := w.stop(); err != nil {
			return w.res, err
		}
		if err := os.Remove(filepath.Join(dir, w.second)); err != nil {
			return w.res, checkpoint.SystemError(w.Out, err)
		}
	}
	for _, f := range w.files {
		if err := w.swap(dir, f); err != nil {
			return w.res, err
		}
	}
	if w.config != nil {
		if err := w.swap(dir, file{configName, w.config}); err != nil {
			return w.res, err
		}
	}
	return w.res, checkpoint.SyncDir(dir)
}

// swap gives a file new content and keeps the old one.
func (w *writer) swap(dir string, f file) error {
	if err := w.stop(); err != nil {
		return err
	}
	path := filepath.Join(dir, f.name)
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return checkpoint.SystemError(path, err)
	default:
		if err := w.keep(dir, f.name, old); err != nil {
			return err
		}
	}
	if err := checkpoint.AtomicWriteFile(path, f.data); err != nil {
		return err
	}
	w.wrote(f.name, int64(len(f.data)))
	return nil
}

// keep puts what is about to be replaced into a folder that is new in each run.
func (w *writer) keep(dir, name string, data []byte) error {
	for n := 1; w.res.Backup == ""; n++ {
		path := filepath.Join(dir, keptFolder)
		if n > 1 {
			path = fmt.Sprintf("%s-%d", path, n)
		}
		err := os.Mkdir(path, 0o777)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return checkpoint.SystemError(path, err)
		}
		w.res.Backup = path
	}
	return checkpoint.AtomicWriteFile(filepath.Join(w.res.Backup, name), data)
}
