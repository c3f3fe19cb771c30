package ptytest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"
)

// Terminal is a terminal whose other end the test holds. A program gets Slave.
type Terminal struct {
	Slave *os.File

	t      testing.TB
	master *os.File
	before unix.Termios

	mu   sync.Mutex
	news *sync.Cond
	out  strings.Builder
	over bool
	read chan struct{} // closed when the reader has ended
}

// Open makes a terminal of w×h cells. It is closed by Restored, Close or the end
// of the test.
func Open(t testing.TB, w, h uint16) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &Terminal{t: t, master: master, Slave: slave, read: make(chan struct{})}
	p.news = sync.NewCond(&p.mu)
	p.Resize(w, h)
	state, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	p.before = *state
	go p.pump()
	t.Cleanup(p.Close)
	return p
}

// pump collects what the program writes.
func (p *Terminal) pump() {
	defer close(p.read)
	var buf [4096]byte
	for {
		n, err := p.master.Read(buf[:])
		p.mu.Lock()
		p.out.Write(buf[:n])
		p.over = err != nil
		p.news.Broadcast()
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Resize gives the terminal another size.
func (p *Terminal) Resize(w, h uint16) {
	if err := unix.IoctlSetWinsize(int(p.Slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: w, Row: h}); err != nil {
		p.t.Fatal(err)
	}
}

// SignalResize tells the program of a new size. The kernel does so only for the
// terminal that controls a process, which this one does not.
func (p *Terminal) SignalResize() {
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		p.t.Fatal(err)
	}
}

// Press writes what a person types.
func (p *Terminal) Press(keys string) {
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Until waits for a text among what was written after the mark, without escape
// sequences, and returns the mark behind all that was read.
func (p *Terminal) Until(mark int, text string) int {
	p.t.Helper()
	return p.until(mark, text, ansi.Strip)
}

// UntilRaw is Until with escape sequences left in.
func (p *Terminal) UntilRaw(mark int, text string) int {
	p.t.Helper()
	return p.until(mark, text, func(s string) string { return s })
}

func (p *Terminal) until(mark int, text string, clean func(string) string) int {
	p.t.Helper()
	deadline := time.AfterFunc(60*time.Second, func() {
		p.mu.Lock()
		p.over = true
		p.news.Broadcast()
		p.mu.Unlock()
	})
	defer deadline.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		all := p.out.String()
		if strings.Contains(clean(all[mark:]), text) {
			return len(all)
		}
		if p.over {
			p.t.Fatalf("%q never came; written since: %q", text, ansi.Strip(all[mark:]))
		}
		p.news.Wait()
	}
}

// Written is all that was written so far.
func (p *Terminal) Written() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Restored closes the terminal and asserts that it is as it was: modes, cursor, main screen,
// no mouse reports, no bracketed paste.
func (p *Terminal) Restored() {
	p.t.Helper()
	now, err := unix.IoctlGetTermios(int(p.Slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	if *now != p.before {
		p.t.Errorf("the modes of the terminal are %+v, were %+v", *now, p.before)
	}
	p.Close()
	all := p.Written()
	for on, off := range map[string]string{
		"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l",
		"\x1b[?1003h": "\x1b[?1003l", "\x1b[?1006h": "\x1b[?1006l",
	} {
		if i := strings.LastIndex(all, on); i < 0 || strings.LastIndex(all, off) < i {
			p.t.Errorf("%q is not undone by %q", on, off)
		}
	}
	if strings.Contains(all, "panic") || strings.Contains(all, "goroutine ") {
		p.t.Error("a stack was written to the terminal")
	}
}

// Close ends the terminal, once all that a program wrote has been read.
func (p *Terminal) Close() {
	p.Slave.Close()
	<-p.read // the reader ends when no one holds the other side
	p.master.Close()
}
