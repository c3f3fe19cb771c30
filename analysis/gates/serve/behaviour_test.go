package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A client that goes away ends its answer, streamed or not.
func TestGone(t *testing.T) {
	for _, stream := range []string{"false", "true"} {
		f := newFake()
		logged := make(chan string, 8)
		url := serving(t, f, Options{Log: func(line string) { logged <- line }})
		ctx, cancel := context.WithCancel(context.Background())
		r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(`{"n":2,"stream":`+stream+`,"messages":[{"role":"user","content":"hold"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			ended <- err
		}()
		<-f.entered
		<-f.entered
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("stream %s: %v", stream, err)
		}
		if line := <-logged; !strings.Contains(line, " 499 ") {
			t.Errorf("stream %s: logged %q", stream, line)
		}
		if running, _ := f.Busy(); running != 0 || f.broken != 2 {
			t.Errorf("stream %s: %d answers go on, %d ended", stream, running, f.broken)
		}
	}
}

// A client that does not read is cut off, and its engine was not held up meanwhile.
func TestSlowReader(t *testing.T) {
	f := newFake()
	logged := make(chan string, 1)
	url := serving(t, f, Options{Slow: 200 * time.Millisecond, Log: func(line string) { logged <- line }})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := `{"n":64,"stream":true,"messages":[{"role":"user","content":"flood"}]}` // 64 MiB, more than any buffer between
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	select {
	case <-logged:
	case <-time.After(30 * time.Second):
		t.Fatal("the server waits for a client that does not read")
	}
	// Others are answered.
	if got := post(t, url+"/v1/completions", `{"prompt":"x"}`); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}

// A request whose body does not come is not waited for.
func TestSlowSender(t *testing.T) {
	url := serving(t, newFake(), Options{Slow: 100 * time.Millisecond})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, " 400 ") {
		t.Errorf("%q, %v", line, err)
	}
}

// Sixteen clients at once are told what one is.
func TestConcurrent(t *testing.T) {
	url := serving(t, newFake(), Options{})
	alone := make([]string, 16)
	body := func(i int) string {
		return fmt.Sprintf(`{"prompt":"text number %d","logprobs":2,"max_tokens":64}`, i)
	}
	plain := func(a answer) string { return changing.ReplaceAllString(a.text, "") }
	for i := range alone {
		alone[i] = plain(post(t, url+"/v1/completions", body(i)))
	}
	var all sync.WaitGroup
	for i := range alone {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 8 {
				if got := plain(post(t, url+"/v1/completions", body(i))); got != alone[i] {
					t.Errorf("%s, alone %s", got, alone[i])
				}
			}
		}()
	}
	all.Wait()
}

// A server that has too much to do says so, and that it is to be asked again.
func TestOverloaded(t *testing.T) {
	f := newFake()
	url := serving(t, f, Options{MaxBusy: 1})
	hold := make(chan answer, 1)
	go func() { hold <- post(t, url+"/v1/completions", `{"prompt":"hold"}`) }()
	<-f.entered
	got := post(t, url+"/v1/completions", `{"prompt":"x"}`)
	if e := refusal(t, got); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || *e.Code != "overloaded" {
		t.Errorf("%+v", got)
	}
	close(f.release)
	if got := <-hold; got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}

// listening is a server that Serve runs.
type listening struct {
	s          *Server
	url        string
	stop, hard context.CancelFunc
	ended      chan error
}

func listen(t *testing.T, f *fake, grace time.Duration) *listening {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	hardCtx, hard := context.WithCancel(context.Background())
	x := &listening{New(f, Options{}), "http://" + l.Addr().String(), stop, hard, make(chan error, 1)}
	go func() { x.ended <- x.s.Serve(ctx, hardCtx, l, grace) }()
	t.Cleanup(func() { hard(); stop(); http.DefaultClient.CloseIdleConnections() })
	return x
}

// A server that ends lets its answers end, and takes no others.
func TestEnd(t *testing.T) {
	f := newFake()
	x := listen(t, f, time.Minute)
	hold := make(chan answer, 1)
	go func() { hold <- post(t, x.url+"/v1/completions", `{"prompt":"hold"}`) }()
	<-f.entered
	x.stop()
	if !soon(x.s.draining.Load) {
		t.Error("clients that are connected are still taken")
	}
	if !soon(func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	}) {
		t.Error("new clients are still taken")
	}
	close(f.release)
	if got := <-hold; got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	if err := <-x.ended; err != nil {
		t.Error(err)
	}
}

// What does not end in time, or is ended by force, is broken off.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		grace time.Duration
		hard  bool
	}{{"grace", time.Millisecond, false}, {"force", time.Hour, true}} {
		f := newFake()
		x := listen(t, f, c.grace)
		hold := make(chan answer, 1)
		go func() { hold <- post(t, x.url+"/v1/completions", `{"prompt":"hold"}`) }()
		<-f.entered
		x.stop()
		if c.hard {
			x.hard()
		}
		if err := <-x.ended; !errors.Is(err, ErrCut) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := <-hold; got.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A server that drains says so to whoever asks.
func TestDrain(t *testing.T) {
	s := New(newFake(), Options{})
	h := httptest.NewServer(s)
	defer h.Close()
	defer http.DefaultClient.CloseIdleConnections()
	s.Drain()
	for _, a := range []answer{send(t, "GET", h.URL+"/health", ""), post(t, h.URL+"/v1/completions", `{"prompt":"x"}`)} {
		if e := refusal(t, a); a.status != http.StatusServiceUnavailable || *e.Code != "shutting_down" {
			t.Errorf("%+v", a)
		}
	}
	if got := send(t, "GET", h.URL+"/metrics", ""); got.status != http.StatusOK { // the last counts are told
		t.Errorf("%+v", got)
	}
}
