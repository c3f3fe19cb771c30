package corpus

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/tokenizer"
)

// letters is a tokenizer of one token a letter, with or without a begin token.
func letters(t *testing.T, begins bool) *tokenizer.Tokenizer {
	t.Helper()
	post := "null"
	if begins {
		post = `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}}`
	}
	vocab := `"<s>":0`
	for i, r := range "abcdefghijklmnopqrstuvwxyz" {
		vocab += `,"` + string(r) + `":` + string("0123456789"[(i+1)/10]) + string("0123456789"[(i+1)%10])
	}
	vocab = strings.ReplaceAll(vocab, ":0", ":")
	vocab = strings.Replace(vocab, `"<s>":`, `"<s>":0`, 1)
	tok, err := tokenizer.Parse([]byte(`{"added_tokens":[{"id":0,"content":"<s>","special":true}],"post_processor":` + post +
		`,"decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":{` + vocab + `},"merges":[]}}`))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestBuildRules(t *testing.T) {
	docs := []Document{{"one", "abcde"}, {"two", "fghij"}}
	for _, c := range []struct {
		bos    string
		begins bool
		chunk  int
		stride int
		want   [][]int32
		rule   string
		left   int
	}{
		{BOSOwn, true, 4, 0, [][]int32{{0, 1, 2, 3}, {0, 4, 5, 6}, {0, 7, 8, 9}}, BOSEach, 1},
		{BOSOwn, false, 4, 0, [][]int32{{1, 2, 3, 4}, {5, 6, 7, 8}}, BOSNone, 2},
		{BOSNone, true, 4, 0, [][]int32{{1, 2, 3, 4}, {5, 6, 7, 8}}, BOSNone, 2},
		{BOSText, true, 4, 0, [][]int32{{0, 1, 2, 3}, {4, 5, 0, 6}, {7, 8, 9, 10}}, BOSText, 0},
		{BOSReplace, true, 4, 0, [][]int32{{0, 1, 2, 3}, {0, 5, 6, 7}}, BOSReplace, 3},
		{BOSNone, true, 4, 3, [][]int32{{1, 2, 3, 4}, {4, 5, 6, 7}, {7, 8, 9, 10}}, BOSNone, 0},
		{BOSNone, true, 4, 5, [][]int32{{1, 2, 3, 4}, {6, 7, 8, 9}}, BOSNone, 1},
	} {
		got, err := Build(context.Background(), "x", "x", docs, Options{Tokenizer: letters(t, c.begins), Chunk: c.chunk, Stride: c.stride, BOS: c.bos})
		if err != nil {
			t.Errorf("%q %d/%d: %v", c.bos, c.chunk, c.stride, err)
			continue
		}
		if !slices.EqualFunc(got.Chunks, c.want, slices.Equal) || got.BOS != c.rule || got.LeftOver != c.left || len(got.Findings) != 0 {
			t.Errorf("%q %d/%d: %v, rule %s, %d left over, %v; want %v, %s, %d", c.bos, c.chunk, c.stride, got.Chunks, got.BOS, got.LeftOver, got.Findings, c.want, c.rule, c.left)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	tok := letters(t, false)
	for name, c := range map[string]struct {
		text string
		o    Options
		want []string
	}{
		"short":          {"abc", Options{Tokenizer: tok, Chunk: 5}, []string{"text.txt", "3 tokens", "takes 5"}},
		"not UTF-8":      {"ab\xFFc", Options{Tokenizer: tok, Chunk: 2}, []string{"text.txt", "byte 2", "0xFF"}},
		"no tokenizer":   {"abc", Options{Chunk: 2}, []string{"needs a tokenizer"}},
		"no begin token": {"abc", Options{Tokenizer: tok, Chunk: 2, BOS: BOSEach}, []string{"each", "names none"}},
		"unknown rule":   {"abc", Options{Tokenizer: tok, Chunk: 2, BOS: "bos"}, []string{`"bos"`, "each, text, none, replace"}},
		"chunk of one":   {"abc", Options{Tokenizer: tok, Chunk: 1}, []string{"chunk of 1"}},
		"huge chunk":     {"abc", Options{Tokenizer: tok, Chunk: 1 << 30}, []string{"chunk of 1073741824"}},
		"stride":         {"abc", Options{Tokenizer: tok, Chunk: 2, Stride: -1}, []string{"stride of -1"}},
		"chunks":         {"abc", Options{Tokenizer: tok, Chunk: 2, Chunks: -1}, []string{"-1 chunks"}},
		"vocabulary":     {"abz", Options{Tokenizer: tok, Chunk: 2, Stride: 1, Vocab: 20}, []string{"id 26", "chunk 1, position 1", "20"}},
	} {
		_, err := Build(context.Background(), "x", "text.txt", []Document{{"text.txt", c.text}}, c.o)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", name, err, w)
			}
		}
	}
	_, err := Build(context.Background(), "x", "x", []Document{{"x", "a"}}, Options{Tokenizer: tok})
	if !errors.Is(err, ErrShort) {
		t.Errorf("short text: %v", err)
	}
}

func TestBeginTwice(t *testing.T) {
	// The begin token stands in the text, as a chat template writes it, and the rule adds another.
	c, err := Build(context.Background(), "x", "x", []Document{{"x", "<s>abc"}}, Options{Tokenizer: letters(t, true), Chunk: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Findings) != 1 || c.Findings[0].ID != "begin-twice" || c.Findings[0].Position != 1 || c.Findings[0].Token != 0 || c.Incomparable() == "" {
		t.Errorf("findings %+v", c.Findings)
	}
	// Ids of a file, with a tokenizer that knows no begin token and with none at all.
	all, err := Load(context.Background(), "testdata/C36-bos/tokens.jsonl", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"bos", "twice", "id 1 ", "positions 0 and 1"} {
		if !strings.Contains(all[0].Incomparable(), w) {
			t.Errorf("%q does not say %q", all[0].Incomparable(), w)
		}
	}
	// One begin token a chunk is no finding, and neither is a double token in some chunks.
	for _, text := range []string{"{\"ids\":[1,5]}\n{\"ids\":[1,6]}", "{\"ids\":[1,1]}\n{\"ids\":[2,2]}", "{\"ids\":[1,1,1]}"} {
		if all, err := Load(context.Background(), write(t, "x.jsonl", []byte(text)), Options{}); err != nil || all[0].Incomparable() != "" {
			t.Errorf("%s: %+v, %v", text, all, err)
		}
	}
	one, err := Build(context.Background(), "x", "x", []Document{{"x", "aabbaabb"}}, Options{Tokenizer: letters(t, true), Chunk: 4, BOS: BOSNone})
	if err != nil || one.Incomparable() != "" {
		t.Errorf("a double letter is taken for a begin token: %v, %v", one, err)
	}
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	tok := letters(t, false)
	ids := []byte{}
	for i := range 8 {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(i+1))
	}
	tensors := filepath.Join(t.TempDir(), "t.safetensors")
	w, err := checkpoint.NewWriter(tensors, []checkpoint.Spec{{Name: "calib", DType: checkpoint.I32, Shape: []int64{8}}, {Name: "eval.x", DType: checkpoint.I32, Shape: []int64{4, 2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.Write(ids); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		o    Options
		want []string // name: chunks
	}{
		"text":        {write(t, "a.txt", []byte("abcdefgh")), Options{Chunk: 4}, []string{"a: [[1 2 3 4] [5 6 7 8]]"}},
		"lines":       {write(t, "b.jsonl", []byte("{\"text\":\"abcd\"}\n\n{\"text\":\"efgh\",\"meta\":{}}\r\n")), Options{Chunk: 4}, []string{"b: [[1 2 3 4] [5 6 7 8]]"}},
		"ids":         {write(t, "c.ids", ids), Options{Chunk: 4}, []string{"c: [[1 2 3 4] [5 6 7 8]]"}},
		"id lines":    {write(t, "d.jsonl", []byte("{\"ids\":[1,2,3]}\n{\"input_ids\":[4,5]}")), Options{}, []string{"d: [[1 2 3] [4 5]]"}},
		"cut lines":   {write(t, "e.jsonl", []byte("{\"tokens\":[1,2,3]}\n{\"tokens\":[4,5,6]}")), Options{Chunk: 2}, []string{"e: [[1 2] [3 4] [5 6]]"}},
		"safetensors": {tensors, Options{Chunks: 3}, nil},
		"cut tensors": {tensors, Options{Chunk: 4}, []string{"calib: [[1 2 3 4] [5 6 7 8]]", "x: [[1 2 3 4] [5 6 7 8]]"}},
	} {
		c.o.Tokenizer = tok
		all, err := Load(context.Background(), c.path, c.o)
		if name == "safetensors" {
			if !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), "8 tokens, and a chunk takes 512") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, k := range all {
			got = append(got, k.Name+": "+strings.ReplaceAll(strings.TrimSpace(sprint(k.Chunks)), "\n", ""))
			if k.Calib != (k.Name == "calib") {
				t.Errorf("%s: %s is calibration: %t", name, k.Name, k.Calib)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Ids of eight bytes that are no int32 are refused, not cut short.
func TestWideIDs(t *testing.T) {
	for id, want := range map[uint64]string{5: "", 1 << 40: "token id 1099511627776 at 1", ^uint64(0): "token id -1 at 1"} {
		path := filepath.Join(t.TempDir(), "w.safetensors")
		w, err := checkpoint.NewWriter(path, []checkpoint.Spec{{Name: "x", DType: checkpoint.I64, Shape: []int64{1, 2}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(binary.LittleEndian.AppendUint64(make([]byte, 8), id)); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		_, err = Load(context.Background(), path, Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %q", int64(id), err, want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       string
	}{
		"messages":  {"a.jsonl", `{"messages":[]}`, "chat templates are not executed"},
		"mixed":     {"a.jsonl", "{\"text\":\"abc\"}\n{\"ids\":[1,2]}", "line 2 mixes texts and ids"},
		"both":      {"a.jsonl", `{"text":"abc","ids":[1,2]}`, "line 1 mixes texts and ids"},
		"two lists": {"a.jsonl", `{"tokens":[1,2],"ids":[1,2]}`, "line 1 has two lists"},
		"neither":   {"a.jsonl", `{"content":"x"}`, `line 1 has neither "text" nor ids`},
		"no JSON":   {"a.jsonl", "{\"text\":\"abc\"}\nabc", "line 2 is no JSON"},
		"empty":     {"a.jsonl", "\n\n", "no line"},
		"float ids": {"a.jsonl", `{"ids":[1.5,2]}`, "line 1"},
		"odd ids":   {"a.ids", "abcde", "5 bytes"},
		"negative":  {"a.jsonl", `{"ids":[1,-2]}`, "id -2 at chunk 0, position 1"},
		"large id":  {"a.jsonl", `{"ids":[1,27]}`, "id 27 at chunk 0, position 1, is outside the vocabulary of 27"},
		"one token": {"a.jsonl", `{"ids":[1]}`, "chunk 0 has 1 tokens"},
		"foreign":   {"a.json", `{"text":"abc"}`, "format is \"\""},
		"a tensor":  {"a.safetensors", "none", "a.safetensors"},
	} {
		_, err := Load(context.Background(), write(t, c.file, []byte(c.text)), Options{Tokenizer: letters(t, false)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Load(context.Background(), "prose", Options{Tokenizer: letters(t, false)}); err == nil || !strings.Contains(err.Error(), "demo's tokenizer") {
		t.Errorf("an embedded corpus for another tokenizer: %v", err)
	}
	if _, err := Load(context.Background(), t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Load(context.Background(), filepath.Join(t.TempDir(), "none.txt"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestLoadDemo(t *testing.T) {
	tok, err := DemoTokenizer()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"demo": "prose code multi math chat", "eval.code": "code", "prose": "prose", "calib": "calib"} {
		all, err := Load(context.Background(), name, Options{Tokenizer: tok, Chunks: 2})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, c := range all {
			got = append(got, c.Name)
			if len(c.Chunks) != 2 || c.SHA256 != sum(c.Chunks) {
				t.Errorf("%s: %d chunks, sum %x", c.Name, len(c.Chunks), c.SHA256)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}
