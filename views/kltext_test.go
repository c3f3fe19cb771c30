package views

import (
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

func TestSteady(t *testing.T) {
	for in, want := range map[string]string{
		"plain":           "plain",
		"投影 and жар":      "投影 and жар",
		"a\x1b[31m\n":     "a␛[31m␊",
		"half \xe5\xae":   "half \ufffd\ufffd",
		"முழுமை":          "ம◌ழ◌ம◌",
		"ै":               "◌",
		"क्ष":             "कष",
		"e\u0301":         "e\u0301",
		"👨\u200d👩\u200d👧": "👨👩👧",
		"👍🏽":              "👍",
	} {
		if got := steady(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestKLToken(t *testing.T) {
	for in, want := range map[string]string{
		"word": "word", " word": "␣word", " ": "␣", "": "", "\n": "␊", "\xe5": "<e5>", "\xe5\xae": "<e5><ae>", " \xe5x": "␣<e5>x", "ை": "<0bc8>", "\u0301": "<0301>", "か": "か",
	} {
		if got := klToken(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Whatever the text, terminals that add up the widths of characters and those that
// set clusters agree on how wide it is.
func TestSteadyWidth(t *testing.T) {
	letters := rapid.OneOf(
		rapid.RuneFrom(nil, unicode.Tamil, unicode.Devanagari, unicode.Bengali, unicode.Malayalam, unicode.Thai),
		rapid.RuneFrom(nil, unicode.Han, unicode.Hangul, unicode.Arabic, unicode.Latin, unicode.Mn),
		rapid.RuneFrom([]rune{0x200d, 0xfe0f, 0x1f468, 0x1f469, 0x1f3fd, 0x1f1e9, 0x1f1ea, 0x2764}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		s := steady(rapid.StringOfN(letters, 0, 12, -1).Draw(rt, "s"))
		if sum := ansi.StringWidthWc(s); Width(s) != sum {
			rt.Fatalf("%q (%+q): %d cells in clusters, %d in characters", s, s, Width(s), sum)
		}
	})
}
