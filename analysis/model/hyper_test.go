package model

import (
	"math"
	"testing"
)

// streamsAfter is what residual streams become by what a part of a layer says, y: the
// formulas of golden/README.md, written apart, in f64 and token by token.
func streamsAfter(t *testing.T, f *fixture, p Part, layer int, x, y []float32) []float32 {
	t.Helper()
	s, src := f.spec, f.source()
	n, h := s.Streams, s.Hidden
	name := []string{"hc_attn", "hc_ffn"}[p]
	base, err := src.Vector(t.Context(), streamsAt(layer, name+"_base"), "weight")
	must(t, err)
	scale, err := src.Vector(t.Context(), streamsAt(layer, name+"_scale"), "weight")
	must(t, err)
	out := make([]float32, len(x))
	for at := 0; at < len(x); at += n * h {
		row := x[at : at+n*h]
		var square float64
		for _, v := range row {
			square += float64(v) * float64(v)
		}
		m := plainMap(t, src, streamsAt(layer, name+"_fn"), row)
		for i := range m {
			m[i] *= 1 / math.Sqrt(square/float64(n*h)+s.Norm.Eps)
		}
		comb := make([][]float64, n)
		for j := range comb {
			comb[j] = make([]float64, n)
			sum := 0.0
			for k := range n {
				i := 2*n + j*n + k
				comb[j][k] = math.Exp(m[i]*float64(scale[2]) + float64(base[i]))
				sum += comb[j][k]
			}
			for k := range n {
				comb[j][k] = comb[j][k]/sum + s.Hyper.Eps
			}
		}
		columns := func() {
			for k := range n {
				sum := s.Hyper.Eps
				for j := range n {
					sum += comb[j][k]
				}
				for j := range n {
					comb[j][k] /= sum
				}
			}
		}
		columns()
		for range s.Hyper.Rounds - 1 {
			for j := range n {
				sum := s.Hyper.Eps
				for k := range n {
					sum += comb[j][k]
				}
				for k := range n {
					comb[j][k] /= sum
				}
			}
			columns()
		}
		for k := range n {
			post := 2 / (1 + math.Exp(-(m[n+k]*float64(scale[1]) + float64(base[n+k]))))
			for c := range h {
				v := post * float64(y[at/n+c])
				for j := range n {
					v += comb[j][k] * float64(row[j*h+c])
				}
				out[at+k*h+c] = float32(v)
			}
		}
	}
	return out
}

// TestCombIsDoublyStochastic: after the rounds every stream gives away what it has and
// gets as much, for logits of any size.
func TestCombIsDoublyStochastic(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 16} {
		for _, size := range []float64{0, 1, 5} {
			got := make([]float32, n*n)
			y := Hyper{Rounds: 200, Eps: 1e-12}
			y.comb(got, n, func(i int) float64 { return size * math.Sin(float64(7*i+n)) })
			for a := range n {
				row, column := 0.0, 0.0
				for b := range n {
					row, column = row+float64(got[a*n+b]), column+float64(got[b*n+a])
				}
				if math.Abs(row-1) > 1e-5 || math.Abs(column-1) > 1e-6 {
					t.Errorf("%d streams, logits of %g: row %d adds up to %g, column to %g", n, size, a, row, column)
				}
			}
		}
	}
}
