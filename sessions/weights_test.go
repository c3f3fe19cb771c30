package sessions

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/method"
)

// seedCheckpoint writes a checkpoint whose header does not depend on the seed
// and whose weights do.
func seedCheckpoint(t *testing.T, dir string, seed uint64) {
	t.Helper()
	var specs []checkpoint.Spec
	for _, name := range []string{"0.mlp.up_proj", "0.mlp.down_proj", "1.mlp.up_proj", "1.mlp.down_proj"} {
		specs = append(specs, checkpoint.Spec{Name: "model.layers." + name + ".weight", DType: checkpoint.BF16, Shape: []int64{32, 32}})
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	w, err := checkpoint.NewWriter(path, specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for range specs {
		b := make([]byte, 32*32*2)
		for i := 0; i < len(b); i += 2 {
			binary.LittleEndian.PutUint16(b[i:], uint16(math.Float32bits(float32(rng.NormFloat64()))>>16))
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// oneLineOf wants an error of one line that has all of some words.
func oneLineOf(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want one line with %q", err, w)
		}
	}
}

// TestAnotherCheckpointOfTheSameShape has the identity of the first one and other
// weights: a session of the one does not go on with the other, whatever is left to do,
// and gives no rows of it.
func TestAnotherCheckpointOfTheSameShape(t *testing.T) {
	base := t.TempDir()
	a, b, path := filepath.Join(base, "a"), filepath.Join(base, "b"), filepath.Join(base, "s.qscope")
	seedCheckpoint(t, a, 1)
	seedCheckpoint(t, b, 2)
	run := func(dir string, variants ...string) error {
		l, err := Start(t.Context(), Options{Checkpoint: dir, Session: path, Variants: variants})
		if err != nil {
			return err
		}
		_, err = l.Wait(t.Context())
		return errors.Join(err, l.Close())
	}
	if err := run(a, "nvfp4"); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	if before.Records[0][2].Weights == 0 || before.Records[0][2].Weights == before.Records[0][3].Weights {
		t.Errorf("digests %x and %x", before.Records[0][2].Weights, before.Records[0][3].Weights)
	}
	for _, variants := range [][]string{{"nvfp4", "nvfp4+mse"}, {"nvfp4"}} {
		err := run(b, variants...)
		var se *SettingsError
		if !errors.As(err, &se) || se.Old != digestText(before.Records[0][0].Weights) {
			t.Fatalf("%v: error %v", variants, err)
		}
		oneLineOf(t, err, path, `weights of "`+before.Tensors[0].Name+`" in model.safetensors was `)
	}
	diffStates(t, before, openState(t, path))
	if err := run(a, "nvfp4+mse"); err != nil {
		t.Errorf("the first one: %v", err)
	}

	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.RowErrors(t.Context(), 0, 1); err != nil {
		t.Error(err)
	}
	seedCheckpoint(t, a, 2)
	_, err = f.RowErrors(t.Context(), 0, 1)
	oneLineOf(t, err, "model.safetensors", before.Tensors[1].Name, "its weights changed since they were measured")
}

// TestInterruptedAndGoneOnWithOthers: what is left would come from other weights.
func TestInterruptedAndGoneOnWithOthers(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(40)
	ctx, cancel := context.WithCancel(t.Context())
	src.read = func(i int) error {
		if i == 20 {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	l, err := StartJob(ctx, job, Options{Session: path, Variants: []string{"f1"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	if n := before.Progress.Done; n == 0 || n >= 40 {
		t.Fatalf("%d done", n)
	}
	other, src2 := fakeJob(40)
	for i := range 40 {
		src2.spoil[i] = func(w []byte) { w[0] ^= 1 }
	}
	var se *SettingsError
	if _, err := StartJob(t.Context(), other, Options{Session: path, Variants: []string{"f1"}}); !errors.As(err, &se) {
		t.Fatalf("error %v", err)
	}
	diffStates(t, before, openState(t, path))
	same, _ := fakeJob(40)
	if p := runJob(t, same, path, "f1"); p.Done != 40 {
		t.Errorf("%+v", p)
	}
}

// TestAFewTensorsAreCompared: the first, the last and some between.
func TestAFewTensorsAreCompared(t *testing.T) {
	list := make([]int, 100)
	for i := range list {
		list[i] = i * 3
	}
	got := spread(list, spotChecks)
	if len(got) != 16 || got[0] != 0 || got[15] != 297 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 16 {
		t.Errorf("%v", got)
	}
	if got := spread(list[:3], spotChecks); !slices.Equal(got, list[:3]) {
		t.Errorf("%v", got)
	}
	if got := spread(nil, spotChecks); len(got) != 0 {
		t.Errorf("%v", got)
	}
	path := sessionPath(t)
	job, src := fakeJob(100)
	runJob(t, job, path, "f1")
	clear(src.reads)
	runJob(t, job, path, "f1")
	if len(src.reads) != 16 || src.reads[0] != 1 || src.reads[99] != 1 {
		t.Errorf("read %v", src.reads)
	}
}

// TestOneTensorChanged: what the first look does not see stops the run when it is
// read for another variant, and nothing of it is recorded.
func TestOneTensorChanged(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(100)
	runJob(t, job, path, "f1")
	src.spoil[50] = func(w []byte) { w[8], w[9] = 0xc0, 0x7f } // a NaN; 46 and 52 are compared
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f2"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	var env *EnvError
	if !errors.As(err, &env) {
		t.Fatalf("error %v", err)
	}
	oneLineOf(t, err, job.Tensors[50].File, job.Tensors[50].Name, "its weights changed since they were measured")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	st := openState(t, path)
	if st.Progress.State != RunStopped || st.Records[1][50].Seq != 0 || st.Records[0][50].Seq == 0 {
		t.Errorf("%+v\n%+v", st.Progress, st.Records[1][50])
	}
}

// TestOverwrittenWhileItRuns: a variant that is added later sees other weights
// than the first; the rows of a live run do too.
func TestOverwrittenWhileItRuns(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(10)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	src.spoil[4] = func(w []byte) { clear(w[:8]) }
	_, err = l.RowErrors(t.Context(), 0, 4)
	oneLineOf(t, err, job.Tensors[4].File, job.Tensors[4].Name, "its weights changed")
	if err := l.Add("f2"); err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	oneLineOf(t, err, job.Tensors[4].File, job.Tensors[4].Name, "its weights changed")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if st := openState(t, path); st.Records[1][4].Seq != 0 || st.Progress.State != RunStopped {
		t.Errorf("%+v", st.Progress)
	}
}

// held is a job over real files that does something in the middle of a run.
func held(t *testing.T, dir string, during func()) *Job {
	t.Helper()
	job, err := openJob(Options{Checkpoint: dir})
	if err != nil {
		t.Fatal(err)
	}
	parse := job.Parse
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		v, n := method.Variant{Spec: *q.Spec}, 0
		q.Spec, q.Measure = nil, func(m kernels.Matrix) (Measurement, error) {
			if n++; n == 2 {
				during()
			}
			tap, err := v.Measure(kernels.Best(), m)
			return Measurement{Tap: tap}, err
		}
		return q, err
	}
	return job
}

// TestSourceChangedDuringARun: a file that was written in place meanwhile ends
// the run as stopped, with a finding that names it.
func TestSourceChangedDuringARun(t *testing.T) {
	base := t.TempDir()
	dir, path := filepath.Join(base, "a"), filepath.Join(base, "s.qscope")
	seedCheckpoint(t, dir, 1)
	shard := filepath.Join(dir, "model.safetensors")
	job := held(t, dir, func() {
		f, err := os.OpenFile(shard, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		info, err := f.Stat()
		if err == nil {
			_, err = f.WriteAt([]byte{1, 2, 3, 4}, info.Size()-4)
		}
		if err := errors.Join(err, f.Close(), os.Chtimes(shard, time.Time{}, info.ModTime().Add(time.Second))); err != nil {
			t.Error(err)
		}
	})
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"nvfp4"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	var env *EnvError
	if !errors.As(err, &env) || env.Path != shard {
		t.Fatalf("error %v", err)
	}
	oneLineOf(t, err, shard, "changed while it was measured", "mixed")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	st := openState(t, path)
	found := slices.ContainsFunc(st.Log, func(e Event) bool { return e.Kind == EventFinding && strings.HasPrefix(e.Message, shard+": changed") })
	if st.Progress.State != RunStopped || !found {
		t.Errorf("%+v %+v", st.Progress, st.Log)
	}
	if !strings.Contains(dumpTables(t, path), "source-changed") {
		t.Error("the finding has another code")
	}
}

// TestSessionRemovedDuringARun: what is written then is lost, so the run does
// not count as finished. Moved away, it is whole where it is now.
func TestSessionRemovedDuringARun(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "a")
	seedCheckpoint(t, dir, 1)
	for _, c := range []struct {
		name, want string
		harm       func(path string) error
	}{
		{"removed", "was removed while it was written", os.Remove},
		{"replaced", "another file is there now", func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("mine"), 0o644))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.qscope")
			job := held(t, dir, func() {
				if err := c.harm(path); err != nil {
					t.Error(err)
				}
			})
			l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"nvfp4"}, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.Wait(t.Context())
			var env *EnvError
			if !errors.As(err, &env) || env.Path != path || p.State != RunStopped {
				t.Fatalf("state %s, error %v", p.State, err)
			}
			oneLineOf(t, err, path, c.want)
			if err := l.Close(); err != nil {
				t.Errorf("said twice: %v", err)
			}
		})
		t.Run(c.name+" after the run", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.qscope")
			job, _ := fakeJob(3)
			l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.harm(path); err != nil {
				t.Fatal(err)
			}
			oneLineOf(t, l.Close(), path, c.want)
		})
	}
}

// TestLogOfASessionThatIsGone is no part of a new session of that name.
func TestLogOfASessionThatIsGone(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(60)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1", "f2"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("a log of %d bytes, %v", len(log), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path+"-wal", log, 0o644)); err != nil {
		t.Fatal(err)
	}
	anew, _ := fakeJob(3)
	if p := runJob(t, anew, path, "f1"); p.Done != 3 {
		t.Errorf("%+v", p)
	}
	if st := openState(t, path); len(st.Tensors) != 3 || len(st.Variants) != 1 || st.Progress.State != RunFinished {
		t.Errorf("%d tensors, %d variants, %+v", len(st.Tensors), len(st.Variants), st.Progress)
	}
}

// A codebook is chosen from a whole matrix before its first row is coded, however
// the matrix comes: the record is that of package method.
func TestCodebooksOfMatricesInPieces(t *testing.T) {
	for _, mem := range []int64{0, 20 << 10} {
		path := sessionPath(t)
		o := Options{Checkpoint: "demo", Session: path, Targets: "*layers.1.*experts.[01].*", Variants: []string{"code2", "code2+sym"}, Threads: 1, MemBytes: mem}
		runOptions(t, o)
		job, err := openJob(o)
		if err != nil {
			t.Fatal(err)
		}
		defer job.Source.Close()
		feed := openFeed(t, path)
		st := feed.Snapshot()
		for v, name := range o.Variants {
			known, err := method.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			for i := range st.Tensors {
				m, err := job.Source.Read(t.Context(), i, make([]byte, job.Source.Need(i)))
				if err != nil {
					t.Fatal(err)
				}
				tap, rows, err := known.MeasureRows(kernels.Best(), m)
				if err != nil {
					t.Fatal(err)
				}
				want := NewRecord(v, i, &tap)
				if got := st.Records[v][i]; !got.sameFigures(&want) {
					t.Errorf("%s of %s: rel2 %v, want %v", name, st.Tensors[i].Name, got.Rel2, want.Rel2)
				}
				if i > 0 {
					continue
				}
				if told, err := feed.RowErrors(t.Context(), v, i); err != nil || !slices.Equal(told, rows) {
					t.Errorf("rows of %s: %v", name, err)
				}
			}
		}
	}
}
