package calibrate

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

// hessians wants those of all inputs of a layer.
func hessians(s *model.Spec) func(l *model.Layer) []Want {
	return func(l *model.Layer) []Want {
		if l == nil {
			return []Want{{Input: Input{At: model.Place{Kind: topology.Head, Layer: -1, Expert: -1}, N: s.Hidden}, Hessian: true}}
		}
		var out []Want
		for _, in := range Inputs(s, l, false) {
			out = append(out, Want{Input: in, Hessian: true})
		}
		return out
	}
}

// mixtureSpec is a model of one dense layer and one of experts.
func mixtureSpec(hidden, inner, experts, topK int) *model.Spec {
	norm := model.Norm{Eps: 1e-5}
	l := model.Layer{
		In: "input_layernorm", PreMLP: "post_attention_layernorm", Norm: norm, MLP: model.FeedForward{Inner: 4 * inner},
		Attn: model.Attention{Heads: 8, KVHeads: 2, Dim: hidden / 8, VDim: hidden / 8, Scale: 1, Rope: model.Rope{Dim: hidden / 8, Theta: 10000, Attention: 1}},
	}
	m := l
	m.Index, m.MoE = 1, &model.MoE{FeedForward: model.FeedForward{Inner: inner}, Experts: experts, TopK: topK, Groups: 1, TopGroups: 1, Scaling: 1, Shared: inner}
	return &model.Spec{Family: "test", Hidden: hidden, Vocab: 1000, Norm: norm, EmbedScale: 1, Layers: []model.Layer{l, m}}
}

// TestPredict: what is needed is what is enough; less is refused with the need and
// the largest part; more goes to moments, until all of a layer are measured at once,
// and a budget is never more than it may be.
func TestPredict(t *testing.T) {
	s := mixtureSpec(512, 1024, 64, 4)
	load := Load{Rows: 8192, Chunk: 512, Threads: 2, Wants: hessians(s), Beside: func(n int) int64 { return 12 * int64(n) * int64(n) }}
	_, err := Predict(s, load, 1<<20)
	var e *MemoryError
	var plain *model.MemoryError
	if !errors.As(err, &e) || !errors.As(err, &plain) || e.Have != 1<<20 || plain.Need != e.Need || plain.Have != e.Have {
		t.Fatalf("%v", err)
	}
	// The dense layer's down projection has 4,096 columns: 12·n² beside 4·n².
	if text := err.Error(); e.Parts[0].Name != "what matrices of 4096 columns are quantized in" || !strings.Contains(text, "largest part is what matrices of 4096 columns") ||
		!strings.Contains(text, strconv.FormatInt(e.Need, 10)) {
		t.Errorf("%v", err)
	}
	if _, err := Predict(s, load, e.Need-1); err == nil {
		t.Error("a byte less than is needed is enough")
	}
	// Of all inputs of the layer with experts: q, o, router, 64 down, the shared one's.
	all := int64(3*(4*512*512+8*512) + 65*(4*1024*1024+8*1024))
	last := Budget{}
	for mem := e.Need; mem < 2<<30; mem += mem / 5 {
		b, err := Predict(s, load, mem)
		if err != nil {
			t.Fatalf("%d bytes: %v", mem, err)
		}
		var sum int64
		for _, p := range b.Parts {
			sum += p.Bytes
		}
		if b.Need > mem-mem/slack || sum != b.Need || !slices.IsSortedFunc(b.Parts, func(a, b Part) int { return int(b.Bytes - a.Bytes) }) {
			t.Errorf("%d bytes: %+v", mem, b)
		}
		if b.Tile == last.Tile && (b.Moments < last.Moments || b.Wave < last.Wave) {
			t.Errorf("%d bytes: %+v after %+v", mem, b, last)
		}
		if b.Moments > all || b.Moments < 4*4096*4096 || b.Wave < 1 {
			t.Errorf("%d bytes: %d for moments, of %d at most", mem, b.Moments, all)
		}
		last = b
	}
	if last.Moments != all || last.Wave < 3*2*512*1024*64 {
		t.Errorf("with 2 GB: %+v; want moments of %d and all experts at once", last, all)
	}
	// Nothing is measured where moments were saved.
	load.Wants = nil
	if b, err := Predict(s, load, e.Need/3*2); err != nil || b.Moments != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestPredictOfText: more tokens, larger chunks, more threads and wider weights take more.
func TestPredictOfText(t *testing.T) {
	s := mixtureSpec(256, 256, 8, 2)
	need := func(change func(*Load)) int64 {
		l := Load{Rows: 1 << 16, Chunk: 256, Threads: 1, Wants: hessians(s)}
		change(&l)
		_, err := Predict(s, l, 1)
		var e *MemoryError
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		return e.Need
	}
	least := need(func(*Load) {})
	for name, change := range map[string]func(*Load){
		"tokens": func(l *Load) { l.Rows *= 2 }, "chunks": func(l *Load) { l.Chunk *= 2 }, "threads": func(l *Load) { l.Threads = 2 },
		"bits": func(l *Load) { l.Bits = 32 }, "beside": func(l *Load) { l.Beside = func(int) int64 { return 1 << 20 } },
	} {
		if n := need(change); n <= least {
			t.Errorf("%s: %d bytes after %d", name, n, least)
		}
	}
	if n := need(func(l *Load) { l.Wants = nil }); n >= least {
		t.Errorf("without moments %d bytes, with them %d", n, least)
	}
}

// statusBytes is a size of the process, 0 where the system does not say.
func statusBytes(name string) int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// BenchmarkCollectMemory measures all Hessians of a mixture of 64 experts with
// 1,024 channels, in as much memory as it is given, and reports the largest resident
// size over that of the process before, what was predicted, and how many looks
// the layer of experts took.
func BenchmarkCollectMemory(b *testing.B) {
	dir := b.TempDir()
	synth := demo.Synth{Layers: 1, Experts: 64, Hidden: 512, Intermediate: 1024, Seed: 1}
	must(b, synth.Write(b.Context(), dir, nil))
	ck, err := checkpoint.Open(dir)
	o := openedOf(b, ck, err)
	const length = 256
	var lengths []int
	for range 64 {
		lengths = append(lengths, length)
	}
	chunks := someTexts(o.spec.Vocab, 1, lengths...)
	load := Load{Rows: length * int64(len(chunks)), Chunk: length, Threads: 2, Wants: hessians(o.spec)}
	budgets := []int64{288 << 20, 384 << 20, 768 << 20}
	if testing.Short() { // that it runs at all
		budgets = budgets[2:]
	}
	for _, mem := range budgets {
		b.Run(fmt.Sprintf("%dMiB", mem>>20), func(b *testing.B) {
			budget, err := Predict(o.spec, load, mem)
			must(b, err)
			for _, p := range budget.Parts {
				b.Logf("%4d MiB %s", p.Bytes>>20, p.Name)
			}
			runtime.GC()
			debug.FreeOSMemory()
			before := statusBytes("VmRSS:")
			// As the program does with --mem.
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + mem - mem/32))
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
				b.Log(err)
			}
			waves := 0
			for b.Loop() {
				src := o.source()
				w, err := model.NewWalk(b.Context(), o.spec, src, chunks, model.WalkOptions{
					Set: kernels.Best(), Threads: 2, Wave: budget.Wave, Tile: budget.Tile,
				})
				must(b, err)
				col := NewCollector(CollectOptions{Set: kernels.Best(), Threads: 2, Mem: budget.Moments})
				for l, ok := w.At(); ok; l, ok = w.At() {
					waves = 0
					must(b, col.LayerPass(b.Context(), w, src, wantsOf(o, l, nil), func(Wave) error { waves++; return nil }))
				}
				must(b, w.Close())
			}
			b.ReportMetric(float64(statusBytes("VmHWM:")-before)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(budget.Need)/(1<<20), "predicted-MiB")
			b.ReportMetric(float64(mem)/(1<<20), "mem-MiB")
			b.ReportMetric(float64(waves), "looks")
		})
	}
}
