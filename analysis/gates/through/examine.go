package through

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/gates/chat"
)

// Bounds of what log probabilities can be.
const (
	// WorstMedianRank is the largest median rank of the true next token that is
	// believed: language models have 1 to 4 on text of the kind they were trained on, and
	// a model that is asked about another text has the middle of its vocabulary.
	WorstMedianRank = 32
	// MostMass is the largest sum of a position's probabilities that is believed.
	MostMass = 1 + 1e-3
	// shifted is the share of positions whose likeliest token must be the true one of a
	// neighbour for a shift to be named, and so at twice as many as their own.
	shifted = 0.2
)

// Examined is what was found of log probabilities by themselves.
type Examined struct {
	Positions  int
	MedianRank float64
	OverMass   int // positions whose probabilities sum to more than MostMass
	Torn       int // positions at which the true token's log probability is not that of its entry among the likeliest
	Own        int // positions whose likeliest token is the true one
	Before     int // likewise the true one of the position before
	After      int // likewise of the position after
	Shift      int // +1: what is told fits the position after, −1: the one before, 0: neither
}

// Examine looks for what cannot be right in log probabilities of texts, or of
// answers. Those of a token that servers tell at another's place are seen by the
// likeliest: they are the true token's neighbour more often than the true token.
func Examine(s *Said) Examined {
	e := Examined{MedianRank: Sum(s).MedianRank}
	for _, text := range s.Texts {
		for i := range text {
			t := &text[i]
			if !t.Known || len(t.Top) == 0 {
				continue
			}
			e.Positions++
			if mass(t) > MostMass {
				e.OverMass++
			}
			if torn(t) {
				e.Torn++
			}
			count := func(n *int, at int) {
				if at >= 0 && at < len(text) && is(&t.Top[0], &text[at]) {
					*n++
				}
			}
			count(&e.Own, i)
			count(&e.Before, i-1)
			count(&e.After, i+1)
		}
	}
	fits := func(n int) bool { return float64(n) >= shifted*float64(e.Positions) && n > 2*e.Own }
	switch {
	case e.Positions < 8: // too few to tell
	case fits(e.After) && e.After >= e.Before:
		e.Shift = 1
	case fits(e.Before):
		e.Shift = -1
	}
	return e
}

func is(a *chat.Alt, t *chat.Token) bool {
	if a.ID >= 0 && t.ID >= 0 {
		return a.ID == t.ID
	}
	return told(a.Text) && a.Text == t.Text
}

// mass is the probability of all that is told at a position.
func mass(t *chat.Token) float64 {
	sum, own := within(t), false
	for i := range t.Top {
		own = own || is(&t.Top[i], t)
	}
	if !own && t.ID >= 0 && hasIDs(t) {
		sum += math.Exp(t.Logprob)
	}
	return sum
}

func torn(t *chat.Token) bool {
	if t.Logprob > t.Top[0].Logprob+1e-3 {
		return true
	}
	if !hasIDs(t) {
		return false
	}
	for i := range t.Top {
		if a := &t.Top[i]; a.ID == t.ID && math.Abs(a.Logprob-t.Logprob) > 1e-3 {
			return true
		}
	}
	return false
}

// Reason says in one sentence why log probabilities are not to be believed; "" where
// nothing speaks against them.
func (e Examined) Reason() string {
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	switch e.Shift {
	case 1:
		add("they fit if shifted by one: the likeliest is the token after in %d of %d positions, the true one in %d", e.After, e.Positions, e.Own)
	case -1:
		add("they fit if shifted by one: the likeliest is the token before in %d of %d positions, the true one in %d", e.Before, e.Positions, e.Own)
	}
	if e.MedianRank > WorstMedianRank {
		add("the true next token has the median rank %g, beyond %d", e.MedianRank, WorstMedianRank)
	}
	if e.OverMass > 0 {
		add("probabilities sum to more than 1 in %d of %d positions", e.OverMass, e.Positions)
	}
	if e.Torn > 0 {
		add("the true token's log probability is not that of its entry among the likeliest in %d of %d positions", e.Torn, e.Positions)
	}
	return strings.Join(why, "; ")
}
