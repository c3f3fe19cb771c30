package openai

import (
	"context"
	"errors"
	"net/http"
	"time"

	"quantscope/analysis/gates/chat"
)

// Options of a Client.
type Options struct {
	Model    string        // to ask for; "": the only one that the server lists
	KeyEnv   string        // environment variable that holds the key; "": QUANTSCOPE_API_KEY, then OPENAI_API_KEY; neither set is no key
	Timeout  time.Duration // of a whole answer; 0: 5 minutes
	Idle     time.Duration // between pieces of a stream; 0: 60 s
	Connect  time.Duration // 0: 10 s
	Retries  int           // of what can be asked again: no connection, 429, 5xx before anything came; negative: none, 0: 2
	MaxBytes int64         // of an answer; 0: 64 MiB
	HTTP     *http.Client  // for tests; nil: one of its own
}

// Client is a server as a chat.Target, and a chat.Tokenizing where the server is.
type Client struct{}

var (
	_ chat.Target     = (*Client)(nil)
	_ chat.Tokenizing = (*Client)(nil)
)

// Open finds out who is at a base URL (with or without /v1) and what it can do.
func Open(ctx context.Context, base string, o Options) (*Client, error) {
	return nil, errors.New("openai: not there")
}

// Ask implements chat.Target.
func (c *Client) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	return chat.Reply{}, errors.New("openai: not there")
}

// Identity implements chat.Target.
func (c *Client) Identity(ctx context.Context) (chat.Identity, error) {
	return chat.Identity{}, errors.New("openai: not there")
}

// Counters implements chat.Target.
func (c *Client) Counters(ctx context.Context) (chat.Counters, error) {
	return chat.Counters{}, errors.New("openai: not there")
}

// Tokenize implements chat.Tokenizing.
func (c *Client) Tokenize(ctx context.Context, text string) ([]int32, error) {
	return nil, errors.New("openai: not there")
}

// Close implements chat.Target.
func (c *Client) Close() error { return nil }
