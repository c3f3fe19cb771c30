package corpus

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
)

func TestDemo(t *testing.T) {
	all, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name   string
		chunks int
		calib  bool
	}{{"prose", 16, false}, {"code", 16, false}, {"multi", 16, false}, {"math", 12, false}, {"chat", 12, false}, {"calib", 256, true}}
	if len(all) != len(want) {
		t.Fatalf("%d corpora, want %d", len(all), len(want))
	}
	tok, err := DemoTokenizer()
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		c := all[i]
		if c.Name != w.name || len(c.Chunks) != w.chunks || c.Calib != w.calib || c.Source != "demo" || c.BOS != "none" || c.Tokenizer != tok.Identity() {
			t.Errorf("corpus %d is %s of %d chunks from %s, calib %t, begin %s, tokenizer %s", i, c.Name, len(c.Chunks), c.Source, c.Calib, c.BOS, c.Tokenizer)
		}
		if c.Tokens() != int64(w.chunks)*384 || c.Positions() != int64(w.chunks)*383 {
			t.Errorf("%s: %d tokens, %d positions", c.Name, c.Tokens(), c.Positions())
		}
		h := sha256.New()
		for _, k := range c.Chunks {
			_ = binary.Write(h, binary.LittleEndian, k)
		}
		if [sha256.Size]byte(h.Sum(nil)) != c.SHA256 {
			t.Errorf("%s: the sum is not that of its ids", c.Name)
		}
	}
	all[0].Name = "mine"
	if again, _ := Demo(); again[0].Name != "prose" {
		t.Error("one caller's change of a name is seen by another")
	}
}
