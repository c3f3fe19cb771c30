package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"quantscope/analysis/gates/chat"
)

// Longest waits before something is asked again.
const (
	firstRetry = 200 * time.Millisecond // doubled each time
	maxRetry   = 30 * time.Second       // whatever Retry-After says
	maxHops    = 3
	maxHeaders = 1 << 20
	maxRefusal = 64 << 10 // bytes that are read of an error's body
)

var (
	errRedirect = errors.New("redirects to another host or another method, which is refused")
	errTooLong  = errors.New("the answer is too long")
	errIdle     = errors.New("nothing came")
	errFirst    = errors.New("no answer began")
	errWhole    = errors.New("the answer did not end")
)

func newHTTP(o Options) *http.Client {
	h := &http.Client{}
	if o.HTTP != nil {
		*h = *o.HTTP
	} else {
		h.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: o.Connect}).DialContext,
			TLSHandshakeTimeout:    o.Connect,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: maxHeaders,
			ForceAttemptHTTP2:      true,
		}
	}
	h.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		from := via[0]
		if r.URL.Host != from.URL.Host || r.URL.Scheme != from.URL.Scheme || r.Method != from.Method || len(via) > maxHops {
			return errRedirect
		}
		return nil
	}
	return h
}

// answer is a response whose body has bounds in length and time.
type answer struct {
	*http.Response
	body io.Reader
	done func()
}

// send asks once. limit bounds the whole of it, first the time until it begins,
// idle the time between pieces of its body. The answer's done must be called.
func (c *Client) send(ctx context.Context, method, path string, body []byte, limit, first, idle time.Duration) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	whole := time.AfterFunc(limit, func() { cancel(errWhole) })
	begin := time.AfterFunc(first, func() { cancel(errFirst) })
	var once sync.Once
	stop := func() {
		once.Do(func() {
			whole.Stop()
			begin.Stop()
			cancel(nil)
		})
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base.url(path), bytes.NewReader(body))
	if err != nil {
		stop()
		return nil, c.fail(chat.Refused, 0, "the request cannot be made", err)
	}
	r.Header.Set("Accept-Encoding", "identity") // what unpacks to more than it is, is refused below
	r.Header.Set("User-Agent", "quantscope")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(r)
	begin.Stop()
	if err != nil {
		err = c.sendError(ctx, err)
		stop()
		return nil, err
	}
	a := &answer{Response: resp}
	b := &bounded{r: resp.Body, left: c.o.MaxBytes, ctx: ctx, idle: idle, cancel: cancel}
	a.body = b
	a.done = func() {
		b.stop()
		stop()
		_ = resp.Body.Close()
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		a.done()
		return nil, c.fail(chat.Malformed, 0, fmt.Sprintf("answers packed as %q, which was not asked for", e), nil)
	}
	return a, nil
}

// sendError says why no response came.
func (c *Client) sendError(ctx context.Context, err error) error {
	var ne net.Error
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errFirst):
		return c.fail(chat.Timeout, 0, fmt.Sprintf("no answer began within %v", c.o.First), nil)
	case errors.Is(cause, errWhole):
		return c.fail(chat.Timeout, 0, fmt.Sprintf("no answer within %v", c.o.Timeout), nil)
	case ctx.Err() != nil:
		return c.ended(ctx)
	case errors.Is(err, errRedirect):
		return c.fail(chat.Malformed, 0, errRedirect.Error(), nil)
	case errors.As(err, &ne) && ne.Timeout():
		return c.fail(chat.Absent, 0, fmt.Sprintf("no connection within %v", c.o.Connect), nil)
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the method and the URL again
	}
	return c.fail(chat.Absent, 0, "no connection, or it ended before an answer", err)
}

// ended is the error of a context that the caller ended.
func (c *Client) ended(ctx context.Context) error {
	err := context.Cause(ctx)
	k := chat.Cut
	if errors.Is(err, context.DeadlineExceeded) {
		k = chat.Timeout
	}
	return c.fail(k, 0, "ended by who asked", err)
}

// fail makes an error whose text does not have the key in it.
func (c *Client) fail(k chat.Kind, code int, reason string, err error) *chat.Error {
	e := &chat.Error{At: c.base.shown, Kind: k, Code: code, Reason: c.clean(reason), Err: err}
	if err != nil && c.key != "" && strings.Contains(err.Error(), c.key) {
		e.Err = errors.New(c.clean(err.Error()))
	}
	return e
}

func (c *Client) clean(s string) string {
	if c.key == "" {
		return s
	}
	return strings.ReplaceAll(s, c.key, "[key]")
}

// bounded reads a body that ends after so many bytes, and whose pieces come within
// idle of each other.
type bounded struct {
	r      io.Reader
	left   int64
	ctx    context.Context
	idle   time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 && err != nil {
			return 0, b.why(err)
		}
		return 0, errTooLong
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(b.idle, func() { b.cancel(errIdle) })
	} else {
		b.timer.Reset(b.idle)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.timer.Stop()
	b.left -= int64(n)
	if err != nil {
		err = b.why(err)
	}
	return n, err
}

// why is what ended the reading: the cause of a context that did.
func (b *bounded) why(err error) error {
	if err != io.EOF && b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	return err
}

func (b *bounded) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// readError says why an answer that had begun did not end.
func (c *Client) readError(err error) error {
	switch {
	case errors.Is(err, errIdle):
		return c.fail(chat.Timeout, 0, fmt.Sprintf("nothing came for %v in the middle of an answer", c.o.Idle), nil)
	case errors.Is(err, errWhole):
		return c.fail(chat.Timeout, 0, fmt.Sprintf("the answer did not end within %v", c.o.Timeout), nil)
	case errors.Is(err, errTooLong):
		return c.fail(chat.Malformed, 0, fmt.Sprintf("the answer is longer than %d bytes", c.o.MaxBytes), nil)
	case errors.Is(err, errEvent):
		return c.fail(chat.Malformed, 0, fmt.Sprintf("an event of the stream is longer than %d bytes", maxEvent), nil)
	case errors.Is(err, context.DeadlineExceeded):
		return c.fail(chat.Timeout, 0, "ended by who asked", err)
	case errors.Is(err, context.Canceled):
		return c.fail(chat.Cut, 0, "ended by who asked", err)
	}
	return c.fail(chat.Cut, 0, "the answer ended in the middle", err)
}

// again says whether an error is one after which the same can be asked again, and
// how long to wait before the n-th time.
func again(err error, n int, retryAfter time.Duration) (time.Duration, bool) {
	var e *chat.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	ok := e.Kind == chat.Absent || e.Kind == chat.Status && (e.Code == http.StatusTooManyRequests || e.Code >= 500 && e.Code != http.StatusNotImplemented)
	d := min(firstRetry<<min(n, 10), maxRetry)
	if retryAfter >= 0 {
		d = min(retryAfter, maxRetry)
	}
	return d, ok
}

// in says whether a wait of d ends within the time that an answer may take, of which
// some went by: else waiting is in vain, and what the server said says more.
func (c *Client) in(began time.Time, d time.Duration) bool { return time.Since(began)+d < c.o.Timeout }

// retryAfter is what a response says of when to ask again; -1 where it does not.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 {
		return time.Duration(min(s, maxRetry.Seconds()) * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return -1
}
