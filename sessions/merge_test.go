package sessions

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runPart measures a part of a checkpoint into a new session.
func runPart(t *testing.T, source, path string, p Part, variants ...string) {
	t.Helper()
	if _, err := runExport(t, t.Context(), Options{Checkpoint: source, Session: path, Variants: variants, Part: p, Threads: 2}, nil); err != nil {
		t.Fatal(err)
	}
}

func canonical(t *testing.T, path string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := ExportCanonical(t.Context(), &b, path); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPartsMergedAreTheWhole, in whatever order they are named: the canonical
// export, its digest, the tap payloads, the tensors and the settings.
func TestPartsMergedAreTheWhole(t *testing.T) {
	source, base := synthetic(t), t.TempDir()
	at := func(name string) string { return filepath.Join(base, name+Extension) }
	variants := []string{"nvfp4", "nvfp4+mse"}
	runPart(t, source, at("whole"), Part{}, variants...)
	for k := 1; k <= 3; k++ {
		runPart(t, source, at(string(rune('0'+k))), Part{k, 3}, variants...)
	}
	if err := Merge(t.Context(), at("merged"), []string{at("2"), at("3"), at("1")}, MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	want, got := openState(t, at("whole")), openState(t, at("merged"))
	if diff := cmp.Diff(want.Tensors, got.Tensors); diff != "" {
		t.Error(diff)
	}
	if got.Progress.State != RunFinished || got.Progress.Done != want.Progress.Done || got.Progress.Total != want.Progress.Total {
		t.Errorf("%+v, want %+v", got.Progress, want.Progress)
	}
	if diff := cmp.Diff(tapPayloads(t, at("whole")), tapPayloads(t, at("merged"))); diff != "" {
		t.Errorf("payloads differ: %.500s", diff)
	}
	if a, b := canonical(t, at("whole")), canonical(t, at("merged")); len(a) == 0 || !bytes.Equal(a, b) {
		t.Errorf("canonical exports of %d and %d bytes differ", len(a), len(b))
	}
	a, err := Digest(t.Context(), at("whole"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Digest(t.Context(), at("merged")); err != nil || a != b || len(a) != 64 {
		t.Errorf("digests %s and %s, %v", a, b, err)
	}
	if b, err := Digest(t.Context(), at("1")); err != nil || a == b {
		t.Errorf("a part has the digest of the whole: %s, %v", b, err)
	}
	for _, e := range got.Log {
		if e.Kind == EventStarted && e.Message != "merged from 1.qscope (part 1/3, "+count(int64(len(openState(t, at("1")).Tensors)), "tensor")+"), "+
			"2.qscope (part 2/3, "+count(int64(len(openState(t, at("2")).Tensors)), "tensor")+"), 3.qscope (part 3/3, "+count(int64(len(openState(t, at("3")).Tensors)), "tensor")+")" {
			t.Errorf("%q", e.Message)
		}
	}
	// It is gone on with as the whole is, and reads of it find the checkpoint.
	runPart(t, source, at("merged"), Part{}, "nvfp4+4over6")
	if st := openState(t, at("merged")); st.Progress.Done != 3*int64(len(st.Tensors)) || st.Progress.State != RunFinished {
		t.Errorf("%+v", st.Progress)
	}
	f, err := OpenSession(at("merged"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := f.RowErrors(t.Context(), 1, 7); err != nil || len(rows) != 64 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestMergeRefusals(t *testing.T) {
	source, base := synthetic(t), t.TempDir()
	at := func(name string) string { return filepath.Join(base, name+Extension) }
	runPart(t, source, at("whole"), Part{}, "nvfp4")
	for k := 1; k <= 3; k++ {
		runPart(t, source, at(string(rune('0'+k))), Part{k, 3}, "nvfp4")
	}
	runPart(t, source, at("mse"), Part{3, 3}, "nvfp4+mse")
	runPart(t, source, at("half"), Part{2, 2}, "nvfp4")
	other := filepath.Join(base, "other")
	seedCheckpoint(t, other, 1)
	if err := os.Rename(filepath.Join(other, "model.safetensors"), filepath.Join(other, "a.safetensors")); err != nil {
		t.Fatal(err)
	}
	runPart(t, other, at("other"), Part{1, 1}, "nvfp4")
	if _, err := runExport(t, t.Context(), Options{Checkpoint: source, Session: at("shared"), Variants: []string{"nvfp4"}, Part: Part{3, 3}, GlobalScale: "shared"}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := runExport(t, ctx, Options{Checkpoint: source, Session: at("left"), Variants: []string{"nvfp4"}, Part: Part{3, 3}, Threads: 1}, func(j *Job) {
		n := 0
		j.Source = &counted{storedSource: j.Source.(*storedSource), before: func() {
			if n++; n == 2 {
				cancel()
			}
		}}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	cut, err := os.ReadFile(at("3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("cut"), cut[:len(cut)-8192], 0o644); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		parts string
		says  []string
	}{
		{"", []string{"no parts"}},
		{"1 2", []string{at("2"), "tensors after its last are in none", "--partial"}},
		{"1 3", []string{at("3"), "tensors before its first are in none", "--partial"}},
		{"1 2 2 3", []string{at("2"), "it is part 2/3, as"}},
		{"1 2 half 3", []string{"tensor ", ".qscope too"}},
		{"whole 1", []string{at("whole"), "not of a part"}},
		{"1 2 mse", []string{at("mse"), "list of variants is nvfp4+mse, and nvfp4 in " + at("1")}},
		{"1 2 other", []string{at("other"), "source identity is "}},
		{"1 2 shared", []string{at("shared"), "global scale is shared, and tensor in "}},
		{"1 2 left", []string{at("left"), "measurements are still to do"}},
		{"1 2 cut", []string{at("cut"), "damaged"}},
		{"1 2 gone", []string{at("gone")}},
	} {
		var paths []string
		for _, name := range strings.Fields(c.parts) {
			paths = append(paths, at(name))
		}
		err := Merge(t.Context(), at("out"), paths, MergeOptions{})
		oneLineOf(t, err, c.says...)
		if left, _ := filepath.Glob(at("out") + "*"); len(left) > 0 {
			t.Errorf("%s: leaves %q", c.parts, left)
		}
	}
	if err := Merge(t.Context(), at("1"), []string{at("1"), at("2"), at("3")}, MergeOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto a file: %v", err)
	}
	if err := Merge(t.Context(), at("out"), []string{at("1"), at("left")}, MergeOptions{Partial: true}); err != nil {
		t.Fatal(err)
	}
	st := openState(t, at("out"))
	if p := st.Progress; p.State != RunCancelled || p.Done == 0 || p.Done == p.Total || !slices.ContainsFunc(st.Log, func(e Event) bool { return e.Kind == EventStarted }) {
		t.Errorf("%+v", p)
	}
	var se *SettingsError
	if _, err := runExport(t, t.Context(), Options{Checkpoint: source, Session: at("out"), Variants: []string{"nvfp4"}}, nil); !errors.As(err, &se) || se.Old != "1/3+3/3" {
		t.Errorf("a merge with gaps is gone on with as the whole: %v", err)
	}
}

// TestPartsOfFiles: their tensors are those of the whole, each once.
func TestPartsOfFiles(t *testing.T) {
	source := synthetic(t)
	whole, err := openJob(Options{Checkpoint: source})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Source.Close()
	for _, of := range []int{1, 2, 4} {
		var names []string
		for k := 1; k <= of; k++ {
			job, err := openJob(Options{Checkpoint: source, Part: Part{k, of}})
			if err != nil {
				t.Fatal(err)
			}
			if job.part.First != len(names) || job.part.Whole != len(whole.Tensors) || job.Settings[SettingSource] != whole.Settings[SettingSource] {
				t.Errorf("part %d of %d: %+v", k, of, job.part)
			}
			for _, ts := range job.Tensors {
				names = append(names, ts.Name)
			}
			if err := job.Source.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(names) != len(whole.Tensors) {
			t.Fatalf("%d tensors in %d parts, want %d", len(names), of, len(whole.Tensors))
		}
		for i, ts := range whole.Tensors {
			if names[i] != ts.Name {
				t.Errorf("tensor %d of %d parts is %s, want %s", i, of, names[i], ts.Name)
			}
		}
	}
	for _, s := range []string{"", "1", "0/3", "4/3", "a/b", "1/2/3", "-1/2"} {
		if p, err := ParsePart(s); err == nil {
			t.Errorf("%q is part %v", s, p)
		}
	}
	if p, err := ParsePart("2/3"); err != nil || p.String() != "2/3" || (Part{}).String() != "" {
		t.Errorf("%v, %v", p, err)
	}
}
