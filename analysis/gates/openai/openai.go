package openai

import (
	"context"
	"net/http"
	"sync"
	"time"

	"quantscope/analysis/gates/chat"
)

// Options of a Client.
type Options struct {
	Model    string        // to ask for; "": the only one that the server lists
	KeyEnv   string        // environment variable that holds the key; "": QUANTSCOPE_API_KEY, then OPENAI_API_KEY; neither set is no key
	Timeout  time.Duration // of a whole answer; 0: 5 minutes
	First    time.Duration // until an answer begins, where it is streamed; 0: Timeout
	Idle     time.Duration // between pieces of a stream; 0: 60 s
	Connect  time.Duration // 0: 10 s
	Retries  int           // of what can be asked again: no connection, 429, 5xx before anything came; negative: none, 0: 2
	MaxBytes int64         // of an answer; 0: 64 MiB
	HTTP     *http.Client  // for tests; nil: one of its own
}

func (o Options) filled() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&o.Timeout, 5*time.Minute)
	set(&o.First, o.Timeout)
	set(&o.Idle, time.Minute)
	set(&o.Connect, 10*time.Second)
	switch {
	case o.Retries < 0:
		o.Retries = 0
	case o.Retries == 0:
		o.Retries = 2
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	return o
}

// Client is a server as a chat.Target, and a chat.Tokenizing where the server is.
// It may be used from many goroutines.
type Client struct {
	o    Options
	base address
	key  string
	http *http.Client
	wait func(ctx context.Context, d time.Duration) error

	server  served // as Open found it
	addsBOS bool   // llama.cpp puts a token before prompts that are text

	mu     sync.Mutex
	quirks quirks
	last   *chat.Counters
	began  float64 // when the server's process did, as it told last; 0: not told
}

// quirks are what a server was found to want otherwise, by its own errors.
type quirks struct {
	noAuto     bool // it takes no calls out of texts: tool_choice is none
	completion bool // max_tokens is called max_completion_tokens
}

var (
	_ chat.Target     = (*Client)(nil)
	_ chat.Tokenizing = (*Client)(nil)
)

// Open finds out who is at a base URL (with or without /v1) and what it can do. A
// model that the server does not list is a *chat.Error of kind Wrong; several, and
// none asked for, one of kind Refused that lists them.
func Open(ctx context.Context, base string, o Options) (*Client, error) {
	o = o.filled()
	at, err := parseAddress(base)
	if err != nil {
		return nil, err
	}
	key, err := keyFrom(o.KeyEnv)
	if err != nil {
		return nil, &chat.Error{At: at.shown, Kind: chat.Refused, Reason: err.Error()}
	}
	c := &Client{o: o, base: at, key: key, http: newHTTP(o), wait: sleep}
	if c.server, err = c.find(ctx); err == nil && c.server.engine == llamaCpp {
		c.addsBOS, err = c.findBOS(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close implements chat.Target. Answers that are still coming are not ended by it.
func (c *Client) Close() error {
	if c.o.HTTP == nil {
		c.http.CloseIdleConnections()
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
