package through

import (
	"math"

	"quantscope/analysis/gates/chat"
)

// slack is how far a sum of probabilities that servers tell in f32 may be from what
// it is: twenty of them, each rounded by 2⁻²⁴ of a logarithm below 16 (2⁻²⁰ of the
// probability), and a normalizer summed in f32.
const slack = 1e-6

// name tells a token from others at its position: by id, where both sides tell ids,
// else by text.
type name struct {
	id   int32
	text string
}

// masses are the probabilities that a server told at a position, the true next
// token's among them.
func masses(t *chat.Token, byID bool) map[name]float64 {
	m := make(map[name]float64, len(t.Top)+1)
	twice := map[name]bool{}
	put := func(id int32, text string, lp float64, own bool) {
		n := name{id: id}
		if !byID {
			n = name{id: -1, text: text}
			if !told(text) {
				return // several tokens look like this
			}
		} else if id < 0 {
			return
		}
		if _, ok := m[n]; ok && !own {
			twice[n] = true
		}
		m[n] = math.Exp(lp)
	}
	for _, a := range t.Top {
		put(a.ID, a.Text, a.Logprob, false)
	}
	put(t.ID, t.Text, t.Logprob, true)
	for n := range twice {
		delete(m, n)
	}
	return m
}

// told says whether a text tells its token from others: an empty one does not, nor
// one whose bytes were no text and became U+FFFD.
func told(text string) bool {
	for _, r := range text {
		if r == '\uFFFD' {
			return false
		}
	}
	return text != ""
}

// hasIDs says whether all tokens of a position are told by id.
func hasIDs(t *chat.Token) bool {
	for _, a := range t.Top {
		if a.ID < 0 {
			return false
		}
	}
	return t.ID >= 0
}

// bound is a lower bound of KL(P‖Q) at a position, in nats, from the probabilities
// of some tokens.
//
// Let S be the tokens whose probability both sides tell, and R all others, as one
// outcome of probability p_R = 1 − Σ_S p, and q_R likewise. Then
//
//	KL(P‖Q) ≥ Σ_S p ln(p/q) + p_R ln(p_R/q_R)
//
// Proof. The terms of S are the same on both sides. Of the rest, with sums over the
// tokens of R that P can bring, −ln is convex, so by Jensen's inequality with weights
// p/p_R
//
//	Σ p ln(p/q) = p_R Σ (p/p_R)·(−ln(q/p)) ≥ −p_R ln Σ (p/p_R)·(q/p) = −p_R ln(Σ q/p_R)
//
// and Σ q over those tokens is at most q_R, so this is at least p_R ln(p_R/q_R). It is the
// data-processing inequality (Cover and Thomas, Elements of Information Theory, 2006,
// sections 2.7 and 2.8) for the map that forgets which token of R came. It holds for
// any S, so a token that one side does not tell goes to R. The right side is a
// divergence itself, and so never below zero: what rounding puts there is zero. ∎
//
// The rests are differences of rounded numbers, so the last term is the least that it
// can be with p_R and q_R within slack of them. Where all of a vocabulary is told, the
// bound is the divergence but for less than slack.
func bound(p, q map[name]float64) float64 {
	kl, restP, restQ := 0.0, 1.0, 1.0
	some := false
	for n, a := range p {
		b, ok := q[n]
		if !ok {
			continue
		}
		some = true
		kl += term(a, b)
		restP -= a
		restQ -= b
	}
	if !some {
		return 0
	}
	return max(kl+least(max(restP-slack, 0), max(restP, 0)+slack, max(restQ, 0)+slack), 0)
}

// least is the least of x ln(x/y) for x from low to high: it falls up to x = y/e, and
// rises from there. In y it falls, so the largest y is the one to ask with.
func least(low, high, y float64) float64 { return term(min(max(y/math.E, low), high), y) }

// term is p ln(p/q). A q of 0 is one that was too small to be told: servers write
// −9999 for its logarithm.
func term(p, q float64) float64 {
	if p <= 0 {
		return 0
	}
	return p * math.Log(p/max(q, math.SmallestNonzeroFloat64))
}
