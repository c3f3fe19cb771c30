package serve

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// message is a conversation for requests that are about something else.
const message = `"messages":[{"role":"user","content":"x"}]`

// What is refused, with its status and the parameter that is to blame.
func TestRefused(t *testing.T) {
	chatAt, textAt := "/v1/chat/completions", "/v1/completions"
	url := serving(t, newFake(), Options{MaxBody: 4096})
	for _, c := range []struct {
		path, body string
		status     int
		param, in  string // in: what the message says
	}{
		{chatAt, ``, 400, "", "empty"},
		{chatAt, `{`, 400, "", "no JSON object"},
		{chatAt, `[]`, 400, "", "no JSON object"},
		{chatAt, `null`, 400, "", "null"},
		{chatAt, `{} {}`, 400, "", "no JSON object"},
		{chatAt, "{\"messages\":\"\xff\"}", 400, "", "not UTF-8"},
		{chatAt, `{"messages":[{"role":"user","content":"\ud83d"}]}`, 400, "", "surrogate"},
		{chatAt, `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 5000) + `"}]}`, 413, "", "4096"},
		{chatAt, `{}`, 400, "messages", "missing"},
		{chatAt, `{"messages":[]}`, 400, "messages", "1 to"},
		{chatAt, `{"messages":"hi"}`, 400, "messages", "list"},
		{chatAt, `{"messages":[7]}`, 400, "messages[0]", "object"},
		{chatAt, `{"messages":[{"role":"oracle","content":"x"}]}`, 400, "messages[0].role", "oracle"},
		{chatAt, `{"messages":[{"role":"user"}]}`, 400, "messages[0].content", "missing"},
		{chatAt, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 400, "messages[0].content", "image_url"},
		{chatAt, `{"messages":[{"role":"user","content":"x","mood":"good"}]}`, 400, "messages[0].mood", "mood"},
		{chatAt, `{"messages":[{"role":"user","content":"untemplated"}]}`, 400, "messages", "no such; role"},
		{chatAt, `{"messages":[{"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]}]}`, 400, "messages[0].tool_calls", "assistant"},
		{chatAt, `{"model":"gpt-5",` + message + `}`, 404, "model", "gpt-5"},
		{chatAt, `{"temperature":-1,` + message + `}`, 400, "temperature", "-1"},
		{chatAt, `{"temperature":"hot",` + message + `}`, 400, "temperature", "hot"},
		{chatAt, `{"top_p":0,` + message + `}`, 400, "top_p", "0"},
		{chatAt, `{"top_p":1.5,` + message + `}`, 400, "top_p", "1.5"},
		{chatAt, `{"n":0,` + message + `}`, 400, "n", "1 to"},
		{chatAt, `{"n":1.5,` + message + `}`, 400, "n", "whole"},
		{chatAt, `{"n":1000000000000000000000,` + message + `}`, 400, "n", "whole"},
		{chatAt, `{"max_tokens":0,` + message + `}`, 400, "max_tokens", "0"},
		{chatAt, `{"max_tokens":100000,` + message + `}`, 400, "", "4096"},
		{chatAt, `{"stop":["","a"],` + message + `}`, 400, "stop", "0 bytes"},
		{chatAt, `{"stop":7,` + message + `}`, 400, "stop", "7"},
		{chatAt, `{"top_logprobs":2,` + message + `}`, 400, "top_logprobs", "logprobs"},
		{chatAt, `{"logprobs":true,"top_logprobs":200000,` + message + `}`, 400, "top_logprobs", "1000"},
		{chatAt, `{"n":128,"max_tokens":4000,"logprobs":true,"top_logprobs":1000,` + message + `}`, 400, "logprobs", "fewer"},
		{chatAt, `{"prompt_logprobs":1,"stream":true,` + message + `}`, 400, "prompt_logprobs", "streamed"},
		{chatAt, `{"stream_options":{"include_usage":true},` + message + `}`, 400, "stream_options", "stream"},
		{chatAt, `{"stream":true,"stream_options":{"continuous_usage_stats":true},` + message + `}`, 400, "stream_options.continuous_usage_stats", "not supported"},
		{chatAt, `{"frequency_penalty":0.5,` + message + `}`, 400, "frequency_penalty", "not supported"},
		{chatAt, `{"repetition_penalty":1.1,` + message + `}`, 400, "repetition_penalty", "not supported"},
		{chatAt, `{"min_p":0.1,` + message + `}`, 400, "min_p", "not supported"},
		{chatAt, `{"logit_bias":{"5":-100},` + message + `}`, 400, "logit_bias", "not supported"},
		{chatAt, `{"response_format":{"type":"json_object"},` + message + `}`, 400, "response_format", "not supported"},
		{chatAt, `{"guided_json":{},` + message + `}`, 400, "guided_json", "not supported"},
		{chatAt, `{"reasoning_effort":"high",` + message + `}`, 400, "reasoning_effort", "not supported"},
		{chatAt, `{"cache_salt":"s",` + message + `}`, 400, "cache_salt", "not supported"},
		{chatAt, `{"tempratur":0.5,` + message + `}`, 400, "tempratur", "no parameter"},
		{chatAt, `{"tool_choice":"auto",` + message + `}`, 400, "tool_choice", "tools are not"},
		{chatAt, `{"tool_choice":"required",` + tools + `,` + message + `}`, 400, "tool_choice", "required"},
		{chatAt, `{"tool_choice":{"type":"function","function":{"name":"weather"}},` + tools + `,` + message + `}`, 400, "tool_choice", "forced"},
		{chatAt, `{"tools":[{"type":"function","function":{"name":"f","strict":true}}],` + message + `}`, 400, "tools[0]", "strict"},
		{chatAt, `{"tools":[{"type":"code_interpreter"}],` + message + `}`, 400, "tools[0]", "code_interpreter"},
		{chatAt, `{"tools":[{"type":"function","function":{"name":"f","parameters":[]}}],` + message + `}`, 400, "tools[0]", "schema"},
		{chatAt, `{"messages":[{"role":"user","content":"refuse"}]}`, 400, "", "does not fit: 1 GiB"},
		{textAt, `{}`, 400, "prompt", "missing"},
		{textAt, `{"prompt":""}`, 400, "prompt", "empty"},
		{textAt, `{"prompt":[]}`, 400, "prompt", "empty"},
		{textAt, `{"prompt":[[]]}`, 400, "prompt", "no ids"},
		{textAt, `{"prompt":[-1]}`, 400, "prompt", "-1"},
		{textAt, `{"prompt":{"a":1}}`, 400, "prompt", "neither"},
		{textAt, `{"prompt":["a",1]}`, 400, "prompt", "neither"},
		{textAt, `{"prompt":"x","suffix":"y"}`, 400, "suffix", "not supported"},
		{textAt, `{"prompt":"x","best_of":3}`, 400, "best_of", "not supported"},
		{textAt, `{"prompt":"x","max_tokens":0}`, 400, "max_tokens", "0"},
		{textAt, `{"prompt":"x","echo":true,"logprobs":1,"stream":true}`, 400, "echo", "streamed"},
		{textAt, `{"prompt":["x","y"],"n":100}`, 400, "n", "too many"},
		{textAt, `{"prompt":"x","logprobs":true}`, 400, "logprobs", "whole"},
		{"/tokenize", `{}`, 400, "prompt", "either"},
		{"/tokenize", `{"prompt":"x",` + message + `}`, 400, "prompt", "either"},
		{"/tokenize", `{"add_special_tokens":true,` + message + `}`, 400, "add_special_tokens", "template"},
		{chatAt, `{"skip_special_tokens":false,` + message + `}`, 400, "skip_special_tokens", "not supported"},
		{"/detokenize", `{}`, 400, "tokens", "missing"},
		{"/detokenize", `{"tokens":[-3]}`, 400, "tokens", "-3"},
		{"/v1/embeddings", `{}`, 404, "", "/v1/embeddings"},
		{"/v1/models", `{}`, 405, "", "GET"},
	} {
		got := post(t, url+c.path, c.body)
		e := refusal(t, got)
		param := ""
		if e.Param != nil {
			param = *e.Param
		}
		if got.status != c.status || param != c.param || !strings.Contains(e.Message, c.in) || strings.ContainsAny(e.Message, "\n\r") {
			t.Errorf("%s %.80s: %d, about %q: %s; want %d, about %q, with %q", c.path, c.body, got.status, param, e.Message, c.status, c.param, c.in)
		}
	}
	if got := send(t, "GET", url+chatAt, ""); got.status != 405 || got.header.Get("Allow") != "POST" {
		t.Errorf("GET: %+v", got)
	}
	if got := send(t, "POST", url+chatAt, `{`+message+`}`, "Content-Type", "text/plain"); got.status != 415 {
		t.Errorf("text/plain: %+v", got)
	}
	if got := send(t, "POST", url+chatAt, `{"messages":[{"role":"user","content":"break"}]}`); got.status != 500 || !strings.Contains(got.text, "the engine broke") {
		t.Errorf("an engine that breaks: %+v", got)
	}
}

type refused struct {
	Message, Type string
	Param, Code   *string
}

// refusal is an error in OpenAI's form, all four fields of it.
func refusal(t testing.TB, a answer) refused {
	t.Helper()
	var d struct {
		Error map[string]json.RawMessage
	}
	var e struct{ Error refused }
	if err := json.Unmarshal([]byte(a.text), &d); err != nil {
		t.Fatalf("%d: %v: %s", a.status, err, a.text)
	}
	for _, k := range []string{"message", "type", "param", "code"} {
		if _, ok := d.Error[k]; !ok {
			t.Errorf("%s has no %s", a.text, k)
		}
	}
	if err := json.Unmarshal([]byte(a.text), &e); err != nil {
		t.Fatal(err)
	}
	if a.header.Get("Content-Type") != "application/json" || e.Error.Message == "" || e.Error.Type == "" {
		t.Errorf("%v %s", a.header, a.text)
	}
	return e.Error
}

func TestKey(t *testing.T) {
	url := serving(t, newFake(), Options{Key: "s3cret"})
	for header, want := range map[string]int{"": 401, "Bearer wrong": 401, "s3cret": 401, "Basic s3cret": 401, "Bearer s3cret": 200, "bearer s3cret": 200} {
		var h []string
		if header != "" {
			h = []string{"Authorization", header}
		}
		got := send(t, "GET", url+"/v1/models", "", h...)
		if got.status != want {
			t.Errorf("%q: %d, want %d", header, got.status, want)
		}
		if want == 401 {
			if e := refusal(t, got); strings.Contains(e.Message, "s3cret") || e.Code == nil || *e.Code != "invalid_api_key" {
				t.Errorf("%s", got.text)
			}
		}
	}
	if got := send(t, "GET", url+"/health", ""); got.status != http.StatusOK || got.text != "" {
		t.Errorf("health: %+v", got)
	}
	if got := send(t, "GET", url+"/metrics", ""); got.status != http.StatusUnauthorized {
		t.Errorf("metrics: %+v", got)
	}
}
