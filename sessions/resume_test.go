package sessions

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
)

// TestResumeRefusals: each setting that decides what the numbers are may not
// change, and the refusal names it with its old and new value. The others may.
func TestResumeRefusals(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(10)
	runJob(t, job, whole, "f1")
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			path := copySession(t, whole)
			other, _ := fakeJob(10)
			o := Options{Session: path, Variants: []string{"f1"}, Program: "test", Threads: 2}
			old, changed := other.Settings[s.name], "another"
			switch s.name {
			case SettingPart, SettingSample:
				old = "none"
				other.Settings = maps.Clone(other.Settings)
				other.Settings[s.name] = changed
			case "tensors":
				old, changed = other.Tensors[3].Name+" BF16 [8,32] in model-00000.safetensors", other.Tensors[3].Name+" F16 [8,32] in model-00000.safetensors"
				other.Tensors = slices.Clone(other.Tensors)
				other.Tensors[3].DType = "F16"
			case "variants":
				o.Variants = []string{"f2"}
			case "kernel set":
				o.KernelSet = kernels.Set{Name: "another"}
			case "threads":
				o.Threads = 5
			case "memory":
				o.MemBytes = 1 << 20
			case "program":
				o.Program = "newer"
			default:
				other.Settings = maps.Clone(other.Settings)
				other.Settings[s.name] = changed
			}
			l, err := StartJob(t.Context(), other, o)
			if s.mayChange {
				if err != nil {
					t.Fatal(err)
				}
				_, err := l.Wait(t.Context())
				if err := errors.Join(err, l.Close()); err != nil {
					t.Fatal(err)
				}
				return
			}
			var se *SettingsError
			if !errors.As(err, &se) || se.Old != old || se.New != changed || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %v", err)
			}
			if _, err := os.Stat(path + lockSuffix); err == nil {
				t.Error("a refused resume leaves its lock")
			}
		})
	}
	fewer, _ := fakeJob(9)
	var se *SettingsError
	if _, err := StartJob(t.Context(), fewer, Options{Session: whole}); !errors.As(err, &se) || se.Old != "10" || se.New != "9" {
		t.Errorf("fewer tensors: %v", err)
	}
	redefined, _ := fakeJob(10)
	parse := redefined.Parse
	redefined.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		q.Variant.BitsPerWeight = 8
		return q, err
	}
	if _, err := StartJob(t.Context(), redefined, Options{Session: whole}); !errors.As(err, &se) || se.Setting != "definition of variant f1" {
		t.Errorf("a variant that means something else: %v", err)
	}
}

// TestWhatMayChangeOnResume is the list itself, setting by setting: what decides
// the numbers may not change.
func TestWhatMayChangeOnResume(t *testing.T) {
	want := map[string]bool{
		"source identity": false, "targets": false, "convention": false, "global scale": false, "part": false, "numerics": false, "tensors": false, "sample": false,
		"variants": true, "kernel set": true, "threads": true, "memory": true, "program": true,
	}
	got := map[string]bool{}
	for _, s := range settings {
		got[s.name] = s.mayChange
	}
	if !maps.Equal(got, want) {
		t.Errorf("may change on resume: %v, want %v", got, want)
	}
}

// TestResumeOfACompleteSession writes nothing, and reads only to see whether
// the weights are the same.
func TestResumeOfACompleteSession(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(10)
	runJob(t, job, path, "f1")
	before := openState(t, path)
	clear(src.reads)
	if p := runJob(t, job, path, "f1"); p.State != RunFinished || p.Done != 10 {
		t.Errorf("%+v", p)
	}
	diffStates(t, before, openState(t, path))
	for i, n := range src.reads {
		if n > 1 {
			t.Errorf("tensor %d was read %d times", i, n)
		}
	}
}

// TestResumeTriesFailedTensorsAgain, and takes the new outcome.
func TestResumeTriesFailedTensorsAgain(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(10)
	src.read = func(i int) error {
		if i == 3 || i == 7 {
			return errors.New("a bad block")
		}
		return nil
	}
	if p := runJob(t, job, path, "f1"); p.Failed != 2 || p.Done != 8 {
		t.Fatalf("%+v", p)
	}
	clear(src.reads)
	src.read = func(i int) error {
		if i == 7 {
			return errors.New("still a bad block")
		}
		return nil
	}
	if p := runJob(t, job, path, "f1"); p.Failed != 1 || p.Done != 9 {
		t.Errorf("%+v", p)
	}
	want := map[int]int{}
	for i := range 10 { // the eight others once, to compare them
		want[i] = 1
	}
	if !maps.Equal(src.reads, want) {
		t.Errorf("read %v, want %v", src.reads, want)
	}
	st := openState(t, path)
	if st.Records[0][3].Failed || !st.Records[0][7].Failed {
		t.Errorf("%+v\n%+v", st.Records[0][3], st.Records[0][7])
	}
	i := slices.IndexFunc(st.Log, func(e Event) bool { return e.Kind == EventResumed })
	if i < 0 || st.Log[i].Message != "resumed: 8 of 10 measurements there, 2 failed and tried again" {
		t.Errorf("log %+v", st.Log)
	}
}

// TestInterruptedAfterTheLastRecord: nothing is to do, but the log must end.
func TestInterruptedAfterTheLastRecord(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(10)
	runJob(t, job, path, "f1")
	execSQL(t, path, "delete from events where kind = 'finished'", "delete from log where kind = 'finished'")
	if p := runJob(t, job, path, "f1"); p.State != RunFinished || p.Done != 10 {
		t.Errorf("%+v", p)
	}
	if st := openState(t, path); st.Progress.State != RunFinished {
		t.Errorf("%+v", st.Progress)
	}
}

// TestDerivedTablesAreRebuilt: what another program did to the typed tables is
// undone by the next run, from the events.
func TestDerivedTablesAreRebuilt(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(20)
	runJob(t, job, path, "f1", "f2")
	dump := func() string { return dumpTables(t, path) }
	want := dump()
	for name, damage := range map[string]string{
		"dropped": "drop view v_taps; drop view v_variants; drop view v_log; drop table taps; drop table log",
		"emptied": "delete from taps where tensor > 3; delete from tensors; delete from variants; delete from findings; delete from session",
	} {
		execSQL(t, path, damage)
		lock, err := lockSession(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := open(t.Context(), path, lock)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
		if got := dump(); got != want {
			t.Errorf("%s: rebuilt as\n%.2000s\nwas\n%.2000s", name, got, want)
		}
	}
}

func TestStartRefusesOtherFiles(t *testing.T) {
	job, _ := fakeJob(2)
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("do not lose this"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, dir} {
		_, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}})
		if !errors.Is(err, ErrNotSession) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if b, err := os.ReadFile(text); err != nil || string(b) != "do not lose this" {
		t.Errorf("the file is now %q, %v", b, err)
	}
	_, err := StartJob(t.Context(), job, Options{Session: filepath.Join(dir, "no", "such", "folder.qscope"), Variants: []string{"f1"}})
	var env *EnvError
	if !errors.As(err, &env) {
		t.Errorf("no folder: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	// An empty file, as mktemp makes it, is a place for a session.
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if p := runJob(t, job, empty, "f1"); p.Done != 2 {
		t.Errorf("%+v", p)
	}
}

// TestDefaultPlace: the state folder, names that say what and when, nothing
// overwritten.
func TestDefaultPlace(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	t.Setenv("XDG_STATE_HOME", state)
	dir, err := DefaultDir()
	if err != nil || dir != filepath.Join(state, "quantscope", "sessions") {
		t.Fatalf("%s, %v", dir, err)
	}
	if infos, errs := List(dir); len(infos) != 0 || len(errs) != 0 {
		t.Errorf("a folder that is not there: %v, %v", infos, errs)
	}
	job, _ := fakeJob(2)
	job.Name = "Org/Some Model (v2)"
	clock := &fixedClock{}
	seen := map[string]bool{}
	for range 3 {
		l, err := StartJob(t.Context(), job, Options{Variants: []string{"f1"}, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		seen[filepath.Base(l.Path())] = true
	}
	stem := "org-some-model--v2" + clock.Now().Local().Format("-0102-1504")
	if want := map[string]bool{stem + ".qscope": true, stem + "-2.qscope": true, stem + "-3.qscope": true}; !maps.Equal(seen, want) {
		t.Errorf("names %v, want %v", seen, want)
	}
	bad := filepath.Join(dir, "bad.qscope")
	if err := os.WriteFile(bad, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	infos, errs := List(dir)
	if len(infos) != 3 || len(errs) != 1 || !strings.Contains(errs[0].Error(), bad) {
		t.Fatalf("%d sessions, %v", len(infos), errs)
	}
	if i := infos[0]; i.Progress.State != RunFinished || i.Progress.Done != 2 || i.Progress.Total != 2 || i.Tensors != 2 || len(i.Variants) != 1 || i.Writer != 0 || i.Bytes == 0 || i.Meta.SourcePath != "fake" {
		t.Errorf("%+v", i)
	}
	t.Setenv("XDG_STATE_HOME", "relative") // to be ignored, says the specification
	t.Setenv("HOME", state)
	if dir, err := DefaultDir(); err != nil || dir != filepath.Join(state, ".local", "state", "quantscope", "sessions") {
		t.Errorf("%s, %v", dir, err)
	}
}
