package openai

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"quantscope/analysis/gates/chat"
)

// longestReason bounds what is repeated of a server's words.
const longestReason = 300

// refusal is the error of a response whose status is one.
func (c *Client) refusal(a *answer) *chat.Error {
	data, _ := io.ReadAll(io.LimitReader(a.body, maxRefusal)) // what came of it is enough
	status := fmt.Sprintf("status %d", a.StatusCode)
	if t := http.StatusText(a.StatusCode); t != "" {
		status += " " + t
	}
	why, kind := said(data), chat.Status
	if a.StatusCode == http.StatusBadRequest && tooLong(data) {
		kind = chat.Refused
	}
	if why != "" {
		status += ": " + why
	}
	return c.fail(kind, a.StatusCode, status, nil)
}

// said is what a body says of an error, in one line: the message in OpenAI's form
// or FastAPI's, the title of a page, or its beginning.
func said(data []byte) string {
	s := strings.TrimSpace(string(data))
	if n, err := parseJSON(data); err == nil {
		if m := message(n); m != "" {
			return line(m)
		}
	} else if page(s) {
		return "a page of HTML" + title(s)
	}
	return line(s)
}

// message is that of an error in JSON, "" where there is none.
func message(n node) string {
	for _, f := range []node{n.path("error", "message"), n.get("error"), n.get("message"), n.get("detail"), n.get("detail").first().get("msg")} {
		if f.str() != "" {
			return f.text
		}
	}
	return ""
}

func tooLong(data []byte) bool {
	n, err := parseJSON(data)
	if err != nil {
		return false
	}
	if k := n.path("error", "type").str() + n.path("error", "code").str(); strings.Contains(k, "exceed_context_size") || strings.Contains(k, "context_length") {
		return true
	}
	m := strings.ToLower(message(n))
	return strings.Contains(m, "maximum context length") || strings.Contains(m, "max_model_len") || strings.Contains(m, "maximum model length")
}

func page(s string) bool {
	s = strings.ToLower(s[:min(len(s), 200)])
	return strings.HasPrefix(s, "<!doctype html") || strings.HasPrefix(s, "<html") || strings.HasPrefix(s, "<") && strings.Contains(s, "<head")
}

var titles = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

func title(s string) string {
	if m := titles.FindStringSubmatch(s); m != nil {
		return fmt.Sprintf(", titled %q", line(m[1]))
	}
	return ""
}

// line is a text in one line, with nothing in it that moves a cursor, cut to a
// length that a message can have.
func line(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > longestReason {
		s = string(r[:longestReason]) + "…"
	}
	return s
}
