package tokenizer

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Of the texts that begin at a place the longest is found, with few of them and
// with many.
func TestSearchFindsTheLongest(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("ab<é")), 1, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfNDistinct(word, 1, 30, rapid.ID[string]).Draw(t, "words")
		text := rapid.StringOfN(rapid.SampledFrom([]rune("ab<é")), 1, 20, -1).Draw(t, "text")
		var s search
		for i := range words {
			s.add(words[i], &addedToken{ID: int32(i)})
		}
		s.sort()
		for at := range len(text) {
			want := ""
			for _, w := range words {
				if strings.HasPrefix(text[at:], w) && len(w) > len(want) {
					want = w
				}
			}
			n, ok := s.at(text, at)
			if ok != (want != "") || ok && (n.text != want || words[n.tok.ID] != want) {
				t.Fatalf("%q at %d of %q among %q, want %q", n.text, at, text, words, want)
			}
		}
	})
}

// An unknown character costs ten more than the worst token, as in sentencepiece.
func TestUnknownCosts(t *testing.T) {
	tok := mustParse(t, map[string]string{"added_tokens": "[]", "model": `{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["xy",-9],["z",-9],["yz",-1]]}`})
	if got := tok.Encode("xyz", false); len(got) != 2 || got[0] != 1 || got[1] != 2 { // -18 against -19 - 1
		t.Errorf("%v", got)
	}
	if got := tok.Encode("wyz", false); len(got) != 2 || got[0] != 0 || got[1] != 3 {
		t.Errorf("%v", got)
	}
}
