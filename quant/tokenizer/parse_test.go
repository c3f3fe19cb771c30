package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tiny is a tokenizer.json with its parts exchanged.
func tiny(parts map[string]string) []byte {
	all := map[string]string{
		"added_tokens": `[{"id":4,"content":"<s>","special":true}]`, "normalizer": "null", "pre_tokenizer": "null", "post_processor": "null", "decoder": `{"type":"Fuse"}`,
		"model": `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[["a","b"]]}`,
	}
	for k, v := range parts {
		all[k] = v
	}
	var b strings.Builder
	for k, v := range all {
		fmt.Fprintf(&b, ",%q:%s", k, v)
	}
	return []byte("{" + b.String()[1:] + "}")
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		part, value, want string
		unknown           bool
	}{
		"model":           {"model", `{"type":"WordPiece"}`, `model: model "WordPiece" is not known; known are BPE, Unigram`, true},
		"word level":      {"model", `{"type":"WordLevel"}`, `"WordLevel" is not known`, true},
		"dropout":         {"model", `{"type":"BPE","vocab":{},"merges":[],"dropout":0.1}`, "dropout of 0.1", true},
		"prefix":          {"model", `{"type":"BPE","vocab":{},"merges":[],"continuing_subword_prefix":"##"}`, `continuing_subword_prefix "##"`, true},
		"suffix":          {"model", `{"type":"BPE","vocab":{},"merges":[],"end_of_word_suffix":"</w>"}`, `end_of_word_suffix "</w>"`, true},
		"unk":             {"model", `{"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"<unk>"}`, `unk_token "<unk>"`, false},
		"merge":           {"model", `{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]}`, `merge 0 of "a" and "b"`, false},
		"merge of three":  {"model", `{"type":"BPE","vocab":{"a":0},"merges":["a b c"]}`, `merge 0, "a b c", is no pair`, false},
		"merge list":      {"model", `{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}`, "is no pair", false},
		"merges":          {"model", `{"type":"BPE","vocab":{"a":0},"merges":{"a":1}}`, "merges", false},
		"one id":          {"model", `{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}`, "id 0 is both", false},
		"negative id":     {"model", `{"type":"BPE","vocab":{"a":-1},"merges":[]}`, "id -1", false},
		"huge id":         {"model", `{"type":"BPE","vocab":{"a":2000000000},"merges":[]}`, "id 2000000000", false},
		"no model":        {"model", `null`, "there is none", false},
		"no unk_id":       {"model", `{"type":"Unigram","vocab":[["a",-1]]}`, "without unk_id", true},
		"unk_id":          {"model", `{"type":"Unigram","vocab":[["a",-1]],"unk_id":5}`, "unk_id 5", false},
		"entry":           {"model", `{"type":"Unigram","vocab":[["a"]],"unk_id":0}`, "entry 0 has 1 parts", false},
		"normalizer":      {"normalizer", `{"type":"Precompiled","precompiled_charsmap":""}`, `normalizer "Precompiled" is not known`, true},
		"growth":          {"normalizer", `{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"},{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"}]}]}`, `100 times as long are not known`, true},
		"long":            {"normalizer", `{"type":"Replace","pattern":{"Regex":"a"},"content":"` + strings.Repeat("b", 100) + `"}`, `replacement by 100 bytes is not known`, true},
		"bert normalizer": {"normalizer", `{"type":"Sequence","normalizers":[{"type":"BertNormalizer"}]}`, `"BertNormalizer" is not known`, true},
		"no type":         {"normalizer", `{}`, "a part without a type", false},
		"empty replace":   {"normalizer", `{"type":"Replace","pattern":{"Regex":"x*"},"content":""}`, "may be empty", true},
		"empty text":      {"normalizer", `{"type":"Replace","pattern":{"String":""},"content":""}`, "empty text", true},
		"no pattern":      {"pre_tokenizer", `{"type":"Split","pattern":{},"behavior":"Isolated"}`, "neither String nor Regex", true},
		"pre-tokenizer":   {"pre_tokenizer", `{"type":"UnicodeScripts"}`, `"UnicodeScripts" is not known`, true},
		"pattern":         {"pre_tokenizer", `{"type":"Split","pattern":{"Regex":"(?<=a)b"},"behavior":"Isolated"}`, `group "(?<=a"`, true},
		"behavior":        {"pre_tokenizer", `{"type":"Split","pattern":{"String":"a"},"behavior":"Gone"}`, `split behavior "Gone" is not known; known are Isolated`, true},
		"scheme":          {"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"some"}`, `prepend_scheme "some"`, true},
		"contradiction":   {"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false}`, "contradict", false},
		"replacement":     {"pre_tokenizer", `{"type":"Metaspace","replacement":""}`, "is not one character", false},
		"delimiter":       {"pre_tokenizer", `{"type":"CharDelimiterSplit","delimiter":"ab"}`, "is not one character", false},
		"post":            {"post_processor", `{"type":"Mine"}`, `post-processor "Mine" is not known`, true},
		"two templates":   {"post_processor", `{"type":"Sequence","processors":[{"type":"BertProcessing","sep":["a",0],"cls":["b",1]},{"type":"BertProcessing","sep":["a",0],"cls":["b",1]}]}`, "two templates", true},
		"template ids":    {"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[77]}}}`, "token id 77", false},
		"template token":  {"post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}}`, `"x" has no ids`, false},
		"template part":   {"post_processor", `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}],"special_tokens":{}}`, "neither a token nor the text", true},
		"cls":             {"post_processor", `{"type":"RobertaProcessing","sep":["a",0],"cls":["b"]}`, "pairs", false},
		"decoder":         {"decoder", `{"type":"WordPiece"}`, `decoder "WordPiece" is not known`, true},
		"strip":           {"decoder", `{"type":"Strip","content":"","start":1000000000,"stop":0}`, "is not one character", false},
		"added types":     {"added_tokens", `[{"id":"1","content":"x"}]`, "tokenizer.json", false},
		"deep":            {"normalizer", strings.Repeat(`{"type":"Sequence","normalizers":[`, 100) + strings.Repeat(`]}`, 100), "nest", false},
	} {
		_, err := Parse(tiny(map[string]string{c.part: c.value}))
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnknown) != c.unknown || !strings.HasPrefix(err.Error(), "tokenizer.json: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, bad := range []string{"", "[]", "{", `{"model":{}}`, "null", "1"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The library numbers added tokens itself; the peer's added_many has such a file.
func TestAddedAreNumbered(t *testing.T) {
	tok := mustParse(t, map[string]string{"added_tokens": `[{"id":9,"content":"x"},{"id":7,"content":"ab"},{"id":1000000000,"content":"y"},{"id":3,"content":"x"},{"id":3,"content":""}]`})
	for token, want := range map[string]int32{"x": 4, "ab": 2, "y": 5} {
		if id, ok := tok.ID(token); !ok || id != want {
			t.Errorf("%q has id %d, want %d", token, id, want)
		}
	}
	if n := tok.Notes(); tok.Vocab() != 6 || len(n) != 1 || !strings.Contains(n[0], `3 added tokens are numbered by the library's rule and not by the file: "x" has id 9 in the file and 4 by the rule`) {
		t.Errorf("%d tokens, notes %q", tok.Vocab(), n)
	}
}

// Truncation is for batches: ids are whole, and a note says so.
func TestTruncationIsANote(t *testing.T) {
	tok, err := Parse(tiny(map[string]string{"truncation": `{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0}`}))
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode("abcabc", false); !slices.Equal(got, []int32{2, 3, 2, 3}) {
		t.Errorf("ids %v", got)
	}
	if n := tok.Notes(); len(n) != 1 || !strings.Contains(n[0], "tokenizer.json has a truncation to 2 tokens baked in") {
		t.Errorf("notes %q", n)
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		bos    int32
		note   string
	}{
		"string":    {`{"bos_token":"<s>"}`, 4, ""},
		"object":    {`{"bos_token":{"content":"<s>","lstrip":false}}`, 4, ""},
		"none":      {`{"bos_token":null}`, -1, ""},
		"not there": {`{"bos_token":"<bos>"}`, -1, `names "<bos>" as the begin token`},
		"adds":      {`{"bos_token":"<s>","add_bos_token":true}`, 4, "says that a begin token is added, and the template of tokenizer.json adds none"},
		"adds none": {`{"bos_token":"<s>","add_bos_token":false}`, 4, ""},
	} {
		tok, err := ParseWithConfig(tiny(nil), []byte(c.config))
		if err != nil {
			t.Fatal(name, err)
		}
		id, ok := tok.BeginToken()
		if ok != (c.bos >= 0) || ok && id != c.bos || (c.note == "") != (len(tok.Notes()) == 0) || c.note != "" && !strings.Contains(tok.Notes()[0], c.note) {
			t.Errorf("%s: %d %t, notes %q", name, id, ok, tok.Notes())
		}
		if _, adds := tok.Begin(); adds {
			t.Errorf("%s: a begin token is added", name)
		}
	}
	if _, err := ParseWithConfig(tiny(nil), []byte("{")); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("a broken config: %v", err)
	}
}

// Byte-level tokenizers without normalizer give every text back.
func TestDecodeOfEncode(t *testing.T) {
	for _, name := range []string{"llama3", "gpt2", "gpt_oss_o200k", "deepseek_v3", "falcon", "kimi", "split_empty_match", "split_Contiguous_inverted"} {
		tok, err := Parse(readPeer(t, "testdata/peer/"+name+".json.gz").Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			s := rapid.String().Draw(t, "text") + rapid.StringOfN(rapid.SampledFrom([]rune(" \n\t'sS1aé你\u0301<|endoftext|>")), 0, 40, -1).Draw(t, "more")
			ids := tok.Encode(s, false)
			if back := tok.Decode(ids, false); back != s {
				t.Fatalf("%s: %q comes back as %q", name, s, back)
			}
			// What a token stands for is what it is decoded to.
			var bytes []byte
			for _, id := range ids {
				bytes = append(bytes, tok.Bytes(id)...)
			}
			if string(bytes) != s {
				t.Fatalf("%s: the bytes of the tokens of %q are %q", name, s, bytes)
			}
		})
	}
}

// Long pieces are cut where no merge reaches across: the ids are those of the whole.
func TestSeams(t *testing.T) {
	var toks []*Tokenizer
	for _, name := range []string{"llama2_mistral1", "gemma", "bytes_some_missing", "unk_fused", "unk_each"} {
		tok, err := Parse(readPeer(t, "testdata/peer/"+name+".json.gz").Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		toks = append(toks, tok)
	}
	for _, p := range peerVocabularies(t) {
		if p.Model == "llama" {
			v := p.vocabulary()
			tok, err := FromVocabulary(v)
			if err != nil {
				t.Fatal(err)
			}
			toks = append(toks, tok)
		}
	}
	part := rapid.SampledFrom(append(strings.SplitAfter(strings.Join(peerTexts(t), " "), " "), "▁", "the", "\u0301", "你", "\U00020000", " "))
	rapid.Check(t, func(t *rapid.T) {
		s := strings.ReplaceAll(strings.ToValidUTF8(strings.Join(rapid.SliceOfN(part, 0, 40).Draw(t, "parts"), ""), ""), " ", "▁")
		for i, tok := range toks {
			want := tok.model.encode(nil, s)
			sc := tok.scratch()
			if got := sc.encode(tok.model, nil, s); !slices.Equal(got, want) {
				t.Fatalf("tokenizer %d, %q: %v, want %v", i, s, got, want)
			}
		}
	})
}

// Merging with a heap and by looking through all pairs are one thing.
func TestJoinManyIsJoin(t *testing.T) {
	tok, err := Parse(readPeer(t, "testdata/peer/gpt2.json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	b := tok.model.(*bpe)
	rapid.Check(t, func(t *rapid.T) {
		symbols := rapid.SliceOfN(rapid.Int32Range(3, 300), 0, fewSymbols).Draw(t, "symbols")
		few, many := b.ranks.join(nil, slices.Clone(symbols)), b.ranks.joinMany(nil, slices.Clone(symbols))
		if !slices.Equal(few, many) {
			t.Fatalf("%v: %v, with a heap %v", symbols, few, many)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(tiny(nil), "abc <s> é")
	f.Add(tiny(map[string]string{"model": `{"type":"Unigram","vocab":[["<unk>",0],["a",-1.5],["ab",-2]],"unk_id":0}`}), "abcab")
	f.Add(tiny(map[string]string{"normalizer": `{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"Replace","pattern":{"Regex":"b+"},"content":"c"}]}`}), "ABﬁ")
	f.Add(tiny(map[string]string{"pre_tokenizer": `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|b?"},"behavior":"MergedWithNext","invert":true},{"type":"ByteLevel"}]}`}), "a  b c\x00")
	f.Add(tiny(map[string]string{"decoder": `{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Strip","content":"a","start":1,"stop":2},{"type":"Metaspace","replacement":"b"}]}`}), "ab\xff")
	f.Add(tiny(map[string]string{"added_tokens": `[{"id":4,"content":" ","lstrip":true,"rstrip":true,"normalized":true},{"id":10,"content":"a b","single_word":true}]`}), " a b  a ")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Parse(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer.json: ") {
				t.Errorf("an error without its file: %v", err)
			}
			return
		}
		if len(text) > 300 {
			return
		}
		ids := tok.Encode(text, true)
		for _, id := range ids {
			if id < 0 || int(id) >= tok.Vocab() {
				t.Fatalf("id %d of %d tokens", id, tok.Vocab())
			}
			tok.Class(id)
			tok.Bytes(id)
		}
		tok.Decode(ids, false)
		tok.Decode([]int32{-1, 1 << 30, 0}, true)
		if Differences(tok, tok) != "" || len(tok.Identity()) != 64 {
			t.Error("it differs from itself")
		}
	})
}

// The vocabulary of a real case: 133 tokens, where a head may have more columns.
func TestPaddedVocabulary(t *testing.T) {
	data, err := os.ReadFile("testdata/C33-padded-vocab/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(data)
	if err != nil || tok.Vocab() != 133 || tok.Token(132) != "t132" || tok.Token(133) != "" || tok.Class(140) != Special {
		t.Errorf("%v, %v", tok, err)
	}
	if !json.Valid(data) {
		t.Error("no JSON")
	}
}
