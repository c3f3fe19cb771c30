package openaitest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"quantscope/analysis/gates/chat"
)

// answer writes an answer, whole or as a stream.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q Question, n int) {
	var f Fault
	if s.script.Fault != nil {
		f = s.script.Fault(n, q)
	}
	if s.misbehave(w, r, f) {
		return
	}
	reply := chat.Reply{Text: q.Prompt(), Finish: chat.FinishStop, PromptTokens: 7, CompletionTokens: 3, CachedTokens: -1}
	if s.script.Answer != nil {
		reply = s.script.Answer(q)
	}
	if reply.Model == "" {
		reply.Model, _ = q.Body["model"].(string)
	}
	if f == OtherModel {
		reply.Model = "someone-else"
	}
	a := answering{s: s, q: q, r: reply, fault: f, chat: strings.Contains(q.Path, "chat")}
	if q.True("stream") && f != Whole {
		a.stream(w, r)
		return
	}
	body := a.whole()
	w.Header().Set("Content-Type", "application/json")
	if f == Cut || f == Stall {
		_, _ = w.Write(body[:len(body)/2])
		flush(w)
		if f == Stall {
			s.hang(r)
		}
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

type answering struct {
	s     *Server
	q     Question
	r     chat.Reply
	fault Fault
	chat  bool
}

// quote writes a string as JSON and leaves every byte but those that must be escaped
// as it is.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func or(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func (a *answering) whole() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"id":"1","object":"o","created":1,"model":%s,"system_fingerprint":%s,"choices":[{"index":0,`, quote(a.r.Model), or(a.r.Fingerprint))
	content := quote(a.r.Text)
	if a.fault == NullContent {
		content = "null"
	}
	if a.chat {
		fmt.Fprintf(&b, `"message":{"role":"assistant","content":%s,"reasoning_content":%s,"tool_calls":[`, content, or(a.r.Reasoning))
		for i, c := range a.r.ToolCalls {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c.ID), quote(c.Name), quote(c.Arguments))
		}
		b.WriteString(`]},`)
	} else {
		fmt.Fprintf(&b, `"text":%s,`, content)
	}
	tokens := a.r.Tokens
	if a.q.True("echo") {
		tokens = append(append([]chat.Token(nil), a.r.Prompt...), tokens...)
	}
	fmt.Fprintf(&b, `"logprobs":%s,"finish_reason":%s%s}]%s%s}`, a.logprobs(tokens), or(a.r.Finish), a.ids(), a.prompt(), a.usage())
	return b.Bytes()
}

func (a *answering) usage() string {
	if a.r.PromptTokens < 0 || a.r.CompletionTokens < 0 {
		return ""
	}
	cached := ""
	if a.r.CachedTokens >= 0 {
		cached = fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, a.r.CachedTokens)
	}
	return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d%s}`, a.r.PromptTokens, a.r.CompletionTokens, a.r.PromptTokens+a.r.CompletionTokens, cached)
}

func (a *answering) ids() string {
	if !a.q.True("return_token_ids") || len(a.r.Tokens) == 0 {
		return ""
	}
	ids := make([]string, len(a.r.Tokens))
	for i, t := range a.r.Tokens {
		ids[i] = strconv.Itoa(int(t.ID))
	}
	return `,"token_ids":[` + strings.Join(ids, ",") + `]`
}

func (a *answering) logprobs(ts []chat.Token) string {
	asked := a.q.True("logprobs") || a.q.Int("logprobs", 0) > 0
	if !asked || len(ts) == 0 {
		return "null"
	}
	if a.chat || a.s.script.Engine == "llama.cpp" {
		var out []string
		for _, t := range ts {
			var tops []string
			for _, x := range t.Top {
				tops = append(tops, a.token(x.ID, x.Text, x.Logprob)+"}")
			}
			out = append(out, a.token(t.ID, t.Text, t.Logprob)+`,"top_logprobs":[`+strings.Join(tops, ",")+`]}`)
		}
		return `{"content":[` + strings.Join(out, ",") + `]}`
	}
	var texts, probs, tops []string
	for _, t := range ts {
		texts = append(texts, quote(t.Text))
		p, top := "null", "null"
		if t.Known {
			p = number(t.Logprob)
			var xs []string
			for _, x := range t.Top {
				xs = append(xs, quote(x.Text)+":"+number(x.Logprob))
			}
			top = "{" + strings.Join(xs, ",") + "}"
		}
		probs, tops = append(probs, p), append(tops, top)
	}
	return `{"tokens":[` + strings.Join(texts, ",") + `],"token_logprobs":[` + strings.Join(probs, ",") + `],"top_logprobs":[` + strings.Join(tops, ",") + `]}`
}

func (a *answering) token(id int32, text string, logprob float64) string {
	var bs []string
	for i := range len(text) {
		bs = append(bs, strconv.Itoa(int(text[i])))
	}
	s := `{"token":` + quote(strings.ToValidUTF8(text, "\uFFFD")) + `,"bytes":[` + strings.Join(bs, ",") + `],"logprob":` + number(logprob)
	if a.s.script.Engine == "llama.cpp" {
		s += `,"id":` + strconv.Itoa(int(id))
	}
	return s
}

// prompt is prompt_logprobs, in the form of vLLM's chat completions; those of text
// completions are in the choice, and the client looks in both places.
func (a *answering) prompt() string {
	if a.q.Int("prompt_logprobs", 0) <= 0 {
		return ""
	}
	var ids, places []string
	for _, t := range a.r.Prompt {
		ids = append(ids, strconv.Itoa(int(t.ID)))
		if !t.Known {
			places = append(places, "null")
			continue
		}
		xs := []string{fmt.Sprintf(`"%d":{"logprob":%s,"rank":%d,"decoded_token":%s}`, t.ID, number(t.Logprob), t.Rank, quote(t.Text))}
		for i, x := range t.Top {
			if x.ID != t.ID {
				xs = append(xs, fmt.Sprintf(`"%d":{"logprob":%s,"rank":%d,"decoded_token":%s}`, x.ID, number(x.Logprob), i+1, quote(x.Text)))
			}
		}
		places = append(places, "{"+strings.Join(xs, ",")+"}")
	}
	return `,"prompt_token_ids":[` + strings.Join(ids, ",") + `],"prompt_logprobs":[` + strings.Join(places, ",") + `]`
}

// stream writes an answer in pieces.
func (a *answering) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	end := "\n"
	if a.fault == KeepAlive {
		end = "\r\n"
	}
	sent, half := 0, max(1, (len(a.r.Text)/a.s.script.Piece)/2)
	event := func(data string) {
		if a.fault == KeepAlive {
			fmt.Fprintf(w, ": still here%sid: %d%s", end, sent, end)
		}
		if a.fault == Lines {
			data = strings.Replace(data, `,"choices"`, ",\ndata:\"choices\"", 1)
		}
		fmt.Fprintf(w, "data: %s%s%s", data, end, end)
		flush(w)
		if sent++; sent <= half {
			return
		}
		switch a.fault {
		case Stall:
			a.s.hang(r)
			panic(http.ErrAbortHandler)
		case Cut:
			fmt.Fprint(w, `data: {"model":`) // and in the middle of an event
			flush(w)
			panic(http.ErrAbortHandler)
		case InBandLate:
			fmt.Fprintf(w, "data: {\"error\":{\"message\":\"the engine died\",\"code\":500}}\n\n")
			flush(w)
			panic(http.ErrAbortHandler)
		}
	}
	head := fmt.Sprintf(`{"id":"1","object":"o","created":1,"model":%s,"system_fingerprint":%s`, quote(a.r.Model), or(a.r.Fingerprint))
	choice := func(delta, rest string) { event(head + `,"choices":[{"index":0,` + delta + rest + `}]}`) }
	if a.chat {
		choice(`"delta":{"role":"assistant","content":""}`, `,"finish_reason":null`)
	}
	for _, p := range pieces(a.r.Reasoning, a.s.script.Piece) {
		choice(`"delta":{"reasoning_content":`+quote(p)+`}`, "")
	}
	tokens := a.r.Tokens
	for i, p := range pieces(a.r.Text, a.s.script.Piece) {
		lp := ""
		if i < len(tokens) {
			lp = `,"logprobs":` + a.logprobs(tokens[i:i+1])
		}
		if a.chat {
			choice(`"delta":{"content":`+quote(p)+`}`, lp)
		} else {
			choice(`"text":`+quote(p), lp)
		}
	}
	for i, c := range a.r.ToolCalls {
		choice(fmt.Sprintf(`"delta":{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, quote(c.ID), quote(c.Name)), "")
		for _, p := range pieces(c.Arguments, a.s.script.Piece) {
			choice(fmt.Sprintf(`"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p)), "")
		}
	}
	if a.fault == NoFinish {
		return
	}
	last := `"delta":{}`
	if !a.chat {
		last = `"text":""`
	}
	choice(last, `,"finish_reason":`+or(a.r.Finish))
	if o, ok := a.q.Body["stream_options"].(map[string]any); ok && o["include_usage"] == true && a.usage() != "" {
		event(head + `,"choices":[]` + a.usage() + `}`)
	}
	if a.fault != NoDone {
		fmt.Fprintf(w, "data: [DONE]%s%s", end, end)
	}
}

func pieces(s string, n int) []string {
	var out []string
	for len(s) > 0 {
		k := min(n, len(s))
		out, s = append(out, s[:k]), s[k:]
	}
	return out
}
