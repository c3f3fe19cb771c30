package serve

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a client sends, it gets JSON, events or Prometheus' text, and no error of
// the server's: none of the words that make the fake break stay in.
func FuzzHandler(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/v1/models"}
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"messages":[{"role":"user","content":"x"}],"n":2,"stream":true}`, `{"prompt":[[1,2],[3]],"echo":true,"logprobs":3}`,
		`{"tokens":[1,2,1114112]}`, `{"prompt":"\u0000\ud800\udc00"}`, `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}]}`,
		`{"prompt":"x","seed":-9223372036854775808,"stop":["a"],"top_p":1e-300,"temperature":1e-300}`, `{"prompt":["",null]}`, `{"prompt":2147483648}`,
		`{"stream":true,"stream_options":{"include_usage":1},"prompt":"x"}`, strings.Repeat(`{"a":`, 5000), `{"messages":[[[]]]}`, `{"prompt":"x","max_tokens":1e2}`,
		`{` + tools + `,"tool_choice":"auto","messages":[{"role":"user","content":[{"type":"text","text":"call"}]}],"logprobs":true,"top_logprobs":128}`,
	} {
		for i := range paths {
			f.Add(uint8(i), []byte(seed))
		}
	}
	s := New(newFake(), Options{MaxBody: 1 << 16})
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		for _, word := range []string{"hold", "break", "fail", "flood", "\\u"} {
			body = []byte(strings.ReplaceAll(string(body), word, "-"))
		}
		r := httptest.NewRequest(http.MethodPost, paths[int(which)%len(paths)], strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		text := w.Body.String()
		switch {
		case w.Code >= 500:
			t.Errorf("%d for %q: %s", w.Code, body, text)
		case !utf8.ValidString(text):
			t.Errorf("no UTF-8 for %q: %q", body, text)
		case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
			if !strings.HasSuffix(text, "data: [DONE]\n\n") {
				t.Errorf("a stream without an end for %q: %q", body, text)
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(text, "data: [DONE]\n\n"), "\n\n") {
				if line != "" && !json.Valid([]byte(strings.TrimPrefix(line, "data: "))) {
					t.Errorf("no JSON for %q: %q", body, line)
				}
			}
		case !json.Valid([]byte(text)):
			t.Errorf("no JSON for %q: %q", body, text)
		}
	})
}

// Halves of surrogate pairs are found, and nothing else.
func TestLoneSurrogate(t *testing.T) {
	for text, want := range map[string]int{
		``: -1, `"\ud83d\ude00"`: -1, `"\uD83D\uDE00"`: -1, `"\ud83d"`: 1, `"a\ude00"`: 2, `"\ud83d\ud83d\ude00"`: 1, `"\\ud83d"`: -1, `"\\\ud83d"`: 3, `"\u00e9\ud83dx"`: 7, `\ud83d`: 0, `\ud83d\u`: 0, `\`: -1,
	} {
		if got := loneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
