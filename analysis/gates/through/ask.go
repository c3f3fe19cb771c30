package through

import (
	"context"
	"errors"
	"fmt"
	"math"

	"quantscope/analysis/gates/chat"
)

const defaultTop = 20

// Ask asks a target for the log probabilities of texts, given as ids, or as text
// where it takes no ids and Options.Text is there. A target that tells none is an
// error that wraps chat.ErrUnsupported; one whose tokens are not those that were
// sent is a *MisalignedError.
func Ask(ctx context.Context, t chat.Target, texts [][]int32, o Options) (*Said, error) {
	top := o.Top
	if top <= 0 {
		top = defaultTop
	}
	s := &Said{Texts: make([][]chat.Token, len(texts)), Top: top}
	some := false
	asText := false
	for i, ids := range texts {
		if len(ids) < 2 {
			return nil, fmt.Errorf("text %d has %d tokens, and the first has no log probability", i, len(ids))
		}
		if !asText {
			said, err := ask(ctx, t, chat.Request{Tokens: ids, PromptLogprobs: top})
			if asText = errors.Is(err, chat.ErrUnsupported) && o.Text != nil; err != nil && !asText {
				return nil, fmt.Errorf("text %d: %w", i, err)
			}
			s.Texts[i] = said
		}
		if asText {
			said, err := ask(ctx, t, chat.Request{Prompt: o.Text(ids), PromptLogprobs: top})
			if err != nil {
				return nil, fmt.Errorf("text %d: %w", i, err)
			}
			s.Texts[i] = said
		}
		if err := aligned(i, s.Texts[i], ids, asText); err != nil {
			return nil, err
		}
		if err := complete(i, s.Texts[i]); err != nil {
			return nil, err
		}
		some = some || len(s.Texts[i]) > 1
		if o.Progress != nil {
			o.Progress(i+1, len(texts))
		}
	}
	if !some {
		return nil, errors.New("no text has a position with a log probability")
	}
	return s, nil
}

func ask(ctx context.Context, t chat.Target, r chat.Request) ([]chat.Token, error) {
	reply, err := t.Ask(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	if len(reply.Prompt) == 0 {
		return nil, fmt.Errorf("log probabilities of a prompt: none came, %w", chat.ErrUnsupported)
	}
	return reply.Prompt, nil
}

// complete says whether all is told of a text. The first token has nothing before it,
// so what is told of it does not count.
func complete(text int, said []chat.Token) error {
	for i := range said {
		p := &said[i]
		switch {
		case i == 0:
			p.Known, p.Logprob, p.Rank, p.Top = false, 0, 0, nil
		case !p.Known || math.IsNaN(p.Logprob):
			return fmt.Errorf("text %d, token %d: its log probability is not told", text, i)
		case len(p.Top) == 0:
			return fmt.Errorf("text %d, token %d: its likeliest are not told", text, i)
		}
	}
	return nil
}

// MisalignedError says where the tokens of two sides differ.
type MisalignedError struct {
	Text, At    int    // At: a token's place, or the count of tokens where that differs
	Here, There string // what is there on either side
}

func (e *MisalignedError) Error() string {
	return fmt.Sprintf("text %d: %s at token %d where %s is expected: the texts are not cut the same way", e.Text, e.Here, e.At, e.There)
}

// aligned holds what a server said of a text against the ids that were meant. Of a
// text that was not sent as ids only the ids that are told can be held against it.
func aligned(text int, said []chat.Token, ids []int32, asText bool) error {
	told := true
	for _, p := range said {
		told = told && p.ID >= 0
	}
	if asText && !told {
		return nil
	}
	for i := range min(len(said), len(ids)) {
		if said[i].ID >= 0 && said[i].ID != ids[i] {
			return &MisalignedError{Text: text, At: i, Here: fmt.Sprintf("id %d", said[i].ID), There: fmt.Sprintf("id %d", ids[i])}
		}
	}
	if len(said) != len(ids) {
		return &MisalignedError{Text: text, At: min(len(said), len(ids)), Here: fmt.Sprintf("the end (%d tokens)", len(said)), There: fmt.Sprintf("one of %d tokens", len(ids))}
	}
	return nil
}
