package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"quantscope/sessions"
)

// pty is a terminal whose other end the test holds.
type pty struct {
	t             *testing.T
	master, slave *os.File
	before        unix.Termios

	mu   sync.Mutex
	news *sync.Cond
	out  strings.Builder
	over bool
	read chan struct{} // closed when the reader has ended
}

func openPTY(t *testing.T, w, h uint16) *pty {
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
	p := &pty{t: t, master: master, slave: slave, read: make(chan struct{})}
	p.news = sync.NewCond(&p.mu)
	p.resize(w, h)
	state, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	p.before = *state
	go p.pump()
	return p
}

// pump collects what the program writes.
func (p *pty) pump() {
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

func (p *pty) resize(w, h uint16) {
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: w, Row: h}); err != nil {
		p.t.Fatal(err)
	}
}

// signalResize tells the program of a new size. The kernel does so only for the
// terminal that controls a process, which this one does not.
func (p *pty) signalResize() {
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pty) press(keys string) {
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for a text among what was written after the mark, without escape
// sequences, and returns the mark behind all that was read. It is woken by the
// reader; the deadline is only for a program that hangs.
func (p *pty) until(mark int, text string) int {
	p.t.Helper()
	deadline := time.AfterFunc(30*time.Second, func() {
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
		if strings.Contains(ansi.Strip(all[mark:]), text) {
			return len(all)
		}
		if p.over {
			p.t.Fatalf("%q never came; written since: %q", text, ansi.Strip(all[mark:]))
		}
		p.news.Wait()
	}
}

// restored asserts that the terminal is as it was: modes, cursor, main screen,
// no mouse reports, no bracketed paste.
func (p *pty) restored() {
	p.t.Helper()
	now, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	if *now != p.before {
		p.t.Errorf("the modes of the terminal are %+v, were %+v", *now, p.before)
	}
	p.close()
	all := p.out.String()
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

func (p *pty) close() {
	p.slave.Close()
	<-p.read // the reader ends when no one holds the other side
	p.master.Close()
}

// run starts Run on the terminal.
func (p *pty) run(ctx context.Context, feed sessions.Feed, o Options) <-chan error {
	o.In, o.Out = p.slave, p.slave
	o.Env = func(name string) string { return map[string]string{"TERM": "xterm-256color"}[name] }
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, feed, o) }()
	return ended
}

// The whole program on a terminal: it draws, takes a new size and the answer
// about the background, and leaves the terminal as it was.
func TestRunOnTerminal(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := openPTY(t, 100, 30)
	whole := demoState()
	ended := p.run(context.Background(), newFakeFeed(sessions.Saved, whole, whole), Options{})
	mark := p.until(0, "✓ finished")
	p.press("\x1b]11;rgb:ffff/ffff/ffff\x1b\\")
	p.press("8")
	mark = p.until(mark, "all measured")
	p.resize(40, 10)
	p.signalResize()
	mark = p.until(mark, "40×10")
	p.resize(120, 40)
	p.signalResize()
	p.until(mark, "all measured")
	p.press("q")
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	p.restored()
	if !strings.Contains(p.out.String(), "\x1b]11;?") {
		t.Error("the terminal was not asked for its background")
	}
}

// ctrl+c in the middle of a run, a cancelled context and a panic in a command
// each end the program with their error and restore the terminal.
func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(p *pty, cancel func())
		is   error
		text string
	}{
		{name: "ctrl+c", end: func(p *pty, _ func()) { p.press("\x03") }, is: ErrInterrupted},
		{name: "context", end: func(_ *pty, cancel func()) { cancel() }, is: ErrInterrupted},
		{name: "panic", end: func(p *pty, _ func()) { p.press("v\x1b[F\r") }, text: "add: internal error: layers.3.mlp.experts.7.up_proj"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := openPTY(t, 100, 30)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			run := panickyRun{newFakeRun(demoState())}
			ended := p.run(ctx, run, Options{Known: []Known{{"nvfp4+sweep", ""}}})
			p.until(0, "0/720")
			run.measure(10)
			p.until(0, "10/720")
			c.end(p, cancel)
			err := <-ended
			if c.is != nil && !errors.Is(err, c.is) || c.text != "" && (err == nil || err.Error() != c.text) {
				t.Errorf("Run: %v", err)
			}
			p.restored()
		})
	}
}

// panickyRun panics where a variant is added.
type panickyRun struct{ *fakeRun }

func (panickyRun) Add(...string) error { panic("layers.3.mlp.experts.7.up_proj") }

// A program that links the workbench asks its terminal nothing before main
// begins: see package quiet.
func TestNothingIsAskedAtStart(t *testing.T) {
	p := openPTY(t, 80, 24)
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = []string{"TERM=xterm-256color", "HOME=" + t.TempDir()}
	child.Stdin, child.Stdout, child.Stderr = p.slave, p.slave, p.slave
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	p.close()
	if out := p.out.String(); strings.Contains(out, "\x1b") || !strings.Contains(out, "PASS") {
		t.Errorf("the terminal got %q", out)
	}
	if v, set := os.LookupEnv("CI"); set && v == "quiet" {
		t.Error("the environment was not put back")
	}
}
