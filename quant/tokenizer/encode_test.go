package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// One tokenizer serves many goroutines.
func TestEncodeTogether(t *testing.T) {
	texts := peerTexts(t)
	for _, name := range []string{"llama3", "llama2_mistral1", "unigram"} {
		p := readPeer(t, "testdata/peer/"+name+".json.gz")
		tok, err := Parse(p.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				for i, c := range p.Cases {
					if got := tok.Encode(texts[i], false); !slices.Equal(got, c.IDs) {
						t.Errorf("%s: %q: %v, want %v", name, texts[i], got, c.IDs)
					}
				}
			})
		}
		group.Wait()
	}
}

// More words than are kept have the ids that each has by itself.
func TestManyWords(t *testing.T) {
	tok, err := Parse(readPeer(t, "testdata/peer/gpt2.json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var want []int32
	for i := range maxWords + 500 {
		word := fmt.Sprintf(" w%sx", strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(i)))
		text.WriteString(word)
		want = tok.model.encode(want, word)
	}
	if got := tok.Encode(text.String(), false); !slices.Equal(got, want) {
		t.Error("ids of a text of many words are not those of its words")
	}
	if s := tok.scratch(); len(s.words) > maxWords {
		t.Errorf("%d words are kept", len(s.words))
	}
}
