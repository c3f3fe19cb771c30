package lint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const tokenizerJSON = `{"version": "1.0", "truncation": null, "added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 9, "content": "<tool>", "special": false}],
 "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}, "post_processor": null,
 "model": {"type": "BPE", "vocab": {"a": 1, "b": 2, "ab": 3, "c": 4}, "merges": ["a b", "ab c"], "byte_fallback": false}}`

// changed is tokenizerJSON after an edit.
func changed(t testing.TB, edit func(o, model map[string]any)) []byte {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(tokenizerJSON), &o); err != nil {
		t.Fatal(err)
	}
	edit(o, o["model"].(map[string]any))
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What two tokenizers do differently is told by part; what does not matter is not.
func TestTokenizerDiff(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(o, model map[string]any)
		want []Evidence
	}{
		{"nothing", func(o, _ map[string]any) {}, nil},
		{"version, truncation and padding", func(o, _ map[string]any) {
			o["version"], o["truncation"], o["padding"] = "2.0", map[string]any{"max_length": 5}, map[string]any{}
		}, nil},
		{"merges as pairs", func(_, m map[string]any) { m["merges"] = []any{[]any{"a", "b"}, []any{"ab", "c"}} }, nil},
		{"a default that is written out", func(_, m map[string]any) { m["ignore_merges"], m["dropout"] = false, nil }, nil},
		{"a token", func(_, m map[string]any) { m["vocab"].(map[string]any)["d"] = 5 }, []Evidence{{"tokens", `1 only here ("d")`}}},
		{"no token", func(_, m map[string]any) { delete(m["vocab"].(map[string]any), "ab") }, []Evidence{{"tokens", `1 missing ("ab")`}}},
		{"two ids", func(_, m map[string]any) { v := m["vocab"].(map[string]any); v["a"], v["b"] = 2, 1 }, []Evidence{{"tokens", `2 other ("a", "b")`}}},
		{"a merge", func(_, m map[string]any) { m["merges"] = []any{"a b"} }, []Evidence{{"merges", "1 here and 2 in the source, 0 of them only here, the first difference in place 1"}}},
		{"the order of merges", func(_, m map[string]any) { m["merges"] = []any{"ab c", "a b"} }, []Evidence{{"merges", "2 here and 2 in the source, 0 of them only here, the first difference in place 0"}}},
		{"an added token", func(o, _ map[string]any) { o["added_tokens"] = o["added_tokens"].([]any)[:1] }, []Evidence{{"added tokens", `1 missing ("<tool>")`}}},
		{"a special token that is none", func(o, _ map[string]any) { o["added_tokens"].([]any)[0].(map[string]any)["special"] = false }, []Evidence{{"added tokens", `1 other ("<s>")`}}},
		{"the normalizer", func(o, _ map[string]any) { o["normalizer"] = nil }, []Evidence{{"normalizer", `null, in the source {"type":"NFC"}`}}},
		{"the pre-tokenizer", func(o, _ map[string]any) { o["pre_tokenizer"].(map[string]any)["add_prefix_space"] = true }, []Evidence{{"pre_tokenizer", `{"add_prefix_space":true,"type":"ByteLevel"}, in the source {"add_prefix_space":false,"type":"ByteLevel"}`}}},
		{"a model's word", func(_, m map[string]any) { m["byte_fallback"] = true }, []Evidence{{"model", `1 only here ("byte_fallback")`}}},
	} {
		got := TokenizerDiff(changed(t, c.edit), []byte(tokenizerJSON))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if d := TokenizerDiff([]byte("[]"), []byte(tokenizerJSON)); len(d) != 1 {
		t.Errorf("%q", d)
	}
}

// A tokenizer is no different from itself, and what one has and the other lacks is
// seen from both sides.
func FuzzTokenizerDiff(f *testing.F) {
	f.Add([]byte(tokenizerJSON), []byte(tokenizerJSON))
	f.Add([]byte(`{"model":{"vocab":[["a",-1],["b",2]],"merges":[1,["a"],["a","b"]]},"added_tokens":[1,{"content":2}]}`), []byte(`{}`))
	f.Add([]byte(`{"model":3,"added_tokens":{}}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if d := TokenizerDiff(a, slices.Clone(a)); len(d) != 0 {
			t.Fatalf("%q differs from itself: %q", a, d)
		}
		x, y := TokenizerDiff(a, b), TokenizerDiff(b, a)
		if (len(x) == 0) != (len(y) == 0) {
			t.Fatalf("%q from one side, %q from the other", x, y)
		}
	})
}

// A template that writes the begin token first, in the ways in which they do.
func TestTemplatesThatBegin(t *testing.T) {
	for template, want := range map[string]bool{
		"{{ bos_token }}{% for m in messages %}": true, "{{bos_token}}": true, "\n{{- bos_token + 'x' }}": true, "<s>{{ m }}": true,
		"{% for m in messages %}{{ bos_token }}": false, "{{ eos_token }}": false, "": false, "text": false,
	} {
		if got := beginsWithBOS(template, "<s>"); got != want {
			t.Errorf("%q: %v", template, got)
		}
	}
}

// Templates, special tokens and files against the source's.
func TestAgainstTheSource(t *testing.T) {
	base := texts{
		tokenizer: []byte(tokenizerJSON), config: []byte(`{"bos_token": {"content": "<s>"}, "add_bos_token": true, "model_max_length": 100}`), special: []byte(`{"bos_token": "<s>"}`),
		template: "{{ a }}\n{{ b }}\n", templateFile: "chat_template.jinja",
	}
	for _, c := range []struct {
		name string
		edit func(*texts)
		id   string
		word string
	}{
		{"nothing", func(*texts) {}, "", ""},
		{"a token as a text", func(x *texts) {
			x.config = []byte(`{"bos_token": "<s>", "add_bos_token": true, "model_max_length": 100}`)
		}, "", ""},
		{"blanks at line ends", func(x *texts) { x.template = "{{ a }}  \r\n{{ b }}" }, "", ""},
		{"a template in the config", func(x *texts) { x.templateFile = tokenizerConfigFile }, "", ""},
		{"another template", func(x *texts) { x.template = "{{ a }}\n{{ c }}" }, "chat-template-differs", "line 2"},
		{"no template", func(x *texts) { x.template, x.templateFile = "", "" }, "chat-template-missing", "chat_template.jinja"},
		{"no tokenizer", func(x *texts) { x.tokenizer = nil }, "tokenizer-missing", "is missing"},
		{"another begin token", func(x *texts) { x.config = []byte(`{"bos_token": "<x>"}`) }, "tokenizer-config-differs", "bos_token"},
		{"a longer context", func(x *texts) { x.config = []byte(`{"model_max_length": 7}`) }, "tokenizer-config-differs", "model_max_length"},
		{"other special tokens", func(x *texts) { x.special = []byte(`{"bos_token": "<x>"}`) }, "tokenizer-config-differs", "special_tokens_map bos_token"},
		{"another tokenizer", func(x *texts) { x.tokenizer = changed(t, func(o, m map[string]any) { o["decoder"] = nil }) }, "tokenizer-differs", "decoder"},
	} {
		own := base
		c.edit(&own)
		r := &run{ctx: t.Context(), Input: Input{Most: 9}, rep: &Report{}, listed: map[string]int{}, first: map[string]int{}}
		r.against(own, base)
		switch {
		case c.id == "":
			if len(r.rep.Findings) != 0 {
				t.Errorf("%s: %+v", c.name, r.rep.Findings)
			}
		case len(r.rep.Findings) != 1 || r.rep.Findings[0].ID != c.id || !strings.Contains(r.rep.Findings[0].Message+fmt.Sprint(r.rep.Findings[0].Evidence), c.word):
			t.Errorf("%s: %+v, want %s", c.name, r.rep.Findings, c.id)
		}
	}
}
