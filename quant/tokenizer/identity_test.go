package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

func mustParse(t testing.TB, parts map[string]string) *Tokenizer {
	t.Helper()
	tok, err := Parse(tiny(parts))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Whatever decides ids is in the identity, and what does not is not.
func TestIdentity(t *testing.T) {
	base := mustParse(t, nil)
	for name, c := range map[string]struct {
		part, value string
		same        bool
	}{
		"formatting":   {"model", "{\"merges\": [\"a b\"],\n \"vocab\":{\"c\":3,\"b\":1,\"a\":0,\"ab\":2}, \"type\":\"BPE\"}", true},
		"truncation":   {"truncation", `{"max_length":5}`, true},
		"decoder":      {"decoder", `{"type":"ByteLevel"}`, true},
		"a token":      {"model", `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"d":3},"merges":[["a","b"]]}`, false},
		"two ids":      {"model", `{"type":"BPE","vocab":{"a":1,"b":0,"ab":2,"c":3},"merges":[["a","b"]]}`, false},
		"no merges":    {"model", `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[]}`, false},
		"fallback":     {"model", `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[["a","b"]],"byte_fallback":true}`, false},
		"whole words":  {"model", `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[["a","b"]],"ignore_merges":true}`, false},
		"normalizer":   {"normalizer", `{"type":"NFC"}`, false},
		"split":        {"pre_tokenizer", `{"type":"WhitespaceSplit"}`, false},
		"template":     {"post_processor", `{"type":"BertProcessing","sep":["c",3],"cls":["a",0]}`, false},
		"added flags":  {"added_tokens", `[{"id":4,"content":"<s>","special":true,"lstrip":true}]`, false},
		"added none":   {"added_tokens", `[]`, false},
		"not special":  {"added_tokens", `[{"id":4,"content":"<s>","special":false,"normalized":false}]`, false},
		"said default": {"added_tokens", `[{"id":4,"content":"<s>","special":true,"normalized":false,"single_word":false}]`, true},
	} {
		other := mustParse(t, map[string]string{c.part: c.value})
		if (other.Identity() == base.Identity()) != c.same {
			t.Errorf("%s: the identities are the same: %t", name, !c.same)
		}
		if (Differences(base, other) == "") != c.same {
			t.Errorf("%s: differences %q", name, Differences(base, other))
		}
	}
}

func TestDifferences(t *testing.T) {
	a := mustParse(t, nil)
	for name, c := range map[string]struct {
		parts      map[string]string
		want       string
		vocabulary bool
		rules      bool
		first      int32
	}{
		"a token":  {map[string]string{"model": `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"d":3},"merges":[["a","b"]]}`}, `id 3 is "c" against "d"`, true, false, 3},
		"one more": {map[string]string{"added_tokens": `[{"id":4,"content":"<s>","special":true},{"id":5,"content":"</s>","special":true}]`}, `5 tokens against 6, id 5 is free against "</s>"`, true, false, 5},
		"rules":    {map[string]string{"model": `{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[]}`}, "the same tokens, but other rules: ", false, true, -1},
		"spelling": {map[string]string{"normalizer": `{"type":"Sequence","normalizers":[]}`}, "from rules that are written differently", false, false, -1},
	} {
		b := mustParse(t, c.parts)
		d := Compare(a, b)
		if !strings.Contains(d.Text, c.want) || d.Vocabulary != c.vocabulary || d.Rules != c.rules || d.First != c.first {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
		if (a.Behaviour() == b.Behaviour()) != (!c.vocabulary && !c.rules) {
			t.Errorf("%s: behaviour the same: %t", name, a.Behaviour() == b.Behaviour())
		}
	}
}

// One tokenizer as tokenizer.json and as GGUF metadata: other words, the same ids.
func TestBehaviourAcrossFormats(t *testing.T) {
	j, err := Parse(readPeer(t, "testdata/peer/gpt2.json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	v := Vocabulary{Model: "gpt2", Pre: "gpt-2", BOS: -1, EOS: -1, UNK: -1}
	for id := range j.Vocab() {
		v.Tokens = append(v.Tokens, j.Token(int32(id)))
		v.Types = append(v.Types, 1)
		if j.Special(int32(id)) {
			v.Types[id] = typeControl
		}
	}
	b := j.model.(*bpe)
	ranks := make([]string, len(b.ranks))
	for pair, m := range b.ranks {
		ranks[m.rank] = j.Token(int32(pair>>32)) + " " + j.Token(int32(uint32(pair)))
	}
	v.Merges = ranks
	v.Tokens, v.Types = append(v.Tokens, "[PAD520]", "[PAD521]"), append(v.Types, typeUnused, typeUnused)
	if j.Vocab() != 520 {
		t.Fatalf("%d tokens", j.Vocab())
	}
	g, err := FromVocabulary(v)
	if err != nil {
		t.Fatal(err)
	}
	if g.Identity() == j.Identity() || g.Behaviour() != j.Behaviour() {
		t.Errorf("identity the same: %t, behaviour the same: %t", g.Identity() == j.Identity(), g.Behaviour() == j.Behaviour())
	}
	if d := Compare(j, g); d.Vocabulary || d.Rules || !strings.Contains(d.Text, "written differently") {
		t.Errorf("%+v", d)
	}
}

func TestClass(t *testing.T) {
	for text, want := range map[string]Class{
		"the": ASCII, " the": ASCII, "\n\n": ASCII, "x1": ASCII, "3.14": ASCII, " ": ASCII, "12": Digits, " 12": Digits, "0": Digits, "é": NonASCII, "\xc3": NonASCII, "１": NonASCII, "▁": NonASCII, "": ASCII,
	} {
		if got := TextClass(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	bytes, err := Parse(readPeer(t, "testdata/peer/llama3.json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := Parse(readPeer(t, "testdata/peer/llama2_mistral1.json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tok   *Tokenizer
		token string
		want  Class
		bytes string
	}{
		{bytes, "Ġc", ASCII, " c"}, {bytes, "<s>", Special, "<s>"}, {bytes, "Ã", NonASCII, "\xc3"}, {bytes, "1", Digits, "1"}, {bytes, "Ċ", ASCII, "\n"}, {bytes, "<|im_end|>", Special, "<|im_end|>"},
		{pieces, "▁c", ASCII, " c"}, {pieces, "<0x0A>", ASCII, "\n"}, {pieces, "<0xE5>", NonASCII, "\xe5"}, {pieces, "<0x31>", Digits, "1"}, {pieces, "</s>", Special, "</s>"}, {pieces, "é", NonASCII, "é"},
	} {
		id, ok := c.tok.ID(c.token)
		if !ok || c.tok.Class(id) != c.want || string(c.tok.Bytes(id)) != c.bytes {
			t.Errorf("%q: id %d %t, %s, %q; want %s, %q", c.token, id, ok, c.tok.Class(id), c.tok.Bytes(id), c.want, c.bytes)
		}
	}
	if bytes.Class(-1) != Special || bytes.Class(1<<20) != Special || len(Classes) != 4 || !slices.IsSorted(Classes[:]) {
		t.Error("ids outside the vocabulary")
	}
}
