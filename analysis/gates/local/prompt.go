package local

import (
	"slices"

	"quantscope/analysis/gates/chat"
)

// PromptIDs are the tokens that a request's answer goes on from.
func (e *Engine) PromptIDs(r chat.Request) ([]int32, error) {
	switch {
	case r.Messages != nil:
		text, err := e.Render(r.Messages, r.Tools, r.TemplateArgs)
		if err != nil {
			return nil, &chat.Error{At: e.c.Path, Kind: chat.Refused, Reason: "the messages have no prompt", Err: err}
		}
		return e.tok.Encode(text, false), nil
	case r.Tokens != nil:
		for i, id := range r.Tokens {
			if id < 0 || int(id) >= e.c.Arch.Vocab {
				return nil, e.refused("token %d at position %d is outside the vocabulary of %d", id, i, e.c.Arch.Vocab)
			}
		}
		return slices.Clone(r.Tokens), nil
	}
	return e.tok.Encode(r.Prompt, true), nil
}

// Fits is how many tokens a prompt and its answer may have together: those that the
// model has positions for and whose keys and values fit the memory.
func (e *Engine) Fits() int {
	n := int64(e.o.MaxTokens)
	if e.perToken > 0 {
		n = min(n, (e.o.Mem-e.perText)/e.perToken-int64(min(e.o.Speculate, 1)))
	}
	return max(int(n), 0)
}
