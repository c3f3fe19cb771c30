package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

func TestGolden(t *testing.T) {
	for _, name := range []string{"bpe_gpt2", "bpe_llama3", "bpe_llama_bytefallback", "unigram"} {
		dir := "testdata/" + name
		data, err := os.ReadFile(dir + "/tokenizer.json")
		if err != nil {
			t.Fatal(err)
		}
		tok, err := Parse(data)
		if err != nil {
			t.Fatal(name, err)
		}
		data, err = os.ReadFile(dir + "/cases.json")
		if err != nil {
			t.Fatal(err)
		}
		var g struct {
			Vocab int `json:"vocab_size"`
			Cases []struct {
				Text           string
				IDs            []int32
				Tokens         []string
				IDsWithSpecial []int32 `json:"ids_with_special"`
				Decoded        string
				DecodedSkip    string `json:"decoded_skip_special"`
			}
			DecodeOnly []struct {
				IDs     []int32
				Decoded string
			} `json:"decode_only"`
		}
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		if tok.Vocab() != g.Vocab {
			t.Errorf("%s: vocabulary of %d, want %d", name, tok.Vocab(), g.Vocab)
		}
		for _, c := range g.Cases {
			if got := tok.Encode(c.Text, false); !slices.Equal(got, c.IDs) {
				t.Errorf("%s: %q: %v, want %v", name, c.Text, got, c.IDs)
			}
			if got := tok.Encode(c.Text, true); !slices.Equal(got, c.IDsWithSpecial) {
				t.Errorf("%s: %q with special: %v, want %v", name, c.Text, got, c.IDsWithSpecial)
			}
			if got := tok.Decode(c.IDs, false); got != c.Decoded {
				t.Errorf("%s: %q decoded: %q, want %q", name, c.Text, got, c.Decoded)
			}
			if got := tok.Decode(c.IDs, true); got != c.DecodedSkip {
				t.Errorf("%s: %q decoded without special: %q, want %q", name, c.Text, got, c.DecodedSkip)
			}
		}
		for _, c := range g.DecodeOnly {
			if got := tok.Decode(c.IDs, false); got != c.Decoded {
				t.Errorf("%s: %v decoded: %q, want %q", name, c.IDs, got, c.Decoded)
			}
		}
	}
}
