package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The pruned sweep finds what trying all 126 scales finds, on blocks made to
// have their optimum far from round to nearest: outliers, few distinct values,
// values on or beside the grid, and blocks so small that everything rounds to
// zero.
func TestNVFP4SweepBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	const rows, blocks = 60, 16
	shapes := []func() float64{
		rng.NormFloat64,
		func() float64 { return 2*rng.Float64() - 1 },
		func() float64 { return rng.NormFloat64() * math.Exp(2*rng.NormFloat64()) },
		func() float64 { return float64(e2m1Values[rng.IntN(16)]) },
		func() float64 { return float64(e2m1Values[rng.IntN(16)]) * (1 + 0.01*rng.NormFloat64()) },
		func() float64 { return math.Copysign(1, rng.NormFloat64()) },
		func() float64 { return []float64{1, 0.17, 0.6, -1, -0.58}[rng.IntN(5)] },
		func() float64 { return 0 },
	}
	x := make([]float32, rows*blocks*BlockNVFP4)
	for b := range rows * blocks {
		block := x[b*BlockNVFP4 : (b+1)*BlockNVFP4]
		shape, size := shapes[rng.IntN(len(shapes))], math.Exp2(-24*rng.Float64()*float64(rng.IntN(2)))
		for i := range block {
			block[i] = float32(size * shape())
		}
		for range rng.IntN(4) {
			block[rng.IntN(BlockNVFP4)] *= float32(math.Exp2(4 * rng.Float64()))
		}
	}
	x[0] = 30 // the global scale, so that the small blocks are at its lower end
	m := f32Matrix(rows, blocks*BlockNVFP4, x)
	for conv := ModelOpt; conv <= CT; conv++ {
		checkAgainstOracle(t, m, NVFP4Options{Method: NVFP4Sweep, Convention: conv})
	}
}
