package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"quantscope/quant/checkpoint"
)

// Create begins or resumes an export in a folder, which is made where it does
// not exist. Before anything is written the folder is looked at: it must not be
// the source's, must hold nothing else, must not be written by another process,
// and must have room. On resuming, the plan must be the same, shards that are
// said to be whole are read and compared with their sums, and what an earlier
// run of this part left half written is removed; where all is whole already
// nothing is written. Errors wrap ErrOutput or ErrChanged, or are *checkpoint.FileError;
// where one is returned nothing was written.
//
// ctx ends the work that the writer does in the background. Close or Finish
// must follow.
func Create(ctx context.Context, p *Plan, dir string, o Options) (_ *Writer, err error) {
	if o.Part == 0 && o.Of == 0 {
		o.Part, o.Of = 1, 1
	}
	if o.Part < 1 || o.Part > o.Of {
		return nil, fmt.Errorf("part %d of %d: want 1 to %d", o.Part, o.Of, max(o.Of, 1))
	}
	parts, err := Split(p.ck.Files, o.Of)
	if err != nil {
		return nil, err
	}
	if o.files == nil {
		o.files = osFiles{}
	}
	w := &Writer{
		plan: p, folder: folder{dir, partTag(o.Part, o.Of), o.files},
		part: partFile{Plan: p.digest, Part: o.Part, Of: o.Of, Shards: []partShard{}},
		mine: make([]bool, len(p.Shards)), done: make([]bool, len(p.Shards)),
		open: map[int]*shardFile{}, stored: make([]rowSet, len(p.Matrices)), books: map[int]uint16{},
		queue: make(chan int, len(p.Shards)), progress: o.Progress,
	}
	for _, i := range parts[o.Part-1] {
		w.mine[i] = true
	}
	made, err := w.makeDir()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.unlock()
			if made {
				_ = os.Remove(dir) // is empty, or stays
			}
		}
	}()
	if _, err = w.look(); err != nil { // before the lock's file comes to what is foreign
		return nil, err
	}
	if err = w.lock(); err != nil {
		return nil, err
	}
	found, err := w.look()
	if err == nil {
		err = w.prepare(ctx, found, o.Resume)
	}
	if err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.worker.Go(w.finishShards)
	return w, nil
}

// makeDir makes the folder and refuses the source's.
func (w *Writer) makeDir() (made bool, err error) {
	info, err := os.Stat(w.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// What is no link was made by another part since.
		if info, err := os.Lstat(w.dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return false, fmt.Errorf("%w %s: is a link to a place that does not exist", ErrOutput, w.dir)
		}
		if err := w.fs.makeFolder(w.dir); err != nil {
			return false, systemError(w.dir, err)
		}
		return true, nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
		return false, fmt.Errorf("%w %s: %w", ErrOutput, w.dir, errors.Unwrap(err))
	case err != nil:
		return false, systemError(w.dir, err)
	case !info.IsDir():
		return false, fmt.Errorf("%w %s: is not a folder", ErrOutput, w.dir)
	}
	if source, ok := w.plan.ck.Folder(); ok {
		if from, err := os.Stat(source); err == nil && os.SameFile(from, info) {
			return false, fmt.Errorf("%w %s: is the source's own; an export never writes into it", ErrOutput, w.dir)
		}
	}
	return false, nil
}

// found is what lies in the folder.
type found struct {
	plan, joined bool     // marks
	part         bool     // this part's mark
	temps        []string // this part's temporary files
	any          string   // the name of something, "" in an empty folder
}

// look goes through the folder and refuses what is not of this export.
func (w *Writer) look() (found, error) {
	var f found
	known, tags := map[string]bool{planName: true, joinedName: true}, map[string]bool{joinTag: true}
	for i := range w.plan.Shards {
		known[w.plan.Shards[i].Name] = true
	}
	for _, t := range w.plan.Texts {
		known[t.Name] = true
	}
	for _, s := range w.plan.Side {
		known[s.Name] = true
	}
	locks := map[string]bool{}
	for part := 1; part <= w.part.Of; part++ {
		known[partName(part, w.part.Of)] = true
		tags[partTag(part, w.part.Of)] = true
		locks[lockName(part, w.part.Of)] = true
	}
	folders := map[string]bool{} // of shards that lie in some
	for name := range known {
		for d := parentFolder(name); d != ""; d = parentFolder(d) {
			folders[d] = true
		}
	}
	root, err := filepath.EvalSymlinks(w.dir) // WalkDir follows no link
	if err != nil {
		return f, systemError(w.dir, err)
	}
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return systemError(path, err)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "." {
			return err
		}
		name := filepath.ToSlash(rel)
		if e.IsDir() && folders[name] {
			return nil
		}
		if target, tag := temporary(name); !e.IsDir() && known[target] && tags[tag] {
			if tag == w.tag {
				f.temps = append(f.temps, name)
			}
			return nil // what another part is at is its own
		}
		if locks[name] && !e.IsDir() {
			return nil
		}
		if e.IsDir() || !known[name] {
			if strings.HasPrefix(name, checkpoint.UnfinishedPrefix) {
				return fmt.Errorf("%w %s: %s is of an export in another number of parts than %d", ErrOutput, w.dir, name, w.part.Of)
			}
			return fmt.Errorf("%w %s: holds %q, which is not of this export", ErrOutput, w.dir, name)
		}
		if f.any == "" {
			f.any = name
		}
		f.plan = f.plan || name == planName
		f.joined = f.joined || name == joinedName
		f.part = f.part || name == partName(w.part.Part, w.part.Of)
		return nil
	})
	return f, err
}

// temporary takes the name of a temporary file apart: what it becomes, and whose
// it is; "" for any other name.
func temporary(name string) (target, tag string) {
	dir, base := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i+1], name[i+1:]
	}
	base, isTemp := strings.CutSuffix(base, tempSuffix)
	base, isHidden := strings.CutPrefix(base, ".")
	i := strings.LastIndexByte(base, '.')
	if !isTemp || !isHidden || i < 0 {
		return "", ""
	}
	return dir + base[:i], base[i+1:]
}

// partTag marks the temporary files of a part, joinTag those of Join.
func partTag(part, of int) string { return fmt.Sprintf("part-%d-of-%d", part, of) }

const joinTag = "join"

func parentFolder(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// prepare compares the folder with the plan and makes the marks.
func (w *Writer) prepare(ctx context.Context, f found, resume bool) error {
	begun := f.plan || f.joined
	if !begun && f.any != "" && resume {
		whole, err := w.isWhole()
		if err != nil {
			return err
		}
		if whole {
			w.notes = append(w.notes, w.dir+" was whole already: nothing was written to it")
			w.allDone()
			return w.removeOwn(f.temps)
		}
	}
	switch {
	case !begun && f.any != "" && !resume:
		return fmt.Errorf("%w %s: is not empty: it holds %q", ErrOutput, w.dir, f.any)
	case !begun && f.any != "":
		return fmt.Errorf("%w %s: holds %q but no mark of an unfinished export: there is nothing to resume", ErrOutput, w.dir, f.any)
	case begun && !resume && (f.part || w.part.Of == 1 || f.joined):
		return fmt.Errorf("%w %s: holds an unfinished export; resume it, or remove it", ErrOutput, w.dir)
	}
	if begun {
		name := planName
		if f.joined {
			name = joinedName
		}
		if err := w.samePlan(name); err != nil {
			return err
		}
	}
	if f.joined { // whole but for the marks
		w.allDone()
		return nil
	}
	for _, name := range f.temps {
		if err := w.fs.remove(w.path(name)); err != nil && !isMissing(err) {
			return systemError(w.path(name), err)
		}
	}
	if f.part {
		if err := w.resume(ctx); err != nil {
			return err
		}
	}
	if err := w.fs.room(w.dir, w.need()); err != nil {
		return err
	}
	if !f.plan {
		text, err := w.plan.encode()
		if err != nil {
			return err
		}
		if _, err := w.write(planName, bytes.NewReader(text)); err != nil {
			return err
		}
	}
	err := w.savePart()
	if err != nil && !f.plan && w.part.Of == 1 { // leave nothing, or what can be resumed
		if gone := w.fs.remove(w.path(partName(1, 1))); gone == nil || isMissing(gone) {
			_ = w.fs.remove(w.path(planName))
		}
	}
	return err
}

// need is the bytes that are still to be written.
func (w *Writer) need() (n int64) {
	for i := range w.plan.Shards {
		if w.mine[i] && !w.done[i] {
			n += w.plan.Shards[i].Size
		}
	}
	for _, t := range w.plan.Texts {
		n += int64(len(t.Data))
	}
	for _, s := range w.plan.Side {
		n += s.Size
	}
	return n + w.plan.kept
}

// samePlan compares the plan that the folder was begun with.
func (w *Writer) samePlan(name string) error {
	text, err := os.ReadFile(w.path(name))
	if err != nil {
		return systemError(w.path(name), err)
	}
	if digestOf(text) == w.plan.digest {
		return nil
	}
	was, err := decodePlan(text)
	if err != nil {
		return fmt.Errorf("%w %s: %w", ErrOutput, w.path(name), err)
	}
	now := w.plan.file()
	return fmt.Errorf("%w %s: the export that was begun there %w: %s", ErrOutput, w.dir, ErrChanged, was.difference(now))
}

// difference names the first thing that two plans do not share.
func (f *planFile) difference(now planFile) string {
	for _, x := range []struct{ what, was, now string }{
		{"source", f.Source, now.Source}, {"layout", f.Layout, now.Layout}, {"variant", f.Variant, now.Variant},
		{"format", f.Format, now.Format}, {"convention", f.Convention, now.Convention}, {"method", f.Method, now.Method},
		{"global scales", f.Globals, now.Globals}, {"recipe", f.Recipe, now.Recipe},
		{"targets", f.Patches, now.Patches},
	} {
		if x.was != x.now {
			return fmt.Sprintf("%s was %s, is %s now", x.what, x.was, x.now)
		}
	}
	for i := range min(len(f.Shards), len(now.Shards)) {
		if f.Shards[i] != now.Shards[i] {
			return fmt.Sprintf("shard %s has other tensors: the targets differ", now.Shards[i].Name)
		}
	}
	for i := range min(len(f.Texts), len(now.Texts)) {
		if f.Texts[i] != now.Texts[i] {
			return now.Texts[i].Name + " differs"
		}
	}
	return "the files beside the weights differ"
}

// resume takes over the shards that an earlier run finished.
func (w *Writer) resume(ctx context.Context) error {
	name := w.path(partName(w.part.Part, w.part.Of))
	was, err := readPart(name)
	if err != nil {
		return err
	}
	if was.Plan != w.part.Plan {
		return fmt.Errorf("%w %s: is of another plan", ErrOutput, name)
	}
	for i := range w.plan.Shards {
		if !w.mine[i] {
			continue
		}
		sh := &w.plan.Shards[i]
		k := slices.IndexFunc(was.Shards, func(s partShard) bool { return s.Name == sh.Name })
		if k < 0 {
			if err := w.discard(sh.Name); err != nil {
				return err
			}
			continue
		}
		why, err := w.checkShard(ctx, was.Shards[k])
		if err != nil {
			return err
		}
		if why != "" {
			w.notes = append(w.notes, fmt.Sprintf("%s %s and is written again", w.path(sh.Name), why))
			if err := w.discard(sh.Name); err != nil {
				return err
			}
			continue
		}
		w.done[i] = true
		w.part.Shards = append(w.part.Shards, was.Shards[k])
	}
	return nil
}

// discard removes a shard that no list of finished ones has.
func (w *Writer) discard(name string) error {
	if err := w.fs.remove(w.path(name)); err != nil && !isMissing(err) {
		return systemError(w.path(name), err)
	}
	return nil
}

func readPart(path string) (partFile, error) {
	var p partFile
	text, err := os.ReadFile(path)
	if err != nil {
		return p, systemError(path, err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("%w %s: is no list of finished shards: %w", ErrOutput, path, err)
	}
	return p, nil
}
