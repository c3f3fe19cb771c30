package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// peerFile is a file of testdata/peer: what the tokenizers library makes of texts.
type peerFile struct {
	Tokenizer json.RawMessage
	Vocab     int
	Cases     []struct {
		IDs         []int32
		All         []int32
		Text, Plain string
	}
	Decode []struct {
		IDs         []int32
		Text, Plain string
	}
}

func readPeer(t testing.TB, path string) (p peerFile) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&p); err != nil {
		t.Fatal(path, err)
	}
	return p
}

func peerTexts(t testing.TB) (texts []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/peer/texts.json")
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func peerFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/peer/*.json.gz")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files of testdata/peer, %v; python make.py there makes them", len(files), err)
	}
	return files
}

// Every feature and every family's arrangement, against the library, id by id.
func TestPeer(t *testing.T) {
	texts := peerTexts(t)
	for _, path := range peerFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json.gz"), func(t *testing.T) {
			p := readPeer(t, path)
			tok, err := Parse(p.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			if tok.Vocab() != p.Vocab {
				t.Errorf("vocabulary of %d, want %d", tok.Vocab(), p.Vocab)
			}
			if len(p.Cases) != len(texts) {
				t.Fatalf("%d cases for %d texts", len(p.Cases), len(texts))
			}
			bad := 0
			for i, c := range p.Cases {
				got := tok.Encode(texts[i], false)
				if !slices.Equal(got, c.IDs) {
					bad++
					t.Errorf("%q: %v %q, want %v %q", texts[i], got, spelled(tok, got), c.IDs, spelled(tok, c.IDs))
				}
				if got := tok.Encode(texts[i], true); !slices.Equal(got, c.All) {
					bad++
					t.Errorf("%q with the template: %v, want %v", texts[i], got, c.All)
				}
				if got := tok.Decode(c.IDs, false); got != c.Text {
					bad++
					t.Errorf("%v decoded: %q, want %q", c.IDs, got, c.Text)
				}
				if got := tok.Decode(c.All, true); got != c.Plain {
					bad++
					t.Errorf("%v decoded without special ones: %q, want %q", c.All, got, c.Plain)
				}
				if bad > 8 {
					t.Fatal("and more")
				}
			}
			for _, c := range p.Decode {
				if a, b := tok.Decode(c.IDs, false), tok.Decode(c.IDs, true); a != c.Text || b != c.Plain {
					t.Errorf("%v decoded: %q, %q, want %q, %q", c.IDs, a, b, c.Text, c.Plain)
				}
			}
		})
	}
}

func spelled(t *Tokenizer, ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, t.Token(id))
	}
	return out
}
