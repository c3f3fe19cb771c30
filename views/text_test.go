package views

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// wideNames are tensor names from checkpoints that have been seen to upset
// terminals, with their width in cells: CJK, emoji, a joined family, precomposed
// and combining accents, full-width Latin, and one longer than any screen.
var wideNames = map[string]int{
	"模型.层.0.注意力.权重":             21,
	"🚀.weight":                  9,
	"👨‍👩‍👧.weight":              9,
	"caf\u00e9.weight":          11,
	"cafe\u0301.weight":         11,
	"ｗｉｄｅ.weight":               15,
	strings.Repeat("x", 250):    250,
	"모델.0.가중치":                  13,
	"model.layers.0.q_proj":     21,
	"a\x1b[31mb\u202ecd\x00e\n": 5, // before cleaning
}

func TestWidthOfNames(t *testing.T) {
	for name, want := range wideNames {
		if got := Width(name); got != want {
			t.Errorf("Width(%q) = %d, want %d", name, got, want)
		}
	}
}

func TestCleanShowsWhatHides(t *testing.T) {
	for in, want := range map[string]string{
		"model.layers.0":             "model.layers.0",
		"a\x1b[31mb\u202ecd\x00e\n":  "a␛[31mb<202e>cd␀e␊",
		"tab\tdel\x7f":               "tab␉del␡",
		"bad\xffutf":                 "bad\ufffdutf",
		"next\u0085line\u2028\u200b": "next<0085>line<2028><200b>",
		"👨‍👩‍👧.weight":               "👨‍👩‍👧.weight",
		"soft\u00adhyphen":           "soft<00ad>hyphen",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		in, end, middle string
		w               int
	}{
		{"model.layers.3.mlp.experts.7.up_proj", "model.lay…", "mo…up_proj", 10},
		{"short", "short", "short", 5},
		{"short", "sho…", "…ort", 4},
		{"short", "…", "…", 1},
		{"short", "", "", 0},
		{"short", "", "", -3},
		{"模型模型", "模…", "…型", 4}, // half a character is not drawn
		{"ab\x1b[31mcdef\x1b[0m", "ab\x1b[31mc…\x1b[0m", "…def", 4},
	} {
		if got := Truncate(c.in, c.w); got != c.end {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.in, c.w, got, c.end)
		}
		if got := TruncateMiddle(c.in, c.w); got != c.middle {
			t.Errorf("TruncateMiddle(%q, %d) = %q, want %q", c.in, c.w, got, c.middle)
		}
	}
}

// anyText draws texts of what names and views are made of.
func anyText() *rapid.Generator[string] {
	pieces := []string{
		"a", "Z", "0", ".", " ", "é", "e\u0301", "模", "🚀", "👨‍👩‍👧", "🇩🇪", "ｗ", "가", "1️⃣", "\u0301", "\u200d",
		"█", "▀", "…", "·", "⣿", "│", "\x1b[31m", "\x1b[0;38;2;1;2;3m", "\x1b[0m", "■", "±",
	}
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), "")
	})
}

func TestTextFitsItsCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		w := rapid.IntRange(-1, 60).Draw(t, "w")
		if got, want := Width(s), ansi.StringWidth(s); got != want {
			t.Fatalf("Width(%q) = %d, the ansi package says %d", s, got, want)
		}
		for name, f := range map[string]func(string, int) string{"Truncate": Truncate, "TruncateMiddle": TruncateMiddle} {
			if n := Width(f(s, w)); n > max(w, 0) {
				t.Fatalf("%s(%q, %d) = %q is %d cells", name, s, w, f(s, w), n)
			}
		}
		for name, f := range map[string]func(string, int) string{"Fit": Fit, "FitRight": FitRight} {
			if n := Width(f(s, w)); n != max(w, 0) {
				t.Fatalf("%s(%q, %d) = %q is %d cells", name, s, w, f(s, w), n)
			}
		}
	})
}

func TestNamesFitAtEveryWidth(t *testing.T) {
	for name := range wideNames {
		for _, w := range []int{20, 40, 80, 200} {
			for _, got := range []string{Fit(Clean(name), w), FitRight(Clean(name), w), Fit(TruncateMiddle(Clean(name), w), w)} {
				if n := ansi.StringWidth(got); n != w {
					t.Errorf("%q at %d: %q is %d cells", name, w, got, n)
				}
			}
		}
	}
}

func TestCleanLeavesNothingBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "runes") {
			s = rapid.String().Draw(t, "text")
		}
		got := Clean(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Clean(%q) = %q is no UTF-8", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || isHidden(r) {
				t.Fatalf("Clean(%q) = %q holds %U", s, got, r)
			}
		}
		if Clean(got) != got {
			t.Fatalf("Clean(%q) = %q is cleaned again", s, got)
		}
	})
}

func TestBlockAndBeside(t *testing.T) {
	got := Block([]string{"ab", "模型模型", "x"}, 3, 2)
	if want := "ab \n模…"; got != want {
		t.Errorf("Block = %q, want %q", got, want)
	}
	if got := Block([]string{"ab"}, 3, 0); got != "" {
		t.Errorf("Block of no lines = %q", got)
	}
	if got := Block(nil, 0, 2); got != "\n" {
		t.Errorf("Block of no width = %q", got)
	}
	got = Beside(1, "ab\ncd", "x", "1\n2\n3")
	if want := "ab x 1\ncd   2\n     3"; got != want {
		t.Errorf("Beside = %q, want %q", got, want)
	}
}

func BenchmarkWidth(b *testing.B) {
	line := strings.Repeat("\x1b[0;38;2;33;145;140m███", 60)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		Width(line)
	}
}

// A text that is cut says so after a whole word, one that fits says all of it,
// and flags stay in one piece.
func TestWrappedTo(t *testing.T) {
	const text = "quantize again with one scale; quantscope census --fix writes a copy, --force over what is there"
	for w := 12; w <= 100; w++ {
		all := wrapped(noStyle, text, w)
		if got := strings.Join(strings.Fields(strings.Join(all, " ")), " "); got != text {
			t.Fatalf("%d cells: %q", w, got)
		}
		for most := 1; most <= 9; most++ {
			lines := wrappedTo(noStyle, text, w, most)
			if len(lines) > most {
				t.Fatalf("%d cells, at most %d lines: %d", w, most, len(lines))
			}
			last := lines[len(lines)-1]
			if cut := strings.HasSuffix(last, ellipsis); cut != (len(all) > most) || strings.Count(strings.Join(lines, " "), ellipsis) > 1 {
				t.Errorf("%d cells, at most %d of %d lines: %q", w, most, len(all), lines)
			}
			said := strings.TrimSuffix(strings.Join(lines, " "), " "+ellipsis)
			for _, word := range strings.Fields(said) {
				if !slices.Contains(strings.Fields(text), word) {
					t.Errorf("%d cells, at most %d lines: %q is no whole word", w, most, word)
				}
			}
			for _, line := range lines {
				if Width(line) > w {
					t.Errorf("%d cells: %q", w, line)
				}
			}
		}
	}
}

// An interval is not taken apart where lines are broken.
func TestIntervalsStayWhole(t *testing.T) {
	text := "nvfp4 is worse than fp8 by 0.0305 [−0.0274, 0.0341] nats a token, as before [1, 2] it was."
	for w := 22; w < 100; w++ {
		lines := wrapped(noStyle, text, w)
		for _, line := range lines {
			if strings.Count(line, "[") != strings.Count(line, "]") || Width(line) > w || strings.Contains(line, hardSpace) {
				t.Errorf("in %d cells: %q", w, lines)
			}
		}
	}
}
