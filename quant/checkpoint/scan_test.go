package checkpoint

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// nesting is how deep the brackets outside strings of valid JSON go.
func nesting(text []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			depth++
			deepest = max(deepest, depth)
		case !inString && (c == '}' || c == ']'):
			depth--
		}
	}
	return deepest
}

// The scanner takes what encoding/json takes, but for what it refuses on
// purpose (invalid UTF-8, lone surrogates, deep nesting), and reads strings as
// encoding/json does.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":[1,-0,0.5e+3,1E9,-12.25e-1],"b":{"c":null,"d":true,"e":false}}`, `{"a":"\u00e9\ud83d\ude80\"\\\/\b\f\n\r\t"}`,
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":-}`, `{"a" "b"}`, `{"a":tru}`, `{"a":nullx}`, `{,}`, `[1,]`, `"a`,
		`{"a":"\ud83d"}`, `{"a":"` + "\x01" + `"}`, `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, `{"a":NaN}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := newScanner(text)
		if (err == nil) != utf8.Valid(text) {
			t.Fatalf("UTF-8 of %q: %v", text, err)
		}
		if err != nil {
			return
		}
		err = s.skip(1)
		if err == nil {
			err = s.end()
		}
		valid := json.Valid(text)
		if err == nil && !valid {
			t.Errorf("%q is taken, but not by encoding/json", text)
		}
		onPurpose := bytes.Contains(text, []byte(`\u`)) || nesting(text) > maxDepth
		if err != nil && valid && !onPurpose {
			t.Errorf("%q: %v, but encoding/json takes it", text, err)
		}
		var want string
		if json.Unmarshal(text, &want) != nil {
			return
		}
		s, _ = newScanner(text)
		if got, err := s.text(); err == nil && string(got) != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	})
}

func TestScannerPython(t *testing.T) {
	for text, python := range map[string]bool{
		`{"a":[NaN,Infinity,-Infinity]}`: true, `{"a":-NaN}`: false, `{"a":Inf}`: false, `{"a":NaNx}`: false, `{"a":nan}`: false,
	} {
		for _, on := range []bool{false, true} {
			s, err := newScanner([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			s.python = on
			err = s.skip(1)
			if err == nil {
				err = s.end()
			}
			if want := on && python; (err == nil) != want {
				t.Errorf("%s with Python's words %v: %v", text, on, err)
			}
		}
	}
}

// An index is accepted only with names that stay in its folder; its shards
// are sorted, and the counts add up.
func FuzzIndex(f *testing.F) {
	for _, s := range []string{
		`{"metadata":{"total_size":136},"weight_map":{"b":"2.safetensors","a":"1.safetensors","c":"2.safetensors"}}`,
		`{"weight_map":{"a":"../x"}}`, `{"weight_map":{"a":"x/../../y"}}`, `{"weight_map":{"a":"c:x"}}`, `{"weight_map":{"a":"a\u0000b"}}`,
		`{"weight_map":{"a":"x","a":"y"}}`, `{"weight_map":{}}`, `{"metadata":null,"weight_map":{"a":"sub/x"}}`, `{"metadata":{"total_size":1.5e3}}`,
	} {
		f.Add([]byte(s))
		f.Add([]byte(s)[:len(s)*2/3])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var ix *index
		var err error
		n := allocated(func() { ix, err = parseIndex(text) })
		if limit := uint64(64<<10 + maxPerByte*len(text)); n > limit {
			t.Errorf("%d bytes allocated for %d bytes of index, want at most %d", n, len(text), limit)
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("not one clean line: %q", err.Error())
			}
			return
		}
		total := 0
		for i, shard := range ix.shards {
			total += ix.counts[i]
			if !localName(shard) || i > 0 && shard <= ix.shards[i-1] || ix.counts[i] == 0 {
				t.Errorf("shard %d is %q with %d tensors", i, shard, ix.counts[i])
			}
		}
		if total != len(ix.weights) {
			t.Errorf("%d tensors in the shards, %d in the map", total, len(ix.weights))
		}
		for name, n := range ix.weights {
			if int(n) >= len(ix.shards) {
				t.Errorf("%q is in shard %d of %d", name, n, len(ix.shards))
			}
		}
	})
}

func TestScannerDepth(t *testing.T) {
	for depth, ok := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		s, err := newScanner([]byte(strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.skip(1); (err == nil) != ok {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}
