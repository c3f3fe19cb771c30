package yardstick

import (
	"math"

	"quantscope/kernels"
)

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

// Compare scores one position. target is −1 where there is none.
//
//	KL(P‖Q) = Σ p·(ln p − ln q)
//
// A term with p = 0 is 0, one with p > 0 and q = 0 makes the sum infinite. A
// divergence is not negative; rounding below 0 is written as 0.
func Compare(set kernels.Set, p, q []float32, target int32) Score {
	nan := math.NaN()
	a, b := set.LogSum(p), set.LogSum(q)
	if !a.OK || !b.OK || len(p) != len(q) {
		return Score{KL: nan, Reverse: nan, NLLP: nan, NLLQ: nan, Entropy: nan, MaxP: nan, TargetP: nan, TargetQ: nan, TopP: -1, TopQ: -1, NotANumber: true}
	}
	s := Score{TopP: a.Top, TopQ: b.Top, NLLP: nan, NLLQ: nan, MaxP: math.Exp(-a.LogSum), TargetP: nan, TargetQ: nan}
	kl, reverse, entropy := set.Divergence(p, q, a, b)
	s.KL, s.Reverse, s.Entropy = max(kl, 0), max(reverse, 0), entropy
	if target >= 0 && int(target) < len(p) {
		s.NLLP = a.Max + a.LogSum - float64(p[target])
		s.NLLQ = b.Max + b.LogSum - float64(q[target])
		s.TargetP, s.TargetQ = math.Exp(-s.NLLP), math.Exp(-s.NLLQ)
	}
	return s
}
