package kernels

import (
	"fmt"
	"testing"
	"time"
)

// gemmShape is a product that a transformer makes: rows of activations with the
// weights of a linear layer, stored or decoded on the way, or a head's tile of
// queries with its keys and values, which stand among those of other heads.
type gemmShape struct {
	name    string
	m, n, k int
	weights string // bf16, f32, panels; or keys, values
	heads   int    // stride over width, of keys and values
}

var gemmShapes = []gemmShape{
	{"up", 512, 1536, 576, "bf16", 0},
	{"down", 512, 576, 1536, "bf16", 0},
	{"kv", 512, 192, 576, "bf16", 0},
	{"expert", 50, 128, 128, "bf16", 0},
	{"expert", 50, 128, 128, "panels", 0},
	{"few", 7, 128, 128, "bf16", 0},
	{"router", 512, 8, 128, "f32", 0},
	{"scores", 64, 512, 64, "keys", 3},
	{"mix", 64, 64, 512, "values", 3},
	{"scores", 64, 64, 64, "keys", 3},
	{"mix", 64, 64, 64, "values", 3},
	{"scores", 1, 512, 64, "keys", 3},
	{"mix", 1, 64, 512, "values", 3},
	{"head", 64, 49152, 576, "bf16", 0},
	{"decode", 1, 576, 576, "bf16", 0},
	{"decode", 1, 1536, 576, "bf16", 0},
	{"decode", 1, 49152, 576, "bf16", 0},
	{"decode", 4, 1536, 576, "bf16", 0},
}

// factors are the operands of a shape; the panels come from memory.
func (g gemmShape) factors(tb testing.TB) (c Dense, a, b Operand) {
	tb.Helper()
	c, err := NewDense(g.m, g.n)
	if err != nil {
		tb.Fatal(err)
	}
	a = DenseOperand(gaussian(tb, g.m, g.k, 1))
	switch g.weights {
	case "bf16":
		b = StoredOperand(gaussianBF16(g.n, g.k, 2)).T()
	case "panels":
		w := gaussian(tb, g.n, g.k, 2)
		b = PanelOperand(g.n, g.k, func(dst []float32, row0, rows, col0, cols int) error {
			for r := range rows {
				copy(dst[r*cols:][:cols], w.Data[(row0+r)*w.Stride+col0:])
			}
			return nil
		}).T()
	case "keys":
		w := gaussian(tb, g.n, g.k*g.heads, 2)
		w.Cols = g.k
		b = DenseOperand(w).T()
	case "values":
		w := gaussian(tb, g.k, g.n*g.heads, 2)
		w.Cols = g.n
		b = DenseOperand(w)
	default:
		b = DenseOperand(gaussian(tb, g.n, g.k, 2)).T()
	}
	return c, a, b
}

// BenchmarkGEMMShapes reports GFLOP/s and their ratio to the multiply-add peak of
// the threads, measured in the same run.
func BenchmarkGEMMShapes(b *testing.B) {
	peaks := map[string]float64{}
	for _, s := range asmSets() {
		for _, threads := range []int{1, 0} {
			key := fmt.Sprintf("%s/threads=%d", s.Name, threadCount(threads))
			for _, shape := range gemmShapes {
				b.Run(fmt.Sprintf("%s/%s/%dx%dx%d/%s", key, shape.name, shape.m, shape.n, shape.k, shape.weights), func(b *testing.B) {
					peaks[key] = max(peaks[key], s.MeasureFMA(threads, 5*time.Millisecond))
					c, x, w := shape.factors(b)
					best := time.Duration(1 << 62)
					start := time.Now()
					for b.Loop() {
						if err := s.GEMM(c, x, w, GEMMOptions{Threads: threads}); err != nil {
							b.Fatal(err)
						}
						now := time.Now()
						best, start = min(best, now.Sub(start)), now
					}
					rate := 2 * float64(shape.m) * float64(shape.n) * float64(shape.k) / best.Seconds() / 1e9
					b.ReportMetric(rate, "best-GFLOP/s")
					b.ReportMetric(rate/peaks[key], "peak")
				})
			}
		}
	}
}

// A product on one thread allocates nothing but what it packs into, once.
func TestGEMMAloneAllocatesNothing(t *testing.T) {
	for _, s := range Available() {
		for _, shape := range gemmShapes[7:12] {
			shape.m, shape.n = min(shape.m, 20), min(shape.n, 40)
			c, a, b := shape.factors(t)
			allocated := testing.AllocsPerRun(50, func() {
				if err := s.GEMM(c, a, b, GEMMOptions{Threads: 1}); err != nil {
					t.Fatal(err)
				}
			})
			if allocated > 1 { // a collection empties the pool
				t.Errorf("%s: %s of %d×%d×%d allocates %v times", s.Name, shape.name, shape.m, shape.n, shape.k, allocated)
			}
		}
	}
}
