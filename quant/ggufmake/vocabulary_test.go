package ggufmake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/tokenizer"
)

// The demo's tokenizer comes out as one of the same ids, with its special tokens and
// its template.
func TestVocabulary(t *testing.T) {
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	s, err := FromCheckpoint(ck, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, _, _ := write(t, s, Request{Type: kernels.GGUFQ8_0}, 2)
	v, err := f.Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokenizer.FromVocabulary(v)
	if err != nil {
		t.Fatal(err)
	}
	side, _ := ck.SideFile("tokenizer.json")
	text, err := side.Read()
	if err != nil {
		t.Fatal(err)
	}
	want, err := tokenizer.Parse(text)
	if err != nil || got.Behaviour() != want.Behaviour() {
		t.Errorf("other ids, %v", err)
	}
	if v.Pre != "qwen2" || v.EOS != 0 || f.Metadata["tokenizer.ggml.eot_token_id"].V != uint64(1) || v.AddBOS || !v.BOSStated {
		t.Errorf("%+v", v.Pre)
	}
	if c, _ := f.Metadata["tokenizer.chat_template"].V.(string); !strings.Contains(c, "<|assistant|>") {
		t.Errorf("template %q", c)
	}
}

// A folder with a tokenizer that the format cannot say is refused by what it has,
// unless it is left out.
func TestVocabularyRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(checkpoints, "llama_tied", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]struct{ text, say string }{
		"unigram":  {`{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0]]}}`, "model Unigram"},
		"fallback": {`{"model":{"type":"BPE","byte_fallback":true,"vocab":{"a":0},"merges":[]}}`, "bytes to fall back on"},
		"too many": {`{"model":{"type":"BPE","vocab":{"a":0,"b":4000},"merges":[]},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}}`, "vocab_size is"},
		"blanks":   {`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[{"id":1,"content":"<m>","lstrip":true,"special":true}],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}}`, "<m>"},
		"words":    {`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Whitespace"}}`, "none of the pre-tokenizers"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		ck, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = FromCheckpoint(ck, Options{})
		if err == nil || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "--no-tokenizer") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		if s, err := FromCheckpoint(ck, Options{NoTokenizer: true}); err != nil || len(s.Findings) == 0 {
			t.Errorf("%s left out: %v", what, err)
		}
		_ = ck.Close()
	}
}
