package openai

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"quantscope/analysis/gates/chat"
)

func TestEvents(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                  nil,
		"data: a\n\ndata: b\n\n":            {"a", "b"},
		"data:a\r\n\r\ndata:b\r\r":          {"a", "b"},
		": comment\n\n\n\ndata: a\n\n":      {"a"},
		"event: x\nid: 1\ndata: a\n\n":      {"a"},
		"data: a\ndata: b\ndata:\n\n":       {"a\nb\n"},
		"data: a\n":                         {"a"}, // no empty line before the end
		"data: a":                           {"a"},
		"data\n\n":                          {""},
		"data:  a\n\n":                      {" a"}, // one space belongs to the colon
		"data: a\r\ndata: b\r\n\r\n":        {"a\nb"},
		"error: {}\n\n":                     {"{}"},
		"\r\n\r\ndata: a\r\n\n":             {"a"},
		"retry: 5\n\ndata: [DONE]\n\nrest:": {"[DONE]"},
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			e := newEvents(r)
			var got []string
			for {
				d, err := e.next()
				if err != nil {
					if err != io.EOF {
						t.Errorf("%q: %v", in, err)
					}
					break
				}
				got = append(got, string(d))
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %q, want %q", in, got, want)
			}
		}
	}
	torn := errors.New("torn")
	e := newEvents(io.MultiReader(strings.NewReader("data: a\nda"), iotest.ErrReader(torn)))
	if d, err := e.next(); string(d) != "a" || err != nil {
		t.Errorf("%q, %v", d, err)
	}
	if _, err := e.next(); err != torn {
		t.Errorf("%v", err)
	}
	e = newEvents(endless{})
	e.most = 1 << 10
	if _, err := e.next(); err != errEvent {
		t.Errorf("%v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// FuzzStream holds that no stream makes the reader panic, that what was told in
// pieces is what is kept, that an error says of which kind it is, and that the size
// of the pieces in which it comes changes nothing.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\ude42\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"name\":\"f\",\"arguments\":\"{\"}},{\"function\":{\"arguments\":{\"a\":[1]}}}]}}],\"usage\":{\"prompt_tokens\":1e99}}\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"text\":\"x\",\"logprobs\":{\"tokens\":[\"x\"],\"token_logprobs\":[null],\"top_logprobs\":[{\"token_id:5\":-1}]},\"token_ids\":[5]}]}\r\rdata: {\"error\":\"e\"}"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":[{\"token\":\"x\",\"bytes\":[255,256],\"logprob\":NaN,\"top_logprobs\":[{\"logprob\":-Infinity}]}]}}]}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Client{o: Options{}.filled()}
		read := func(n int) (chat.Reply, string, string) {
			var told joined
			g := newGathering(&asked{}, chat.Request{Logprobs: 2}, func(d chat.Delta) { told.add(d.Text) }, nowhere)
			err := c.readStream(&slowly{data, n}, g)
			kind := ""
			if err != nil {
				var e *chat.Error
				if !errors.As(err, &e) || e.Kind == "" || strings.ContainsAny(err.Error(), "\n\r\x1b") {
					t.Fatalf("%v", err)
				}
				kind = string(e.Kind)
			} else if !g.chosen {
				t.Fatal("an answer without a choice")
			}
			return g.reply(), string(told.b), kind
		}
		r, told, kind := read(1 << 20)
		if told != r.Text {
			t.Fatalf("told %q, kept %q", told, r.Text)
		}
		for _, tok := range r.Tokens {
			if tok.Logprob < least || tok.Logprob != tok.Logprob || len(tok.Top) > 2 {
				t.Fatalf("%+v", tok)
			}
		}
		slow, _, slowKind := read(1)
		if !reflect.DeepEqual(r, slow) || kind != slowKind {
			t.Fatalf("%+v %s\n%+v %s", r, kind, slow, slowKind)
		}
	})
}

// FuzzWhole likewise for answers that come at once.
func FuzzWhole(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"content":"x","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},"prompt_logprobs":[null,{"5":{"logprob":-1,"rank":1,"decoded_token":"x"}}]}],"prompt_token_ids":[1,5]}`))
	f.Add([]byte(`{"choices":[{"text":"x","logprobs":{"content":[]},"prompt_logprobs":[{"x":1}]}]}`))
	f.Add([]byte(`<html><title>x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Client{o: Options{}.filled()}
		g := newGathering(&asked{ids: []int32{1, 5}}, chat.Request{PromptLogprobs: 2}, nil, nowhere)
		err := c.readWhole(&slowly{data, 100}, g)
		var e *chat.Error
		if err != nil && (!errors.As(err, &e) || strings.ContainsAny(err.Error(), "\n\r\x1b")) {
			t.Fatalf("%v", err)
		}
		if r := g.reply(); err == nil && (!g.chosen || len(r.Prompt) == 0) {
			t.Fatalf("%+v", r)
		}
	})
}
