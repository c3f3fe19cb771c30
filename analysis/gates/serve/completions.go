package serve

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
)

// defaultMax is how many tokens a text completion makes where nobody says, as OpenAI's.
const defaultMax = 16

// textRequest is what was asked of text completions.
type textRequest struct {
	common
	prompts  []chat.Request // each with Prompt or Tokens
	echo     bool
	bare     bool // nothing is put around texts that the tokenizer would put there
	logprobs int  // of so many of the likeliest beside the tokens' own; -1: none
}

// textRequest takes all parameters, and refuses those that are not done.
func (b *body) textRequest() (*textRequest, *apiError) {
	q := &textRequest{common: b.common(), logprobs: -1}
	q.prompts = b.prompts()
	q.echo = b.flag("echo", false)
	if n, ok := b.whole("logprobs", 0, maxTop); ok {
		q.logprobs = n
	}
	q.bare = !b.flag("add_special_tokens", true)
	switch {
	case len(q.prompts)*q.n > maxChoices:
		b.fail(bad("n", "%d prompts with %d answers each are too many: at most %d in all", len(q.prompts), q.n, maxChoices))
	case q.max == 0 && !q.echo && q.PromptLogprobs == 0:
		b.fail(bad("max_tokens", "max_tokens is 0: want at least 1, or echo or prompt_logprobs"))
	case q.echo && q.logprobs >= 0 && q.Stream:
		b.fail(bad("echo", "echo with logprobs is not streamed"))
	}
	return q, b.end(neutralText)
}

// prompts takes the prompt: a text, texts, ids, or lists of ids.
func (b *body) prompts() (out []chat.Request) {
	raw, ok := b.raw("prompt")
	if !ok {
		b.fail(bad("prompt", "prompt is missing"))
		return nil
	}
	var texts []string
	var lists [][]int32
	if text, ok := as[string](raw); ok {
		texts = []string{text}
	} else if list, ok := as[[]string](raw); ok {
		texts = list
	} else if ids, ok := as[[]int32](raw); ok {
		lists = [][]int32{ids}
	} else if lists, ok = as[[][]int32](raw); !ok {
		b.fail(bad("prompt", "prompt is neither a text, a list of texts, a list of ids nor a list of such"))
		return nil
	}
	for _, t := range texts {
		if t == "" {
			b.fail(bad("prompt", "a prompt is empty"))
		}
		out = append(out, chat.Request{Prompt: t})
	}
	for _, l := range lists {
		if len(l) == 0 {
			b.fail(bad("prompt", "a prompt has no ids"))
		}
		for _, id := range l {
			if id < 0 {
				b.fail(bad("prompt", "id %d is none", id))
				return nil
			}
		}
		out = append(out, chat.Request{Tokens: l})
	}
	if len(out) == 0 {
		b.fail(bad("prompt", "prompt is an empty list"))
	}
	return out
}

// as reads JSON of one type.
func as[T any](raw json.RawMessage) (v T, ok bool) {
	return v, json.Unmarshal(raw, &v) == nil
}

type textDocument struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	Created     int64           `json:"created"`
	Model       string          `json:"model"`
	Choices     []textChoice    `json:"choices"`
	Usage       json.RawMessage `json:"usage,omitempty"`
	Fingerprint string          `json:"system_fingerprint"`
}

type textChoice struct {
	Index          int                    `json:"index"`
	Text           string                 `json:"text"`
	Logprobs       *textLogprobs          `json:"logprobs"`
	Finish         *string                `json:"finish_reason"`
	IDs            []int32                `json:"token_ids,omitempty"`
	PromptLogprobs []map[string]promptAlt `json:"prompt_logprobs,omitempty"`
	PromptIDs      []int32                `json:"prompt_token_ids,omitempty"`
}

// completions is POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) *apiError {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	q, err := b.textRequest()
	if err != nil {
		return err
	}
	head, err := s.head(r, &q.common, "cmpl-")
	if err != nil {
		return err
	}
	var requests []chat.Request
	var ids [][]int32
	for i := range q.prompts {
		one, its, err := s.textPrompt(r, q, q.prompts[i])
		if err != nil {
			return err
		}
		requests = append(requests, q.split(one)...)
		ids = append(ids, its)
	}
	if err := alternatives(requests, func(i int) []int32 { return ids[i/q.n] }); err != nil {
		return err
	}
	if err := s.admit(len(requests)); err != nil {
		return err
	}
	if q.Stream {
		return s.stream(w, r, requests, q.n, q.usage, q.form(head, s.echoes(q), ids))
	}
	replies, u, err := s.replies(w, r, requests, q.n)
	if err != nil || replies == nil {
		return err
	}
	d := &textDocument{ID: head.id, Object: "text_completion", Created: head.created, Model: head.model, Fingerprint: head.fingerprint}
	echoes := s.echoes(q)
	for i := range replies {
		first := &replies[i/q.n*q.n]
		d.Choices = append(d.Choices, q.choice(i, &replies[i], first.Prompt, echoes[i/q.n], ids[i/q.n]))
	}
	var fail error
	if d.Usage, fail = encode(u); fail != nil {
		return asError(fail)
	}
	s.answer(w, http.StatusOK, d)
	return nil
}

// textPrompt is what the engine is asked of one prompt.
func (s *Server) textPrompt(r *http.Request, q *textRequest, prompt chat.Request) (chat.Request, []int32, *apiError) {
	one := q.Request
	one.Prompt, one.Tokens = prompt.Prompt, prompt.Tokens
	if q.bare && prompt.Tokens == nil {
		ids, err := s.engine.Tokenize(r.Context(), prompt.Prompt)
		if err != nil {
			return one, nil, asError(err)
		}
		one.Prompt, one.Tokens = "", ids
	}
	ids, room, err := s.room(&one)
	if err != nil {
		err.Param = "prompt"
		return one, nil, err
	}
	if one.MaxTokens = q.max; q.max < 0 {
		one.MaxTokens = min(max(room, 1), defaultMax)
	}
	if q.logprobs >= 0 || q.ids {
		one.Logprobs = max(q.logprobs, 1)
	}
	if q.echo && q.logprobs >= 0 {
		one.PromptLogprobs = max(one.PromptLogprobs, q.logprobs, 1)
	}
	if one.MaxTokens == 0 { // an engine that makes nothing is asked for something of the prompt
		one.PromptLogprobs = max(one.PromptLogprobs, 1)
	}
	return one, ids, nil
}

// echoes are the texts of prompts, empty where they are not asked for.
func (s *Server) echoes(q *textRequest) []string {
	out := make([]string, len(q.prompts))
	for i, p := range q.prompts {
		switch {
		case !q.echo:
		case p.Tokens != nil:
			out[i] = s.engine.Detokenize(p.Tokens)
		default:
			out[i] = p.Prompt
		}
	}
	return out
}

// choice is one answer; prompt are the tokens of its prompt where they were asked for.
func (q *textRequest) choice(i int, r *chat.Reply, prompt []chat.Token, echo string, ids []int32) textChoice {
	c := textChoice{Index: i, Text: echo + r.Text, Finish: finish(r)}
	if q.max == 0 {
		length := chat.FinishLength
		c.Text, c.Finish = echo, &length
	}
	if q.logprobs >= 0 {
		tokens := r.Tokens
		if q.echo {
			tokens = append(append([]chat.Token{}, prompt...), tokens...)
		}
		c.Logprobs = tokenNames(q.named).textLogprobs(tokens, q.logprobs, 0)
	}
	if q.PromptLogprobs > 0 {
		c.PromptLogprobs = promptLogprobs(trimmed(prompt, q.PromptLogprobs), q.onlyOwn)
	}
	if q.ids {
		c.IDs, c.PromptIDs = tokenIDs(r.Tokens), ids
	}
	return c
}

// trimmed are tokens with no more of the likeliest than were asked for.
func trimmed(tokens []chat.Token, top int) []chat.Token {
	out := make([]chat.Token, len(tokens))
	for i, t := range tokens {
		t.Top = t.Top[:min(top, len(t.Top))]
		out[i] = t
	}
	return out
}

// form writes the chunks of a streamed text completion.
func (q *textRequest) form(head head, echoes []string, ids [][]int32) form {
	chunk := func(choices ...textChoice) *textDocument {
		d := &textDocument{ID: head.id, Object: "text_completion", Created: head.created, Model: head.model, Fingerprint: head.fingerprint, Choices: choices}
		if q.usage {
			d.Usage = json.RawMessage("null")
		}
		return d
	}
	offsets := make([]int, len(q.prompts)*q.n) // characters sent of each answer
	var f form
	f.open = func(i int) any {
		c := textChoice{Index: i, Text: echoes[i/q.n]}
		if q.ids {
			c.PromptIDs = ids[i/q.n]
		}
		return chunk(c)
	}
	f.piece = func(i int, d chat.Delta) []any {
		if d.Text == "" && (len(d.Tokens) == 0 || q.logprobs < 0 && !q.ids) {
			return nil
		}
		c := textChoice{Index: i, Text: d.Text}
		if q.logprobs >= 0 && len(d.Tokens) > 0 {
			c.Logprobs = tokenNames(q.named).textLogprobs(d.Tokens, q.logprobs, offsets[i])
			for _, t := range d.Tokens {
				offsets[i] += utf8.RuneCountInString(t.Text)
			}
		}
		if q.ids {
			c.IDs = tokenIDs(d.Tokens)
		}
		return []any{chunk(c)}
	}
	f.finish = func(i int, r *chat.Reply) any {
		why := finish(r)
		if q.max == 0 {
			length := chat.FinishLength
			why = &length
		}
		return chunk(textChoice{Index: i, Finish: why})
	}
	f.usage = func(text json.RawMessage) any {
		d := chunk([]textChoice{}...)
		d.Choices, d.Usage = []textChoice{}, text
		return d
	}
	if !q.echo && !q.ids { // OpenAI's begin with the first text
		f.open = nil
	}
	return f
}
