package export

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/quant/checkpoint"
)

// move moves every file of a folder into another.
func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o777); err != nil {
		t.Fatal(err)
	}
	for name := range files(t, from) {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// Parts that were written in one folder, in any order, or in folders of their
// own, are the same export as one that was written whole.
func TestParts(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	mustWrite(t, p, all, want, Options{})
	for _, order := range [][]int{{1, 2, 3}, {3, 1, 2}} {
		dir := filepath.Join(t.TempDir(), "out")
		for k, part := range order {
			r, err := write(t, p, all, dir, Options{Part: part, Of: 3})
			if err != nil {
				t.Fatal(err)
			}
			left := slices.Sorted(slices.Values(order[k+1:]))
			if r.Whole != (k == 2) || len(left) > 0 && !slices.ContainsFunc(r.Missing, func(m int) bool { return slices.Contains(left, m) }) {
				t.Errorf("after part %d of %v: %+v", part, order, r)
			}
			if k < 2 {
				if ck, err := checkpoint.Open(dir); err == nil {
					if len(ck.Findings) == 0 {
						t.Errorf("after part %d of %v the folder opens without a finding", part, order)
					}
					_ = ck.Close()
				}
			}
		}
		sameFiles(t, dir, want)
	}

	apart := t.TempDir()
	dir := filepath.Join(apart, "joined")
	for _, part := range []string{"1", "2", "3"} {
		one := filepath.Join(apart, part)
		r, err := write(t, p, all, one, Options{Part: int(part[0] - '0'), Of: 3})
		if err != nil || r.Whole || len(r.Missing) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if part != "1" {
			r, err := Join(t.Context(), dir)
			if err != nil || r.Whole || len(r.Missing) == 0 {
				t.Fatalf("before part %s: %+v, %v", part, r, err)
			}
		}
		move(t, one, dir)
	}
	r, err := Join(t.Context(), dir)
	if err != nil || !r.Whole || r.Bytes != p.Bytes || r.Files != 3+len(p.Texts)+len(p.Side) {
		t.Fatalf("%+v, %v", r, err)
	}
	sameFiles(t, dir, want)
	if _, err := Join(t.Context(), dir); !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), "no unfinished export") {
		t.Errorf("a second join: %v", err)
	}
}

// Parts that work in one folder at the same time end as one export, whoever
// comes last.
func TestPartsAtOnce(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	want := filepath.Join(t.TempDir(), "want")
	mustWrite(t, p, all, want, Options{})
	for range 20 {
		dir := filepath.Join(t.TempDir(), "out")
		var whole atomic.Int32
		var parts sync.WaitGroup
		for part := 1; part <= 3; part++ {
			parts.Go(func() {
				r, err := write(t, p, all, dir, Options{Part: part, Of: 3})
				if err != nil {
					t.Errorf("part %d: %v", part, err)
				}
				if r.Whole {
					whole.Add(1)
				}
			})
		}
		parts.Wait()
		if whole.Load() == 0 {
			t.Error("no part joined them")
		}
		sameFiles(t, dir, want)
		if t.Failed() {
			return
		}
	}
}

// What does not belong together, or is not what a part wrote, is not joined.
func TestJoinRefuses(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", CompressedTensors, "nvfp4")
	other := planOf(t, ck, model, "", CompressedTensors, "nvfp4")
	all := prepare(t, p)
	for what, spoil := range map[string]struct {
		do      func(dir string) error
		mention string
	}{
		"a byte": {func(dir string) error {
			path := filepath.Join(dir, p.Shards[1].Name)
			text, err := os.ReadFile(path)
			if err == nil {
				text[len(text)-1] ^= 1
				err = os.WriteFile(path, text, 0o666)
			}
			return err
		}, p.Shards[1].Name},
		"a shard":     {func(dir string) error { return os.Remove(filepath.Join(dir, p.Shards[2].Name)) }, p.Shards[2].Name},
		"a cut shard": {func(dir string) error { return os.Truncate(filepath.Join(dir, p.Shards[2].Name), 9) }, "9 bytes"},
		"a side file": {func(dir string) error { return os.Remove(filepath.Join(dir, "tokenizer.json")) }, "tokenizer.json"},
		"a side file that grew": {func(dir string) error {
			path := filepath.Join(dir, "tokenizer.json")
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, append(text, '\n'), 0o666)
			}
			return err
		}, "tokenizer.json has"},
		"a part of another plan": {func(dir string) error {
			path := filepath.Join(dir, partName(2, 3))
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), p.Digest(), other.Digest())), 0o666)
			}
			return err
		}, "another export"},
		"a part beyond": {func(dir string) error {
			text := `{"plan": "` + p.Digest() + `", "part": 1, "of": 2000000000, "done": true}`
			return os.WriteFile(filepath.Join(dir, partName(2, 3)), []byte(text), 0o666)
		}, "2000000000"},
		"a part of fewer": {func(dir string) error {
			text := `{"plan": "` + p.Digest() + `", "part": 2, "of": 2, "done": true}`
			return os.WriteFile(filepath.Join(dir, partName(2, 2)), []byte(text), 0o666)
		}, "is one of 2 parts, another file says 3"},
		"a plan that leads out": {func(dir string) error {
			text := `{"quantscope_export": 1, "texts": [{"name": "../config.json", "text": "x"}]}`
			return os.WriteFile(filepath.Join(dir, planName), []byte(text), 0o666)
		}, "../config.json"},
		"a broken mark": {func(dir string) error { return os.WriteFile(filepath.Join(dir, partName(2, 3)), []byte("{"), 0o666) }, partName(2, 3)},
		"a broken plan": {func(dir string) error { return os.WriteFile(filepath.Join(dir, planName), []byte("{}"), 0o666) }, planName},
	} {
		apart := t.TempDir()
		dir := filepath.Join(apart, "joined")
		for part := 1; part <= 3; part++ {
			one := filepath.Join(apart, "one")
			if _, err := write(t, p, all, one, Options{Part: part, Of: 3}); err != nil {
				t.Fatal(err)
			}
			move(t, one, dir)
			if err := os.RemoveAll(one); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil.do(dir); err != nil {
			t.Fatal(err)
		}
		r, err := Join(t.Context(), dir)
		if err == nil || r.Whole || !strings.Contains(err.Error(), spoil.mention) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
		if !marked(t, dir) {
			t.Errorf("%s: the marks are gone", what)
		}
		if _, err := os.Stat(filepath.Join(dir, configName)); err == nil {
			t.Errorf("%s: there is a config", what)
		}
	}
	if _, err := Join(t.Context(), t.TempDir()); !errors.Is(err, ErrOutput) {
		t.Errorf("an empty folder: %v", err)
	}
}

// A side file of the source that is longer or shorter than when the export was
// planned ends it, unfinished.
func TestSideFileThatChanges(t *testing.T) {
	for what, text := range map[string]string{"shorter": "{}", "longer": strings.Repeat(" ", 99) + "{}"} {
		ck, model := openModel(t, mixture().write(t))
		p := planOf(t, ck, model, "", ModelOpt, "nvfp4")
		all := prepare(t, p)
		if err := os.WriteFile(filepath.Join(ck.Path, "tokenizer.json"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "out")
		r, err := write(t, p, all, dir, Options{})
		if !errors.Is(err, ErrSource) || r.Whole || !strings.Contains(err.Error(), "tokenizer.json had ") || !marked(t, dir) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
}

// Each part wants the matrices of its files, and every matrix is of one part.
func TestPartsAreDisjoint(t *testing.T) {
	ck, model := openModel(t, mixture().write(t))
	p := planOf(t, ck, model, "model.layers.*proj.weight", ModelOpt, "nvfp4")
	parts := make([]int, len(p.Matrices))
	total := int64(0)
	for part := 1; part <= 3; part++ {
		w, err := Create(t.Context(), p, filepath.Join(t.TempDir(), "out"), Options{Part: part, Of: 3, files: &faults{}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Matrices {
			if w.Wanted(i) {
				parts[i] += part
			}
		}
		total += w.Total()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := make([]int, len(p.Matrices))
	for i := range want {
		want[i] = p.ShardOf(i) + 1
	}
	if !cmp.Equal(parts, want) {
		t.Errorf("%v, want %v", parts, want)
	}
	size := int64(0)
	for i := range p.Shards {
		size += p.Shards[i].Size
	}
	if total != size {
		t.Errorf("parts have %d bytes, the shards %d", total, size)
	}
}
