package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// peerVocabulary is a case of testdata/gguf: a vocabulary and what llama-tokenize
// makes of testdata/peer/texts.json with it.
type peerVocabulary struct {
	Model, Pre    string
	Vocabulary    string
	BOS, EOS, UNK int32
	AddBOS        *bool `json:"add_bos"`
	AddEOS        bool  `json:"add_eos"`
	AddSpace      *bool `json:"add_space"`
	IDs           [][]int32
	shared        sharedVocabulary
}

type sharedVocabulary struct {
	Tokens []string
	Types  []int32
	Scores []float32
	Merges []string
}

func peerVocabularies(t testing.TB) []peerVocabulary {
	t.Helper()
	f, err := os.Open("testdata/gguf/vocabularies.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Vocabularies map[string]sharedVocabulary
		Cases        []peerVocabulary
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil || len(all.Cases) < 25 {
		t.Fatalf("%d cases, %v", len(all.Cases), err)
	}
	for i := range all.Cases {
		all.Cases[i].shared = all.Vocabularies[all.Cases[i].Vocabulary]
	}
	return all.Cases
}

func (p *peerVocabulary) vocabulary() Vocabulary {
	v := Vocabulary{
		Model: p.Model, Pre: p.Pre, Tokens: p.shared.Tokens, Types: p.shared.Types, Scores: p.shared.Scores, Merges: p.shared.Merges,
		BOS: p.BOS, EOS: p.EOS, UNK: p.UNK, AddEOS: p.AddEOS, AddSpace: true,
	}
	if p.AddBOS != nil {
		v.AddBOS, v.BOSStated = *p.AddBOS, true
	}
	if p.AddSpace != nil {
		v.AddSpace = *p.AddSpace
	}
	return v
}

// llama.cpp asks for no text to be tokenized where its file is empty, so the ids
// of "" are none there.
func TestVocabularies(t *testing.T) {
	texts := peerTexts(t)
	for i, p := range peerVocabularies(t) {
		t.Run(fmt.Sprintf("%d_%s_%s", i, p.Model, p.Pre), func(t *testing.T) {
			tok, err := FromVocabulary(p.vocabulary())
			if err != nil {
				t.Fatal(err)
			}
			if len(p.IDs) != len(texts) {
				t.Fatalf("%d lists of ids for %d texts", len(p.IDs), len(texts))
			}
			bad := 0
			for i, want := range p.IDs {
				got := tok.Encode(texts[i], true)
				if !slices.Equal(got, want) {
					t.Errorf("%q: %v %q, want %v %q", texts[i], got, spelled(tok, got), want, spelled(tok, want))
					if bad++; bad > 4 {
						t.Fatal("and more")
					}
				}
				// What was cut into ids comes back, up to spaces that the rules put in, and tokens that stand for others.
				plain := tok.Encode(texts[i], false)
				if back := tok.Decode(plain, false); p.Model == "gpt2" && back != texts[i] {
					t.Errorf("%q comes back as %q", texts[i], back)
				}
			}
		})
	}
}

func TestVocabularyRefuses(t *testing.T) {
	good := func() Vocabulary {
		p := peerVocabularies(t)[1]
		return p.vocabulary()
	}
	for name, c := range map[string]struct {
		change func(v *Vocabulary)
		want   string
		named  bool
	}{
		"model":       {func(v *Vocabulary) { v.Model = "t5" }, `model "t5" is not known; known are gpt2, llama`, true},
		"no model":    {func(v *Vocabulary) { v.Model = "" }, `model "" is not known`, true},
		"pre":         {func(v *Vocabulary) { v.Pre = "mine" }, `pre-tokenizer "mine" is not known; known are a.x-4.0`, true},
		"no tokens":   {func(v *Vocabulary) { v.Tokens = nil }, "0 tokens", false},
		"types":       {func(v *Vocabulary) { v.Types = v.Types[:5] }, "5 token types", false},
		"twice":       {func(v *Vocabulary) { v.Tokens = slices.Clone(v.Tokens); v.Tokens[9] = v.Tokens[8] }, "is id 8 and id 9", false},
		"merge":       {func(v *Vocabulary) { v.Merges = []string{"ab"} }, `merge 0, "ab", is no pair`, false},
		"empty merge": {func(v *Vocabulary) { v.Merges = []string{""} }, `merge 0, "", is no pair`, false},
		"foreign":     {func(v *Vocabulary) { v.Merges = []string{"zzz qqq"} }, "not in the vocabulary", false},
		"begin":       {func(v *Vocabulary) { v.AddBOS, v.BOSStated, v.BOS = true, true, -1 }, "bos_token_id -1", false},
		"end":         {func(v *Vocabulary) { v.AddEOS, v.EOS = true, 1<<20 }, "eos_token_id 1048576", false},
		"scores":      {func(v *Vocabulary) { v.Model = "llama" }, "0 scores for", false},
		"nan score":   {func(v *Vocabulary) { v.Model = "llama"; v.Scores = nans(len(v.Tokens)) }, "score of token 0 is NaN", false},
		"many merges": {func(v *Vocabulary) { v.Merges = make([]string, maxMerges+1) }, "merges, and at most", false},
		"many tokens": {func(v *Vocabulary) { v.Tokens = make([]string, maxVocab+1); v.Types = nil }, "tokens, and a vocabulary", false},
	} {
		v := good()
		c.change(&v)
		_, err := FromVocabulary(v)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnknown) != c.named {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	v := good()
	v.Pre = ""
	tok, err := FromVocabulary(v)
	if err != nil || len(tok.Notes()) != 1 {
		t.Errorf("no pre-tokenizer: %v, %v", tok, err)
	}
}

func nans(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(zero / zero)
	}
	return out
}

var zero float64

// Bytes that no token spells are the file's unknown token, each.
func TestUnknownPieces(t *testing.T) {
	tok, err := FromVocabulary(Vocabulary{
		Model: "llama", Tokens: []string{"<pad>", "a", "b", "<unk>", "ab"}, Scores: []float32{0, -1, -2, 0, -0.5},
		Types: []int32{3, 1, 1, 2, 1}, BOS: -1, EOS: -1, UNK: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Encode("abéb", false), []int32{4, 3, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
