package gates

import (
	"context"
	"errors"
	"fmt"
	"math"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/through"
)

// Bounds of log probabilities that can be right.
const (
	// worstMedianRank: of the true next token. A language model has it first in most
	// places of rankText (the embedded one, of 1,024 tokens, has the median 1); log
	// probabilities of the place before or after have it among hundreds (142 and 234).
	// It is below rankTop, so that ranks need not be told.
	worstMedianRank = 16
	// resentNats: mean distance between the log probabilities of tokens as they were
	// made and as the same text has them as a prompt. Only rounding lies between the
	// two ways; see roundingNats, which is of the largest.
	resentNats = 0.15
	// leastCompared tokens say something about either.
	leastCompared = 8
	rankTop       = 20
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
	if errors.Is(err, chat.ErrOtherTokens) {
		e.add(CheckRank, CheckFailed, nil, "log probabilities of a prompt cannot be right: %v", err)
		return nil
	}
	if err != nil || len(reply.Prompt) == 0 {
		e.add(CheckRank, CheckUnknown, nil, "log probabilities of a prompt are not told%s", because(err))
		return nil
	}
	x := through.Examine(&through.Said{Texts: [][]chat.Token{reply.Prompt}, Top: rankTop})
	f := map[string]float64{"positions": float64(x.Positions), "median_rank": x.MedianRank, "likeliest": float64(x.Own)}
	why := x.Reason()
	if why == "" && x.MedianRank > worstMedianRank {
		why = fmt.Sprintf("the true next token has the median rank %g on a well-known text, beyond %d", x.MedianRank, worstMedianRank)
	}
	switch {
	case x.Positions < leastCompared:
		e.add(CheckRank, CheckUnknown, f, "log probabilities of only %d tokens of a prompt are told, with their likeliest", x.Positions)
		return nil
	case why != "":
		e.add(CheckRank, CheckFailed, f, "log probabilities of a prompt cannot be right: %s", why)
		return nil
	}
	text := fmt.Sprintf("the true next token has the median rank %g on %d tokens of a well-known text", x.MedianRank, x.Positions)
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
	e.resent(text, f, &sums)
	return nil
}

// resent judges what tokens got as they were made and as part of a prompt.
func (e *exam) resent(text string, f map[string]float64, sums *resent) {
	n, d, before := len(sums.own), mean(sums.own), mean(sums.shifted)
	f["resent"], f["resent_difference"], f["resent_shifted"] = float64(n), d, before
	differ := fmt.Sprintf("%s; of %d tokens that it makes they differ by %.2g nats in the mean from those of the same text as a prompt", text, n, d)
	switch {
	case n < leastCompared:
		e.add(CheckRank, CheckUnknown, f, "%s; only %d tokens that it makes are found again in the same text as a prompt", text, n)
	case d > resentNats && before < d/2:
		e.add(CheckRank, CheckFailed, f, "%s, and by %.2g from those of the token before: they are shifted by one", differ, before)
	case d > resentNats:
		e.add(CheckRank, CheckFailed, f, "%s, where only rounding should lie between: they are not those of the tokens", differ)
	default:
		e.add(CheckRank, CheckPassed, f, "%s", differ)
	}
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
