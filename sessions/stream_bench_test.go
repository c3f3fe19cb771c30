package sessions

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// streamCheckpoint writes shards of about so many bytes each, with matrices as
// models of 7 to 30 billion weights have them, or with ones of 64×64.
func streamCheckpoint(b *testing.B, dir string, shards int, shardBytes int64, small bool) (largest int64) {
	b.Helper()
	shapes := []struct {
		name       string
		rows, cols int64
	}{
		{"self_attn.q_proj", 4096, 4096}, {"self_attn.k_proj", 1024, 4096}, {"self_attn.v_proj", 1024, 4096}, {"self_attn.o_proj", 4096, 4096},
		{"mlp.gate_proj", 12288, 4096}, {"mlp.up_proj", 12288, 4096}, {"mlp.down_proj", 4096, 12288},
	}
	block := make([]byte, 32<<20)
	gaussian(block, checkpoint.BF16, rand.New(rand.NewPCG(7, 7)))
	layer := 0
	for shard := range shards {
		var specs []checkpoint.Spec
		for total := int64(0); total < shardBytes; layer++ {
			if small {
				for e := range 288 {
					specs = append(specs, checkpoint.Spec{Name: fmt.Sprintf("model.layers.%d.mlp.experts.%d.up_proj.weight", layer, e), DType: checkpoint.BF16, Shape: []int64{64, 64}})
				}
				total += 288 * 64 * 64 * 2
				continue
			}
			for _, s := range shapes {
				specs = append(specs, checkpoint.Spec{Name: fmt.Sprintf("model.layers.%d.%s.weight", layer, s.name), DType: checkpoint.BF16, Shape: []int64{s.rows, s.cols}})
				total += 2 * s.rows * s.cols
				largest = max(largest, 2*s.rows*s.cols)
			}
		}
		w, err := checkpoint.NewWriter(filepath.Join(dir, fmt.Sprintf("model-%05d-of-%05d.safetensors", shard+1, shards)), specs, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i, s := range specs {
			n, _ := s.Size()
			for at := i * 8192 % (1 << 20); n > 0; at = 0 {
				k, err := w.Write(block[at:min(int64(len(block)), int64(at)+n)])
				if n -= int64(k); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := w.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	return largest
}

// readPlainly reads all files from one end to the other.
func readPlainly(b *testing.B, dir string) (bytes int64, took time.Duration) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	start := time.Now()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		for off := int64(0); ; {
			n, err := f.ReadAt(buf, off)
			off += int64(n)
			bytes += int64(n)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return bytes, time.Since(start)
}

// BenchmarkStream is what streaming is worth: source bytes a second of a
// whole run, session and all, over plain sequential reads of the same files from
// the page cache, alternating; and the peak of resident memory, which must stay
// within 256 MiB and three largest tensors.
func BenchmarkStream(b *testing.B) {
	type load struct {
		name   string
		shards int
		bytes  int64
		small  bool
	}
	loads := []load{{"layers", 2, 700 << 20, false}, {"64x64", 2, 150 << 20, true}}
	if testing.Short() { // that it runs at all
		loads = []load{{"64x64", 2, 4 << 20, true}}
	}
	for _, c := range loads {
		dir := b.TempDir()
		largest := streamCheckpoint(b, dir, c.shards, c.bytes, c.small)
		for _, set := range kernels.Available()[1:] {
			b.Run(c.name+"/"+set.Name, func(b *testing.B) {
				streamOnce(b, dir, set) // warm
				resetPeak()
				var plain, run time.Duration
				var bytes int64
				for b.Loop() {
					n, took := readPlainly(b, dir)
					plain, bytes = plain+took, bytes+n
					run += streamOnce(b, dir, set)
				}
				b.ReportMetric(float64(bytes)/run.Seconds()/1e9, "GB/s")
				b.ReportMetric(float64(bytes)/plain.Seconds()/1e9, "plain-GB/s")
				b.ReportMetric(plain.Seconds()/run.Seconds(), "ratio")
				if peak := peakRSS(); peak > 0 {
					b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
					b.ReportMetric(float64(256<<20+3*largest)/(1<<20), "bound-MiB")
				}
			})
		}
	}
}

func streamOnce(b *testing.B, dir string, set kernels.Set) time.Duration {
	b.Helper()
	start := time.Now()
	l, err := Start(b.Context(), Options{Checkpoint: dir, Session: sessionPath(b), Variants: []string{"nvfp4"}, KernelSet: set})
	if err != nil {
		b.Fatal(err)
	}
	p, err := l.Wait(b.Context())
	if err := errors.Join(err, l.Close()); err != nil || p.State != RunFinished || p.Failed > 0 {
		b.Fatalf("%+v, %v", p, err)
	}
	return time.Since(start)
}
