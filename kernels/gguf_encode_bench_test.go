package kernels

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkGGUFEncode reports the weights/s of one thread, with and without
// importance.
func BenchmarkGGUFEncode(b *testing.B) {
	const rows, cols = 16, 4096
	rng := rand.New(rand.NewPCG(8, 1))
	x, importance := make([]float32, rows*cols), make([]float32, cols)
	for i := range x {
		x[i] = float32(rng.NormFloat64()) * 0.02
	}
	for i := range importance {
		importance[i] = float32(rng.ExpFloat64())
	}
	for _, typ := range encodes() {
		block, size := typ.Block()
		dst := make([]byte, rows*cols/block*size)
		for _, w := range [][]float32{nil, importance} {
			if w != nil && !typ.TakesImportance() {
				continue
			}
			for _, s := range Available() {
				b.Run(fmt.Sprintf("%s/weighted=%t/%s", typ, w != nil, s.Name), func(b *testing.B) {
					var failed error
					best := bestOf(b, func() { failed = errors.Join(failed, s.EncodeGGUF(dst, typ, rows, cols, x, w)) })
					if failed != nil {
						b.Fatal(failed)
					}
					b.ReportMetric(float64(len(x))/best.Seconds()/1e6, "Mweights/s")
				})
			}
		}
	}
}
