package mend

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

// Setting a member changes that one and nothing else, whatever the text.
func FuzzSetPath(f *testing.F) {
	f.Add(`{"a": {"b": [1, NaN]}, "c": -Infinity}`, "a", "b")
	f.Add(`{}`, "quantization_config", "ignore")
	f.Add(`{"a": null}`, "a", "a")
	f.Add(`{"a": {"b": 1, "b": 2}}`, "a", "b")
	f.Add("{\n\t\"x\": \"\\u00e9\"\n}", "y", "z")
	f.Fuzz(func(t *testing.T, text, outer, inner string) {
		if !utf8.ValidString(text) || !utf8.ValidString(outer) || !utf8.ValidString(inner) {
			return // the keys are our own
		}
		got, err := setPath([]byte(text), []string{outer, inner}, "new")
		if err != nil {
			return
		}
		var before, after map[string]any
		if json.Unmarshal([]byte(text), &before) != nil {
			return // Python's numbers
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		if before == nil {
			t.Fatalf("%q was taken", text)
		}
		obj, _ := before[outer].(map[string]any)
		if obj == nil {
			obj = map[string]any{}
		}
		obj[inner] = "new"
		before[outer] = obj
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestMemberOfPythonsJSON(t *testing.T) {
	const text = `{"a": {"x": 1}, "b": {"x": NaN}, "c": NaN}`
	if raw, err := member([]byte(text), "a"); err != nil || string(raw) != `{"x": 1}` {
		t.Errorf("%s %v", raw, err)
	}
	if _, err := member([]byte(text), "b"); err == nil {
		t.Error("a member with NaN would be written as null")
	}
	got, err := setPath([]byte(text), []string{"a", "x"}, 2)
	if want := `{"a": {"x":2}, "b": {"x": NaN}, "c": NaN}`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
}
