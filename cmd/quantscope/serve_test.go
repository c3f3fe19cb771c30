package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// served is serve while it runs.
type served struct {
	first string // line on standard output
	rest  *bufio.Reader
	err   *bytes.Buffer // read when it has ended
	end   func() int    // as an interrupt does, and the exit code
}

// serving runs serve until the test ends it.
func serving(t *testing.T, args ...string) *served {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r, w := io.Pipe()
	s := &served{rest: bufio.NewReader(r), err: &bytes.Buffer{}}
	code := make(chan int, 1)
	go func() {
		c := run(ctx, append([]string{"serve", "--port", "0"}, args...), streams{in: strings.NewReader(""), out: w, err: s.err})
		w.Close()
		code <- c
	}()
	ended := false
	s.end = func() int {
		if ended {
			return 0
		}
		ended = true
		http.DefaultClient.CloseIdleConnections()
		cancel()
		go io.Copy(io.Discard, s.rest) // what is printed late does not hold it up
		select {
		case c := <-code:
			return c
		case <-time.After(60 * time.Second):
			t.Fatal("serve does not end")
			return -1
		}
	}
	t.Cleanup(func() { s.end() })
	line, err := s.rest.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: exit %d: %s", err, s.end(), s.err)
	}
	s.first = line
	return s
}

// asked sends a question with greedy decoding and gives what was said.
func asked(t *testing.T, url, key, question string) (status int, content, print string) {
	t.Helper()
	body := `{"temperature":0,"max_tokens":40,"messages":[{"role":"user","content":"` + question + `"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var d struct {
		Choices []struct {
			Message struct{ Content string }
		}
		Fingerprint string `json:"system_fingerprint"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	if len(d.Choices) == 1 {
		content = d.Choices[0].Message.Content
	}
	return resp.StatusCode, content, d.Fingerprint
}

// The command says where it listens and what it serves, answers, and ends well.
func TestServe(t *testing.T) {
	s := serving(t, "demo", "--log", "--speculate", "2")
	m := regexp.MustCompile(`^(http://127\.0\.0\.1:[0-9]+/v1) serves demo: bf16, 1024 tokens, 8 answers at a time, 2 tokens drafted a step, (fp_[0-9a-f]{16})\n$`).FindStringSubmatch(s.first)
	if m == nil {
		t.Fatalf("%q", s.first)
	}
	status, text, print := asked(t, m[1], "", "What is the capital of France?")
	if status != http.StatusOK || text == "" || print != m[2] {
		t.Errorf("%d, %q, %s, said to be %s", status, text, print, m[2])
	}
	if code := s.end(); code != exitGood {
		t.Errorf("exit %d: %s", code, s.err)
	}
	if log := s.err.String(); !strings.Contains(log, "POST /v1/chat/completions 200") || strings.Contains(log, "France") {
		t.Errorf("logged %q", log)
	}
	if _, err := net.DialTimeout("tcp", strings.TrimSuffix(strings.TrimPrefix(m[1], "http://"), "/v1"), time.Second); err == nil {
		t.Error("it still listens")
	}
}

// Keys of serve --json are those of docs/commands.md, faults are told loudly, and the
// fingerprint tells what is served apart.
func TestServeDocument(t *testing.T) {
	t.Setenv("SERVE_TEST_KEY", "s3cret")
	prints := map[string]string{}
	for _, args := range [][]string{
		{"q=nvfp4", "--reference", "demo", "--model-name", "mine", "--key-env", "SERVE_TEST_KEY", "--slots", "3", "--max-model-len", "512", "--prefix-cache", "--activations", "bf16", "--mem", "64MiB"},
		{"nvfp4", "--reference", "demo"}, {"nvfp4", "--reference", "demo", "--fault", "fused-scale"}, {"nvfp4", "--reference", "demo", "--speculate", "1"}, {"demo", "--fault", "empty"},
	} {
		s := serving(t, append(args, "--json")...)
		var d serveDocument
		var keys map[string]any
		// The document is whole before the next request is answered.
		text := s.first
		for json.Unmarshal([]byte(text), &keys) != nil {
			line, err := s.rest.ReadString('\n')
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			text += line
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		key := ""
		if d.Key {
			key = "s3cret"
			if d.Model != "mine" || d.Spec != "nvfp4" || d.Reference != "demo" || d.Effective != "nvfp4" || d.Slots != 3 || d.Max != 512 || !d.PrefixCache || d.Activations != "bf16" || !d.Loopback || d.Port == 0 || d.Content == "" || d.PID != os.Getpid() {
				t.Errorf("%+v", d)
			}
			if status, _, _ := asked(t, d.URL, "", "Hello"); status != http.StatusUnauthorized {
				t.Errorf("without a key: %d", status)
			}
		}
		status, text, print := asked(t, d.URL, key, "What is the capital of France?")
		if status != http.StatusOK || print != d.Fingerprint || (text == "") != (d.Fault == "empty") {
			t.Errorf("%v: %d, %q, %s", args, status, text, print)
		}
		if other := prints[print]; other != "" {
			t.Errorf("%v has the fingerprint of %s", args, other)
		}
		prints[print] = strings.Join(args, " ")
		if code := s.end(); code != exitGood {
			t.Errorf("%v: exit %d", args, code)
		}
		if loud := strings.Contains(s.err.String(), "FAULT "); loud != (d.Fault != "") || strings.Contains(s.err.String(), "s3cret") {
			t.Errorf("%v: %q", args, s.err)
		}
		doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
		if err != nil {
			t.Fatal(err)
		}
		for k := range keys {
			if !bytes.Contains(doc, []byte("`"+k+"`")) {
				t.Errorf("docs/commands.md does not name the key %s of serve", k)
			}
		}
	}
}

// Who listens to others without a key is told.
func TestServeOpenly(t *testing.T) {
	s := serving(t, "demo", "--host", "0.0.0.0")
	if !strings.HasPrefix(s.first, "http://127.0.0.1:") {
		t.Errorf("%q", s.first)
	}
	if s.end(); !strings.Contains(s.err.String(), "0.0.0.0 is not this machine alone") {
		t.Errorf("%q", s.err)
	}
}

func TestServeBadInput(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SERVE_TEST_EMPTY", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct {
		args []string
		code int
		in   string
	}{
		{nil, exitUsage, "one candidate"},
		{[]string{"demo", "demo"}, exitUsage, "one candidate"},
		{[]string{"nvfp4"}, exitUsage, "--reference"},
		{[]string{"nvfp5", "--reference", "demo"}, exitUsage, "nvfp5"},
		{[]string{"./absent"}, exitBadInput, "absent"},
		{[]string{"nvfp4", "--reference", "./absent"}, exitBadInput, "absent"},
		{[]string{"demo", "--fault", "gremlin"}, exitUsage, "fused-scale"},
		{[]string{"demo", "--fault", "fused-scale"}, exitBadInput, "fused-scale"},
		{[]string{"demo", "--fault", "logprobs"}, exitUsage, "--speculate"},
		{[]string{"demo", "--speculate", "9"}, exitUsage, "0 to 8"},
		{[]string{"demo", "--slots", "0"}, exitUsage, "--slots"},
		{[]string{"demo", "--model-name", "a\nb"}, exitUsage, "--model-name"},
		{[]string{"demo", "--threads", "0"}, exitUsage, "--threads"},
		{[]string{"demo", "--max-model-len", "-1"}, exitUsage, "--max-model-len"},
		{[]string{"demo", "--max-model-len", "5000"}, exitBadInput, "1024"},
		{[]string{"demo", "--activations", "f16"}, exitUsage, "bf16"},
		{[]string{"demo", "--mem", "much"}, exitUsage, "--mem"},
		{[]string{"demo", "--port", "70000"}, exitUsage, "65535"},
		{[]string{"demo", "--port", port}, exitEnvironment, port},
		{[]string{"demo", "--host", "no.such.host.invalid"}, exitEnvironment, "no.such.host.invalid"},
		{[]string{"demo", "--key-env", "SERVE_TEST_EMPTY"}, exitUsage, "SERVE_TEST_EMPTY"},
		{[]string{"demo", "--zero-points", "v9"}, exitUsage, "--zero-points"},
	} {
		args := append([]string{"serve"}, c.args...)
		if !strings.Contains(strings.Join(c.args, " "), "--port") {
			args = append(args, "--port", "0")
		}
		o := command(t, args...)
		if o.code != c.code || !strings.Contains(o.err, c.in) || strings.Count(o.err, "\n") != 1 || o.out != "" {
			t.Errorf("%v: exit %d, %q, %q; want %d with %q", c.args, o.code, o.out, o.err, c.code, c.in)
		}
	}
}
