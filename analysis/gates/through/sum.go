package through

import (
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/stats"
)

// Sum is what one server said in sum.
func Sum(s *Said) Arm {
	a := Arm{Top: s.Top}
	var nll, seen cluster
	var ranks []float64
	for _, text := range s.Texts {
		nll.next()
		seen.next()
		for i := range text {
			t := &text[i]
			if !t.Known {
				continue
			}
			nll.add(-t.Logprob)
			seen.add(within(t))
			if r := rank(t); r > 0 {
				ranks = append(ranks, float64(r))
			}
		}
	}
	a.Positions = nll.n()
	if a.Positions == 0 {
		return a
	}
	a.NLL, a.SE = nll.mean()
	a.PPL = math.Min(math.Exp(a.NLL), math.MaxFloat64)
	a.Seen, _ = seen.mean()
	if len(ranks) > 0 {
		slices.Sort(ranks)
		a.MedianRank = stats.Quantile(ranks, 0.5)
	}
	return a
}

// within is the probability of the likeliest together.
func within(t *chat.Token) float64 {
	sum := 0.0
	for _, a := range t.Top {
		sum += math.Exp(a.Logprob)
	}
	return sum
}

// rank is that of the true token, at least; 0: nothing is told of it.
func rank(t *chat.Token) int {
	switch {
	case t.Rank > 0:
		return t.Rank
	case len(t.Top) > 0:
		return len(t.Top) + 1
	}
	return 0
}

// Compare holds a candidate against the baseline: KL is of the baseline's
// distribution to the candidate's, at least. Texts that the two do not cut into the
// same tokens are a *MisalignedError.
func Compare(base, cand *Said) (Pair, []Position, error) {
	if len(base.Texts) != len(cand.Texts) {
		return Pair{}, nil, fmt.Errorf("%d texts against %d", len(cand.Texts), len(base.Texts))
	}
	var at []Position
	var kl, delta, same cluster
	for i := range base.Texts {
		if err := sameTokens(i, base.Texts[i], cand.Texts[i]); err != nil {
			return Pair{}, nil, err
		}
		kl.next()
		delta.next()
		same.next()
		for j := range base.Texts[i] {
			b, c := &base.Texts[i][j], &cand.Texts[i][j]
			if !b.Known || !c.Known {
				continue
			}
			p := position(i, j, b, c)
			at = append(at, p)
			kl.add(p.KL)
			delta.add(p.NLL - p.RefNLL)
			one := 0.0
			if p.Same {
				one = 1
			}
			same.add(one)
		}
	}
	pair := Pair{Positions: len(at)}
	if len(at) == 0 {
		return pair, nil, fmt.Errorf("no position of which both tell the log probability")
	}
	pair.KL, pair.SE = kl.mean()
	pair.DeltaNLL, pair.DeltaSE = delta.mean()
	pair.Top1, _ = same.mean()
	return pair, at, nil
}

func position(chunk, at int, b, c *chat.Token) Position {
	byID := hasIDs(b) && hasIDs(c)
	return Position{
		Chunk: chunk, At: at,
		NLL: -c.Logprob, RefNLL: -b.Logprob, Rank: c.Rank, RefRank: b.Rank,
		KL:   bound(masses(b, byID), masses(c, byID)),
		Seen: within(c), RefSeen: within(b), Same: likeliest(b, c, byID),
	}
}

// likeliest says whether one of the tokens that are as likely as any to one side is
// so to the other.
func likeliest(b, c *chat.Token, byID bool) bool {
	for _, x := range b.Top {
		if x.Logprob < b.Top[0].Logprob {
			break
		}
		for _, y := range c.Top {
			if y.Logprob < c.Top[0].Logprob {
				break
			}
			if byID && x.ID == y.ID || !byID && x.Text == y.Text {
				return true
			}
		}
	}
	return false
}

func sameTokens(text int, b, c []chat.Token) error {
	for i := range min(len(b), len(c)) {
		x, y := &b[i], &c[i]
		if x.ID >= 0 && y.ID >= 0 {
			if x.ID != y.ID {
				return &MisalignedError{Text: text, At: i, Here: fmt.Sprintf("id %d", y.ID), There: fmt.Sprintf("id %d", x.ID)}
			}
		} else if x.Text != y.Text && x.Text != "" && y.Text != "" {
			return &MisalignedError{Text: text, At: i, Here: fmt.Sprintf("%q", y.Text), There: fmt.Sprintf("%q", x.Text)}
		}
	}
	if len(b) != len(c) {
		return &MisalignedError{Text: text, At: min(len(b), len(c)), Here: fmt.Sprintf("the end (%d tokens)", len(c)), There: fmt.Sprintf("one of %d tokens", len(b))}
	}
	return nil
}

// cluster gathers values text by text.
type cluster struct {
	values [][]float64
}

func (c *cluster) next()         { c.values = append(c.values, nil) }
func (c *cluster) add(v float64) { k := &c.values[len(c.values)-1]; *k = append(*k, v) }

func (c *cluster) n() int {
	n := 0
	for _, k := range c.values {
		n += len(k)
	}
	return n
}

// mean is that over all values, with its standard error over texts: with d the sum of
// a text's n values, N values in all, m their mean and r = d − m·n, se² =
// C/(C−1)·Σ (r − r̄)²/N² over the C texts that have values, as yardstick.Analyze has
// it. Of a single text each value is taken for a text.
func (c *cluster) mean() (mean, se float64) {
	var texts [][]float64
	sum, n := 0.0, 0
	for _, k := range c.values {
		if len(k) == 0 {
			continue
		}
		texts = append(texts, k)
		for _, v := range k {
			sum += v
		}
		n += len(k)
	}
	mean = sum / float64(n)
	if len(texts) == 1 {
		one := texts[0]
		texts = nil
		for i := range one {
			texts = append(texts, one[i:i+1])
		}
	}
	if len(texts) < 2 {
		return mean, 0
	}
	var s, s2 float64
	for _, k := range texts {
		r := -mean * float64(len(k))
		for _, v := range k {
			r += v
		}
		s += r
		s2 += r * r
	}
	count := float64(len(texts))
	return mean, math.Sqrt(count/(count-1)*max(s2-s*s/count, 0)) / float64(n)
}
