package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"quantscope/analysis/gates/chat"
)

// Ask implements chat.Target. An answer that names another model than was asked
// for comes with an error of kind Wrong.
func (c *Client) Ask(ctx context.Context, r chat.Request, each func(chat.Delta)) (chat.Reply, error) {
	none := chat.Reply{PromptTokens: -1, CompletionTokens: -1, CachedTokens: -1}
	if c.addsBOS && r.Prompt != "" && len(r.Messages) == 0 && r.Tokens == nil {
		ids, err := c.Tokenize(ctx, r.Prompt)
		if err != nil {
			return none, err
		}
		r.Prompt, r.Tokens = "", ids
	}
	a, err := c.compose(r)
	if err != nil {
		return none, err
	}
	began := time.Now()
	for n, learned := 0, 0; ; {
		body, err := c.encode(a.body)
		if err != nil {
			return none, err
		}
		reply, after, came, err := c.askOnce(ctx, a, r, body, each)
		reply.Retries = n
		var e *chat.Error
		if errors.As(err, &e) && !came && learned < 2 && c.learn(a, e) {
			learned++
			continue
		}
		d, ok := again(err, n, after)
		if err == nil || came || !ok || n >= c.o.Retries || !c.in(began, d) {
			return reply, err
		}
		if c.wait(ctx, d) != nil {
			return reply, c.ended(ctx)
		}
		n++
	}
}

// askOnce sends a request and reads its answer. came says that something of the
// answer did, so that it is not asked again.
func (c *Client) askOnce(ctx context.Context, a *asked, r chat.Request, body []byte, each func(chat.Delta)) (reply chat.Reply, after time.Duration, came bool, err error) {
	start := time.Now()
	g := newGathering(a, r, each, func() time.Duration { return time.Since(start) })
	first, idle := c.o.Timeout, 2*c.o.Timeout // of a whole answer only its end counts
	if a.stream {
		first, idle = c.o.First, c.o.Idle
	}
	answer, err := c.send(ctx, http.MethodPost, a.path(), body, c.o.Timeout, first, idle)
	if err != nil {
		return g.reply(), -1, false, err
	}
	defer answer.done()
	if answer.StatusCode != http.StatusOK {
		return g.reply(), retryAfter(answer.Header, time.Now()), false, c.refusal(answer)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		err = c.readStream(answer.body, g)
	} else {
		err = c.readWhole(answer.body, g)
	}
	reply = g.reply()
	reply.Total = time.Since(start)
	if err == nil && !c.server.same(reply.Model) {
		err = c.fail(chat.Wrong, 0, fmt.Sprintf("%q answers, %q was asked", line(reply.Model), c.server.model), nil)
	}
	return reply, -1, true, err
}

func (c *Client) readWhole(body io.Reader, g *gathering) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return c.readError(err)
	}
	n, err := c.decode(data, "the answer")
	if err != nil {
		return err
	}
	if err := c.inBand(n); err != nil {
		return err
	}
	if err := g.take(n, true); err != nil {
		return c.fail(chat.Malformed, 0, "the answer", err)
	}
	g.finish()
	return nil
}

func (c *Client) readStream(body io.Reader, g *gathering) error {
	events := newEvents(body)
	for {
		data, err := events.next()
		switch {
		case err != nil && g.finished() && !errors.Is(err, errTooLong):
			g.finish()
			return nil // it said that it was done, and only [DONE] is not there
		case err == io.EOF && g.events == 0:
			return c.fail(chat.Malformed, 0, "the stream: an empty body", nil)
		case err == io.EOF:
			g.cut()
			return c.fail(chat.Cut, 0, fmt.Sprintf("the stream ended in the middle, after %d events", g.events), nil)
		case err != nil:
			g.cut()
			return c.readError(err)
		}
		if string(data) == "[DONE]" {
			if !g.chosen {
				return c.fail(chat.Malformed, 0, "the stream: no choice in it", nil)
			}
			g.finish()
			return nil
		}
		n, err := c.decode(data, fmt.Sprintf("event %d of the stream", g.events))
		if err != nil {
			if _, more := events.next(); more == io.EOF || errors.Is(more, io.ErrUnexpectedEOF) {
				err = c.fail(chat.Cut, 0, fmt.Sprintf("the stream ended in the middle of event %d", g.events), nil)
			}
			g.cut()
			return err
		}
		if err := c.inBand(n); err != nil {
			g.cut()
			return err
		}
		if err := g.take(n, false); err != nil {
			g.cut()
			return c.fail(chat.Malformed, 0, fmt.Sprintf("event %d of the stream: %v", g.events, err), nil)
		}
	}
}

// inBand is an error that came with status 200.
func (c *Client) inBand(n node) error {
	e := n.get("error")
	if e.kind != object && e.kind != text {
		if n.get("choices").kind != absent || n.get("message").kind != text {
			return nil
		}
		e = n // the error alone, as an event of its own
	}
	m := message(n)
	if m == "" {
		m = "an error without a message"
	}
	code := int(e.get("code").integer())
	if code < 400 || code > 599 {
		code = 0
	}
	return c.fail(chat.Status, code, "an error in the answer: "+line(m), nil)
}
