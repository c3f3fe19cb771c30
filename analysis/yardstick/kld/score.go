package kld

import "math"

// Score is what one position says of a candidate's logits, by the arithmetic of
// llama-perplexity.
type Score struct {
	KL           float64 // Σ p·(ln p − ln q) over tokens with ln p > −16; can be below 0, since p is in 16 bits
	NLL, NLLBase float32 // −ln of the next token's probability
	DP           float32 // q − p of it
	Top, TopBase int32   // the first of the largest
	NaN          bool    // the logits hold a NaN or +Inf, or are all −Inf: no figure means anything
}

// Compare scores logits against a row of the file; target is the next token.
// Both have the row's vocabulary.
func Compare(row *Row, logits []float32, target int32) Score {
	logits = logits[:len(row.Codes)]
	high, top := logits[0], int32(0)
	for i, x := range logits {
		if x > high {
			high, top = x, int32(i)
		}
	}
	lse := logSumExp(logits, high)
	s := Score{Top: top, NLL: high + lse - logits[target], NLLBase: -row.LogProb(target)}
	whole := high + lse
	var sum float64
	var best float32
	for i, q := range row.Codes {
		p := float32(row.Scale*float32(q)) + row.Least
		if i == 0 || p > best {
			best, s.TopBase = p, int32(i)
		}
		if p > cutOff {
			sum += float64(exp32(p) * (p - logits[i] + whole))
		}
	}
	s.KL = sum
	s.DP = exp32(-s.NLL) - exp32(-s.NLLBase)
	s.NaN = whole != whole || math.IsInf(float64(whole), 0)
	return s
}
