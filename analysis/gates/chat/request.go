package chat

import "encoding/json"

// Roles of messages.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role       string     `json:"role" yaml:"role"`
	Content    string     `json:"content" yaml:"content"`
	Reasoning  string     `json:"reasoning_content,omitempty" yaml:"reasoning,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty" yaml:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty" yaml:"tool_call_id,omitempty"` // of a tool's message: which call it answers
	Name       string     `json:"name,omitempty" yaml:"name,omitempty"`
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON schema
}

// ToolCall is a call that a model made. Arguments is its text as the model wrote
// it, which may be no JSON.
type ToolCall struct {
	ID        string `json:"id,omitempty" yaml:"id,omitempty"`
	Name      string `json:"name" yaml:"name"`
	Arguments string `json:"arguments" yaml:"arguments"`
}

// Request is what is asked. Exactly one of Messages, Prompt and Tokens is set:
// with Messages the model's chat template applies, Prompt is completed as it is,
// special tokens in its text included, Tokens likewise as ids.
type Request struct {
	Messages []Message `json:"messages,omitempty"`
	Tools    []Tool    `json:"tools,omitempty"`
	Prompt   string    `json:"prompt,omitempty"`
	Tokens   []int32   `json:"tokens,omitempty"`

	MaxTokens   int      `json:"max_tokens"` // 0 only with PromptLogprobs: nothing is made
	Temperature float64  `json:"temperature"`
	TopP        float64  `json:"top_p,omitempty"` // 0: 1
	TopK        int      `json:"top_k,omitempty"` // 0: all
	Seed        *uint64  `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty"`
	IgnoreEOS   bool     `json:"ignore_eos,omitempty"` // go on to MaxTokens

	Logprobs       int  `json:"logprobs,omitempty"`        // so many of the likeliest at each token that is made, beside its own; 0: none
	PromptLogprobs int  `json:"prompt_logprobs,omitempty"` // the same of each token of the prompt but the first
	Stream         bool `json:"stream,omitempty"`

	TemplateArgs map[string]any `json:"chat_template_kwargs,omitempty"` // for the chat template, such as enable_thinking
}
