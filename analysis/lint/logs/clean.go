package logs

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// Fragment is a piece of text that a terminal showed: a line as it stood in the
// end, or what stood there before it was written over or erased.
type Fragment struct {
	Line   int // from 1, counted by line ends of the file
	Text   string
	Hidden bool // no longer to be seen in the end
	// Fresh is the part of Text that was written last: the rest is what is left of
	// what stood there before, and was handed on before.
	Fresh string
}

// maxLine bounds what is kept of a line; what follows is a fragment of its own.
const maxLine = 1 << 14

// Clean reads what a program wrote to a terminal and hands on what was to be read
// there: carriage returns and cursor movements write over what stands, control
// sequences are taken out (CSI, OSC and their like), backspaces go back, bytes that
// are no UTF-8 become U+FFFD. Memory does not grow with the length of lines. An
// error of emit ends it.
func Clean(in io.Reader, emit func(Fragment) error) error {
	s := &screen{line: 1, emit: emit}
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		c, size, err := r.ReadRune()
		if errors.Is(err, io.EOF) {
			s.end()
			return s.err
		}
		if err != nil {
			return err
		}
		if c == utf8.RuneError && size == 1 {
			c = 0xFFFD
		}
		if s.take(c); s.err != nil {
			return s.err
		}
	}
}

// State of the reader of control sequences.
type state uint8

const (
	text    state = iota
	escape        // after ESC
	csi           // after ESC [
	stringy       // in an OSC, DCS, SOS, PM or APC, until BEL or ESC \
	ender         // in one of these, after ESC
	charset       // after ESC ( and the like: one character more
)

// screen is the line that is being written.
type screen struct {
	line  int
	cells []rune
	col   int
	back  bool // the cursor went back, so that what comes writes over
	from  int  // where what was written last begins, and where it ends
	to    int
	state state
	args  []byte // of a CSI
	last  string // the hidden fragment that was handed on last
	emit  func(Fragment) error
	err   error
}

func (s *screen) take(c rune) {
	switch s.state {
	case escape:
		s.escaped(c)
		return
	case csi:
		switch {
		case c == '\n' || c == '\r': // broken off
			s.state = text
		case c >= 0x40 && c <= 0x7E:
			s.state = text
			s.sequence(c)
			return
		default:
			if len(s.args) < 32 && c < 0x80 {
				s.args = append(s.args, byte(c))
			}
			return
		}
	case stringy, ender:
		switch {
		case c == 0x07 || c == 0x9C || s.state == ender && c == '\\':
			s.state = text
			return
		case c == 0x1B:
			s.state = ender
			return
		case c != '\n' && c != '\r':
			s.state = stringy
			return
		}
		s.state = text // never closed: a line end closes it
	case charset:
		s.state = text
		return
	}
	switch {
	case c == '\n' || c == 0x0B || c == 0x0C || c == 0x85 || c == 0x2028:
		s.flush()
		s.line++
	case c == '\r':
		s.col, s.back = 0, true
	case c == 0x08:
		s.col, s.back = max(s.col-1, 0), true
	case c == '\t':
		for n := 8 - s.col%8; n > 0; n-- {
			s.put(' ')
		}
	case c == 0x1B:
		s.state = escape
	case c == 0x9B:
		s.state, s.args = csi, s.args[:0]
	case c == 0x90 || c == 0x98 || c >= 0x9D && c <= 0x9F:
		s.state = stringy
	case c < 0x20 || c >= 0x7F && c < 0xA0:
	default:
		s.put(c)
	}
}

// escaped takes what follows ESC.
func (s *screen) escaped(c rune) {
	switch c {
	case '[':
		s.state, s.args = csi, s.args[:0]
	case ']', 'P', 'X', '^', '_':
		s.state = stringy
	case '(', ')', '*', '+', '-', '.', '/', '#', '%', ' ':
		s.state = charset
	case 0x1B:
	case '\n', '\r':
		s.state = text
		s.take(c)
	case 'M', 'E', 'D', 'c': // to another line
		s.state = text
		s.flush()
	default:
		s.state = text
	}
}

// sequence obeys a CSI.
func (s *screen) sequence(final rune) {
	n, has := 0, false
	for _, b := range s.args {
		if b < '0' || b > '9' {
			break
		}
		if has = true; n < maxLine {
			n = 10*n + int(b-'0')
		}
	}
	n = min(n, maxLine-1)
	move := max(n, 1)
	switch final {
	case 'K': // erase in the line
		switch {
		case n == 2:
			s.hide()
			s.cells = s.cells[:0]
		case n == 1:
			s.hide()
			for i := range s.cells[:min(s.col, len(s.cells))] {
				s.cells[i] = ' '
			}
		case s.col < len(s.cells):
			s.hide()
			s.cells = s.cells[:s.col]
		}
		s.back = false
	case 'C':
		for range move {
			if s.col < len(s.cells) {
				s.col++
			} else if len(s.cells) < maxLine {
				s.put(' ')
			}
		}
	case 'D':
		s.col, s.back = max(s.col-move, 0), true
	case 'G', '`':
		s.col, s.back = min(max(n-1, 0), len(s.cells)), true
	case 'A', 'B', 'E', 'F', 'H', 'f', 'J', 'L', 'M', 'S', 'T', 'd': // to another line, or another screen
		if final == 'J' && n == 0 && has {
			return
		}
		s.flush()
	}
}

// put writes a character where the cursor is.
func (s *screen) put(c rune) {
	if s.back {
		if s.col < len(s.cells) {
			s.hide()
		}
		s.back, s.from, s.to = false, s.col, s.col
	}
	s.to = max(s.to, s.col+1)
	if s.col < len(s.cells) {
		s.cells[s.col] = c
	} else {
		s.cells = append(s.cells, c)
	}
	if s.col++; len(s.cells) >= maxLine && s.col >= maxLine {
		s.flush()
	}
}

// hide hands on what is about to be written over.
func (s *screen) hide() {
	t := s.shown()
	if t == "" || t == s.last {
		return
	}
	s.last = t
	s.send(Fragment{s.line, t, true, s.fresh(t)})
}

// flush hands on the line and begins another.
func (s *screen) flush() {
	if t := s.shown(); t != "" {
		s.send(Fragment{s.line, t, false, s.fresh(t)})
	}
	s.cells, s.col, s.back, s.last, s.from, s.to = s.cells[:0], 0, false, "", 0, 0
}

func (s *screen) end() { s.flush() }

func (s *screen) shown() string { return strings.TrimSpace(string(s.cells)) }

// fresh is what was written last, as far as it is still there.
func (s *screen) fresh(shown string) string {
	to := min(s.to, len(s.cells))
	if s.from == 0 && to == len(s.cells) {
		return shown
	}
	return strings.TrimSpace(string(s.cells[min(s.from, to):to]))
}

func (s *screen) send(f Fragment) {
	if s.err == nil {
		s.err = s.emit(f)
	}
}
