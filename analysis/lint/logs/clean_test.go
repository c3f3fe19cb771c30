package logs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

// cleaned is what Clean hands on: hidden fragments have a - before them.
func cleaned(t testing.TB, in string) []string {
	t.Helper()
	var out []string
	err := Clean(strings.NewReader(in), func(f Fragment) error {
		mark := ""
		if f.Hidden {
			mark = "-"
		}
		out = append(out, fmt.Sprintf("%s%d %s", mark, f.Line, f.Text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What a terminal shows in the end, and what stood there before.
func TestClean(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"lines", "one\ntwo\r\n\nthree", []string{"1 one", "2 two", "4 three"}},
		{"a progress bar over a warning", "WARNING: falling back\r 10%|#   |\r 20%|##  |\ndone\n", []string{"-1 WARNING: falling back", "-1 10%|#   |alling back", "1 20%|##  |alling back", "2 done"}},
		{"a bar that erases", "warned\x1b[2K\r50%\r\x1b[K100%\n", []string{"-1 warned", "-1 50%", "1 100%"}},
		{"the same bar again", "50%\r50%\r50%\r60%\n", []string{"-1 50%", "1 60%"}},
		{"colours", "\x1b[1;31merror\x1b[0m: \x1b[38;5;196mbad\x1b[m", []string{"1 error: bad"}},
		{"a title and a link", "\x1b]0;quantizing\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", []string{"1 alinkb"}},
		{"a string that is never closed", "a\x1b]0;title\nb", []string{"1 a", "2 b"}},
		{"8-bit controls", "a\u009b31mb\u009d0;t\u009cc", []string{"1 abc"}},
		{"device strings", "a\x1bPq#0\x1b\\b\x1b_x\x1b\\c", []string{"1 abc"}},
		{"backspaces", "abc\b\b\bxyz\n", []string{"-1 abc", "1 xyz"}},
		{"cursor left and right", "abc\x1b[3D\x1b[1CX\n", []string{"-1 abc", "1 aXc"}},
		{"cursor to a column", "abcdef\x1b[3GX\n", []string{"-1 abcdef", "1 abXdef"}},
		{"cursor up", "first\nsecond\x1b[1Aover\n", []string{"1 first", "2 second", "2 over"}},
		{"tabs", "a\tb", []string{"1 a       b"}},
		{"bytes that are no UTF-8", "a\xff\xfeb \xe2\x28", []string{"1 a\ufffd\ufffdb \ufffd("}},
		{"charsets", "\x1b(Ba\x1b)0b", []string{"1 ab"}},
		{"a sequence that is broken off", "a\x1b[31\nb", []string{"1 a", "2 b"}},
		{"an escape at the end", "a\x1b", []string{"1 a"}},
		{"wide text", "量子化\r50%\n", []string{"-1 量子化", "1 50%"}},
		{"null bytes", "a\x00b\x07c", []string{"1 abc"}},
	} {
		if got := cleaned(t, c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A line of megabytes comes in pieces, in little memory, and loses nothing.
func TestALineOfMegabytes(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB without a line end
	n := 0
	err := Clean(iotest.HalfReader(strings.NewReader(long)), func(f Fragment) error {
		if len(f.Text) > maxLine || f.Line != 1 {
			t.Fatalf("%d bytes in line %d", len(f.Text), f.Line)
		}
		n += len(f.Text)
		return nil
	})
	if err != nil || n != len(long) {
		t.Errorf("%d of %d bytes, %v", n, len(long), err)
	}
	bars := strings.Repeat("\r 50%|#####     | 16/32 [00:01<00:01, 16.00it/s]", 1<<14)
	if got := cleaned(t, "falling back to uniform MSE"+bars+"\n"); !strings.Contains(got[0], "-1 falling back to uniform MSE") || len(got) > 3 {
		t.Errorf("%d fragments: %.200q", len(got), got)
	}
}

// A reader's error and emit's end it.
func TestCleanEndsWithErrors(t *testing.T) {
	stop := fmt.Errorf("stop")
	if err := Clean(strings.NewReader("a\nb\n"), func(Fragment) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}
	if err := Clean(iotest.ErrReader(stop), func(Fragment) error { return nil }); err != stop {
		t.Errorf("%v", err)
	}
}

// Whatever is read, no fragment has a control character or is longer than a line
// may be, lines count up, and printable text that no sequence touches comes through.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\rb\n", "\x1b[2K\x1b[1A\x1b]0;x\x07", "\xff\xfe\x00", "\x1b[999999999999C", "\x1bP\x1b\x1b\\", "50%|###|\b\b\b\x1b[3Dx", "\u009b5D\u0090q\u009c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		line := 1
		plain := !slices.ContainsFunc(in, func(b byte) bool { return b < 0x20 && b != '\n' || b >= 0x7F })
		var text strings.Builder
		err := Clean(strings.NewReader(string(in)), func(f Fragment) error {
			if f.Line < line || !utf8.ValidString(f.Text) || utf8.RuneCountInString(f.Text) > maxLine || strings.ContainsFunc(f.Text, unicode.IsControl) || f.Text == "" {
				t.Fatalf("line %d after %d: %q", f.Line, line, f.Text)
			}
			line = f.Line
			text.WriteString(f.Text)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }; plain && squeeze(text.String()) != squeeze(string(in)) {
			t.Fatalf("%q became %q", in, text.String())
		}
	})
}
