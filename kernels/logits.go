package kernels

import "math"

// LogitRow is a row of logits in short: Max, the first index Top that has it, and
// LogSum = ln Σ e^(x−Max). OK is false where a logit is NaN or +Inf, or all are
// −Inf; the rest is then 0.
type LogitRow struct {
	Max, LogSum float64
	Top         int32
	OK          bool
}

// LogSum reads a row of logits.
func (s Set) LogSum(x []float32) LogitRow {
	m, top := math.Inf(-1), int32(0)
	for i, v := range x {
		if math.IsNaN(float64(v)) {
			return LogitRow{}
		}
		if float64(v) > m {
			m, top = float64(v), int32(i)
		}
	}
	if math.IsInf(m, 0) {
		return LogitRow{}
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - m)
	}
	return LogitRow{m, math.Log(sum), top, true}
}

// Divergence is KL(P‖Q), KL(Q‖P) and the entropy of P, in nats, of two rows of
// logits that LogSum called OK. A term with p = 0 is 0; one with p > 0 and q = 0
// makes the sum infinite. The sums are not cut off at 0.
func (s Set) Divergence(p, q []float32, rp, rq LogitRow) (kl, reverse, entropy float64) {
	for i := range p {
		lp, lq := float64(p[i])-rp.Max-rp.LogSum, float64(q[i])-rq.Max-rq.LogSum
		if math.IsInf(lp, -1) && math.IsInf(lq, -1) {
			continue
		}
		if ep := math.Exp(lp); ep > 0 {
			kl += ep * (lp - lq)
			entropy -= ep * lp
		}
		if eq := math.Exp(lq); eq > 0 {
			reverse -= eq * (lp - lq)
		}
	}
	return kl, reverse, entropy
}
