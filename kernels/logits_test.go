package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// bigExp is e^x for x ≤ 0 by Taylor's series, to some 100 bits.
func bigExp(x float64) *big.Float {
	const prec = 160
	r := new(big.Float).SetPrec(prec).SetFloat64(x / 1024) // exact but for subnormals
	sum, term := big.NewFloat(1).SetPrec(prec), big.NewFloat(1).SetPrec(prec)
	for k := 1; k < 40; k++ {
		term.Mul(term, r)
		term.Quo(term, new(big.Float).SetPrec(prec).SetInt64(int64(k)))
		sum.Add(sum, term)
	}
	for range 10 {
		sum.Mul(sum, sum)
	}
	return sum
}

func TestExp64(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 4))
	worst := 0.0
	for i := range 6000 {
		x := -rng.Float64() * math.Ldexp(1, i%40-29) // 2⁻²⁹ to 2¹⁰
		if x < exp64Low {
			x = exp64Low * rng.Float64()
		}
		want := bigExp(x)
		off := new(big.Float).SetPrec(160).SetFloat64(exp64(x))
		off.Sub(off, want)
		off.Abs(off)
		off.SetMantExp(off, 53-want.MantExp(nil))
		v, _ := off.Float64()
		worst = max(worst, v)
	}
	if worst > 1.2 || worst < 0.5 {
		t.Errorf("exp64 is %.3f units off", worst)
	}
	for _, c := range [][2]float64{{0, 1}, {math.Copysign(0, -1), 1}, {-708.0000001, 0}, {math.Inf(-1), 0}, {math.NaN(), 0}, {-1e-300, 1}} {
		if got := exp64(c[0]); got != c[1] {
			t.Errorf("exp64(%v) is %v, want %v", c[0], got, c[1])
		}
	}
	if got := exp64(exp64Low); got < 0x1p-1022 || inUlps(float32(got*0x1p1000), math.Exp(-708+1000*math.Ln2)) > 1 {
		t.Errorf("exp64 at its bound is %v", got)
	}
}

func TestLogSum(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for _, s := range Available() {
		for _, bad := range [][]float32{nil, {nan}, {1, nan, 2}, {inf, 1}, {-inf, -inf, -inf}, slices.Concat(make([]float32, 40), []float32{nan})} {
			if r := s.LogSum(bad); r != (LogitRow{}) {
				t.Errorf("%s: %v gives %v", s.Name, bad, r)
			}
		}
		for n := 1; n < 80; n++ {
			x := slices.Repeat([]float32{-inf}, n)
			x[n-1], x[n/2] = 5, 5
			r := s.LogSum(x)
			equal := 2.0
			if n/2 == n-1 {
				equal = 1
			}
			if !r.OK || r.Max != 5 || int(r.Top) != n/2 || math.Abs(r.LogSum-math.Log(equal)) > 1e-15 {
				t.Fatalf("%s: %d logits give %v", s.Name, n, r)
			}
		}
		// A logit that is far above the others.
		if r := s.LogSum([]float32{-3e38, 3e38, 0}); !r.OK || r.Max != float64(float32(3e38)) || r.Top != 1 || r.LogSum != 0 {
			t.Errorf("%s: %v", s.Name, r)
		}
	}
}

// exactDivergence is the definition in f64, with math.Exp and no tricks.
func exactDivergence(p, q []float32) (kl, reverse, entropy float64) {
	norm := func(x []float32) float64 {
		m, sum := float64(slices.Max(x)), 0.0
		for _, v := range x {
			sum += math.Exp(float64(v) - m)
		}
		return m + math.Log(sum)
	}
	np, nq := norm(p), norm(q)
	for i := range p {
		lp, lq := float64(p[i])-np, float64(q[i])-nq
		if ep := math.Exp(lp); ep > 0 {
			kl, entropy = kl+ep*(lp-lq), entropy-ep*lp
		}
		if eq := math.Exp(lq); eq > 0 {
			reverse += eq * (lq - lp)
		}
	}
	return kl, reverse, entropy
}

func TestDivergence(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 5))
	for _, s := range Available() {
		for n := 2; n < 600; n += 1 + n/3 {
			rows := randomRows(rng, n, 4, 0)
			p, q := rows[0], rows[1]
			kl, reverse, entropy := s.Divergence(p, q, s.LogSum(p), s.LogSum(q))
			wantKL, wantReverse, wantEntropy := exactDivergence(p, q)
			for i, pair := range [][2]float64{{kl, wantKL}, {reverse, wantReverse}, {entropy, wantEntropy}} {
				if math.Abs(pair[0]-pair[1]) > 1e-13*(1+pair[1]) {
					t.Fatalf("%s: figure %d of %d logits is %v, want %v", s.Name, i, n, pair[0], pair[1])
				}
			}
			if kl, reverse, _ := s.Divergence(p, p, s.LogSum(p), s.LogSum(p)); kl != 0 || reverse != 0 {
				t.Fatalf("%s: a row is %v and %v from itself", s.Name, kl, reverse)
			}
		}
	}
}

// Rows that are nearly the same: with δ = q−p, KL(P‖Q) = ln Σp·e^δ − Σp·δ, whose
// first terms in δ are half of δ's variance under P and a sixth of its third
// central moment.
func TestSmallDivergence(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const n = 4096
	p, q := make([]float32, n), make([]float32, n)
	for i := range p {
		p[i] = float32(rng.NormFloat64() * 3)
		q[i] = p[i] + float32(rng.NormFloat64()*2e-6)
	}
	whole, mean, second, third := 0.0, 0.0, 0.0, 0.0
	for pass := range 2 {
		for i := range p {
			w, d := math.Exp(float64(p[i])), float64(q[i])-float64(p[i])
			if pass == 0 {
				whole, mean = whole+w, mean+w*d
				continue
			}
			d -= mean
			second, third = second+w*d*d, third+w*d*d*d
		}
		if pass == 0 {
			mean /= whole
		}
	}
	want := second/whole/2 + third/whole/6
	for _, s := range Available() {
		kl, reverse, _ := s.Divergence(p, q, s.LogSum(p), s.LogSum(q))
		if want > 1e-11 || math.Abs(kl-want) > 1e-15 || math.Abs(reverse-want) > 1e-15 {
			t.Errorf("%s: %v and %v, want %v", s.Name, kl, reverse, want)
		}
	}
}

// Logits of −Inf: both sides, one side, and in every lane.
func TestDivergenceOfMaskedRows(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, s := range Available() {
		for n := 3; n < 40; n++ {
			p := slices.Repeat([]float32{1}, n)
			for at := range n {
				p, q := slices.Clone(p), slices.Clone(p)
				p[at], q[at] = -inf, -inf
				kl, reverse, entropy := s.Divergence(p, q, s.LogSum(p), s.LogSum(q))
				if kl != 0 || reverse != 0 || math.Abs(entropy-math.Log(float64(n-1))) > 1e-13 {
					t.Fatalf("%s: both masked at %d of %d: %v %v %v", s.Name, at, n, kl, reverse, entropy)
				}
				q[at] = 1
				kl, reverse, _ = s.Divergence(p, q, s.LogSum(p), s.LogSum(q))
				if math.Abs(kl-math.Log(float64(n)/float64(n-1))) > 1e-13 || !math.IsInf(reverse, 1) {
					t.Fatalf("%s: P masked at %d of %d: %v %v", s.Name, at, n, kl, reverse)
				}
				kl, reverse, _ = s.Divergence(q, p, s.LogSum(q), s.LogSum(p))
				if !math.IsInf(kl, 1) || math.Abs(reverse-math.Log(float64(n)/float64(n-1))) > 1e-13 {
					t.Fatalf("%s: Q masked at %d of %d: %v %v", s.Name, at, n, kl, reverse)
				}
			}
		}
	}
}
