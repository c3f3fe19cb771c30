package serve

import (
	"encoding/json"
	"math"
	"net/http"
	"time"

	"quantscope/analysis/gates/chat"
)

// chatRequest is what was asked of chat completions.
type chatRequest struct {
	common
	logprobs bool // tell those of tokens that are made
	top      int  // and of so many of the likeliest
	single   bool // only the first call counts: parallel_tool_calls is false
}

// chatRequest takes all parameters, and refuses those that are not done.
func (b *body) chatRequest() (*chatRequest, *apiError) {
	q := &chatRequest{common: b.common()}
	q.Messages, q.Tools = b.messages(), b.tools()
	if n, ok := b.whole("max_completion_tokens", 0, math.MaxInt32); ok {
		q.max = n
	}
	q.logprobs = b.flag("logprobs", false)
	if n, ok := b.whole("top_logprobs", 0, maxTop); ok {
		if q.top = n; n > 0 && !q.logprobs {
			b.fail(bad("top_logprobs", "top_logprobs go with logprobs, which is not true"))
		}
	}
	q.single = !b.flag("parallel_tool_calls", true)
	q.TemplateArgs, _ = take[map[string]any](b, "chat_template_kwargs", "an object")
	if q.max == 0 && q.PromptLogprobs == 0 {
		b.fail(bad("max_tokens", "max_tokens is 0: want at least 1, or prompt_logprobs"))
	}
	if q.logprobs || q.ids {
		q.Logprobs = max(q.top, 1)
	}
	return q, b.end(neutralChat)
}

// split is a request for each answer. Seeds are one apart, as in vLLM.
func (c *common) split(r chat.Request) []chat.Request {
	var out []chat.Request
	for i := range c.n {
		one := r
		if r.Seed != nil {
			seed := *r.Seed + uint64(i)
			one.Seed = &seed
		}
		if i > 0 && r.MaxTokens > 0 { // all have the same prompt
			one.PromptLogprobs = 0
		}
		out = append(out, one)
	}
	return out
}

type chatDocument struct {
	ID             string                 `json:"id"`
	Object         string                 `json:"object"`
	Created        int64                  `json:"created"`
	Model          string                 `json:"model"`
	Choices        []chatChoice           `json:"choices"`
	Usage          *usage                 `json:"usage"`
	Fingerprint    string                 `json:"system_fingerprint"`
	PromptLogprobs []map[string]promptAlt `json:"prompt_logprobs,omitempty"`
	PromptIDs      []int32                `json:"prompt_token_ids,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  chatMessage   `json:"message"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
	IDs      []int32       `json:"token_ids,omitempty"`
}

type chatMessage struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []wireCall `json:"tool_calls,omitempty"`
}

type chatChunk struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	Created     int64           `json:"created"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"`
	Choices     []chunkChoice   `json:"choices"`
	Usage       json.RawMessage `json:"usage,omitempty"`
	PromptIDs   []int32         `json:"prompt_token_ids,omitempty"`
}

type chunkChoice struct {
	Index    int           `json:"index"`
	Delta    chunkDelta    `json:"delta"`
	Logprobs *chatLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
	IDs      []int32       `json:"token_ids,omitempty"`
}

type chunkDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []wireCall `json:"tool_calls,omitempty"`
}

// chatCompletions is POST /v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) *apiError {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	q, err := b.chatRequest()
	if err != nil {
		return err
	}
	head, err := s.head(r, &q.common, "chatcmpl-")
	if err != nil {
		return err
	}
	ids, room, err := s.room(&q.Request)
	if err != nil {
		err.Param = "messages"
		return err
	}
	if q.MaxTokens = q.max; q.max < 0 {
		q.MaxTokens = max(room, 1)
	}
	if err := s.admit(q.n); err != nil {
		return err
	}
	requests := q.split(q.Request)
	if err := alternatives(requests, func(int) []int32 { return ids }); err != nil {
		return err
	}
	if q.Stream {
		return s.stream(w, r, requests, q.n, q.usage, q.form(head, ids))
	}
	replies, u, err := s.replies(w, r, requests, q.n)
	if err != nil || replies == nil {
		return err
	}
	s.answer(w, http.StatusOK, q.document(head, ids, replies, u))
	return nil
}

// document is the whole answer.
func (q *chatRequest) document(head head, ids []int32, replies []chat.Reply, u *usage) *chatDocument {
	d := &chatDocument{ID: head.id, Object: "chat.completion", Created: head.created, Model: head.model, Usage: u, Fingerprint: head.fingerprint}
	if q.ids {
		d.PromptIDs = ids
	}
	if q.PromptLogprobs > 0 {
		d.PromptLogprobs = promptLogprobs(replies[0].Prompt, q.onlyOwn)
	}
	for i := range replies {
		reply := &replies[i]
		calls := q.calls(reply.ToolCalls)
		m := chatMessage{Role: chat.Assistant, Content: &reply.Text, Reasoning: reply.Reasoning}
		if len(calls) > 0 && reply.Text == "" {
			m.Content = nil
		}
		for _, c := range calls {
			m.Calls = append(m.Calls, wireCall{ID: callID(c.ID), Type: "function", Function: wireFunction{c.Name, c.Arguments}})
		}
		choice := chatChoice{Index: i, Message: m, Finish: finish(reply)}
		if q.logprobs {
			choice.Logprobs = tokenNames(q.named).chatLogprobs(reply.Tokens, q.top)
		}
		if q.ids {
			choice.IDs = tokenIDs(reply.Tokens)
		}
		d.Choices = append(d.Choices, choice)
	}
	return d
}

// calls are those that count.
func (q *chatRequest) calls(all []chat.ToolCall) []chat.ToolCall {
	if q.single && len(all) > 1 {
		return all[:1]
	}
	return all
}

// finish is why an answer ended, null where nobody knows.
func finish(r *chat.Reply) *string {
	if r.Finish == "" {
		return nil
	}
	return &r.Finish
}

func callID(id string) string {
	if id == "" {
		return newID("call_")
	}
	return id
}

// head is what all documents of one request begin with.
type head struct {
	id, model, fingerprint string
	created                int64
}

// head checks the name that is asked for.
func (s *Server) head(r *http.Request, c *common, prefix string) (head, *apiError) {
	name, err := s.named(r.Context(), c.model)
	if err != nil {
		return head{}, err
	}
	print, err := s.fingerprint(r.Context())
	return head{id: newID(prefix), model: name, fingerprint: print, created: time.Now().Unix()}, err
}

// form writes the chunks of a streamed chat completion: who speaks first, then pieces
// of text and calls, why it ended, and the usage where it is asked for.
func (q *chatRequest) form(head head, ids []int32) form {
	chunk := func(i int, d chunkDelta, tokens []chat.Token, why *string) *chatChunk {
		c := &chatChunk{
			ID: head.id, Object: "chat.completion.chunk", Created: head.created, Model: head.model, Fingerprint: head.fingerprint,
			Choices: []chunkChoice{{Index: i, Delta: d, Finish: why}},
		}
		if q.logprobs && len(tokens) > 0 {
			c.Choices[0].Logprobs = tokenNames(q.named).chatLogprobs(tokens, q.top)
		}
		if q.ids && len(tokens) > 0 {
			c.Choices[0].IDs = tokenIDs(tokens)
		}
		if q.usage {
			c.Usage = json.RawMessage("null")
		}
		return c
	}
	made := make([]int, q.n) // calls of each answer
	var f form
	f.open = func(i int) any {
		empty := ""
		c := chunk(i, chunkDelta{Role: chat.Assistant, Content: &empty}, nil, nil)
		if q.ids && i == 0 {
			c.PromptIDs = ids
		}
		return c
	}
	f.piece = func(i int, d chat.Delta) (out []any) {
		if d.Text != "" || d.Reasoning != "" || len(d.Tokens) > 0 && (q.logprobs || q.ids) {
			out = append(out, chunk(i, chunkDelta{Content: &d.Text, Reasoning: d.Reasoning}, d.Tokens, nil))
		}
		for _, call := range d.ToolCalls {
			at := made[i]
			if made[i]++; q.single && at > 0 {
				continue
			}
			out = append(out,
				chunk(i, chunkDelta{Calls: []wireCall{{Index: &at, ID: callID(call.ID), Type: "function", Function: wireFunction{Name: call.Name}}}}, nil, nil),
				chunk(i, chunkDelta{Calls: []wireCall{{Index: &at, Function: wireFunction{Arguments: call.Arguments}}}}, nil, nil))
		}
		return out
	}
	f.finish = func(i int, r *chat.Reply) any { return chunk(i, chunkDelta{}, nil, finish(r)) }
	f.usage = func(text json.RawMessage) any {
		c := chunk(0, chunkDelta{}, nil, nil)
		c.Choices, c.Usage = []chunkChoice{}, text
		return c
	}
	return f
}
