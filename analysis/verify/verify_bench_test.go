package verify

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// synthetic writes a checkpoint of about 120 MB whose matrices are of a real
// model's size.
func synthetic(b *testing.B) (*checkpoint.Checkpoint, *topology.Model) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "src")
	if err := (demo.Synth{Layers: 1, Experts: 4, Hidden: 2048, Intermediate: 1408}).Write(b.Context(), dir, nil); err != nil {
		b.Fatal(err)
	}
	return openSource(b, dir)
}

// readAll is the time that plain reading of the files takes: the bound.
func readAll(b *testing.B, dirs ...string) (bytes int64) {
	b.Helper()
	buf := make([]byte, 1<<20)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
		if err != nil {
			b.Fatal(err)
		}
		for _, path := range files {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
			_ = f.Close()
			if err != nil {
				b.Fatal(err)
			}
			bytes += n
		}
	}
	return bytes
}

// What verify reads a second, of both checkpoints, beside plain reading of the
// same files: untouched is a checkpoint against itself, the others quantize
// everything that can be.
func BenchmarkVerify(b *testing.B) {
	ck, model := synthetic(b)
	against := func(name, out string) {
		b.Run(name, func(b *testing.B) {
			var n int64
			for b.Loop() {
				rep, err := Run(b.Context(), ck, model, out, Options{})
				if err != nil || !rep.OK {
					b.Fatalf("%v %+v", err, rep)
				}
				n = rep.Bytes
			}
			b.SetBytes(n)
		})
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			b.SetBytes(readAll(b, ck.Path))
		}
	})
	against("untouched", ck.Path)
	for _, c := range []struct{ variant, layout string }{{"nvfp4", "modelopt"}, {"nvfp4", "compressed-tensors"}, {"mxfp4", "compressed-tensors"}, {"fp8", "modelopt"}, {"int4-g128", "quantscope"}, {"int4-g128", "compressed-tensors"}} {
		e := exportTo(b, ck, model, filepath.Join(b.TempDir(), "out"), "*_proj*", c.variant, c.layout, export.Shared)
		against(c.variant+" "+c.layout, e.dir)
	}
}
