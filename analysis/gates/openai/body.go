package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/gates/chat"
)

// fields of a request's body.
type fields map[string]any

// asked is a request as it is sent.
type asked struct {
	chat   bool // to chat/completions, else to completions
	stream bool
	echo   bool // the prompt's log probabilities are asked for as an echo
	ids    []int32
	drop   bool // what is made is not wanted: a server that must make a token makes one
	body   fields
}

func (a *asked) path() string {
	if a.chat {
		return "/v1/chat/completions"
	}
	return "/v1/completions"
}

func (c *Client) unsupported(what string) error {
	return c.fail(chat.Refused, 0, what, chat.ErrUnsupported)
}

// compose makes a body of a request, as the engine wants it. What a request leaves
// open is sent in words where engines have defaults of their own (a generation
// config, a chain of samplers), so that 0 means the same everywhere.
func (c *Client) compose(r chat.Request) (*asked, error) {
	a := &asked{stream: r.Stream, body: fields{"model": c.server.model, "temperature": r.Temperature}}
	if err := c.prompt(a, r); err != nil {
		return nil, err
	}
	switch {
	case r.MaxTokens < 0:
		return nil, c.fail(chat.Refused, 0, fmt.Sprintf("max_tokens is %d", r.MaxTokens), nil)
	case r.MaxTokens == 0 && r.PromptLogprobs == 0:
		return nil, c.fail(chat.Refused, 0, "max_tokens is 0 and no log probabilities of the prompt are asked for", nil)
	}
	c.sampling(a.body, r)
	if err := c.logprobs(a, r); err != nil {
		return nil, err
	}
	made := r.MaxTokens
	if made == 0 && !a.echo {
		a.drop = true
		if c.server.engine != quantscope {
			made = 1
		}
	}
	a.body["max_tokens"] = made
	if a.stream {
		a.body["stream"] = true
		a.body["stream_options"] = fields{"include_usage": true}
	}
	return a, nil
}

func (c *Client) prompt(a *asked, r chat.Request) error {
	given := 0
	for _, is := range []bool{r.Messages != nil, r.Prompt != "", r.Tokens != nil} {
		if is {
			given++
		}
	}
	if given > 1 || len(r.Messages) == 0 && r.Prompt == "" && len(r.Tokens) == 0 {
		return c.fail(chat.Refused, 0, "exactly one of messages, prompt and tokens is asked with", nil)
	}
	engine := c.server.engine
	switch {
	case len(r.Messages) > 0:
		a.chat = true
		a.body["messages"] = messages(r.Messages)
		if len(r.TemplateArgs) > 0 {
			a.body["chat_template_kwargs"] = r.TemplateArgs
		}
		return c.tools(a.body, r.Tools)
	case len(r.Tools) > 0:
		return c.fail(chat.Refused, 0, "tools are asked for with messages only", nil)
	case len(r.Tokens) > 0:
		if engine == "" {
			return c.unsupported("a prompt as token ids")
		}
		a.ids = r.Tokens
		a.body["prompt"] = r.Tokens
	default:
		a.body["prompt"] = r.Prompt
		if engine == vLLM || engine == quantscope {
			a.body["add_special_tokens"] = false
		}
	}
	return nil
}

func messages(ms []chat.Message) []fields {
	out := make([]fields, len(ms))
	for i, m := range ms {
		f := fields{"role": m.Role, "content": m.Content}
		if m.Reasoning != "" {
			f["reasoning_content"] = m.Reasoning
		}
		if len(m.ToolCalls) > 0 {
			calls := make([]fields, len(m.ToolCalls))
			for j, t := range m.ToolCalls {
				id := t.ID
				if id == "" {
					id = fmt.Sprintf("call_%d_%d", i, j)
				}
				calls[j] = fields{"id": id, "type": "function", "function": fields{"name": t.Name, "arguments": t.Arguments}}
			}
			f["tool_calls"] = calls
			if m.Content == "" {
				f["content"] = nil
			}
		}
		if m.ToolCallID != "" {
			f["tool_call_id"] = m.ToolCallID
		}
		if m.Name != "" {
			f["name"] = m.Name
		}
		out[i] = f
	}
	return out
}

func (c *Client) tools(body fields, ts []chat.Tool) error {
	if len(ts) == 0 {
		return nil
	}
	out := make([]fields, len(ts))
	for i, t := range ts {
		f := fields{"name": t.Name}
		if t.Description != "" {
			f["description"] = t.Description
		}
		if len(t.Parameters) > 0 {
			if !json.Valid(t.Parameters) {
				return c.fail(chat.Refused, 0, fmt.Sprintf("tool %q: its parameters are no JSON", line(t.Name)), nil)
			}
			f["parameters"] = t.Parameters
		}
		out[i] = fields{"type": "function", "function": f}
	}
	body["tools"] = out
	if c.server.engine == vLLM {
		body["skip_special_tokens"] = false // else the marks of calls that nobody takes out are gone
	}
	return nil
}

func (c *Client) sampling(body fields, r chat.Request) {
	engine := c.server.engine
	if r.TopP > 0 {
		body["top_p"] = r.TopP
	}
	if r.TopK > 0 {
		body["top_k"] = r.TopK
	}
	neutral := func(name string, v any) {
		if _, ok := body[name]; !ok {
			body[name] = v
		}
	}
	switch engine {
	case vLLM, sgLang: // −1 is all to older ones too, to which 0 is an error
		neutral("top_p", 1)
		neutral("top_k", -1)
		neutral("min_p", 0)
		neutral("repetition_penalty", 1)
	case llamaCpp:
		neutral("top_p", 1)
		neutral("top_k", 0)
		neutral("min_p", 0)
		neutral("repeat_penalty", 1)
	}
	if r.Seed != nil {
		// Engines take seeds of other widths; 2³²−1 asks llama.cpp for a random one.
		s := *r.Seed & math.MaxInt64
		if engine == llamaCpp {
			s = *r.Seed % math.MaxUint32
		}
		body["seed"] = s
	}
	if len(r.Stop) > 0 {
		body["stop"] = r.Stop
	}
	if r.IgnoreEOS {
		body["ignore_eos"] = true
	}
}

// logprobs asks for log probabilities: of what is made in the form of the endpoint,
// of the prompt as vLLM has them, or as an echo where an engine does not.
func (c *Client) logprobs(a *asked, r chat.Request) error {
	engine := c.server.engine
	if r.Logprobs > 0 {
		if a.chat {
			a.body["logprobs"] = true
			a.body["top_logprobs"] = r.Logprobs
		} else {
			a.body["logprobs"] = r.Logprobs
		}
	}
	keyed := engine == vLLM || engine == quantscope
	if keyed && r.Logprobs+r.PromptLogprobs > 0 {
		a.body["return_token_ids"] = true
	}
	if keyed && r.Logprobs > 0 {
		a.body["return_tokens_as_token_ids"] = true // texts of parts of a character are all alike
	}
	if r.PromptLogprobs <= 0 {
		return nil
	}
	a.stream = false // they come with whole answers only
	switch {
	case keyed:
		a.body["prompt_logprobs"] = r.PromptLogprobs
	case a.chat:
		return c.unsupported("log probabilities of a prompt of messages")
	case engine == llamaCpp:
		return c.unsupported("log probabilities of a prompt")
	default:
		a.echo = true
		a.body["echo"] = true
		a.body["logprobs"] = max(r.Logprobs, r.PromptLogprobs)
	}
	return nil
}

// encode is the body in JSON. Text that is no UTF-8, of an earlier answer, gets
// U+FFFD in it: no server takes anything else.
func (c *Client) encode(f fields) ([]byte, error) {
	c.mu.Lock()
	q := c.quirks
	c.mu.Unlock()
	if n, ok := f["max_tokens"]; ok && q.completion && f["messages"] != nil {
		delete(f, "max_tokens")
		f["max_completion_tokens"] = n
	}
	if q.noAuto && f["tools"] != nil {
		f["tool_choice"] = "none"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, c.fail(chat.Refused, 0, "the request is no JSON", err)
	}
	return b.Bytes(), nil
}

// learn takes a server's error for what it wants otherwise, and says whether there
// was something to learn.
func (c *Client) learn(a *asked, err *chat.Error) bool {
	if err.Code != 400 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := err.Reason; {
	case a.chat && a.body["max_tokens"] != nil && strings.Contains(m, "max_completion_tokens"):
		c.quirks.completion = true
	case a.body["tools"] != nil && a.body["tool_choice"] == nil && strings.Contains(m, "tool choice requires"):
		c.quirks.noAuto = true
	default:
		return false
	}
	return true
}

// same says whether an answer that names a model is one of the model that was asked
// for: by a name that the server lists for it, or by one with a date behind it.
func (s *served) same(name string) bool {
	if name == "" {
		return true
	}
	for _, n := range s.names {
		if n == "" {
			continue
		}
		rest, ok := strings.CutPrefix(name, n)
		if ok && (rest == "" || len(rest) > 1 && rest[0] == '-' && strings.Trim(rest, "-0123456789") == "") {
			return true
		}
	}
	return false
}
