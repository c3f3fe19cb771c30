package export

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A part has one writer: a second one is refused, whether it resumes or not, and
// leaves everything as it is; another part is not kept away, nor is a part whose
// writer is gone.
func TestOneWriterOfAPart(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", ModelOpt, "nvfp4")
	dir := filepath.Join(t.TempDir(), "out")
	first, err := Create(t.Context(), p, dir, Options{Part: 1, Of: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	before := files(t, dir)
	for _, resume := range []bool{false, true} {
		w, err := Create(t.Context(), p, dir, Options{Part: 1, Of: 2, Resume: resume})
		if !errors.Is(err, ErrBusy) || !errors.Is(err, ErrOutput) {
			t.Errorf("resume %t: %v", resume, err)
		}
		if err == nil {
			_ = w.Close()
		}
	}
	if after := files(t, dir); len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
	other, err := Create(t.Context(), p, dir, Options{Part: 2, Of: 2})
	if err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	_ = first.Close()
	again, err := Create(t.Context(), p, dir, Options{Part: 1, Of: 2, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// What a killed process leaves of its lock keeps nobody away and does not stay.
func TestLockOfAKilledWriter(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", ModelOpt, "nvfp4")
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	mustWrite(t, p, all, want, Options{})
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := write(t, p, all, dir, Options{Part: 1, Of: 2}); err != nil {
		t.Fatal(err)
	}
	for part := 1; part <= 2; part++ {
		if err := os.WriteFile(filepath.Join(dir, lockName(part, 2)), []byte("{\"pid\": 1}\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, p, all, dir, Options{Part: 2, Of: 2})
	sameFiles(t, dir, want)
}

// The command of an export that is whole already succeeds again, writes nothing,
// and is refused where it would make another export or what is there is another.
func TestResumeOfAWholeExport(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", ModelOpt, "nvfp4")
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	mustWrite(t, p, all, want, Options{})
	dir := filepath.Join(t.TempDir(), "out")
	mustWrite(t, p, all, dir, Options{})
	for _, o := range []Options{{Resume: true}, {Resume: true, Part: 2, Of: 2}} {
		w, err := Create(t.Context(), p, dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if w.Wanted(0) || len(w.Notes()) != 1 {
			t.Errorf("matrix 0 wanted: %t; notes %q", w.Wanted(0), w.Notes())
		}
		r, err := w.Finish(t.Context())
		if err != nil || !r.Whole || r.Files != len(p.Shards)+len(p.Texts)+len(p.Side) || r.Bytes != p.Bytes {
			t.Errorf("%+v, %v", r, err)
		}
		sameFiles(t, dir, want)
	}
	// Part 2 was begun again when part 1 made the folder whole, and killed.
	mark := partName(2, 2)
	for _, name := range []string{mark, filepath.Base(tempName(mark, partTag(2, 2)))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, p, all, dir, Options{Resume: true, Part: 2, Of: 2})
	sameFiles(t, dir, want)
	if _, err := Create(t.Context(), p, dir, Options{}); !errors.Is(err, ErrOutput) {
		t.Errorf("without resume: %v", err)
	}
	other := planOf(t, ck, model, "model.layers.*proj.weight", CompressedTensors, "nvfp4")
	if _, err := Create(t.Context(), other, dir, Options{Resume: true}); !errors.Is(err, ErrOutput) {
		t.Errorf("another layout: %v", err)
	}
	if err := os.Truncate(filepath.Join(dir, p.Shards[0].Name), p.Shards[0].Size-1); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), p, dir, Options{Resume: true}); !errors.Is(err, ErrOutput) {
		t.Errorf("a shard that is cut short: %v", err)
	}
}
