package checkpoint

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func namesOf(list []SideFile) []string {
	var names []string
	for _, f := range list {
		names = append(names, f.Name)
	}
	return names
}

// Everything beside the weights belongs to a folder that was opened, known or
// not; beside a file only what is known.
func TestAllSide(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"model.safetensors": vector("a"), "config.json": "{}", "tokenizer.json": "{}", "LICENSE": "x", "README.md": "y",
		"custom.py": "z", "model.safetensors.index.json.bak": "", "pytorch_model.bin": "w", "other.gguf": "w", ".gitattributes": "g", "run.qscope": "s",
		"run.qscope-wal": "s", ".model.safetensors.0123.tmp": "t", "consolidated.safetensors": vector("b"), "original/params.json": "{}",
		UnfinishedPrefix + ".json": "{}",
	})
	c := mustOpen(t, dir)
	side, err := c.AllSide()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"LICENSE", "README.md", "custom.py", "model.safetensors.index.json.bak", "tokenizer.json"}; !cmp.Equal(namesOf(side), want) {
		t.Errorf("%v", namesOf(side))
	}
	r, err := side[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "x" || side[0].Size != 1 {
		t.Errorf("%q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got, ok := c.Folder(); !ok || got != dir {
		t.Errorf("folder %q, %t", got, ok)
	}

	one := mustOpen(t, filepath.Join(dir, "model.safetensors"))
	if side, err := one.AllSide(); err != nil || !cmp.Equal(namesOf(side), []string{"tokenizer.json"}) {
		t.Errorf("beside a file: %v, %v", namesOf(side), err)
	}
	if got, ok := one.Folder(); !ok || got != dir {
		t.Errorf("folder of a file %q, %t", got, ok)
	}

	fsys, err := OpenFS("embedded", os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	if got, ok := fsys.Folder(); ok {
		t.Errorf("folder %q of a file system", got)
	}

	if err := os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "NOTICE")); err != nil {
		t.Fatal(err)
	}
	_, err = c.AllSide()
	wantError(t, err, "NOTICE", "missing")
}

// An export that is not finished is a finding, whatever else is there.
func TestUnfinished(t *testing.T) {
	dir := writeFiles(t, map[string]string{"model.safetensors": vector("a"), UnfinishedPrefix + "-part-1-of-1.json": "{}"})
	c := mustOpen(t, dir)
	if len(c.Findings) != 1 || c.Findings[0].File != UnfinishedPrefix+"-part-1-of-1.json" {
		t.Errorf("%v", c.Findings)
	}
	if c := mustOpen(t, writeFiles(t, map[string]string{"model.safetensors": vector("a")})); c.Unfinished() != "" || len(c.Findings) != 0 {
		t.Errorf("%q, %v", c.Unfinished(), c.Findings)
	}
}
