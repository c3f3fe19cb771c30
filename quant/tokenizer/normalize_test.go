package tokenizer

import (
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// Long rows of marks are where the norm package would put joiners in.
func TestManyMarks(t *testing.T) {
	data, err := os.ReadFile("testdata/peer/marks.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Form, Text, Want string }
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) != 36 {
		t.Fatal(len(cases), err)
	}
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	for _, c := range cases {
		if got := composed(forms[c.Form])(c.Text); got != c.Want {
			t.Errorf("%s of %+q is %+q, want %+q", c.Form, c.Text, got, c.Want)
		}
	}
}

// By hand and by the package, every character that has a decomposition comes to
// the same, alone and before marks.
func TestByHand(t *testing.T) {
	for _, f := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
		n := 0
		for r := rune(0); r <= 0x2FA20; r++ {
			if r >= 0xD800 && r < 0xE000 || norm.NFKD.PropertiesString(string(r)).Decomposition() == nil && !(r >= 0xAC00 && r < 0xAC80) {
				continue
			}
			n++
			for _, s := range []string{string(r), string(r) + "\u0301\u0323", "e" + string(r) + "\u0327"} {
				if got, want := byHand(f, s), f.String(s); got != want {
					t.Fatalf("form %d of %+q is %+q, want %+q", f, s, got, want)
				}
			}
		}
		if n < 5000 {
			t.Errorf("only %d characters", n)
		}
	}
}

// Bytes that are no UTF-8 are read as Unicode 3.9 and Python's "replace" have it:
// one U+FFFD for each maximal part.
func TestInvalidUTF8(t *testing.T) {
	tok, err := Parse(readPeer(t, "testdata/peer/gpt2.json.gz").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"a\xffb": "a\ufffdb", "\xff\xfe": "\ufffd\ufffd", "\xe4\xbd": "\ufffd", "\xe4\xbdx": "\ufffdx", "\xf0\x9f\x98": "\ufffd", "\xed\xa0\x80": "\ufffd\ufffd\ufffd", "\xc0\x80": "\ufffd\ufffd", "\xf5": "\ufffd", "é\xc3": "é\ufffd",
	} {
		if got := tok.Decode(tok.Encode(in, false), false); got != want {
			t.Errorf("%q is read as %q, want %q", in, got, want)
		}
	}
}
