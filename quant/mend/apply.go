package mend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// Options say where the result goes.
type Options struct {
	To       string            // a folder that does not exist or is empty; "" with InPlace
	InPlace  bool              // the checkpoint's own folder
	Progress func(bytes int64) // of weights that were copied; may be nil; one call at a time

	stop func() error // of tests: asked before each change in place
}

// ErrOutput is wrapped by errors about the place of the result.
var ErrOutput = errors.New("output")

// Result is what Apply wrote.
type Result struct {
	Dir    string   `json:"dir"`
	Files  []string `json:"files"`  // written, in their order
	Bytes  int64    `json:"bytes"`  // of them
	Backup string   `json:"backup"` // folder of what was replaced, "" where nothing was
}

// keptFolder begins the name of the folder, inside the checkpoint's, that keeps what
// mending in place replaced. It is hidden, so that no copy of the checkpoint takes it
// along.
const keptFolder = ".before-mend"

// Apply does what the plan says. A step that is refused keeps it from doing anything.
// Where an error is returned and the result is a new folder, that is gone; in place,
// files that were swapped stay swapped, every one of them whole, and the checkpoint
// can be mended again. Errors are *checkpoint.FileError or wrap ErrOutput.
func (p *Plan) Apply(ctx context.Context, o Options) (Result, error) {
	if err := p.Refused(); err != nil {
		return Result{}, err
	}
	if name, changed := p.out.ck.Changed(); changed {
		return Result{}, &checkpoint.FileError{File: name, Reason: "was changed after the plan was made"}
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if o.stop == nil {
		o.stop = func() error { return nil }
	}
	w := &writer{Plan: p, Options: o, ctx: ctx}
	if o.InPlace {
		if o.To != "" {
			return Result{}, fmt.Errorf("%w: both a folder and in place", ErrOutput)
		}
		return w.inPlace()
	}
	return w.beside()
}

// CheckOutput says whether the result may go where the options say, as Apply does
// before it writes. Errors are those of Apply.
func (p *Plan) CheckOutput(o Options) error {
	if o.InPlace {
		return nil
	}
	dir, _ := p.out.ck.Folder() // a checkpoint that lies in none is refused by Apply
	if dir == "" {
		return nil
	}
	return vacant(o.To, dir)
}

// writer is the work of one Apply.
type writer struct {
	*Plan
	Options
	ctx context.Context
	res Result
}

// source is the folder that the checkpoint lies in.
func (w *writer) source() (string, error) {
	dir, ok := w.out.ck.Folder()
	if !ok {
		return "", fmt.Errorf("%w: %s lies in no folder", ErrOutput, w.Out)
	}
	return dir, nil
}

// beside writes a new folder under a temporary name and gives it its own when it is
// whole.
func (w *writer) beside() (res Result, err error) {
	from, err := w.source()
	if err != nil {
		return res, err
	}
	to := filepath.Clean(w.To)
	if w.To == "" {
		return res, fmt.Errorf("%w: no folder is named", ErrOutput)
	}
	if err := vacant(to, from); err != nil {
		return res, err
	}
	side, err := w.out.ck.AllSide()
	if err != nil {
		return res, err
	}
	var need int64
	for _, f := range w.out.ck.Files {
		need += f.Size
	}
	for _, f := range side {
		need += f.Size
	}
	for _, sh := range w.shards {
		need += sh.bytes + 1<<20
	}
	parent := filepath.Dir(to)
	if err := checkpoint.CheckSpace(parent, need); err != nil {
		return res, err
	}
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(to)+".mending-")
	if err != nil {
		return res, checkpoint.SystemError(to, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := os.Chmod(temp, folderMode(from)); err != nil {
		return res, checkpoint.SystemError(to, err)
	}
	for i, f := range w.out.ck.Files {
		name := f.Name
		if w.moved != "" && len(w.out.ck.Files) == 1 {
			name = w.moved
		}
		if err := w.copyWeights(i, filepath.Join(temp, name)); err != nil {
			return res, err
		}
		w.wrote(name, f.Size)
	}
	if err := w.strays(from, temp); err != nil {
		return res, err
	}
	replaced := map[string]bool{}
	for _, f := range w.files {
		replaced[f.name] = true
	}
	for _, f := range side {
		if replaced[f.Name] {
			continue
		}
		if err := w.copySide(f, filepath.Join(temp, f.Name)); err != nil {
			return res, err
		}
		w.wrote(f.Name, f.Size)
	}
	if err := w.grafts(temp); err != nil {
		return res, err
	}
	config := w.config
	if config == nil {
		config = w.out.ck.Config
	}
	texts := slices.Clone(w.files)
	if ix, ok, err := w.out.ck.Index(); err != nil {
		return res, err
	} else if w.index != nil {
		texts = append(texts, file{w.index.name, w.index.data})
	} else if ok {
		data, err := ix.Read()
		if err != nil {
			return res, err
		}
		texts = append(texts, file{ix.Name, data})
	}
	if config != nil {
		texts = append(texts, file{configName, config})
	}
	for _, f := range texts {
		if err := checkpoint.AtomicWriteFile(filepath.Join(temp, f.name), f.data); err != nil {
			return res, err
		}
		w.wrote(f.name, int64(len(f.data)))
	}
	if err := w.ctx.Err(); err != nil {
		return res, err
	}
	if err := checkpoint.SyncDir(temp); err != nil {
		return res, err
	}
	if err := os.Rename(temp, to); err != nil {
		return res, checkpoint.SystemError(to, err)
	}
	w.res.Dir = to
	return w.res, checkpoint.SyncDir(parent)
}

func (w *writer) wrote(name string, bytes int64) {
	w.res.Files = append(w.res.Files, name)
	w.res.Bytes += bytes
}

func folderMode(dir string) fs.FileMode {
	if info, err := os.Stat(dir); err == nil {
		return info.Mode().Perm()
	}
	return 0o755
}

// vacant wants a place that does not exist or is an empty folder, and not within the
// checkpoint's own.
func vacant(to, from string) error {
	abs, err := filepath.Abs(to)
	if err != nil {
		return checkpoint.SystemError(to, err)
	}
	if real, err := filepath.Abs(from); err == nil && (abs == real || strings.HasPrefix(abs, real+string(filepath.Separator))) {
		return fmt.Errorf("%w %s: is the checkpoint's own folder; --in-place mends it there", ErrOutput, to)
	}
	info, err := os.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(to)); err != nil {
			return checkpoint.SystemError(to, err)
		}
		return nil
	case err != nil:
		return checkpoint.SystemError(to, err)
	case !info.IsDir():
		return fmt.Errorf("%w %s: is not a folder", ErrOutput, to)
	}
	entries, err := os.ReadDir(to)
	if err != nil {
		return checkpoint.SystemError(to, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w %s: is not empty: has %s", ErrOutput, to, entries[0].Name())
	}
	return nil
}

// strays copies files of weights that come into the index now.
func (w *writer) strays(from, to string) error {
	if w.index == nil {
		return nil
	}
	named := map[string]bool{}
	for _, f := range w.out.ck.Files {
		named[f.Name] = true
	}
	var names []string
	for _, j := range w.joined {
		if !named[j.file] && !slices.Contains(names, j.file) {
			names = append(names, j.file)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		f, info, err := checkpoint.OpenRegular(filepath.Join(from, name))
		if err != nil {
			return err
		}
		err = w.write(filepath.Join(to, name), f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		w.wrote(name, info.Size())
	}
	return nil
}

// copyWeights copies a file of weights, header and all.
func (w *writer) copyWeights(i int, to string) error {
	return w.write(to, &rawReader{ctx: w.ctx, ck: w.out.ck, file: i, left: w.out.ck.Files[i].Size})
}

func (w *writer) copySide(f checkpoint.SideFile, to string) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	return errors.Join(w.write(to, r), r.Close())
}

// write writes a whole file and syncs it.
func (w *writer) write(to string, r io.Reader) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return checkpoint.SystemError(to, err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{&counting{out, w}}, struct{ io.Reader }{r}, make([]byte, 4<<20))
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		var known *checkpoint.FileError
		if errors.As(err, &known) || w.ctx.Err() != nil {
			return err
		}
		return checkpoint.SystemError(to, err)
	}
	return nil
}

// counting tells how much was written, and ends with the context.
type counting struct {
	io.Writer
	w *writer
}

func (c *counting) Write(p []byte) (int, error) {
	if err := c.w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.Writer.Write(p)
	c.w.Progress(int64(n))
	return n, err
}

// rawReader reads a file of a checkpoint from its beginning.
type rawReader struct {
	ctx       context.Context
	ck        *checkpoint.Checkpoint
	file      int
	off, left int64
}

func (r *rawReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	if err := r.ck.ReadRaw(r.ctx, r.file, r.off, p); err != nil {
		return 0, err
	}
	r.off, r.left = r.off+int64(len(p)), r.left-int64(len(p))
	return len(p), nil
}

// grafts writes the new files of weights.
func (w *writer) grafts(dir string) error {
	for _, sh := range w.shards {
		if err := w.graftFile(dir, sh); err != nil {
			return err
		}
		w.wrote(sh.name, sh.bytes)
	}
	return nil
}

func (w *writer) graftFile(dir string, sh shard) error {
	specs := make([]checkpoint.Spec, len(sh.tensors))
	for k, i := range sh.tensors {
		t := &w.src.ck.Tensors[i]
		specs[k] = checkpoint.Spec{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	out, err := checkpoint.NewWriter(filepath.Join(dir, sh.name), specs, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	defer out.Abort()
	buf := make([]byte, 4<<20)
	for _, i := range sh.tensors {
		t := &w.src.ck.Tensors[i]
		for off := int64(0); off < t.Size; {
			n := min(int64(len(buf)), t.Size-off)
			if err := w.src.ck.ReadAt(w.ctx, t, off, buf[:n]); err != nil {
				return err
			}
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			w.Progress(n)
			off += n
		}
	}
	return out.Commit()
}
