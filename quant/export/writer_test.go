package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quantscope/kernels"
)

// Many goroutines store at once, in no order; the result is the same, and every
// byte is reported.
func TestConcurrentStores(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	want, dir := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "out")
	mustWrite(t, p, all, want, Options{})
	var bytes atomic.Int64
	w, err := Create(t.Context(), p, dir, Options{files: &faults{}, Progress: func(n int64) { bytes.Add(n) }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	type job struct{ matrix, first int }
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for j := range jobs {
				n := min(8, p.Matrices[j.matrix].Rows-j.first)
				if err := w.StoreMade(j.matrix, j.first, all[j.matrix].rows(p, j.matrix, j.first, n), all[j.matrix].made()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for first := 0; first < 96; first += 8 { // all first rows, then all second ones …
		for i := range p.Matrices {
			if first < p.Matrices[i].Rows {
				jobs <- job{i, first}
			}
		}
	}
	close(jobs)
	workers.Wait()
	if r, err := w.Finish(t.Context()); err != nil || !r.Whole {
		t.Fatalf("%+v, %v", r, err)
	}
	sameFiles(t, dir, want)
	if bytes.Load() != w.Total() {
		t.Errorf("%d bytes reported, the shards have %d", bytes.Load(), w.Total())
	}
	if w.Finished() != w.Total() {
		t.Errorf("%d of %d bytes are finished", w.Finished(), w.Total())
	}
	if err := w.Store(0, 0, &all[0].Output, 1); !errors.Is(err, ErrOver) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := w.Finish(t.Context()); !errors.Is(err, ErrOver) {
		t.Errorf("a second end: %v", err)
	}
}

func TestStoreRefuses(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.0.*proj.weight", CompressedTensors, "int4-g32")
	all := prepare(t, p)
	w, err := Create(t.Context(), p, filepath.Join(t.TempDir(), "out"), Options{files: &faults{}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Store(0, 16, all[0].rows(p, 0, 16, 16), 0); err != nil {
		t.Fatal(err)
	}
	short := *all[0].rows(p, 0, 0, 8)
	short.Scales = short.Scales[1:]
	noMins := *all[0].rows(p, 0, 0, 8)
	noMins.Mins = nil
	for what, c := range map[string]struct {
		matrix, first int
		out           *kernels.Output
		reason        error
	}{
		"no such matrix": {len(p.Matrices), 0, &all[0].Output, ErrMatrix},
		"negative":       {-1, 0, &all[0].Output, ErrMatrix},
		"no output":      {0, 0, nil, kernels.ErrShape},
		"no codes":       {0, 0, &kernels.Output{}, kernels.ErrShape},
		"before":         {0, -8, all[0].rows(p, 0, 0, 8), kernels.ErrShape},
		"beyond":         {0, p.Matrices[0].Rows - 8, all[0].rows(p, 0, 0, 16), kernels.ErrShape},
		"far beyond":     {0, 1 << 62, all[0].rows(p, 0, 0, 8), kernels.ErrShape},
		"not at eight":   {0, 4, all[0].rows(p, 0, 0, 8), kernels.ErrShape},
		"not by eight":   {0, 0, all[0].rows(p, 0, 0, 4), kernels.ErrShape},
		"scales":         {0, 0, &short, kernels.ErrShape},
		"minima":         {0, 0, &noMins, kernels.ErrShape},
		"twice":          {0, 16, all[0].rows(p, 0, 16, 16), ErrMatrix},
		"overlap":        {0, 8, all[0].rows(p, 0, 8, 16), ErrMatrix},
	} {
		if err := w.Store(c.matrix, c.first, c.out, 0); !errors.Is(err, c.reason) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", what, err, c.reason)
		}
	}
	if err := w.Store(0, 0, all[0].rows(p, 0, 0, 16), 0); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	if _, err := w.Finish(t.Context()); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "7 matrices") || !strings.Contains(err.Error(), p.Shards[0].Name) {
		t.Errorf("an end without all matrices: %v", err)
	}
}

// A run that is called off leaves a folder that says so, without temporary
// files, and can be resumed.
func TestCancel(t *testing.T) {
	p := smallPlan(t)
	all := prepare(t, p)
	want, dir := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "out")
	mustWrite(t, p, all, want, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	w, err := Create(ctx, p, dir, Options{files: &faults{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store(w, 0, 16, &all[0]); err != nil {
		t.Fatal(err)
	}
	cancel()
	for i := 1; i < len(p.Matrices); i++ {
		if err := store(w, i, 16, &all[i]); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !marked(t, dir) {
		t.Error("no mark")
	}
	for name := range files(t, dir) {
		if strings.HasSuffix(name, tempSuffix) || name == configName {
			t.Errorf("%s is left", name)
		}
	}
	mustWrite(t, p, all, dir, Options{Resume: true})
	sameFiles(t, dir, want)
}

// What lies in the output folder decides whether an export may begin there.
func TestFolder(t *testing.T) {
	source := mixture().write(t)
	ck, model := openModel(t, source)
	p := planOf(t, ck, model, "", ModelOpt, "nvfp4")
	other := planOf(t, ck, model, "", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	put := func(dir, name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what, dir string, p *Plan, o Options, reason error, mention ...string) {
		t.Helper()
		before := missingOK(t, dir)
		_, err := Create(t.Context(), p, dir, o)
		if !errors.Is(err, reason) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", what, err, reason)
			return
		}
		for _, m := range mention {
			if !strings.Contains(err.Error(), m) {
				t.Errorf("%s: %q does not mention %q", what, err, m)
			}
		}
		if len(missingOK(t, dir)) != len(before) {
			t.Errorf("%s: the folder is not what it was", what)
		}
	}
	refused("source", source, p, Options{}, ErrOutput, source)
	refused("source resumed", source, p, Options{Resume: true}, ErrOutput, source)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	refused("link to the source", link, p, Options{}, ErrOutput, link)

	dir := t.TempDir()
	put(dir, "notes.txt")
	refused("something else", dir, p, Options{}, ErrOutput, dir, "notes.txt")
	refused("nothing to resume", dir, p, Options{Resume: true}, ErrOutput, "notes.txt")
	file := filepath.Join(dir, "notes.txt")
	refused("a file", file, p, Options{}, ErrOutput, file)
	refused("below a file", filepath.Join(file, "below"), p, Options{}, ErrOutput, file)
	refused("a name that is too long", filepath.Join(dir, strings.Repeat("n", 300)), p, Options{}, ErrOutput, "too long")
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	if err := os.Symlink(filepath.Join(dir, "gone"), nowhere); err != nil {
		t.Fatal(err)
	}
	refused("a link to nowhere", nowhere, p, Options{}, ErrOutput, nowhere, "does not exist")

	dir = filepath.Join(t.TempDir(), "new", "folder")
	mustWrite(t, p, all, dir, Options{})
	refused("whole", dir, p, Options{}, ErrOutput, "not empty")
	refused("whole resumed as another", dir, other, Options{Resume: true}, ErrOutput, "not of this export")

	dir = filepath.Join(t.TempDir(), "half")
	w, err := Create(t.Context(), p, dir, Options{files: &faults{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	refused("unfinished", dir, p, Options{}, ErrOutput, "resume")
	refused("another plan", dir, other, Options{Resume: true}, ErrChanged, "layout was modelopt, is compressed-tensors now")
	refused("other parts", dir, p, Options{Part: 1, Of: 2}, ErrOutput, "number of parts")
	put(dir, "stray.safetensors")
	refused("stray", dir, p, Options{Resume: true}, ErrOutput, "stray.safetensors")
	for _, o := range []Options{{Part: 0, Of: 3}, {Part: 4, Of: 3}, {Part: 1, Of: 99}, {Part: -1, Of: -1}} {
		if _, err := Create(t.Context(), p, filepath.Join(t.TempDir(), "x"), o); err == nil {
			t.Errorf("part %d of %d", o.Part, o.Of)
		}
	}
}

// A finished shard that is not what was written is found on resuming and
// written again.
func TestResumeChecks(t *testing.T) {
	p := smallPlan(t)
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	mustWrite(t, p, all, want, Options{})
	for what, spoil := range map[string]func(path string) error{
		"flipped": func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				text[len(text)/2] ^= 1
				err = os.WriteFile(path, text, 0o666)
			}
			return err
		},
		"cut":  func(path string) error { return os.Truncate(path, 100) },
		"gone": os.Remove,
	} {
		dir := filepath.Join(t.TempDir(), "out")
		w, err := Create(t.Context(), p, dir, Options{files: &faults{}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Matrices {
			if err := store(w, i, 64, &all[i]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Finish(&stopAt{Context: t.Context(), after: 3}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", what, err)
		}
		if err := spoil(filepath.Join(dir, p.Shards[0].Name)); err != nil {
			t.Fatal(err)
		}
		w, err = Create(t.Context(), p, dir, Options{Resume: true, files: &faults{}})
		if err != nil {
			t.Fatal(err)
		}
		if notes := w.Notes(); len(notes) != 1 || !strings.Contains(notes[0], p.Shards[0].Name) {
			t.Errorf("%s: notes %q", what, notes)
		}
		for i := range p.Matrices {
			if wanted := p.ShardOf(i) == 0; w.Wanted(i) != wanted {
				t.Errorf("%s: %s is wanted: %t", what, p.Matrices[i].Name, !wanted)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, p, all, dir, Options{Resume: true})
		sameFiles(t, dir, want)
	}
}

// stopAt is a context that ends after some looks at it.
type stopAt struct {
	context.Context
	after int
}

func (s *stopAt) Err() error {
	if s.after--; s.after < 0 {
		return context.Canceled
	}
	return nil
}

func TestRowSet(t *testing.T) {
	var s rowSet
	for _, c := range []struct {
		first, n int
		ok       bool
	}{{10, 5, true}, {20, 5, true}, {15, 5, true}, {10, 1, false}, {24, 1, false}, {9, 2, false}, {5, 30, false}, {0, 10, true}, {25, 1, true}, {0, 1, false}} {
		if got := s.take(c.first, c.n); got != c.ok {
			t.Errorf("rows %d+%d: %t", c.first, c.n, got)
		}
	}
	if len(s.runs) != 1 || s.runs[0] != [2]int{0, 26} {
		t.Errorf("runs %v", s.runs)
	}
}
