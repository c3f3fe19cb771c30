package checkpoint

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSetMember(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"a": 1}`, `{"a": 1, "k": {"x":[1]}}`},
		{`{"a":NaN,"b":-Infinity}`, `{"a":NaN,"b":-Infinity, "k": {"x":[1]}}`},
		{`{"a": 1, "k": [2, {"k": 3}], "b": 2}`, `{"a": 1, "k": {"x":[1]}, "b": 2}`},
		{`{"a": {"k": 0}}`, `{"a": {"k": 0}, "k": {"x":[1]}}`},
		{"{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"k\": {\n    \"x\": [\n      1\n    ]\n  }\n}\n"},
		{"{\n\t\"a\": 1,\n\t\"k\": null\n}", "{\n\t\"a\": 1,\n\t\"k\": {\n\t\t\"x\": [\n\t\t\t1\n\t\t]\n\t}\n}"},
		{`{}`, "{\n  \"k\": {\n    \"x\": [\n      1\n    ]\n  }\n}"},
		{"{ \n}\n", "{\n  \"k\": {\n    \"x\": [\n      1\n    ]\n  }\n}\n"},
	} {
		got, err := SetMember([]byte(c.text), "k", []byte("{\"x\": [1]}\n"))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	for text, mention := range map[string]string{
		`{"k": 1, "k": 2}`: "twice", `[]`: "want '{'", `{"a": 1`: "end", `{} x`: "nothing more", "{\"\xff\": 1}": "UTF-8",
	} {
		if _, err := SetMember([]byte(text), "k", []byte("1")); err == nil || !strings.Contains(err.Error(), mention) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := SetMember([]byte(`{"a": 1}`), "k", []byte("{")); err == nil {
		t.Error("a value that is no JSON")
	}
}

// The member has the value, the others keep theirs.
func TestSetMemberProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.MapOf(rapid.StringMatching(`[a-e"\\]{1,3}`), rapid.Int()).Draw(t, "object")
		key := rapid.StringMatching(`[a-e"\\]{1,3}`).Draw(t, "key")
		text, err := json.Marshal(before)
		if rapid.Bool().Draw(t, "lines") {
			text, err = json.MarshalIndent(before, "", " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := SetMember(text, key, []byte("7"))
		if err != nil {
			t.Fatal(err)
		}
		var after map[string]int
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if before == nil {
			before = map[string]int{}
		}
		before[key] = 7
		if len(after) != len(before) {
			t.Fatalf("%s", out)
		}
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%q is %d, want %d, in %s", k, after[k], v, out)
			}
		}
	})
}
