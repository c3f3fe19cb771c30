package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the program running in a terminal of its own.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File // kept open, so that its settings can be read after the exit
	before unix.Termios

	mu   sync.Mutex
	out  bytes.Buffer
	news chan struct{} // capacity 1: set when out has grown
	gone chan struct{} // closed when nothing more comes
}

// asProgram makes a child of this test binary run the program instead of the tests.
const asProgram = "QUANTSCOPE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

func openTerminal(t *testing.T, cols, rows int, env []string, args ...string) *terminal {
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
	term := &terminal{t: t, master: master, slave: slave, news: make(chan struct{}, 1), gone: make(chan struct{})}
	term.resize(cols, rows)
	settings, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	term.before = *settings
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	term.cmd = exec.Command(self, args...)
	term.cmd.Env = append([]string{asProgram + "=1", "HOME=" + t.TempDir(), "XDG_STATE_HOME=" + filepath.Join(t.TempDir(), "state"), "LANG=C.UTF-8"}, env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.read()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		slave.Close()
		master.Close()
		<-term.gone
	})
	return term
}

func (term *terminal) read() {
	defer close(term.gone)
	buf := make([]byte, 1<<16)
	for {
		n, err := term.master.Read(buf)
		term.mu.Lock()
		term.out.Write(buf[:n])
		term.mu.Unlock()
		select {
		case term.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (term *terminal) resize(cols, rows int) {
	size := &unix.Winsize{Row: uint16(rows), Col: uint16(cols)}
	if err := unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ, size); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.out.String()
}

// until waits until what the program wrote after position from holds text.
func (term *terminal) until(text string) {
	term.t.Helper()
	deadline := time.After(60 * time.Second)
	for !strings.Contains(term.text(), text) {
		select {
		case <-term.news:
		case <-deadline:
			term.t.Fatalf("%q never came; the program wrote %q", text, tail(term.text(), 2000))
		}
	}
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := io.WriteString(term.master, keys); err != nil {
		term.t.Fatal(err)
	}
}

// exit waits for the program and checks that the terminal is as it was.
func (term *terminal) exit() int {
	term.t.Helper()
	done := make(chan error, 1)
	go func() { done <- term.cmd.Wait() }()
	var err error
	select {
	case err = <-done:
	case <-time.After(60 * time.Second):
		term.t.Fatalf("the program did not end; it wrote %q", tail(term.text(), 2000))
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		term.t.Fatal(err)
	}
	settings, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	if *settings != term.before {
		term.t.Errorf("the terminal's settings are left changed: %+v, were %+v", *settings, term.before)
	}
	out := term.text()
	for _, mode := range []string{"1049", "25", "1000", "1002", "1003", "1006", "2004"} {
		on, off := strings.LastIndex(out, "\x1b[?"+mode+"h"), strings.LastIndex(out, "\x1b[?"+mode+"l")
		if mode == "25" {
			on, off = off, on // the cursor is hidden first and shown last
		}
		if on > off {
			term.t.Errorf("mode %s is left set", mode)
		}
	}
	if strings.Contains(out, "goroutine ") {
		term.t.Errorf("a stack trace: %q", tail(out, 2000))
	}
	return term.cmd.ProcessState.ExitCode()
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
