package calibrate

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"quantscope/quant/checkpoint"
	"quantscope/quant/lockfile"
)

// partsSuffix ends the name of the folder in which a file is gathered.
const partsSuffix = ".parts"

// FileWriter gathers moments unit by unit in a folder beside the file that is
// made of them at the end: PATH.parts. A unit is there whole, and durable, or not at
// all, so that whoever is interrupted goes on at the unit that was under way.
// It has one user, and keeps others away by a lock.
type FileWriter struct {
	path, dir string
	plan      filePlan
	done      map[string]*unitRecord
	lock      *lockfile.Lock
}

// filePlan is what must be the same for whoever goes on; but for the program.
type filePlan struct {
	Header Header        `json:"header"`
	Units  []plannedUnit `json:"units"`
	IDs    string        `json:"ids"`
}

type plannedUnit struct {
	Name   string        `json:"name"`
	Inputs []storedInput `json:"inputs"`
}

// unitRecord says that a unit is there.
type unitRecord struct {
	Inputs []storedInput `json:"inputs"` // with rows and digests
	Counts *Counts       `json:"counts,omitempty"`
}

// DifferError says what of a calibration that is gone on with differs.
type DifferError struct {
	Dir, What, Old, New string
}

func (e *DifferError) Error() string {
	return fmt.Sprintf("calibrate: %s goes on with a calibration whose %s is %s, and %s is asked for: give another --out, or remove the folder", e.Dir, e.What, e.Old, e.New)
}

// CreateFile begins the file at path, or goes on with one that was interrupted,
// where the header and units are the same; chunks are the ids of the corpus. A file
// that is there already is refused with fs.ErrExist.
func CreateFile(path string, h Header, units []KeptUnit, chunks [][]int32) (*FileWriter, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, &checkpoint.FileError{File: path, Reason: "not written over", Err: fs.ErrExist}
	}
	h.Format, h.Counts = fileFormat, nil
	w := &FileWriter{path: path, dir: path + partsSuffix, done: map[string]*unitRecord{}, plan: filePlan{Header: h, IDs: idsDigest(chunks)}}
	var size int64
	for _, u := range units {
		p := plannedUnit{Name: u.Name}
		for _, in := range u.Inputs {
			if in.N <= 0 || in.N > maxColumns {
				return nil, fmt.Errorf("calibrate: %s has %d columns", in.At, in.N)
			}
			s := storedInput{At: in.At.String(), N: in.N, Hessian: in.Hessian, Unit: u.Name, For: in.For}
			p.Inputs = append(p.Inputs, s)
			size += s.bytes()
		}
		w.plan.Units = append(w.plan.Units, p)
	}
	if err := os.Mkdir(w.dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, checkpoint.SystemError(path, err)
	}
	var err error
	if w.lock, err = lockfile.Acquire(filepath.Join(w.dir, "lock"), time.Second); err != nil {
		return nil, &checkpoint.FileError{File: w.dir, Reason: "cannot be written", Err: err}
	}
	if err := w.begin(chunks); err != nil {
		_ = w.lock.Release()
		return nil, err
	}
	// What is gathered and the file made of it are there beside each other at the end.
	for _, u := range w.plan.Units {
		if w.Has(u.Name) {
			for _, in := range u.Inputs {
				size -= in.bytes() / 2
			}
		}
	}
	if err := checkpoint.CheckSpace(w.dir, 2*size); err != nil {
		_ = w.Close()
		return nil, err
	}
	return w, nil
}

// begin writes the plan, or holds this one against that which is there.
func (w *FileWriter) begin(chunks [][]int32) error {
	name := filepath.Join(w.dir, "plan.json")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = json.Marshal(w.plan); err != nil {
			return err
		}
		if err := checkpoint.AtomicWriteFile(filepath.Join(w.dir, idsName), encodeChunks(chunks)); err != nil {
			return err
		}
		return checkpoint.AtomicWriteFile(name, text)
	}
	if err != nil {
		return checkpoint.SystemError(name, err)
	}
	var was filePlan
	if err := json.Unmarshal(text, &was); err != nil {
		return &checkpoint.FileError{File: name, Reason: "is damaged", Err: err}
	}
	if d := was.differs(&w.plan); d != nil {
		d.Dir = w.dir
		return d
	}
	w.plan.Header.Program = was.Header.Program // that of its beginning
	for i, u := range w.plan.Units {
		if err := w.readUnit(i, u); err != nil {
			return err
		}
	}
	return nil
}

// differs names the first setting that is not the same.
func (p *filePlan) differs(now *filePlan) *DifferError {
	a, b := &p.Header, &now.Header
	for _, c := range []struct{ what, old, new string }{
		{"format", fmt.Sprint(a.Format), fmt.Sprint(b.Format)}, {"checkpoint", a.Source, b.Source},
		{"way through the layers", a.Through, b.Through}, {"arithmetic", a.Numerics, b.Numerics},
		{"number of chunks", fmt.Sprint(a.Corpus.Chunks), fmt.Sprint(b.Corpus.Chunks)}, {"text", a.Corpus.SHA256, b.Corpus.SHA256},
		{"kind (with Hessians)", fmt.Sprint(a.Hessians), fmt.Sprint(b.Hessians)}, {"chunking", p.IDs, now.IDs},
	} {
		if c.old != c.new {
			return &DifferError{What: c.what, Old: c.old, New: c.new}
		}
	}
	x, err := json.Marshal(p.Units)
	y, err2 := json.Marshal(now.Units)
	if err != nil || err2 != nil || string(x) != string(y) {
		return &DifferError{What: "list of inputs", Old: fmt.Sprintf("another one, of %d units", len(p.Units)), New: fmt.Sprintf("one of %d", len(now.Units))}
	}
	return nil
}

// idsName is the file of the corpus's ids in the folder.
const idsName = "ids.bin"

func (w *FileWriter) unitFile(i int, ext string) string {
	return filepath.Join(w.dir, fmt.Sprintf("unit-%04d.%s", i, ext))
}

// readUnit finds out whether a unit is there: its record is written last.
func (w *FileWriter) readUnit(i int, u plannedUnit) error {
	name := w.unitFile(i, "json")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return checkpoint.SystemError(name, err)
	}
	r := &unitRecord{}
	if err := json.Unmarshal(text, r); err != nil || len(r.Inputs) != len(u.Inputs) {
		return &checkpoint.FileError{File: name, Reason: "is damaged; without it the unit is measured again", Err: err}
	}
	size := int64(0)
	for k, in := range r.Inputs {
		if in.At != u.Inputs[k].At || in.N != u.Inputs[k].N || in.Hessian != u.Inputs[k].Hessian {
			return &checkpoint.FileError{File: name, Reason: "is damaged; without it the unit is measured again"}
		}
		size += in.bytes()
	}
	info, err := os.Stat(w.unitFile(i, "bin"))
	if err != nil {
		return checkpoint.SystemError(w.unitFile(i, "bin"), err)
	}
	if info.Size() != size {
		return &checkpoint.FileError{File: w.unitFile(i, "bin"), Reason: fmt.Sprintf("has %d bytes in place of %d; without %s the unit is measured again", info.Size(), size, filepath.Base(name))}
	}
	w.done[u.Name] = r
	return nil
}

// Has says whether a unit was measured, and its counts; nil where no experts are.
func (w *FileWriter) Has(unit string) bool { return w.done[unit] != nil }

// Counts are those of a unit that was measured.
func (w *FileWriter) Counts(unit string) *Counts {
	if r := w.done[unit]; r != nil {
		return r.Counts
	}
	return nil
}

// Commit makes the file of all units and removes the folder.
func (w *FileWriter) Commit(ctx context.Context) (err error) {
	h := storedHeader{Header: w.plan.Header, IDs: w.plan.IDs}
	var specs []checkpoint.Spec
	for _, u := range w.plan.Units {
		r := w.done[u.Name]
		if r == nil {
			return fmt.Errorf("calibrate: %s: %s was not measured", w.path, u.Name)
		}
		if r.Counts != nil {
			h.Counts = append(h.Counts, *r.Counts)
		}
		for _, in := range r.Inputs {
			h.Inputs = append(h.Inputs, in)
			specs = append(specs, in.specs()...)
		}
	}
	c := h.Corpus
	specs = append(specs, checkpoint.Spec{Name: idsTensor, DType: checkpoint.I32, Shape: []int64{c.Tokens}}, checkpoint.Spec{Name: lengthsTensor, DType: checkpoint.I64, Shape: []int64{int64(c.Chunks)}})
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	identity, err := h.identity()
	if err != nil {
		return err
	}
	out, err := checkpoint.NewWriter(w.path, specs, map[string]string{metadataKey: string(text), identityKey: identity})
	if err != nil {
		return err
	}
	defer out.Abort()
	for i, u := range w.plan.Units {
		if err := w.copyUnit(ctx, out, i, w.done[u.Name]); err != nil {
			return err
		}
	}
	if err := copyChecked(ctx, out, filepath.Join(w.dir, idsName), []int64{4*c.Tokens + 8*int64(c.Chunks)}, []string{h.IDs}); err != nil {
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	err = w.Close()
	return errors.Join(err, os.RemoveAll(w.dir))
}

// copyUnit copies what a unit has, and holds it against its digests.
func (w *FileWriter) copyUnit(ctx context.Context, out io.Writer, i int, r *unitRecord) error {
	sizes, sums := make([]int64, len(r.Inputs)), make([]string, len(r.Inputs))
	for k, in := range r.Inputs {
		sizes[k], sums[k] = in.bytes(), in.SHA256
	}
	return copyChecked(ctx, out, w.unitFile(i, "bin"), sizes, sums)
}

// copyChecked copies runs of bytes of a file whose SHA-256 are known.
func copyChecked(ctx context.Context, out io.Writer, name string, sizes []int64, sums []string) (err error) {
	f, _, err := checkpoint.OpenRegular(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, 1<<20)
	for k, left := range sizes {
		sum := newSum()
		for left > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			part := buf[:min(left, int64(len(buf)))]
			if _, err := io.ReadFull(f, part); err != nil {
				return checkpoint.SystemError(name, err)
			}
			_, _ = sum.Write(part) // a hash never fails
			if _, err := out.Write(part); err != nil {
				return err
			}
			left -= int64(len(part))
		}
		if hex.EncodeToString(sum.Sum(nil)) != sums[k] {
			return &checkpoint.FileError{File: name, Reason: fmt.Sprintf("is damaged in its part %d: remove it and its record, and the unit is measured again", k)}
		}
	}
	return nil
}

// Close leaves what was measured where it is, to be gone on with.
func (w *FileWriter) Close() error {
	if w.lock == nil {
		return nil
	}
	l := w.lock
	w.lock = nil
	return l.Release()
}

// CodesBeside is the folder of codes that a file is gathered beside, which goes
// with the folder of parts.
func CodesBeside(path string) string { return filepath.Join(path+partsSuffix, "codes") }
