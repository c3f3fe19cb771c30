package tui

import (
	"os"
	"testing"

	"github.com/muesli/termenv"
)

// The terminal's answer about its background is taken out of the input, whole
// or with keys around it, and keys are left as they are.
func TestBackgroundReaderStrips(t *testing.T) {
	for _, c := range []struct {
		in, keys string
		dark     []bool
	}{
		{"q", "q", nil},
		{"\x1b", "\x1b", nil},
		{"\x1b[A\x1b]", "\x1b[A\x1b]", nil}, // alt+]
		{"\x1b]11;rgb:0000/0000/0000\x07", "", []bool{true}},
		{"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "", []bool{false}},
		{"j\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\k", "jk", []bool{true}},
		{"\x1b]11;rgb:f/f/f\x07\x1b]11;rgba:00/00/00/ff\x07x", "x", []bool{false, true}},
		{"\x1b]11;nonsense\x07x", "x", nil},
		{"j\x1b]11;rgb:00", "j", nil},
		{"\x1b[<0;10;5M\x1b]11;rgb:00/00/00\x07\x1b[<0;10;5m", "\x1b[<0;10;5M\x1b[<0;10;5m", []bool{true}},
	} {
		var dark []bool
		r := &backgroundReader{found: func(d bool) { dark = append(dark, d) }}
		b := []byte(c.in)
		if got := string(b[:r.strip(b)]); got != c.keys {
			t.Errorf("%q: keys %q, want %q", c.in, got, c.keys)
		}
		if len(dark) != len(c.dark) {
			t.Errorf("%q: found %v, want %v", c.in, dark, c.dark)
			continue
		}
		for i := range dark {
			if dark[i] != c.dark[i] {
				t.Errorf("%q: found %v, want %v", c.in, dark, c.dark)
			}
		}
	}
}

// Read never returns nothing without an error, which would look like the end.
func TestBackgroundReaderReads(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	r := &backgroundReader{File: in, found: func(bool) {}}
	if _, err := out.WriteString("\x1b]11;rgb:0000/0000/0000\x07"); err != nil {
		t.Fatal(err)
	}
	var buf [256]byte
	if n, err := r.Read(buf[:]); n != 1 || buf[0] != 0 || err != nil {
		t.Errorf("read %d bytes %q, error %v; want one NUL", n, buf[:n], err)
	}
}

func TestDarkByEnv(t *testing.T) {
	for v, want := range map[string]bool{"": true, "15;0": true, "0;15": false, "0;default;7": false, "12;8": true, "15": true} {
		if got := darkByEnv(func(string) string { return v }); got != want {
			t.Errorf("COLORFGBG=%q: dark %v, want %v", v, got, want)
		}
	}
}

// Colours follow the environment; on what is no terminal there are none.
func TestDetectedProfile(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want termenv.Profile
	}{
		{map[string]string{"TERM": "xterm-256color", "CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, termenv.Ascii},
		{map[string]string{"TERM": "xterm-256color"}, termenv.Ascii}, // a file, not a terminal
		{map[string]string{"TERM": "dumb", "CLICOLOR_FORCE": "1"}, termenv.Ascii},
	} {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o := Options{Out: f, Env: func(name string) string { return c.env[name] }}.withDefaults()
		if *o.Profile != c.want {
			t.Errorf("%v: profile %v, want %v", c.env, *o.Profile, c.want)
		}
	}
}

// A program that has no terminal is refused with the reason.
func TestUsable(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = Usable(f, f, func(string) string { return "xterm" })
	if err == nil || err.Error() != "no interactive terminal: standard output is not a tty" {
		t.Errorf("error %v", err)
	}
}
