package kld

import (
	"math"
	"slices"
)

// Statistics gathers scores. The zero value is empty.
//
// Products of two f32 are f32 and sums are f64, as in the original. Uncertainties
// are those of a mean of independent values, √((E[x²]−E[x]²)/(n−1)), and 0 for ten
// positions or fewer; neighbours in a text are not independent, so that they are
// too small (package yardstick's are over chunks).
type Statistics struct {
	Count int // scored
	NaN   int // left out: their logits are not numbers

	nll, nll2, base, base2, both float64
	kl, kl2, dp, dp2, dp4        float64
	same                         int
	kls, dps                     []float32
}

// Add takes in one position.
func (s *Statistics) Add(x Score) {
	if x.NaN {
		s.NaN++
		return
	}
	s.Count++
	s.nll += float64(x.NLL)
	s.nll2 += float64(float32(x.NLL * x.NLL))
	s.base += float64(x.NLLBase)
	s.base2 += float64(float32(x.NLLBase * x.NLLBase))
	s.both += float64(float32(x.NLL * x.NLLBase))
	s.kl += x.KL
	s.kl2 += x.KL * x.KL
	d2 := float64(float32(x.DP * x.DP))
	s.dp += float64(x.DP)
	s.dp2 += d2
	s.dp4 += d2 * d2
	if x.Top == x.TopBase {
		s.same++
	}
	s.kls = append(s.kls, float32(x.KL))
	s.dps = append(s.dps, x.DP)
}

// Figure is a value with its uncertainty.
type Figure struct{ Value, Err float64 }

func (s *Statistics) mean(sum, sum2 float64) Figure {
	if s.Count < 1 {
		return Figure{}
	}
	n := float64(s.Count)
	f := sum / n
	d := sum2/n - f*f
	if d > 0 && s.Count > 10 {
		return Figure{f, math.Sqrt(d / (n - 1))}
	}
	return Figure{f, 0}
}

// LogPPL is the mean −ln q, LogPPLBase the mean −ln p.
func (s *Statistics) LogPPL() Figure { return s.mean(s.nll, s.nll2) }

// LogPPLBase is the mean −ln p of the reference, as the file holds it.
func (s *Statistics) LogPPLBase() Figure { return s.mean(s.base, s.base2) }

// PPL is the candidate's perplexity.
func (s *Statistics) PPL() Figure { return exp(s.LogPPL()) }

// PPLBase is the reference's.
func (s *Statistics) PPLBase() Figure { return exp(s.LogPPLBase()) }

// exp propagates the uncertainty of an exponent.
func exp(f Figure) Figure {
	v := math.Exp(f.Value)
	return Figure{v, v * f.Err}
}

// covariance is that of the means of −ln q and −ln p.
func (s *Statistics) covariance() float64 {
	if s.Count < 10 {
		return 0
	}
	n := float64(s.Count)
	return (s.both/n - (s.nll/n)*(s.base/n)) / (n - 1)
}

// Correlation is that of −ln q and −ln p.
func (s *Statistics) Correlation() float64 {
	return s.covariance() / (s.LogPPL().Err * s.LogPPLBase().Err)
}

// LogRatio is ln(PPL/PPLBase).
func (s *Statistics) LogRatio() Figure {
	q, p := s.LogPPL(), s.LogPPLBase()
	return Figure{q.Value - p.Value, math.Sqrt(q.Err*q.Err + p.Err*p.Err - 2*s.covariance())}
}

// Ratio is PPL/PPLBase.
func (s *Statistics) Ratio() Figure { return exp(s.LogRatio()) }

// Difference is PPL−PPLBase.
func (s *Statistics) Difference() Figure {
	q, p := s.PPL(), s.PPLBase()
	c := q.Value * p.Value * s.covariance()
	return Figure{q.Value - p.Value, math.Sqrt(q.Err*q.Err + p.Err*p.Err - 2*c)}
}

// KL is the mean divergence.
func (s *Statistics) KL() Figure { return s.mean(s.kl, s.kl2) }

// DP is the mean change of the next token's probability.
func (s *Statistics) DP() Figure { return s.mean(s.dp, s.dp2) }

// RMSdP is the root of the mean square of that.
func (s *Statistics) RMSdP() Figure {
	m := s.mean(s.dp2, s.dp4)
	v := math.Sqrt(m.Value)
	return Figure{v, 0.5 / v * m.Err}
}

// SameTop is the share of positions with the reference's first choice.
func (s *Statistics) SameTop() Figure {
	n := float64(s.Count)
	v := float64(s.same) / n
	return Figure{v, math.Sqrt(v * (1 - v) / (n - 1))}
}

// order is a sorted list that percentiles are read off, in f32 as the original
// does.
type order []float32

func sorted(x []float32) order {
	o := slices.Clone(x)
	slices.Sort(o)
	return o
}

// at interpolates linearly at f·(n−1).
func (o order) at(f float32) float64 {
	p := float32(f * float32(len(o)-1))
	i := int(p)
	p -= float32(i)
	low, up := float32(float32(1-p)*o[i]), float32(p*o[min(i+1, len(o)-1)])
	return float64(low + up)
}

func (o order) median() float64 {
	n := len(o)
	if n%2 == 0 {
		return float64(float32(0.5 * float32(o[n/2]+o[n/2-1])))
	}
	return float64(o[n/2])
}

func (o order) least() float64 { return float64(o[0]) }
func (o order) most() float64  { return float64(o[len(o)-1]) }
