package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"quantscope/quant/checkpoint"
)

// Edit writes over parts of tensors of a copy of a checkpoint.
type Edit struct {
	Files []int // indices of the checkpoint's files that it touches
	// Apply gives bytes to put, off counted from the start of the tensor. It is
	// called once for each of Files, of each time it must give the same, and from
	// any goroutine. What is given is not kept.
	Apply func(ctx context.Context, put Put) error
}

// Put takes bytes of a tensor.
type Put func(t *checkpoint.Tensor, off int64, data []byte) error

// RewriteOptions say how a copy is written.
type RewriteOptions struct {
	Config   []byte            // config.json; nil for the source's own
	Threads  int               // edits that are applied at a time; 0 is 1
	Progress func(bytes int64) // of files of weights that were copied; may be nil

	files filesystem // nil is the operating system's
}

// Rewrite copies a checkpoint into a folder, which must not exist or be empty,
// and applies edits to its tensors. Whatever no edit touches has the source's
// bytes: headers, index and every file beside the weights too.
//
// Until it is whole the folder has the mark of an unfinished export; a file gets
// its name when it is durable, config.json last. Where an error is returned, what
// was written is gone. A folder that a killed process leaves keeps its mark, and
// is refused. Errors wrap ErrOutput or are *checkpoint.FileError.
func Rewrite(ctx context.Context, ck *checkpoint.Checkpoint, dir string, edits []Edit, o RewriteOptions) (res Result, err error) {
	if o.files == nil {
		o.files = osFiles{}
	}
	w := &rewriter{RewriteOptions: o, folder: folder{dir, "rewrite", o.files}, ck: ck, edits: edits, res: &res}
	if err := w.gather(); err != nil {
		return res, err
	}
	made, err := w.room()
	if err != nil {
		return res, err
	}
	if err := w.mark(); err != nil {
		if made {
			_ = os.Remove(dir) // is empty, or stays
		}
		return res, err
	}
	if err := w.write(ctx); err != nil {
		w.undo(made)
		return Result{}, err
	}
	res.Whole = true
	return res, nil
}

// Vacant says, as Rewrite would, what keeps a copy of a checkpoint from being
// written to a folder, and writes nothing: who has long work to do before asks
// first.
func Vacant(ck *checkpoint.Checkpoint, dir string) error {
	w := &rewriter{folder: folder{dir, "", osFiles{}}, ck: ck}
	if err := w.gather(); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%w %s: is not a folder", ErrOutput, dir)
	case err == nil:
		if err := w.refuse(info); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return systemError(dir, err)
	}
	for err != nil { // the nearest that exists
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
		_, err = os.Stat(dir)
	}
	return w.fs.room(dir, w.need())
}

// rewriter is the work of one Rewrite.
type rewriter struct {
	RewriteOptions
	folder
	ck      *checkpoint.Checkpoint
	edits   []Edit
	side    []checkpoint.SideFile // and the index, last
	config  []byte                // nil: there is none
	written []string
	res     *Result
}

// finished refuses a source that an export into it left unfinished: what is made
// of it would have no mark.
func finished(ck *checkpoint.Checkpoint) error {
	if mark := ck.Unfinished(); mark != "" {
		return fmt.Errorf("%w %s: %s marks it as an export that is not finished", ErrSource, ck.Path, mark)
	}
	return nil
}

// gather lists what is to be written.
func (w *rewriter) gather() error {
	if err := finished(w.ck); err != nil {
		return err
	}
	side, err := w.ck.AllSide()
	if err != nil {
		return err
	}
	index, ok, err := w.ck.Index()
	if err != nil {
		return err
	}
	w.side = side
	if ok {
		w.side = append(slices.DeleteFunc(side, func(f checkpoint.SideFile) bool { return f.Name == index.Name }), index)
	}
	w.config = w.Config
	if w.config == nil {
		w.config = w.ck.Config
	}
	return nil
}

// room makes the folder where it does not exist, and wants it to be empty, not
// the source's, and to have room.
func (w *rewriter) room() (made bool, err error) {
	info, err := os.Stat(w.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := w.fs.makeFolder(w.dir); err != nil {
			return false, systemError(w.dir, err)
		}
		made = true
	case err != nil:
		return false, systemError(w.dir, err)
	case !info.IsDir():
		return false, fmt.Errorf("%w %s: is not a folder", ErrOutput, w.dir)
	}
	if err := w.refuse(info); err != nil {
		return false, err
	}
	if err := w.fs.room(w.dir, w.need()); err != nil {
		if made {
			_ = os.Remove(w.dir)
		}
		return false, err
	}
	return made, nil
}

// need is how many bytes the copy has.
func (w *rewriter) need() int64 {
	n := int64(len(w.config))
	for _, f := range w.ck.Files {
		n += f.Size
	}
	for _, f := range w.side {
		n += f.Size
	}
	return n
}

// refuse refuses a folder that is the source's or holds something.
func (w *rewriter) refuse(info fs.FileInfo) error {
	if source, ok := w.ck.Folder(); ok && info != nil {
		if from, err := os.Stat(source); err == nil && os.SameFile(from, info) {
			return fmt.Errorf("%w %s: is the source's own, which is never written to", ErrOutput, w.dir)
		}
	}
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return systemError(w.dir, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), checkpoint.UnfinishedPrefix) {
			return fmt.Errorf("%w %s: holds what was not finished (%s); remove it", ErrOutput, w.dir, e.Name())
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w %s: is not empty: it holds %q", ErrOutput, w.dir, entries[0].Name())
	}
	return nil
}

// mark says that the folder is not whole. Of two that begin at once one fails.
func (w *rewriter) mark() error {
	path := w.path(planName)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w %s: another process has just begun to write there", ErrOutput, w.dir)
	}
	if err != nil {
		return systemError(path, err)
	}
	_, err = io.WriteString(f, "{\"quantscope_rewrite\": 1}\n")
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = w.fs.syncFolder(w.dir)
	}
	if err != nil {
		_ = os.Remove(path)
		return systemError(path, err)
	}
	return nil
}

// write writes everything, and takes the mark away.
func (w *rewriter) write(ctx context.Context) error {
	for i := range w.ck.Files {
		if err := w.shard(ctx, i); err != nil {
			return err
		}
	}
	for _, s := range w.side {
		if err := w.copySide(ctx, s); err != nil {
			return err
		}
	}
	if file, changed := w.ck.Changed(); changed {
		return &checkpoint.FileError{File: file, Reason: "changed while it was copied"}
	}
	if w.config != nil {
		if err := w.text(configName, bytes.NewReader(w.config)); err != nil {
			return err
		}
	}
	err := w.fs.remove(w.path(planName))
	if err == nil {
		err = w.fs.syncFolder(w.dir)
	}
	if err != nil {
		return systemError(w.path(planName), err)
	}
	return nil
}

// text writes a small file.
func (w *rewriter) text(name string, r io.Reader) error {
	w.written = append(w.written, name)
	n, err := w.folder.write(name, r)
	w.res.Files++
	w.res.Bytes += n
	return err
}

func (w *rewriter) copySide(ctx context.Context, s checkpoint.SideFile) error {
	r, err := s.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	before := w.res.Bytes
	if err := w.text(s.Name, readerContext{ctx, r}); err != nil {
		return err
	}
	if n := w.res.Bytes - before; n != s.Size {
		return fmt.Errorf("%w %s: %s had %d bytes at first, %d now", ErrSource, w.ck.Path, s.Name, s.Size, n)
	}
	return nil
}

// shard copies one file of weights and applies its edits.
func (w *rewriter) shard(ctx context.Context, i int) error {
	name, size := w.ck.Files[i].Name, w.ck.Files[i].Size
	f, err := w.begin(name)
	if err != nil {
		return err
	}
	if err := w.fill(ctx, i, f); err != nil {
		w.drop(name, f)
		return err
	}
	w.written = append(w.written, name)
	if err := w.commit(name, f); err != nil {
		w.drop(name, f)
		return err
	}
	w.res.Files++
	w.res.Bytes += size
	return nil
}

func (w *rewriter) fill(ctx context.Context, i int, f file) error {
	path, size := w.path(w.ck.Files[i].Name), w.ck.Files[i].Size
	buf := make([]byte, copyBytes)
	for off := int64(0); off < size; off += copyBytes {
		part := buf[:min(copyBytes, size-off)]
		if err := w.ck.ReadRaw(ctx, i, off, part); err != nil {
			return err
		}
		if _, err := f.WriteAt(part, off); err != nil {
			return systemError(path, err)
		}
		if w.Progress != nil {
			w.Progress(int64(len(part)))
		}
	}
	put := func(t *checkpoint.Tensor, off int64, data []byte) error {
		switch {
		case t.File != i:
			return nil
		case off < 0 || off > t.Size || int64(len(data)) > t.Size-off:
			return &checkpoint.FileError{File: path, Tensor: t.Name, Reason: fmt.Sprintf("write of %d bytes from %d on leaves its %d bytes", len(data), off, t.Size)}
		}
		if _, err := f.WriteAt(data, t.Offset+off); err != nil {
			return systemError(path, err)
		}
		return nil
	}
	return w.apply(ctx, i, put)
}

// apply applies the edits of one file, some at a time.
func (w *rewriter) apply(ctx context.Context, i int, put Put) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *Edit)
	var wg sync.WaitGroup
	for range max(1, w.Threads) {
		wg.Go(func() {
			for e := range next {
				if err := e.Apply(ctx, put); err != nil {
					cancel(err)
				}
			}
		})
	}
	for k := range w.edits {
		if !slices.Contains(w.edits[k].Files, i) {
			continue
		}
		select {
		case next <- &w.edits[k]:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// undo removes what was written; what cannot be removed keeps the mark beside
// it.
func (w *rewriter) undo(made bool) {
	left := false
	for _, name := range slices.Backward(w.written) {
		if err := w.fs.remove(w.path(name)); err != nil && !isMissing(err) {
			left = true
		}
		for d := parentFolder(name); d != ""; d = parentFolder(d) {
			_ = os.Remove(w.path(d)) // where it is empty
		}
	}
	temps, err := filepath.Glob(filepath.Join(escapeGlob(w.dir), ".*."+w.tag+tempSuffix))
	if left || err != nil || len(temps) > 0 {
		return
	}
	if w.fs.remove(w.path(planName)) == nil && made {
		_ = os.Remove(w.dir)
	}
}
