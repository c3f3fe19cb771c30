package sessions

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// bigTensors are those of 43 layers with 288 experts of three projections.
func bigTensors() []Tensor {
	var ts []Tensor
	for layer := range 43 {
		for expert := range 288 {
			for _, p := range []string{"gate", "up", "down"} {
				name := fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", layer, expert, p)
				ts = append(ts, Tensor{
					ID: len(ts), Name: name, Source: name, File: fmt.Sprintf("model-%05d-of-00043.safetensors", layer+1),
					DType: "BF16", Rows: 64, Cols: 64,
					Role: topology.Role{Kind: topology.Expert, Layer: layer, Expert: expert, Projection: p, Param: "weight"},
				})
			}
		}
	}
	return ts
}

// bigTap is a tap record with the magnitudes of one of a 64×64 matrix.
func bigTap(i int) kernels.Tap {
	x := 1 + 0.1*math.Sin(float64(i))
	t := kernels.Tap{
		Elements: 4096, Blocks: 256, SumW2: 41.3 * x, SumQ2: 41.0 * x, SumWQ: 40.96 * x, SumE2: 0.38 * x, MaxAbsErr: 0.05, Amax: 0.41 * x,
		GlobalScale: 1.53e-4 * x, ScaleMin: 96, ScaleMax: 448, ScaleSum: 55000 * x, ScaleCount: 256, ScaleHigh: 1, Shallow: int64(120 + i%16), Deep: int64(i % 40),
		ShallowL2: 5.1 * x, DeepL2: 1.7 * x,
	}
	for k := range t.Codes {
		t.Codes[k] = int64(256 + (i+k)%100)
	}
	for k := range t.Errors {
		t.Errors[k] = int64(240 - k*10 + i%7)
	}
	for k := range 9 {
		t.Multipliers[k] = int64(28 + (i+k)%5)
		t.Depth[k] = int64(20 - 2*k + i%3)
	}
	for k := 20; k < 32; k++ {
		t.Scales[k] = int64(20 + (i+k)%9)
	}
	return t
}

// bigSession writes a finished session of 37,152 tensors.
func bigSession(tb testing.TB, path string, variants int) {
	tb.Helper()
	tensors := bigTensors()
	job := &Job{Meta: Meta{SourcePath: "big", Layers: 43, Experts: 288}, Tensors: tensors, Settings: map[string]string{}}
	var asked []Quantizer
	for v := range variants {
		asked = append(asked, Quantizer{Variant: Variant{Name: fmt.Sprint("v", v), Effective: fmt.Sprint("v", v), Scheme: "nvfp4", BitsPerWeight: 4.5}})
	}
	s, err := newSession(job, Options{Clock: realClock{}}, asked, path)
	if err != nil {
		tb.Fatal(err)
	}
	lock, err := lockSession(path)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := createAndOpen(tb.Context(), path, lock, s.events)
	if err != nil {
		tb.Fatal(err)
	}
	seq := s.st.LastSeq
	var batch []stored
	put := func(e stored) {
		seq++
		e.Seq, e.AtUS = seq, seq*100
		e.rec.Seq, e.rec.AtUS = e.Seq, e.AtUS
		batch = append(batch, e)
		if len(batch) == commitRecords || e.Kind == EventFinished {
			if err := f.append(tb.Context(), batch); err != nil {
				tb.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	put(newNote(EventStarted, -1, -1, note{Message: "started"}))
	for t := range tensors {
		for v := range variants {
			tap := bigTap(t + v)
			put(stored{Event: Event{Kind: EventTap, Variant: v, Tensor: t}, payload: encodeTap(nil, &tap, 1<<40+7), rec: NewRecord(v, t, &tap)})
		}
	}
	put(newNote(EventFinished, -1, -1, note{Message: "finished"}))
	if err := f.close(); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, variants := range []int{3, 4} {
		b.Run(fmt.Sprintf("37152x%d", variants), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "big.qscope")
			bigSession(b, path, variants)
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			before := cpuTime()
			for b.Loop() {
				f, err := OpenSession(path)
				if err != nil {
					b.Fatal(err)
				}
				if st := f.Snapshot(); st.Progress.Done != int64(variants)*37152 {
					b.Fatalf("done %d", st.Progress.Done)
				}
			}
			b.ReportMetric(float64(info.Size())/1e6, "MB")
			b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkAppend is the writer's rate: how many tap records a second one
// goroutine commits.
func BenchmarkAppend(b *testing.B) {
	for b.Loop() {
		bigSession(b, filepath.Join(b.TempDir(), "big.qscope"), 1)
	}
	b.ReportMetric(float64(b.N)*37152/b.Elapsed().Seconds(), "taps/s")
}

func BenchmarkReplayOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "big.qscope")
	bigSession(b, path, 3)
	for b.Loop() {
		p, err := OpenReplay(path, 64)
		if err != nil {
			b.Fatal(err)
		}
		p.Snapshot()
	}
}
