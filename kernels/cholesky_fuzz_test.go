package kernels

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// f64 tiles of a factorization, every set against the reference: rows of each
// tile there is, columns and steps as many as there are.
func FuzzFactorTile(f *testing.F) {
	for rows := range uint8(30) {
		f.Add(uint64(rows), rows, rows%3, rows*5, false)
	}
	f.Add(uint64(9), uint8(17), uint8(1), uint8(31), true)
	f.Fuzz(func(t *testing.T, seed uint64, rows, cols, depth uint8, wild bool) {
		rng := rand.New(rand.NewPCG(seed, 20))
		m, n, k := 1+int(rows)%30, 16*(1+int(cols)%4), 1+int(depth)%40
		lda, ldc := k+rng.IntN(3), n+rng.IntN(3)
		random := func(n int) []float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.NormFloat64()
				if wild {
					x[i] = math.Ldexp(x[i], rng.IntN(300)-150)
				}
			}
			return x
		}
		a, b, c := random(m*lda), random(n*factorBlock), random(m*ldc)
		scale := random(k)
		var want []float64
		for _, s := range Available() {
			packed := make([]float64, n*k)
			packScaled(packed, b, n, n, k, scale, s.factor.tileCols)
			got := slices.Clone(c)
			s.factor.multiply(m, n, k, a, lda, packed, got, ldc)
			if want == nil {
				want = got
				continue
			}
			for i := range got {
				if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
					t.Fatalf("%s: %d×%d of %d steps: row %d column %d is %v, want %v", s.Name, m, n, k, i/ldc, i%ldc, got[i], want[i])
				}
			}
		}
	})
}
