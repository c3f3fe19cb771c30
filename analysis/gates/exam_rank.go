package gates

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/stats"
)

// Bounds of log probabilities that can be right.
const (
	// worstMedianRank: of the true next token. A language model has it first in most
	// places of rankText (the embedded one, of 1,024 tokens, has the median 1); log
	// probabilities of the place before or after have it among hundreds (142 and 234).
	worstMedianRank = 16
	// resentNats: mean distance between the log probabilities of tokens as they were
	// made and as the same text has them as a prompt. Only rounding lies between the
	// two ways; see roundingNats, which is of the largest.
	resentNats = 0.15
	// leastCompared tokens say something about either.
	leastCompared = 8
	rankTop       = 5
	resentTokens  = 32
)

// rankText is what prompt log probabilities are asked for: the beginning of the
// Universal Declaration of Human Rights, which every language model has read.
const rankText = "All human beings are born free and equal in dignity and rights. They are endowed with reason and " +
	"conscience and should act towards one another in a spirit of brotherhood. Everyone is entitled to all the rights " +
	"and freedoms set forth in this Declaration, without distinction of any kind, such as race, colour, sex, language, " +
	"religion, political or other opinion, national or social origin, property, birth or other status. Everyone has " +
	"the right to life, liberty and security of person."

// resentPrompts are begun texts, each with the temperature at which it goes on: the
// likeliest tokens, and ones that are not.
func resentPrompts() []begun {
	return []begun{
		{"In the beginning there was a small house near the sea, and in it", 0},
		{"The old man took the letter, read it twice and said to his son that", 1},
	}
}

type begun struct {
	text        string
	temperature float64
}

// rank looks whether log probabilities can be right: those of a fixed text, and
// those of what the arm makes against the same text as a prompt, which a server that
// drafts tokens may mix up.
func (e *exam) rank(ctx context.Context) error {
	reply, err, stop := e.once(ctx, chat.Request{Prompt: rankText, PromptLogprobs: rankTop})
	if stop != nil {
		return stop
	}
	if err != nil || len(reply.Prompt) == 0 {
		e.add(CheckRank, CheckUnknown, nil, "log probabilities of a prompt are not told%s", because(err))
		return nil
	}
	p := placesOf(reply.Prompt)
	f := map[string]float64{"positions": float64(p.n), "median_rank": p.median, "own_in_top": p.own, "before_in_top": p.before, "after_in_top": p.after}
	if state, text := p.judge(); state != CheckPassed {
		e.add(CheckRank, state, f, "%s", text)
		return nil
	}
	state, text := p.judge()
	var sums resent
	for _, p := range resentPrompts() {
		stop, err := e.resend(ctx, p, &sums)
		if stop != nil {
			return stop
		}
		if err != nil {
			e.add(CheckRank, CheckUnknown, f, "%s; those of tokens that it makes cannot be held against it: %v", text, err)
			return nil
		}
	}
	f["resent"], f["resent_difference"], f["resent_shifted"] = float64(len(sums.own)), mean(sums.own), mean(sums.shifted)
	switch d := mean(sums.own); {
	case len(sums.own) < leastCompared:
		e.add(CheckRank, CheckUnknown, f, "%s; only %d tokens that it makes are found again in the same text as a prompt", text, len(sums.own))
	case d > resentNats && mean(sums.shifted) < d/2:
		e.add(CheckRank, CheckFailed, f, "%s; but of %d tokens that it makes they differ by %.3g nats in the mean from those of the same text as a prompt, and by %.3g from those of the token before: they are shifted by one", text, len(sums.own), d, mean(sums.shifted))
	case d > resentNats:
		e.add(CheckRank, CheckFailed, f, "%s; but of %d tokens that it makes they differ by %.3g nats in the mean from those of the same text as a prompt", text, len(sums.own), d)
	default:
		e.add(CheckRank, state, f, "%s; of %d tokens that it makes they differ by %.2g nats in the mean from those of the same text as a prompt", text, len(sums.own), d)
	}
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// resent are distances, in nats, of log probabilities of tokens as they were made from
// those of the same text as a prompt: of the same token, and of the one before it.
type resent struct{ own, shifted []float64 }

// resend has a text made and asks for it as a prompt.
func (e *exam) resend(ctx context.Context, p begun, sums *resent) (stop, err error) {
	seed := uint64(1)
	made, err, stop := e.once(ctx, chat.Request{Prompt: p.text, MaxTokens: resentTokens, Temperature: p.temperature, Seed: &seed, Logprobs: 1})
	if err != nil || stop != nil {
		return stop, err
	}
	if len(made.Tokens) == 0 || made.PromptTokens < 0 {
		return nil, errors.New("it does not tell them, or how many tokens the prompt had")
	}
	again, err, stop := e.once(ctx, e.whole(ctx, p.text, &made))
	if err != nil || stop != nil {
		return stop, err
	}
	for i := range made.Tokens {
		at := made.PromptTokens + i
		if at < 1 || at >= len(again.Prompt) || !sameToken(&made.Tokens[i], &again.Prompt[at]) {
			break
		}
		x, y, before := &made.Tokens[i], &again.Prompt[at], &again.Prompt[at-1]
		if x.Known && y.Known && before.Known {
			sums.own = append(sums.own, math.Abs(x.Logprob-y.Logprob))
			sums.shifted = append(sums.shifted, math.Abs(x.Logprob-before.Logprob))
		}
	}
	return nil, nil
}

// whole is a prompt and what was made of it as one prompt: as ids, where the arm tells
// them and cuts the prompt itself into as many as it counted, else as text.
func (e *exam) whole(ctx context.Context, prompt string, made *chat.Reply) chat.Request {
	text := chat.Request{Prompt: prompt + made.Text, PromptLogprobs: 1}
	cut, ok := e.t.(chat.Tokenizing)
	if !ok {
		return text
	}
	ids, err := cut.Tokenize(ctx, prompt)
	if err != nil || len(ids) != made.PromptTokens {
		return text
	}
	for _, t := range made.Tokens {
		if t.ID < 0 {
			return text
		}
		ids = append(ids, t.ID)
	}
	return chat.Request{Tokens: ids, PromptLogprobs: 1}
}

// places is what the log probabilities of a text look like.
type places struct {
	n                  int
	median             float64 // rank of the true next token; NaN where it cannot be seen
	least              bool    // median is a lower bound, as ranks are not told
	mass               float64 // largest sum of the probabilities of different tokens at one place
	above              float64 // largest log probability
	own, before, after float64 // share of places whose likeliest hold the token there, the one before, the one after
}

func placesOf(tokens []chat.Token) places {
	p := places{above: math.Inf(-1)}
	var ranks []float64
	var listed, own, before, after float64
	for i := range tokens {
		t := &tokens[i]
		if !t.Known {
			continue
		}
		p.n++
		p.above = max(p.above, t.Logprob)
		if len(t.Top) > 0 {
			var sum float64
			for _, a := range t.Top {
				sum += math.Exp(a.Logprob)
			}
			p.mass = max(p.mass, sum)
		}
		switch {
		case t.Rank > 0:
			ranks = append(ranks, float64(t.Rank))
		case len(t.Top) > 0:
			p.least = true
			rank := 1
			for _, a := range t.Top {
				if a.Logprob > t.Logprob {
					rank++
				}
			}
			ranks = append(ranks, float64(rank))
		}
		if len(t.Top) > 0 && i > 0 && i+1 < len(tokens) {
			listed++
			own += among(t.Top, t)
			before += among(t.Top, &tokens[i-1])
			after += among(t.Top, &tokens[i+1])
		}
	}
	slices.Sort(ranks)
	p.median = stats.Quantile(ranks, 0.5)
	p.own, p.before, p.after = own/listed, before/listed, after/listed
	return p
}

// among is 1 where a token is one of the likeliest, else 0.
func among(top []chat.Alt, t *chat.Token) float64 {
	for _, a := range top {
		if a.ID >= 0 && t.ID >= 0 && a.ID == t.ID || (a.ID < 0 || t.ID < 0) && a.Text == t.Text {
			return 1
		}
	}
	return 0
}

// judge says whether they can be a language model's.
func (p *places) judge() (CheckState, string) {
	switch {
	case p.n < leastCompared:
		return CheckUnknown, fmt.Sprintf("log probabilities of only %d tokens of a prompt are told", p.n)
	case p.above > 1e-6:
		return CheckFailed, fmt.Sprintf("a log probability of a prompt is %+.3g, above 0", p.above)
	case p.mass > 1.001:
		return CheckFailed, fmt.Sprintf("probabilities at one place of a prompt sum to %.4g", p.mass)
	case p.before > p.own+0.2:
		return CheckFailed, fmt.Sprintf("log probabilities of a prompt are shifted by one: the likeliest hold the token before in %.0f %%, the token itself in %.0f %%", 100*p.before, 100*p.own)
	case p.after > p.own+0.2:
		return CheckFailed, fmt.Sprintf("log probabilities of a prompt are shifted by one: the likeliest hold the token after in %.0f %%, the token itself in %.0f %%", 100*p.after, 100*p.own)
	case math.IsNaN(p.median):
		return CheckUnknown, fmt.Sprintf("ranks of the %d tokens of a prompt are not told", p.n)
	case p.median > worstMedianRank:
		return CheckFailed, fmt.Sprintf("the true next token has the median rank %g on %d tokens of a well-known text, beyond %d: log probabilities are not of this text", p.median, p.n, worstMedianRank)
	case p.least && p.own < 0.5:
		return CheckFailed, fmt.Sprintf("the true next token is among the likeliest told in only %.0f %% of %d tokens of a well-known text: log probabilities are not of this text", 100*p.own, p.n)
	}
	return CheckPassed, fmt.Sprintf("the true next token has the median rank %s on %d tokens of a well-known text", strings.TrimSuffix(fmt.Sprintf("%.1f", p.median), ".0"), p.n)
}
