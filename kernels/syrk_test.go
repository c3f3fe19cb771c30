package kernels

import (
	"math/rand/v2"
	"testing"
)

// SYRK gives GEMM's bits below the diagonal and the mirror image above, for any
// way to store X, alone and added to what was there.
func TestSYRK(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, s := range Available() {
		for _, shape := range [][2]int{{1, 1}, {0, 5}, {5, 0}, {3, 17}, {PanelDepth + 3, 31}, {40, 100}, {9, 205}} {
			tokens, n := shape[0], shape[1]
			x := randomFactor(rng, tokens, n)
			for _, kind := range []string{"dense", "bf16", "panels"} {
				o := x.operand(t, kind, false, false) // X is what is right of Xᵀ
				h, _ := NewDense(n, n)
				want, _ := NewDense(n, n)
				h.Stride = n + 2
				h.Data = make([]float32, n*h.Stride)
				for pass := range 2 {
					opt := GEMMOptions{Accumulate: pass == 1, Alpha: 0.5, Threads: 1 + pass*3}
					if err := s.SYRK(h, o, opt); err != nil {
						t.Fatal(err)
					}
					if err := s.GEMM(want, x.operand(t, "dense", false, false).T(), x.operand(t, "dense", false, false), opt); err != nil {
						t.Fatal(err)
					}
					for i := range h.Data {
						r, c := i/h.Stride, i%h.Stride
						if c >= n {
							if h.Data[i] != 0 {
								t.Fatalf("%s: wrote between rows", s.Name)
							}
							continue
						}
						if h.Data[i] != want.Data[r*n+c] || h.Data[i] != h.Data[c*h.Stride+r] {
							t.Fatalf("%s: %d tokens of %d from %s: (%d, %d) is %x, want %x, mirrored %x", s.Name, tokens, n, kind, r, c, h.Data[i], want.Data[r*n+c], h.Data[c*h.Stride+r])
						}
					}
				}
			}
		}
	}
}

// A size of several tasks, some of them above the diagonal, on many threads.
func TestSYRKTasks(t *testing.T) {
	const tokens, n = 40, 450
	x := gaussian(t, tokens, n, 1)
	for _, s := range asmSets() {
		h, _ := NewDense(n, n)
		want, _ := NewDense(n, n)
		if err := s.SYRK(h, DenseOperand(x), GEMMOptions{Threads: 8}); err != nil {
			t.Fatal(err)
		}
		if err := s.GEMM(want, DenseOperand(x).T(), DenseOperand(x), GEMMOptions{}); err != nil {
			t.Fatal(err)
		}
		for i := range h.Data {
			if h.Data[i] != want.Data[i] {
				t.Fatalf("%s: (%d, %d) is %x, want %x", s.Name, i/n, i%n, h.Data[i], want.Data[i])
			}
		}
	}
}
