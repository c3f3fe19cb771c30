package model

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
)

// bytes are those that a run keeps for itself.
func (r *run) bytes() int64 {
	n := cap(r.normed) + cap(r.besideOf) + cap(r.out) + cap(r.wave) + cap(r.logits) + cap(r.chosen) + cap(r.weights) + 2*cap(r.squares) + 12*cap(r.choices)
	for _, s := range r.scratch {
		for _, b := range [][]float32{s.normed, s.q, s.k, s.v, s.mixed, s.y, s.gate, s.up, s.x, s.low, s.both, s.rope, s.wide, s.rows, s.open} {
			n += cap(b)
		}
		for _, h := range s.heads {
			n += cap(h.q) + cap(h.scores) + cap(h.out)
		}
	}
	for _, a := range r.ropes {
		n += cap(a.cos) + cap(a.sin)
	}
	return 4 * int64(n)
}

// TestPlanKept: a pass over as many tokens as the plan says takes no more memory
// than it was given: weights, hidden states and what is computed in. The weights
// are far larger than that.
func TestPlanKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  *Spec
		chunk int
		mem   int64
		least float64 // weights over memory
	}{
		{"experts", moeSpec(5, 256, 4, 2, 32, 256, 96, 2, 100), 64, 15 << 20, 9.5},
		{"dense", llamaSpec(8, 512, 8, 2, 64, 1024, 100), 64, 26 << 20, 1},
		{"wide", llamaSpec(1, 64, 2, 2, 32, 16384, 100), 256, 96 << 20, 0},
		{"lending", lendingSpec(12, 128, 4, 4, 64, 192, 100, 64), 128, 24 << 20, 0},
	} {
		for _, parties := range []int{1, 3} {
			w := Workload{Chunk: c.chunk, Parties: parties, Threads: 2}
			b, err := Plan(c.spec, w, c.mem)
			if err != nil {
				t.Fatal(err)
			}
			used := usedBy(t, c.spec, b, w, min(b.Tokens, 256)/c.chunk)
			if parties == 1 && used > c.mem {
				t.Errorf("%s: %d bytes at work, may be %d", c.name, used, c.mem)
			}
			// As little as it may be.
			var least *MemoryError
			if _, err := Plan(c.spec, w, 1); !errors.As(err, &least) {
				t.Fatal(err)
			}
			if b, err = Plan(c.spec, w, least.Need); err != nil {
				t.Fatal(err)
			}
			if used := usedBy(t, c.spec, b, w, 1); used > least.Need {
				t.Errorf("%s: %d bytes at work, may be %d", c.name, used, least.Need)
			}
			if size := float64(totalWeights(c.spec)) * 2; size < c.least*float64(c.mem) {
				t.Errorf("%s: weights of %g bytes, want more than %g times %d", c.name, size, c.least, c.mem)
			}
		}
	}
}

// usedBy are the bytes that a pass of so many chunks takes. Weights of several
// parties are counted as if all peaks were at once.
func usedBy(t *testing.T, spec *Spec, b Budget, w Workload, n int) int64 {
	t.Helper()
	if n < 1 {
		t.Fatalf("%d tokens planned, and a chunk has %d", b.Tokens, w.Chunk)
	}
	var chunks [][]int32
	for i := range n {
		chunks = append(chunks, texts(spec, uint64(i), w.Chunk)...)
	}
	var all []*random
	var sources []Source
	for i := range w.Parties {
		all = append(all, newRandom(spec, uint64(i)))
		sources = append(sources, all[i])
	}
	o := Options{Set: kernels.Best(), Threads: w.Threads}
	b.Apply(&o)
	pass := NewPass(spec, sources, o)
	if _, err := pass.Run(t.Context(), chunks); err != nil {
		t.Fatal(err)
	}
	used := pass.run.bytes()
	for _, x := range append(pass.x, pass.layers...) {
		used += 4 * int64(cap(x))
	}
	for _, l := range pass.lendings {
		used += 4 * int64(cap(l.k)+cap(l.v))
	}
	for _, s := range all {
		used += s.shared.peak.Load()
	}
	return used
}

func totalWeights(s *Spec) (n int64) {
	for i := range s.Layers {
		n += s.Layers[i].weights(s)
		if m := s.Layers[i].MoE; m != nil {
			n += 3 * int64(s.Hidden) * int64(m.Inner) * int64(m.Experts)
		}
	}
	return n
}

// TestPlanRefuses says how much is needed, and takes exactly that.
func TestPlanRefuses(t *testing.T) {
	spec := moeSpec(4, 256, 4, 2, 32, 256, 96, 4, 100)
	w := Workload{Chunk: 64, Parties: 2, Threads: 2}
	_, err := Plan(spec, w, 1<<20)
	var e *MemoryError
	if !errors.As(err, &e) || e.Have != 1<<20 || e.Need <= 1<<20 || !strings.Contains(err.Error(), strconv.FormatInt(e.Need, 10)) {
		t.Fatalf("%v, want a MemoryError", err)
	}
	if _, err := Plan(spec, w, e.Need-1); err == nil {
		t.Error("a byte less than is needed is enough")
	}
	b, err := Plan(spec, w, e.Need)
	if err != nil || b.Tokens < 64 {
		t.Errorf("%d tokens, %v: what is needed is not enough", b.Tokens, err)
	}
	last := Budget{}
	for mem := e.Need; mem < 1<<30; mem += mem / 3 {
		b, err := Plan(spec, w, mem)
		if err != nil || b.Tile == last.Tile && (b.Tokens < last.Tokens || b.Wave < last.Wave) {
			t.Errorf("%d bytes: %+v after %+v, %v", mem, b, last, err)
		}
		last = b
	}
}

// peakRSS is the largest resident size since it was last asked to forget, 0 where
// the system does not say.
func peakRSS() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// BenchmarkMemory takes texts through a model whose weights are ten times as
// large as the memory of the pass, and reports the largest resident size over
// that of the process before.
func BenchmarkMemory(b *testing.B) {
	const mem = 64 << 20
	dir := b.TempDir()
	synth := demo.Synth{Layers: 8, Experts: 64, Hidden: 512, Intermediate: 512, Seed: 1}
	if err := synth.Write(b.Context(), dir, nil); err != nil {
		b.Fatal(err)
	}
	ck, err := checkpoint.Open(dir)
	f := fixtureOf(b, ck, err)
	size := float64(totalWeights(f.spec)) * 2
	plan, err := Plan(f.spec, Workload{Chunk: 256, Parties: 1, Threads: 2}, mem)
	if err != nil {
		b.Fatal(err)
	}
	o := Options{Set: kernels.Best(), Threads: 2}
	plan.Apply(&o)
	var chunks [][]int32
	for i := range min(plan.Tokens/256, 16) {
		chunks = append(chunks, texts(f.spec, uint64(i), 256)...)
	}
	runtime.GC()
	debug.FreeOSMemory()
	before := peakNow()
	// As the program does with --mem.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + mem - mem/32))
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Log(err)
	}
	begin := time.Now()
	for b.Loop() {
		if _, err := Run(b.Context(), f.spec, []Source{f.source()}, chunks, o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*256*len(chunks))/time.Since(begin).Seconds(), "tokens/s")
	b.ReportMetric(size/mem, "weights/mem")
	b.ReportMetric(float64(peakRSS()-before)/(1<<20), "peak-MiB")
	b.ReportMetric(mem>>20, "mem-MiB")
}

// peakNow is the resident size.
func peakNow() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(data), &total, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
