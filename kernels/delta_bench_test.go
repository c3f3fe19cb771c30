//go:build unix

package kernels

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
)

// deltaWide is the layer of Qwen3-Next-80B-A3B and Qwen3.5 at their sizes.
var deltaWide = DeltaShape{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128}

// flops of n tokens in whole chunks, counted as the products need them: triangles
// of two tokens' products once a key head, and of rows solved and mixed.
func (d DeltaShape) flops(n int) float64 {
	pair := float64(deltaChunk) * (deltaChunk + 1) / 2
	chunk := float64(d.KeyHeads)*2*pair*float64(d.KeyDim) + float64(d.ValueHeads)*(3*deltaChunk*float64(d.KeyDim*d.ValueDim)+2*pair*float64(d.ValueDim))
	return 2 * chunk * float64(n) / deltaChunk
}

// causalAttention mixes n values of every head by full causal attention, in the
// blocks in which a forward pass does: heads share keys by two.
func causalAttention(s Set, heads, group, dim, n int, q, k, v, out []float32) error {
	scores := make([]float32, 1<<18)
	packed, mixed := make([]float32, 128*dim), make([]float32, 128*dim)
	for g := range heads / group {
		for end := n; end > 0; {
			rows := min(max(min(128, len(scores)/end)/group, 1), end)
			from := end - rows
			for i := range rows {
				copy(packed[i*group*dim:][:group*dim], q[((from+i)*heads+g*group)*dim:])
			}
			p := Dense{rows * group, end, end, scores}
			keys, values := Dense{end, dim, heads / group * dim, k[g*dim:]}, Dense{end, dim, heads / group * dim, v[g*dim:]}
			o := GEMMOptions{Alpha: 0.088, Threads: 1}
			if err := s.GEMM(p, DenseOperand(Dense{rows * group, dim, dim, packed}), DenseOperand(keys).T(), o); err != nil {
				return err
			}
			for i := range rows * group {
				s.Softmax(scores[i*end:][:end], 0, from+i/group+1, -1e30)
			}
			o.Alpha = 1
			if err := s.GEMM(Dense{rows * group, dim, dim, mixed}, DenseOperand(p), DenseOperand(values), o); err != nil {
				return err
			}
			for i := range rows {
				copy(out[((from+i)*heads+g*group)*dim:][:group*dim], mixed[i*group*dim:])
			}
			end = from
		}
	}
	return nil
}

// recurrentSet is the rule token by token with the set's rows: what the chunked
// form is measured against.
func recurrentSet(s Set, in deltaInput, out []float32) {
	d := in.shape
	group := d.ValueHeads / d.KeyHeads
	state, seen := make([]float32, d.KeyDim*d.ValueDim), make([]float32, d.ValueDim)
	for j := range d.ValueHeads {
		clear(state)
		for t := range in.n {
			at := (t*d.KeyHeads + j/group) * d.KeyDim
			q, k := in.q[at:][:d.KeyDim], in.k[at:][:d.KeyDim]
			row := (t*d.ValueHeads + j) * d.ValueDim
			s.Scale(state, exp32(in.g[t*d.ValueHeads+j]))
			clear(seen)
			for r, x := range k {
				s.AddScaled(seen, state[r*d.ValueDim:][:d.ValueDim], -x)
			}
			s.AddScaled(seen, in.v[row:][:d.ValueDim], 1)
			s.Scale(seen, in.beta[t*d.ValueHeads+j])
			o := out[row:][:d.ValueDim]
			clear(o)
			for r, x := range k {
				s.AddScaled(state[r*d.ValueDim:][:d.ValueDim], seen, x)
				s.AddScaled(o, state[r*d.ValueDim:][:d.ValueDim], q[r])
			}
		}
	}
}

// cpuSeconds is the least that one of three runs takes of one core: time of the
// processor, for what else runs on the machine is not in it.
func cpuSeconds(b *testing.B, run func() error) float64 {
	now := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	least := 1e9
	for range 3 {
		start := now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		least = min(least, now()-start)
	}
	return least
}

// BenchmarkDelta takes 4,096 tokens through a layer of 16 key and 32 value heads
// of 128, on one core. Attention has as many query heads, two to a key, and the
// same tokens (256 where the benchmark is only to run); the recurrent form goes over
// 256 of them. GEMM is 2048³.
// Ratios are of processor time within the run.
func BenchmarkDelta(b *testing.B) {
	n := 4096
	if testing.Short() {
		n = 256
	}
	in := randomDelta(rand.New(rand.NewPCG(11, 9)), deltaWide, n)
	out := make([]float32, len(in.v))
	few := in.part(0, 256)
	x, y, c := gaussian(b, 2048, 2048, 1), gaussian(b, 2048, 2048, 2), gaussian(b, 2048, 2048, 3)
	for _, s := range asmSets() {
		b.Run(fmt.Sprintf("%s/%dx16x32x128", s.Name, n), func(b *testing.B) {
			run := func(in deltaInput, out []float32) error {
				return s.Delta(in.shape, in.q, in.k, in.v, in.g, in.beta, in.n, nil, out, 1)
			}
			for b.Loop() {
				if err := run(in, out); err != nil {
					b.Fatal(err)
				}
			}
			own := cpuSeconds(b, func() error { return run(in, out) })
			attention := cpuSeconds(b, func() error { return causalAttention(s, 32, 2, 128, n, in.v, in.k, in.q, out) })
			short := cpuSeconds(b, func() error { return run(few, out[:len(few.v)]) })
			stepwise := cpuSeconds(b, func() error { recurrentSet(s, few, out); return nil })
			gemm := cpuSeconds(b, func() error {
				return s.GEMM(c, DenseOperand(x), DenseOperand(y), GEMMOptions{Threads: 1})
			})
			rate := deltaWide.flops(n) / own / 1e9
			b.ReportMetric(rate, "GFLOP/s")
			b.ReportMetric(rate/(2*2048*2048*2048/gemm/1e9), "of-GEMM")
			b.ReportMetric(attention/own, "attention/delta")
			b.ReportMetric(stepwise/short, "recurrent/chunked")
		})
	}
}

// BenchmarkDeltaDecode is one token after 1,000.
func BenchmarkDeltaDecode(b *testing.B) {
	in := randomDelta(rand.New(rand.NewPCG(11, 10)), deltaWide, 1001)
	out := make([]float32, len(in.v))
	for _, s := range asmSets() {
		for _, threads := range []int{1, 0} {
			b.Run(fmt.Sprintf("%s/threads=%d", s.Name, threadCount(threads)), func(b *testing.B) {
				var st DeltaState
				in.part(0, 1000).run(b, s, &st, 0)
				last := in.part(1000, 1001)
				for b.Loop() {
					st.Cut(1000)
					if err := s.Delta(last.shape, last.q, last.k, last.v, last.g, last.beta, 1, &st, out[:len(last.v)], threads); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
