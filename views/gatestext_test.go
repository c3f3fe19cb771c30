package views

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"pgregory.net/rapid"
)

// shownText is a text as it is laid out, without styles.
func shownText(t testing.TB, profile termenv.Profile, text string, marks [][2]int, w int) []string {
	th := themeIn(t, "", profile)
	lines := gatesText(th, th.Text, text, marks, w)
	for i := range lines {
		lines[i] = ansi.Strip(lines[i])
	}
	return lines
}

// Every byte that cannot be seen, or is none, stands for itself.
func TestGatesTextShowsAll(t *testing.T) {
	for in, want := range map[string]string{
		"plain":               "plain",
		"a\x00b\x1b[31mc\x7f": "a␀b␛[31mc␡",
		"tab\there":           "tab␉ here",
		"cr\r":                "cr␍",
		"bad\xff\xfe":         "bad⟨FF⟩⟨FE⟩",
		"cut\xed\x95":         "cut⟨ED⟩⟨95⟩",
		"서울\ufffd":            "서울\ufffd",
		"\u202eabc\u200b":     "⟨202E⟩abc⟨200B⟩",
		"next\u0085":          "next⟨0085⟩",
		"\ufeffbom":           "⟨FEFF⟩bom",
		"모든 사람은 평등하다":         "모든 사람은 평등하다",
	} {
		if got := strings.Join(shownText(t, termenv.TrueColor, in, nil, 60), "|"); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	if got := strings.Join(shownText(t, termenv.TrueColor, "one\ntwo\n\nthree", nil, 60), "|"); got != "one↵|two↵|↵|three" {
		t.Errorf("line ends: %q", got)
	}
	for _, text := range []string{strings.Repeat("abcdefghij", 20), strings.Repeat("words of a text ", 30), strings.Repeat("모든사람은", 20)} { // whatever the width, nothing is cut off
		for w := 4; w < 40; w++ {
			if got := strings.Join(shownText(t, termenv.TrueColor, text, nil, w), ""); got != text {
				t.Fatalf("in %d cells %q is shown as %q", w, text, got)
			}
		}
	}
	// Without colours U+FFFD is marked otherwise, with them it is in reverse.
	if got := strings.Join(shownText(t, termenv.Ascii, "a\ufffdb", nil, 60), ""); got != "a!\ufffdb" {
		t.Errorf("without colours: %q", got)
	}
	for _, profile := range []termenv.Profile{termenv.TrueColor, termenv.ANSI256, termenv.ANSI} {
		th := themeIn(t, "", profile)
		for _, bad := range []string{"\ufffd", "⟨FF⟩"} {
			line := gatesText(th, th.Text, "a\ufffd\n\xff", nil, 60)
			if !strings.Contains(strings.Join(line, ""), th.paint(bad, "7", th.ink.bad)) {
				t.Errorf("%v: %s is not set in reverse: %q", profile, bad, line)
			}
		}
	}
}

// Marks stand where their bytes are.
func TestGatesTextMarks(t *testing.T) {
	for _, c := range []struct {
		text  string
		marks [][2]int
		want  string
	}{
		{"The answer is 7.", [][2]int{{14, 15}}, "The answer is «7»."},
		{"서울은 서울", [][2]int{{10, 16}}, "서울은 «서울»"},
		{"aab", [][2]int{{1, 2}, {0, 1}}, "«aa»b"},
		{"end", [][2]int{{2, 900}}, "en«d»"},
		{"none", [][2]int{{2, 2}, {9, 12}}, "none"},
	} {
		if got := strings.Join(shownText(t, termenv.Ascii, c.text, c.marks, 60), "|"); got != c.want {
			t.Errorf("%q with %v: %q, want %q", c.text, c.marks, got, c.want)
		}
	}
}

// hardTexts are in scripts and with characters that upset layouts.
var hardTexts = []string{
	"모든 사람은 태어날 때부터 자유롭고, 존엄과 권리에 있어서 평등하다.", "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق", "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; க்ஷ நி",
	"सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता", "👩‍👩‍👧 🏳️‍🌈 👍🏽 🇰🇷 1️⃣ ❤️ 🧑🏿‍🚀", "e\u0301a\u0308\u0323o\u0302\u0301", "全ての人間は、生まれながらにして自由である", "ｆｕｌｌ　ｗｉｄｔｈ",
	"\u0bbe\u0bc8 marks alone", "ﷺ", "\U0001f1f0\xff\U0001f1f7",
}

// Every line fits its width on every terminal: by the widths of clusters, and by those
// of characters added up. Nothing but blanks at the ends of lines is lost.
func TestGatesTextFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 6).Draw(rt, "parts") {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				b.Write(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(rt, "bytes"))
			case 1:
				b.WriteString(rapid.String().Draw(rt, "text"))
			default:
				b.WriteString(rapid.SampledFrom(hardTexts).Draw(rt, "hard"))
			}
		}
		text := b.String()
		var marks [][2]int
		for range rapid.IntRange(0, 3).Draw(rt, "marks") {
			from := rapid.IntRange(0, len(text)).Draw(rt, "from")
			marks = append(marks, [2]int{from, from + rapid.IntRange(0, 9).Draw(rt, "len")})
		}
		w := rapid.IntRange(8, 90).Draw(rt, "w")
		profile := rapid.SampledFrom([]termenv.Profile{termenv.Ascii, termenv.TrueColor}).Draw(rt, "profile")
		bad := 0
		for _, line := range shownText(t, profile, text, marks, w) {
			if Width(line) > w || ansi.StringWidthWc(line) > w {
				rt.Fatalf("%q of %d cells, by characters %d, in %d", line, Width(line), ansi.StringWidthWc(line), w)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r == 0x7f }) || !utf8.ValidString(line) {
				rt.Fatalf("control characters in %q", line)
			}
			bad += strings.Count(line, "\ufffd")
		}
		if want := strings.Count(text, "\ufffd"); bad != want {
			rt.Fatalf("%d of %d U+FFFD are shown of %q", bad, want, text)
		}
	})
}

// A text of any length is laid out in bounded time, around what a verdict speaks of.
func TestGatesTextOfAnyLength(t *testing.T) {
	text := strings.Repeat("모든 사람은 ", 40_000)
	lines := shownText(t, termenv.Ascii, text, nil, 60)
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, "more bytes") || len(lines) > gatesMostBytes/40 {
		t.Errorf("%d lines, the last says %q", len(lines), last)
	}
	at := len(text) / 2
	for !utf8.RuneStart(text[at]) {
		at++
	}
	lines = shownText(t, termenv.Ascii, text, [][2]int{{at, at + 3}}, 60)
	if !strings.Contains(lines[0], "bytes before") || !strings.Contains(strings.Join(lines, ""), "«") {
		t.Errorf("the marked place is not shown: %q … %q", lines[0], lines[len(lines)-1])
	}
}
