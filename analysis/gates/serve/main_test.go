package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden answers")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving is a server of an engine over real HTTP.
func serving(t testing.TB, e Engine, o Options) string {
	t.Helper()
	h := httptest.NewServer(New(e, o))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		h.Close()
	})
	return h.URL
}

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	text   string
}

// send sends a body and reads the answer whole.
func send(t testing.TB, method, url, body string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func post(t testing.TB, url, body string) answer {
	t.Helper()
	return send(t, http.MethodPost, url, body)
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`(chatcmpl-|cmpl-|call_)[0-9a-f]{24}|"created":[0-9]+|"system_fingerprint":"fp_[0-9a-f]{16}"`)

// golden holds an answer against the one that is kept, what changes left out.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = changing.ReplaceAllStringFunc(got, func(s string) string {
		switch {
		case strings.HasPrefix(s, `"created"`):
			return `"created":0`
		case strings.HasPrefix(s, `"system_fingerprint"`):
			return `"system_fingerprint":"fp_"`
		}
		return s[:len(s)-24]
	})
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(got), "", " ") == nil {
		got = indented.String() + "\n"
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: -update writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}
