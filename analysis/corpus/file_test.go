package corpus

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func sprint(v any) string { return fmt.Sprint(v) }

func TestFile(t *testing.T) {
	tok := letters(t, true)
	made, err := Build(context.Background(), "x", "x.json", []Document{{"one", "abcdefg"}}, Options{Tokenizer: tok, Chunk: 3, Calib: true})
	if err != nil {
		t.Fatal(err)
	}
	data, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := decode("x.json", data, Options{Tokenizer: tok})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(made, read) {
		t.Errorf("read %+v, written %+v", read, made)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"an id":        {"[0,3,4]", "[0,3,5]", "sha256 of the ids"},
		"a begin":      {"[0,3,4]", "[1,3,4]", "sha256 of the ids"},
		"rule":         {`"bos": "each"`, `"bos": "always"`, `"always" is not known`},
		"begin token":  {`"begin": 0`, `"begin": 2`, "chunk 0 does not begin with token 2"},
		"count":        {`"tokens": 9`, `"tokens": 8`, "says 3 of 8"},
		"version":      {`"version": 1`, `"version": 2`, "version 2"},
		"format":       {`quantscope-corpus`, `corpus`, "format"},
		"tokenizer":    {`"tokenizer": "` + tok.Identity()[:4], `"tokenizer": "zzzz`, ""},
		"both":         {`"tokenizer`, `"x`, ""},
		"cut":          {"]}\n", "", "unexpected end"},
		"a chunk less": {"[0,1,2],\n", "", "2 chunks"},
		"huge id":      {"[0,3,4]", "[0,3,4000000000]", "4000000000"},
	} {
		if !bytes.Contains(data, []byte(c.old)) {
			t.Fatalf("%s: %s is not in %s", name, c.old, data)
		}
		_, err := decode("x.json", bytes.Replace(data, []byte(c.old), []byte(c.new), 1), Options{Tokenizer: tok})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := decode("x.json", data, Options{Tokenizer: letters(t, true), Chunk: 4}); err == nil || !strings.Contains(err.Error(), "cut into chunks already") {
		t.Errorf("another chunk: %v", err)
	}
	other, err := DemoTokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode("x.json", data, Options{Tokenizer: other}); err == nil || !strings.Contains(err.Error(), other.Identity()[:12]) {
		t.Errorf("another tokenizer: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"format":"quantscope-corpus","version":1,"bos":"none","chunks":1,"tokens":2,"positions":1,"ids":[[1,2]],"sha256":"x"}`))
	f.Add([]byte("{\"ids\":[1,2]}\n{\"ids\":[1,2]}"))
	f.Add([]byte("{\"text\":\"\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Decode("x", data); err == nil {
			again, err := c.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if d, err := Decode("x", again); err != nil || d.SHA256 != c.SHA256 {
				t.Errorf("written anew: %v, %v", d, err)
			}
		}
		if c, err := fromLines(context.Background(), "x", data, Options{}); err == nil && c.Positions() < 1 {
			t.Errorf("lines: %v", c)
		}
		if c, err := fromIDs("x", data, Options{Chunk: 2}); err == nil && c.Positions() < 1 {
			t.Errorf("ids: %v", c)
		}
	})
}
