package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/muesli/termenv"

	"quantscope/tui/quiet"
)

func init() { quiet.Done() }

// ErrNoTerminal says that the workbench cannot be drawn here.
var ErrNoTerminal = errors.New("no interactive terminal")

// Usable says whether the workbench can run on these files, and if not, why: an
// error that wraps ErrNoTerminal.
func Usable(in, out *os.File, env func(string) string) error {
	switch {
	case !term.IsTerminal(out.Fd()):
		return fmt.Errorf("%w: standard output is not a tty", ErrNoTerminal)
	case !term.IsTerminal(in.Fd()):
		return fmt.Errorf("%w: standard input is not a tty", ErrNoTerminal)
	case env("TERM") == "dumb" || env("TERM") == "":
		return fmt.Errorf("%w: TERM=%q cannot place a cursor", ErrNoTerminal, env("TERM"))
	}
	return nil
}

// askBackground asks the terminal for its background colour. The answer comes
// with the input, where backgroundReader takes it out; a terminal that does not
// answer keeps the guess, and nothing waits.
func (m *Model) askBackground() tea.Cmd {
	if !m.asksBackground() {
		return nil
	}
	out := m.o.Out
	return m.do(m.ctx, "background", func(context.Context) tea.Msg {
		_, _ = io.WriteString(out, ansi.RequestBackgroundColor) // a terminal that is gone shows elsewhere
		return nil
	})
}

// asksBackground says whether the question makes sense: it does where colours
// are drawn on a real terminal, and multiplexers and consoles do not know it.
func (m *Model) asksBackground() bool {
	if m.o.handFed || m.profile == termenv.Ascii || m.o.Env("COLORFGBG") != "" {
		return false
	}
	for _, prefix := range []string{"screen", "tmux", "dumb", "linux"} {
		if strings.HasPrefix(m.o.Env("TERM"), prefix) {
			return false
		}
	}
	f, ok := m.o.Out.(term.File)
	return ok && term.IsTerminal(f.Fd())
}

// backgroundReader is a terminal whose answer to askBackground does not reach
// the program as keys. It stays a file, so that reads can be cancelled and raw
// mode set.
type backgroundReader struct {
	*os.File
	found func(dark bool)
}

// Read implements io.Reader. What is nothing but an answer becomes a NUL, which
// is no key: to return nothing would look like the end, and to read again could
// block where a read was promised to be ready.
func (r *backgroundReader) Read(p []byte) (int, error) {
	n, err := r.File.Read(p)
	kept := r.strip(p[:n])
	if kept == 0 && n > 0 {
		p[0], kept = 0, 1
	}
	return kept, err
}

// strip takes answers out of b and returns how much is left of it.
func (r *backgroundReader) strip(b []byte) int {
	const head = "\x1b]11;"
	n := len(b)
	for {
		at := bytes.Index(b[:n], []byte(head))
		if at < 0 {
			return n
		}
		end, size := bytes.IndexByte(b[at:n], 0x07), 1
		if st := bytes.Index(b[at:n], []byte("\x1b\\")); end < 0 || st >= 0 && st < end {
			end, size = st, 2
		}
		if end < 0 {
			return at // cut short: what follows is not a key either
		}
		if dark, ok := darkColour(string(b[at+len(head) : at+end])); ok {
			r.found(dark)
		}
		copy(b[at:], b[at+end+size:n])
		n -= end + size
	}
}

// darkColour reads rgb:RRRR/GGGG/BBBB, with one to four hex digits each, and
// says whether the colour's luma (Rec. 601) is below one half.
func darkColour(s string) (dark, ok bool) {
	rgb, found := strings.CutPrefix(s, "rgb:")
	if !found {
		if rgb, found = strings.CutPrefix(s, "rgba:"); !found {
			return false, false
		}
	}
	parts := strings.Split(rgb, "/")
	if len(parts) < 3 {
		return false, false
	}
	luma := 0.0
	for i, weight := range []float64{0.299, 0.587, 0.114} {
		v, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil {
			return false, false
		}
		luma += weight * float64(v) / float64(uint64(1)<<(4*len(parts[i]))-1)
	}
	return luma < 0.5, true
}
