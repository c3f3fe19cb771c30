package export

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// rewritten is a source of two shards with an edit in each, and the tensors that
// it writes over.
func rewritten(t *testing.T) (ck *checkpoint.Checkpoint, edits []Edit, a, b *checkpoint.Tensor) {
	t.Helper()
	s := mixture()
	s.side = map[string]string{"tokenizer.json": "{}", "LICENSE": "do as you like"}
	ck, _ = openModel(t, s.write(t))
	if len(ck.Files) < 2 {
		t.Fatalf("%d files", len(ck.Files))
	}
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		if x.File == 0 && a == nil && x.Size > 8 {
			a = x
		}
		if x.File == 1 {
			b = x
		}
	}
	apply := func(ctx context.Context, put Put) error {
		if err := put(a, 3, []byte("one")); err != nil {
			return err
		}
		return put(b, b.Size-3, []byte("two"))
	}
	return ck, []Edit{{Files: []int{0, 1}, Apply: apply}}, a, b
}

// wanted are the files that the copy must have.
func wanted(t *testing.T, ck *checkpoint.Checkpoint, a, b *checkpoint.Tensor) map[string]string {
	t.Helper()
	source, _ := ck.Folder()
	want := files(t, source)
	for _, x := range []struct {
		t    *checkpoint.Tensor
		off  int64
		text string
	}{{a, 3, "one"}, {b, b.Size - 3, "two"}} {
		name := ck.Files[x.t.File].Name
		raw := []byte(want[name])
		copy(raw[x.t.Offset+x.off:], x.text)
		want[name] = string(raw)
	}
	return want
}

func sameAs(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	have := files(t, dir)
	for name, text := range want {
		if have[name] != text {
			t.Errorf("%s differs (%d bytes, want %d)", name, len(have[name]), len(text))
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d files, want %d", len(have), len(want))
	}
}

// A copy has the source's bytes but for what edits write, in whichever file.
func TestRewrite(t *testing.T) {
	ck, edits, a, b := rewritten(t)
	dir := filepath.Join(t.TempDir(), "out")
	copied := int64(0)
	res, err := Rewrite(t.Context(), ck, dir, edits, RewriteOptions{Progress: func(n int64) { copied += n }, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := wanted(t, ck, a, b)
	sameAs(t, dir, want)
	total, weights := int64(0), int64(0)
	for _, text := range want {
		total += int64(len(text))
	}
	for _, f := range ck.Files {
		weights += f.Size
	}
	if !res.Whole || res.Files != len(want) || res.Bytes != total || copied != weights {
		t.Errorf("%+v, %d bytes copied; want %d files of %d bytes, %d of weights", res, copied, len(want), total, weights)
	}
	t.Run("another config, into an empty folder", func(t *testing.T) {
		dir := t.TempDir()
		if _, err := Rewrite(t.Context(), ck, dir, nil, RewriteOptions{Config: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		source, _ := ck.Folder()
		want := files(t, source)
		want[configName] = "{}"
		sameAs(t, dir, want)
	})
	t.Run("one file", func(t *testing.T) {
		source, _ := ck.Folder()
		one, err := checkpoint.Open(filepath.Join(source, ck.Files[0].Name))
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		dir := t.TempDir()
		if _, err := Rewrite(t.Context(), one, dir, nil, RewriteOptions{}); err != nil {
			t.Fatal(err)
		}
		have := files(t, dir)
		if have[ck.Files[0].Name] != files(t, source)[ck.Files[0].Name] || have[ck.Files[1].Name] != "" || have[indexName] != "" {
			t.Errorf("%d files", len(have))
		}
	})
	t.Run("by its index", func(t *testing.T) {
		source, _ := ck.Folder()
		whole, err := checkpoint.Open(filepath.Join(source, indexName))
		if err != nil {
			t.Fatal(err)
		}
		defer whole.Close()
		dir := t.TempDir()
		if _, err := Rewrite(t.Context(), whole, dir, nil, RewriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if have := files(t, dir); have[indexName] == "" || have[ck.Files[1].Name] == "" {
			t.Errorf("%d files", len(have))
		}
	})
}

// Where an export cannot be, a copy cannot be either, and Vacant says the same
// before.
func TestRewriteRefuses(t *testing.T) {
	ck, edits, _, _ := rewritten(t)
	source, _ := ck.Folder()
	base := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Symlink(source, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	before := files(t, source)
	for _, c := range []struct{ name, dir, word string }{
		{"the source", source, "source's own"},
		{"a link to the source", filepath.Join(base, "link"), "source's own"},
		{"a file", put("file", ""), "not a folder"},
		{"not empty", filepath.Dir(put("full/x", "")), "not empty"},
		{"not finished", filepath.Dir(put("half/"+planName, "")), "not finished"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Rewrite(t.Context(), ck, c.dir, edits, RewriteOptions{})
			if !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%v, want %q", err, c.word)
			}
			if first := Vacant(ck, c.dir); first == nil || first.Error() != err.Error() {
				t.Errorf("%v before, %v then", first, err)
			}
		})
	}
	sameAs(t, source, before)
	if err := Vacant(ck, filepath.Join(base, "a", "b", "c")); err != nil {
		t.Error(err)
	}
	dir := filepath.Join(base, "little")
	if _, err := Rewrite(t.Context(), ck, dir, edits, RewriteOptions{files: full{free: 1000}}); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is left where there is no room")
	}
}

// An edit that fails, one that leaves its tensor, and an end of the context leave
// nothing behind.
func TestRewriteThatFails(t *testing.T) {
	ck, _, a, _ := rewritten(t)
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name  string
		apply func(context.Context, Put) error
		want  string
	}{
		{"an error", func(context.Context, Put) error { return broken }, "broken"},
		{"before the tensor", func(_ context.Context, put Put) error { return put(a, -1, []byte{1}) }, "leaves its"},
		{"beyond the tensor", func(_ context.Context, put Put) error { return put(a, a.Size-1, []byte{1, 2}) }, "leaves its"},
		{"the context's end", func(context.Context, Put) error { cancel(); return ctx.Err() }, "canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			_, err := Rewrite(ctx, ck, dir, []Edit{{Files: []int{0}, Apply: c.apply}}, RewriteOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("left: %d files", len(files(t, dir)))
			}
		})
	}
}

// Killed at any step, a copy is never mistaken for a whole one; a step that only
// fails leaves nothing.
func TestRewriteFaults(t *testing.T) {
	ck, edits, a, b := rewritten(t)
	want := wanted(t, ck, a, b)
	count := &faults{}
	if _, err := Rewrite(t.Context(), ck, filepath.Join(t.TempDir(), "out"), edits, RewriteOptions{files: count}); err != nil {
		t.Fatal(err)
	}
	if count.steps < 25 {
		t.Fatalf("%d steps", count.steps)
	}
	for at := 1; at <= count.steps; at++ {
		for _, kill := range []bool{true, false} {
			dir := filepath.Join(t.TempDir(), "out")
			_, err := Rewrite(t.Context(), ck, dir, edits, RewriteOptions{files: &faults{at: at, kill: kill, err: syscall.EIO}})
			if !errors.Is(err, syscall.EIO) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
				t.Fatalf("step %d, killed %t: %v", at, kill, err)
			}
			have := missingOK(t, dir)
			switch {
			case !kill && len(have) > 0:
				t.Errorf("step %d: %d files are left", at, len(have))
			case kill && len(have) > 0 && !marked(t, dir):
				sameAs(t, dir, want) // killed when all was done
			}
		}
	}
}

// The parts of fused tensors are named as export names them.
func TestExpertModule(t *testing.T) {
	for _, c := range [][2]string{
		{"model.layers.0.mlp.experts.gate_proj[3]", "model.layers.0.mlp.experts.3.gate_proj"},
		{"experts.up_proj[12]", "experts.12.up_proj"},
		{"model.layers.0.block_sparse_moe.up_proj[1]", "model.layers.0.block_sparse_moe.experts.1.up_proj"},
		{"model.layers.0.mlp.experts.3.gate_proj", "model.layers.0.mlp.experts.3.gate_proj"},
		{"odd[x]", "odd[x]"}, {"odd]", "odd]"}, {"", ""},
	} {
		if got := ExpertModule(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	_, model := openModel(t, fusedOutIn().write(t))
	for i := range model.Matrices {
		m := &model.Matrices[i]
		name, err := Module(m)
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != m.Tensor && !strings.Contains(name, ".experts.") {
			t.Errorf("%s: %q", m.Name, name)
		}
	}
}

func TestReadRawIsTheFile(t *testing.T) {
	ck, _, _, _ := rewritten(t)
	source, _ := ck.Folder()
	for i, f := range ck.Files {
		want, err := os.ReadFile(filepath.Join(source, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, f.Size-5)
		if err := ck.ReadRaw(t.Context(), i, 5, got); err != nil || !bytes.Equal(got, want[5:]) {
			t.Errorf("%s: %v", f.Name, err)
		}
		if err := ck.ReadRaw(t.Context(), i, f.Size-1, make([]byte, 2)); err == nil {
			t.Errorf("%s: read beyond its end", f.Name)
		}
	}
	if err := ck.ReadRaw(t.Context(), len(ck.Files), 0, nil); err == nil {
		t.Error("read of a file that there is not")
	}
}

// A copy of what an export left unfinished would look like a whole one, so
// neither a copy nor an export is made of it.
func TestNothingOfAnUnfinishedSource(t *testing.T) {
	s := mixture()
	dir := s.write(t)
	if err := os.WriteFile(filepath.Join(dir, planName), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	ck, model := openModel(t, dir)
	out := filepath.Join(t.TempDir(), "out")
	_, rewrite := Rewrite(t.Context(), ck, out, nil, RewriteOptions{})
	_, plan := NewPlan(ck, model, model.Matrices, variantOf("nvfp4", kernels.ModelOpt), Settings{Layout: ModelOpt})
	for what, err := range map[string]error{"Rewrite": rewrite, "Vacant": Vacant(ck, out), "NewPlan": plan} {
		if !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), planName) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", out, err)
	}
}
