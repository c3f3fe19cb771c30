package export

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"quantscope/quant/checkpoint"
)

// faults is a file system whose step number at goes wrong: with kill it and
// all that follow, as if the process were gone, else it alone.
type faults struct {
	osFiles
	at   int
	kill bool
	err  error

	mu    sync.Mutex
	steps int
	hits  int
	full  int64 // bytes that can be written, where it is not 0
	wrote int64
}

var errKilled = errors.New("killed")

// step counts, and is an error where it is time.
func (f *faults) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps++
	if f.at > 0 && (f.steps == f.at || f.kill && f.steps > f.at) {
		f.hits++
		return f.err
	}
	return nil
}

// take is how many of n bytes there is room for.
func (f *faults) take(n int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full > 0 && f.wrote+int64(n) > f.full {
		n = int(f.full - f.wrote)
		f.wrote = f.full
		return n, syscall.ENOSPC
	}
	f.wrote += int64(n)
	return n, nil
}

func (f *faults) create(path string) (file, error) {
	if err := f.step(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	x, err := f.osFiles.create(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{x.(*os.File), f}, nil
}

func (f *faults) rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osFiles.rename(from, to)
}

func (f *faults) remove(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osFiles.remove(path)
}

func (f *faults) makeFolder(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osFiles.makeFolder(path)
}

func (f *faults) syncFolder(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return nil // durability is not what is tried here
}

// faultyFile writes half of what it should when it fails.
type faultyFile struct {
	*os.File
	f *faults
}

func (x *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := x.f.step(); err != nil {
		n, _ := x.File.WriteAt(p[:len(p)/2], off)
		return n, err
	}
	if n, err := x.f.take(len(p)); err != nil {
		n, _ = x.File.WriteAt(p[:n], off)
		return n, err
	}
	return x.File.WriteAt(p, off)
}

func (x *faultyFile) Write(p []byte) (int, error) {
	if err := x.f.step(); err != nil {
		n, _ := x.File.Write(p[:len(p)/2])
		return n, err
	}
	if n, err := x.f.take(len(p)); err != nil {
		n, _ = x.File.Write(p[:n])
		return n, err
	}
	return x.File.Write(p)
}

func (x *faultyFile) Truncate(size int64) error {
	if err := x.f.step(); err != nil {
		return err
	}
	return x.File.Truncate(size)
}

func (x *faultyFile) Sync() error {
	return x.f.step()
}

// marked says whether a folder says that it is unfinished.
func marked(t testing.TB, dir string) bool {
	t.Helper()
	for name := range files(t, dir) {
		if strings.HasPrefix(name, checkpoint.UnfinishedPrefix) {
			return true
		}
	}
	return false
}

// missingOK are the files of a folder that may not exist.
func missingOK(t testing.TB, dir string) map[string]string {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return files(t, dir)
}

// smallPlan has few matrices, so that every step of its export can be tried.
func smallPlan(t *testing.T) *Plan {
	t.Helper()
	s := mixture()
	s.side = map[string]string{"tokenizer.json": "{}"}
	ck, model := openModel(t, s.write(t))
	return planOf(t, ck, model, smallTargets, CompressedTensors, "int4-g32")
}

const smallTargets = "model.layers.0.self_attn.k_proj.weight,model.layers.1.mlp.experts.0.up_proj.weight"

// Killed at any step, an export is never mistaken for a whole one, and resumed
// it ends with the same bytes.
func TestKilledAnywhere(t *testing.T) {
	p := smallPlan(t)
	killedAnywhere(t, p)
	ck, model := openModel(t, mixture().write(t))
	killedAnywhere(t, planOf(t, ck, model, smallTargets, Own, "code2"))
}

func killedAnywhere(t *testing.T, p *Plan) {
	t.Helper()
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	count := &faults{}
	mustWrite(t, p, all, want, Options{files: count})
	if count.steps < 50 {
		t.Fatalf("%d steps", count.steps)
	}
	for at := 1; at <= count.steps; at++ {
		dir := filepath.Join(t.TempDir(), "out")
		f := &faults{at: at, kill: true, err: errKilled}
		_, err := write(t, p, all, dir, Options{files: f})
		have := missingOK(t, dir)
		whole := len(have) > 0 && !marked(t, dir)
		if whole && (have[configName] == "" || len(have) != len(files(t, want))) {
			for name := range have {
				if !strings.HasPrefix(name, ".") { // what was begun before the first mark has a temporary name
					t.Fatalf("step %d: %s stands in a folder without a mark", at, name)
				}
			}
			whole = false
		}
		if err == nil && !whole {
			t.Fatalf("step %d: no error", at)
		}
		if !whole {
			// What a killed process left before its first mark is removed by hand:
			// there is nothing to resume.
			mustWrite(t, p, all, dir, Options{Resume: true})
		}
		sameFiles(t, dir, want)
		if t.Failed() {
			t.Fatalf("killed at step %d of %d", at, count.steps)
		}
	}
}

// A step that fails is an error of one line that names its file; the process
// goes on, cleans up, and the export can be resumed.
func TestFailingAnywhere(t *testing.T) {
	p := smallPlan(t)
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	count := &faults{}
	mustWrite(t, p, all, want, Options{files: count})
	for at := 1; at <= count.steps; at++ {
		dir := filepath.Join(t.TempDir(), "out")
		f := &faults{at: at, err: syscall.ENOSPC}
		_, err := write(t, p, all, dir, Options{files: f})
		if err == nil {
			if f.hits > 0 {
				t.Fatalf("step %d: no error", at)
			}
			continue // the order of steps in the background is not always the same
		}
		if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
			t.Fatalf("step %d: %v", at, err)
		}
		have := missingOK(t, dir)
		for name := range have {
			if strings.HasSuffix(name, tempSuffix) {
				t.Errorf("step %d: %s is left", at, name)
			}
		}
		if len(have) > 0 && !marked(t, dir) {
			sameFiles(t, dir, want) // failed after the last mark was gone
			continue
		}
		mustWrite(t, p, all, dir, Options{Resume: true})
		sameFiles(t, dir, want)
		if t.Failed() {
			t.Fatalf("failed at step %d of %d", at, count.steps)
		}
	}
}

// full is a file system with little room.
type full struct {
	osFiles
	free int64
}

func (f full) room(dir string, need int64) error {
	if need > f.free {
		return &checkpoint.FileError{File: dir, Reason: "needs more than is free", Err: syscall.ENOSPC}
	}
	return nil
}

// What is too small is found before anything is written; a resumed export needs
// room for the rest alone.
func TestRoom(t *testing.T) {
	p := smallPlan(t)
	all := prepare(t, p)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := write(t, p, all, dir, Options{files: full{free: p.Bytes - 1}}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder stays: %v", err)
	}
	w, err := Create(t.Context(), p, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Matrices {
		if p.ShardOf(i) == 0 {
			if err := store(w, i, 8, &all[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.Finish(t.Context()); !errors.Is(err, ErrMissing) {
		t.Fatal(err)
	}
	if w.Finished() != p.Shards[0].Size {
		t.Fatalf("%d bytes are finished, the first shard has %d", w.Finished(), p.Shards[0].Size)
	}
	need := w.need()
	if need >= p.Bytes {
		t.Errorf("resuming needs %d of %d bytes", need, p.Bytes)
	}
	if _, err := Create(t.Context(), p, dir, Options{Resume: true, files: full{free: need - 1}}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if r, err := write(t, p, all, dir, Options{Resume: true, files: full{free: need}}); err != nil || !r.Whole {
		t.Errorf("%+v, %v", r, err)
	}
}

// A disk that fills up, wherever that is, leaves the shards that are whole, and
// the export goes on when there is room.
func TestFullDisk(t *testing.T) {
	p := smallPlan(t)
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	count := &faults{}
	mustWrite(t, p, all, want, Options{files: count})
	finished := 0
	for room := int64(1); room < count.wrote; room += count.wrote / 40 {
		dir := filepath.Join(t.TempDir(), "out")
		_, err := write(t, p, all, dir, Options{files: &faults{full: room}})
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%d bytes: %v", room, err)
		}
		have := missingOK(t, dir)
		for i := range p.Shards {
			if text, ok := have[p.Shards[i].Name]; ok {
				finished++
				if text != files(t, want)[p.Shards[i].Name] {
					t.Errorf("%d bytes: %s is not whole", room, p.Shards[i].Name)
				}
			}
		}
		if _, ok := have[configName]; ok && !marked(t, dir) {
			t.Errorf("%d bytes: no mark", room)
		}
		mustWrite(t, p, all, dir, Options{Resume: true})
		sameFiles(t, dir, want)
	}
	if finished == 0 {
		t.Error("no room was enough for a shard")
	}
}
