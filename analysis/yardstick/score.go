package yardstick

import "math"

// Score is what one position says of two distributions over the vocabulary, in
// nats. P is the reference.
type Score struct {
	KL, Reverse float64 // KL(P‖Q), KL(Q‖P)
	NLLP, NLLQ  float64 // −ln p, −ln q of the target; NaN without one
	TopP, TopQ  int32   // most probable token, the first of equal ones
	MaxP        float64 // its probability under P
	Entropy     float64 // of P
	TargetP     float64 // probability of the target under P and Q
	TargetQ     float64
	NotANumber  bool // a logit is NaN or +Inf, or all are −Inf
}

// logSum is m and ln Σ e^(x−m), the first index of the maximum, and whether the
// row is one of numbers.
func logSum(x []float32) (m float64, sum float64, top int32, ok bool) {
	m = math.Inf(-1)
	for i, v := range x {
		if math.IsNaN(float64(v)) {
			return 0, 0, 0, false
		}
		if float64(v) > m {
			m, top = float64(v), int32(i)
		}
	}
	if math.IsInf(m, 0) {
		return 0, 0, 0, false
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - m)
	}
	return m, math.Log(sum), top, true
}

// Compare scores one position. target is −1 where there is none.
//
//	KL(P‖Q) = Σ p·(ln p − ln q)
//
// A term with p = 0 is 0, one with p > 0 and q = 0 makes the sum infinite. A
// divergence is not negative; rounding below 0 is written as 0.
func Compare(p, q []float32, target int32) Score {
	mp, sp, topP, okP := logSum(p)
	mq, sq, topQ, okQ := logSum(q)
	if !okP || !okQ || len(p) != len(q) {
		nan := math.NaN()
		return Score{KL: nan, Reverse: nan, NLLP: nan, NLLQ: nan, Entropy: nan, MaxP: nan, TargetP: nan, TargetQ: nan, NotANumber: true}
	}
	s := Score{TopP: topP, TopQ: topQ, NLLP: math.NaN(), NLLQ: math.NaN(), MaxP: math.Exp(-sp), TargetP: math.NaN(), TargetQ: math.NaN()}
	for i := range p {
		lp, lq := float64(p[i])-mp-sp, float64(q[i])-mq-sq
		ep, eq := math.Exp(lp), math.Exp(lq)
		d := lp - lq
		if p[i] == q[i] && math.IsInf(float64(p[i]), -1) {
			continue
		}
		if ep > 0 {
			s.KL += ep * d
			s.Entropy -= ep * lp
		}
		if eq > 0 {
			s.Reverse -= eq * d
		}
	}
	s.KL, s.Reverse = max(s.KL, 0), max(s.Reverse, 0)
	if target >= 0 && int(target) < len(p) {
		s.NLLP = mp + sp - float64(p[target])
		s.NLLQ = mq + sq - float64(q[target])
		s.TargetP, s.TargetQ = math.Exp(-s.NLLP), math.Exp(-s.NLLQ)
	}
	return s
}
