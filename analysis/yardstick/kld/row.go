package kld

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Row is one position: ln p of every token in 16 bits, Scale·code + Least.
type Row struct {
	Scale, Least float32
	Codes        []uint16
}

// LogProb is ln p of a token.
func (r *Row) LogProb(token int32) float32 {
	return float32(r.Scale*float32(r.Codes[token])) + r.Least
}

// LogProbs writes ln p of all tokens to dst, which has room for them.
func (r *Row) LogProbs(dst []float32) {
	for i, q := range r.Codes {
		dst[i] = float32(r.Scale*float32(q)) + r.Least
	}
}

// Spread writes a distribution that the row may stand for to dst, as ln p. What
// was raised to the clamp has code 0, and all of it together has what the other
// tokens leave of 1: that is shared out evenly, but no token gets more than the
// clamp says or is taken for more than 16 nats below it. Raised as they are, the
// tokens of a large vocabulary would take some percent from a sure position.
func (r *Row) Spread(dst []float32) {
	r.LogProbs(dst)
	if r.Scale*steps < depth*0.999 {
		return // nothing was raised
	}
	low, kept := 0, 0.0
	for i, q := range r.Codes {
		if q == 0 {
			low++
		} else {
			kept += math.Exp(float64(dst[i]))
		}
	}
	if low == 0 {
		return
	}
	each := r.Least - depth
	if rest := (1 - kept) / float64(low); rest > 0 {
		each = max(each, min(float32(math.Log(rest)), r.Least))
	}
	for i, q := range r.Codes {
		if q == 0 {
			dst[i] = each
		}
	}
}

// sum is Σ p over all tokens, and how much of it was raised to the clamp.
func (r *Row) sum() (all, clamped float64) {
	least := math.Exp(float64(r.Least))
	for _, q := range r.Codes {
		if q == 0 {
			clamped += least
		} else {
			l := float32(r.Scale*float32(q)) + r.Least
			if l > 1 { // more than certain, and where exp32 ends
				return math.Inf(1), clamped
			}
			all += float64(exp32(l))
		}
	}
	return all + clamped, clamped
}

// Set makes the row of logits, and returns −ln p of target; target −1 is none,
// and gives NaN. Like the original it clamps at 16 below the largest logit and
// takes differences in f32 and the sum of exponentials in f64. Logits that are
// NaN or +Inf, or all −Inf, are an error: the file has no way to say so.
func (r *Row) Set(logits []float32, target int32) (nll float64, err error) {
	high, low := float32(math.Inf(-1)), float32(math.Inf(1))
	for i, x := range logits {
		if x != x || x > math.MaxFloat32 {
			return 0, fmt.Errorf("kld: the logit of token %d is %g", i, x)
		}
		high, low = max(high, x), min(low, x)
	}
	if len(logits) == 0 || math.IsInf(float64(high), -1) {
		return 0, fmt.Errorf("kld: no finite one among %d logits", len(logits))
	}
	if target < -1 || int(target) >= len(logits) {
		return 0, fmt.Errorf("kld: token %d is outside the vocabulary of %d", target, len(logits))
	}
	low = max(low, high-depth)
	lse := logSumExp(logits, high)
	r.Least = low - high - lse
	r.Scale = (high - low) / steps
	if cap(r.Codes) < len(logits) {
		r.Codes = make([]uint16, len(logits))
	}
	r.Codes = r.Codes[:len(logits)]
	if r.Scale == 0 {
		clear(r.Codes)
	} else {
		inverse := 1 / r.Scale
		for i, x := range logits {
			r.Codes[i] = 0
			if x > low {
				r.Codes[i] = uint16(nearest(float32(inverse * (x - low))))
			}
		}
	}
	if target < 0 {
		return math.NaN(), nil
	}
	return float64(high + lse - logits[target]), nil
}

// nearest rounds to the nearest integer, ties to even, for |x| below 2^22: the
// sum has steps of one.
func nearest(x float32) int32 {
	const shift = 3 << 22
	return int32(math.Float32bits(x+shift)&(1<<23-1)) - 1<<22
}

// logSumExp is ln Σ e^(x−high), summed in f64 over terms of f32.
func logSumExp(logits []float32, high float32) float32 {
	var sum float64
	for _, x := range logits {
		sum += float64(exp32(x - high))
	}
	return float32(math.Log(sum))
}

// encode writes the row to dst, which is as long as the layout says.
func (r *Row) encode(dst []byte) {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(r.Scale))
	binary.LittleEndian.PutUint32(dst[4:], math.Float32bits(r.Least))
	for i, q := range r.Codes {
		binary.LittleEndian.PutUint16(dst[rowHead+2*i:], q)
	}
	clear(dst[rowHead+2*len(r.Codes):])
}

// decode reads a row of n tokens.
func (r *Row) decode(src []byte, n int) {
	r.Scale = math.Float32frombits(binary.LittleEndian.Uint32(src))
	r.Least = math.Float32frombits(binary.LittleEndian.Uint32(src[4:]))
	if cap(r.Codes) < n {
		r.Codes = make([]uint16, n)
	}
	r.Codes = r.Codes[:n]
	for i := range r.Codes {
		r.Codes[i] = binary.LittleEndian.Uint16(src[rowHead+2*i:])
	}
}
