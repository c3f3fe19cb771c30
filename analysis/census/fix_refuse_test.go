package census

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// What has nothing to mend, what was not made of the master, and folders that
// cannot be written to are refused before anything is written.
func TestFixRefuses(t *testing.T) {
	dir := exportDemo(t, "nvfp4", layout.ModelOpt, export.PerTensor)
	other := func(t *testing.T) string { // the demo's names with other weights of about its size
		from, _ := open(t, demo.Label)
		var shard []stored
		for i := range from.Tensors {
			x := &from.Tensors[i]
			if strings.HasSuffix(x.Name, "_proj.weight") && x.DType == checkpoint.BF16 {
				shard = append(shard, bf16(t, x.Name, floats(int(x.Elements()), uint64(i), 0.1), x.Shape...))
			}
		}
		return writeFiles(t, string(from.Config), shard)
	}
	for _, c := range []struct {
		name, dir, master, out string
		want                   error
	}{
		{"nothing quantized", casePath("C26-fused-experts"), "", "", ErrNothing},
		{"no pairs", casePath("C25-two-conventions", "divisor"), "", "", ErrNothing},
		{"another master", dir, other(t), "", ErrMaster},
		{"the source", dir, "", dir, export.ErrOutput},
		{"the master", dir, "", casePath(), export.ErrOutput},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := c.out
			if out == "" {
				out = filepath.Join(t.TempDir(), "out")
			}
			before, _ := os.ReadDir(out)
			_, _, err := tryFix(t, c.dir, c.master, out, Options{})
			if !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %v", err, c.want)
			}
			if now, _ := os.ReadDir(out); len(now) != len(before) {
				t.Errorf("%d files in %s, there were %d", len(now), out, len(before))
			}
		})
	}
	t.Run("a changed source", func(t *testing.T) {
		dir := exportDemo(t, "nvfp4", layout.ModelOpt, export.PerTensor)
		ck, model := open(t, dir)
		rep, err := Run(t.Context(), ck, model)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		path := filepath.Join(dir, ck.Files[1].Name)
		_, _, err = Fix(t.Context(), rep, ck, model, nil, out, Options{Progress: func(p Progress) {
			if p.What == out { // while it is written
				raw, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, append(raw, 0), 0o666)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}})
		var file *checkpoint.FileError
		if !errors.As(err, &file) {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("the copy of a source that changed is left")
		}
	})
}
