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

// logitLanes is how many f64 lanes the sums of a row of logits are kept in: value
// i is in lane i mod 8, and the lanes are added in halves.
const logitLanes = 8

// LogSum reads a row of logits. Exponentials are exp64's.
func (s Set) LogSum(x []float32) LogitRow {
	if len(x) == 0 {
		return LogitRow{}
	}
	most, first := s.rows.top(x)
	m := float64(most)
	if math.IsNaN(m) || math.IsInf(m, 0) {
		return LogitRow{}
	}
	return LogitRow{m, math.Log(s.rows.logSum(x, m)), int32(first), true}
}

// Divergence is KL(P‖Q), KL(Q‖P) and the entropy of P, in nats, of two rows of
// logits that LogSum called OK. A term with p = 0 is 0; one with p > 0 and q = 0
// makes the sum infinite. The sums are not cut off at 0. Of rows of two lengths
// the longer one is cut.
//
// p is e^((x−Max)−LogSum) by exp64, which is 0 below e^−708. What p multiplies is
// ln p − ln q = (x−y) − ((Max−Max)+(LogSum−LogSum)): of rows that are nearly
// the same, x−y is exact and the rest small, so little cancels.
func (s Set) Divergence(p, q []float32, rp, rq LogitRow) (kl, reverse, entropy float64) {
	n := min(len(p), len(q))
	if n == 0 {
		return 0, 0, 0
	}
	sums := s.rows.divergence(p[:n], q[:n], &divergenceOf{
		maxP: rp.Max, logSumP: rp.LogSum, maxQ: rq.Max, logSumQ: rq.LogSum,
		shift: (rp.Max - rq.Max) + (rp.LogSum - rq.LogSum),
	})
	return sums[0], -sums[1], -sums[2]
}

// divergenceOf is what Divergence knows of two rows. The assembly reads the
// fields in this order.
type divergenceOf struct {
	maxP, logSumP, maxQ, logSumQ, shift float64
}

// topRef is the largest value and the first index that holds it; NaN where one
// is, whatever the index.
func topRef(x []float32) (most float32, first int) {
	most = x[0]
	for i, v := range x {
		if v != v {
			return v, 0
		}
		if v > most {
			most, first = v, i
		}
	}
	return most, first
}

// logSumRef is Σ e^(x−m).
func logSumRef(x []float32, m float64) float64 {
	var lanes [logitLanes]float64
	for i, v := range x {
		lanes[i%logitLanes] += exp64(float64(v) - m)
	}
	return logitTree(&lanes)
}

// divergenceRef is Σ p·(ln p − ln q), Σ q·(ln p − ln q) and Σ p·ln p.
func divergenceRef(p, q []float32, by *divergenceOf) (sums [3]float64) {
	var kl, reverse, entropy [logitLanes]float64
	for i := range p {
		x, y, l := float64(p[i]), float64(q[i]), i%logitLanes
		lp, lq, d := x-by.maxP-by.logSumP, y-by.maxQ-by.logSumQ, x-y-by.shift
		if lp >= exp64Low {
			e := exp64(lp)
			kl[l] = math.FMA(e, d, kl[l])
			entropy[l] = math.FMA(e, lp, entropy[l])
		}
		if lq >= exp64Low {
			reverse[l] = math.FMA(exp64(lq), d, reverse[l])
		}
	}
	return [3]float64{logitTree(&kl), logitTree(&reverse), logitTree(&entropy)}
}

// logitTree adds lanes i and i+4, of these i and i+2, then the last two.
func logitTree(l *[logitLanes]float64) float64 {
	a, b, c, d := l[0]+l[4], l[1]+l[5], l[2]+l[6], l[3]+l[7]
	return (a + c) + (b + d)
}
