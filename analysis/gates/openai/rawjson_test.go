package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func nowhere() time.Duration { return 1 }

// TestRawText holds that texts come through byte for byte.
func TestRawText(t *testing.T) {
	for _, c := range []struct {
		in, want string
		invalid  int
	}{
		{`"한국"`, "한국", 0},
		{`"\ud55c\uad6d"`, "한국", 0},
		{`"\ud83d\ude42"`, "🙂", 0},
		{`"\uD83D"`, "\xed\xa0\xbd", 3},
		{`"\ude42\ud83d"`, "\xed\xb9\x82\xed\xa0\xbd", 6},
		{`"\ud83d\u0041"`, "\xed\xa0\xbdA", 3},
		{"\"a\xffb\xc3\"", "a\xffb\xc3", 2},
		{"\"\xed\x95\"", "\xed\x95", 2},
		{`"\ufffd"`, "\uFFFD", 0}, // a character that is there, and is none: graders count it
		{`"\"\\\/\b\f\n\r\t\u0000"`, "\"\\/\b\f\n\r\t\x00", 0},
	} {
		data := []byte(c.in)
		n, err := parseJSON(data)
		if string(data) != c.in {
			t.Errorf("%s was changed to %s", c.in, data)
		}
		if err != nil || n.str() != c.want || invalid(n.str()) != c.invalid {
			t.Errorf("%s: %q with %d invalid bytes, %v; want %q with %d", c.in, n.str(), invalid(n.str()), err, c.want, c.invalid)
		}
	}
	var j joined
	for _, p := range []string{"a", "\xed\xa0\xbd", "", "\xed\xb9\x82", "b", "\xed\x95", "\x9c"} {
		j.add(p)
	}
	if string(j.b) != "a🙂b한" {
		t.Errorf("%q", j.b)
	}
	if got := join("\xed\xa0\xbd", "\xed\xb9\x82!"); got != "🙂!" {
		t.Errorf("%q", got)
	}
}

func TestBadJSON(t *testing.T) {
	for _, s := range []string{
		"", " ", "{", "}", "[1,", "[1,]", `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `"a`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"a\nb\"",
		"01x", "-", "1e", "--1", "nul", "tru", "1 2", "[1 2]", `{"a" 1}`, "\xff", strings.Repeat("[", 1000),
	} {
		if n, err := parseJSON([]byte(s)); err == nil {
			t.Errorf("%q is read as %+v", s, n)
		}
	}
	few := parser{data: []byte("[[1],{\"a\":2},3]"), left: 5}
	if _, err := few.value(0); err == nil {
		t.Error("more values than the bound")
	}
	few = parser{data: few.data, left: 6}
	if _, err := few.value(0); err != nil {
		t.Error(err)
	}
	if n, err := parseJSON([]byte("[NaN,-Infinity,Infinity,1e999]")); err != nil || len(n.list) != 4 || n.list[0].integer() != -1 || n.list[3].integer() != -1 {
		t.Errorf("%+v, %v", n, err)
	}
}

// FuzzJSON holds the reader against encoding/json: what that takes, this takes, with
// the same texts where they are UTF-8; and what this takes, it writes so that it
// reads the same again.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e9\ud83d\ude42",null,true]}`, `"\ud800"`, "\"\xff\"", `[[[]]]`, "-0.0", `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parseJSON(data)
		var v any
		if json.Unmarshal(data, &v) == nil && utf8.Valid(data) {
			if err != nil && !strings.Contains(err.Error(), errDepth.Error()) {
				t.Fatalf("%q: %v", data, err)
			}
			if err == nil {
				same(t, n, v)
			}
		}
		if err != nil {
			return
		}
		again, err := parseJSON(appendJSON(nil, n))
		if err != nil || !equal(n, again) {
			t.Fatalf("%q is written as %q: %v", data, appendJSON(nil, n), err)
		}
	})
}

func same(t *testing.T, n node, v any) {
	switch v := v.(type) {
	case string:
		if n.kind != text || strings.ToValidUTF8(n.text, "\uFFFD") != v && !strings.Contains(v, "\uFFFD") {
			t.Fatalf("%+v, %q", n, v)
		}
	case float64:
		if n.float() != v {
			t.Fatalf("%+v, %v", n, v)
		}
	case []any:
		if n.kind != list || len(n.list) != len(v) {
			t.Fatalf("%+v, %v", n, v)
		}
		for i := range v {
			same(t, n.list[i], v[i])
		}
	case map[string]any:
		for k := range v {
			if n.kind != object || !strings.Contains(k, "\uFFFD") && n.get(k).kind == absent {
				t.Fatalf("%+v, %v", n, v)
			}
		}
	}
}

func equal(a, b node) bool {
	if a.kind != b.kind || a.text != b.text && (a.kind != number || a.float() != b.float()) || len(a.list) != len(b.list) || len(a.keys) != len(b.keys) {
		return false
	}
	for i := range a.keys {
		if a.keys[i] != b.keys[i] {
			return false
		}
	}
	for i := range a.list {
		if !equal(a.list[i], b.list[i]) {
			return false
		}
	}
	return true
}
