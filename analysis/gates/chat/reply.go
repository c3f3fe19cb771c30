package chat

import "time"

// Ways in which an answer ended, as servers name them. "" is one that was not told.
const (
	FinishStop   = "stop"
	FinishLength = "length" // at MaxTokens: it is truncated
	FinishTools  = "tool_calls"
)

// Reply is what came back. Counts that were not told are -1.
type Reply struct {
	Text      string     `json:"text"` // the content, byte for byte; a tool call that the server did not take out is in it
	Reasoning string     `json:"reasoning,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	Finish    string     `json:"finish,omitempty"`

	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	CachedTokens     int `json:"cached_tokens"` // of the prompt, that were not computed again

	Tokens []Token `json:"tokens,omitempty"` // that were made, where logprobs were asked for or the server told ids
	Prompt []Token `json:"prompt,omitempty"` // of the prompt, where asked for; the first has no log probability (NaN is left out: Known is false)

	Drafts *Drafts `json:"drafts,omitempty"` // nil where nothing is drafted, or not told of this answer

	Model       string `json:"model,omitempty"`       // that the answer names
	Fingerprint string `json:"fingerprint,omitempty"` // system_fingerprint
	Invalid     int    `json:"invalid,omitempty"`     // bytes that are no UTF-8
	Retries     int    `json:"retries,omitempty"`

	First time.Duration `json:"first_ns"` // until the first token came; 0: not known
	Total time.Duration `json:"total_ns"`
}

// Token is a token with its log probability, in nats.
type Token struct {
	ID      int32   `json:"id"` // -1: not told
	Text    string  `json:"text"`
	Known   bool    `json:"known"` // Logprob is
	Logprob float64 `json:"logprob"`
	Rank    int     `json:"rank,omitempty"` // 1 is the likeliest; 0: not told
	Top     []Alt   `json:"top,omitempty"`  // the likeliest, by falling probability
}

// Alt is one of the likeliest tokens at a place.
type Alt struct {
	ID      int32   `json:"id"` // -1: not told
	Text    string  `json:"text"`
	Logprob float64 `json:"logprob"`
}

// Delta is a piece of an answer while it comes.
type Delta struct {
	Text, Reasoning string
	ToolCalls       []ToolCall // whole ones, as they are finished
	Tokens          []Token
}
