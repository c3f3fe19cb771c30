package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"quantscope/tui/ptytest"
)

// terminal is the program running in a terminal of its own.
type terminal struct {
	*ptytest.Terminal
	t   testing.TB
	cmd *exec.Cmd
}

// asProgram makes a child of this test binary run the program instead of the tests.
const asProgram = "QUANTSCOPE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// openTerminal starts the program with just the given environment.
func openTerminal(t testing.TB, cols, rows uint16, env []string, args ...string) *terminal {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{Terminal: ptytest.Open(t, cols, rows), t: t, cmd: exec.Command(self, args...)}
	term.cmd.Env = append([]string{asProgram + "=1", "HOME=" + t.TempDir(), "XDG_STATE_HOME=" + filepath.Join(t.TempDir(), "state"), "LANG=C.UTF-8"}, env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = term.Slave, term.Slave, term.Slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.cmd.Process.Kill() })
	return term
}

// exit waits for the program and returns its exit code.
func (term *terminal) exit() int {
	term.t.Helper()
	done := make(chan error, 1)
	go func() { done <- term.cmd.Wait() }()
	select {
	case err := <-done:
		var status *exec.ExitError
		if err != nil && !errors.As(err, &status) {
			term.t.Fatal(err)
		}
	case <-time.After(60 * time.Second):
		term.t.Fatalf("the program did not end; it wrote %q", tail(term.Written(), 2000))
	}
	return term.cmd.ProcessState.ExitCode()
}

// leave is exit for a program that drew on the screen: the terminal must be as
// it was before.
func (term *terminal) leave() int {
	term.t.Helper()
	code := term.exit()
	term.Restored()
	return code
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// BenchmarkStart is what a person waits for: from the start of the program to
// the first screen, and to the end of the demo's 720 measurements, at 120×40.
func BenchmarkStart(b *testing.B) {
	var first, whole time.Duration
	for b.Loop() {
		begun := time.Now()
		term := openTerminal(b, 120, 40, []string{"TERM=xterm-256color", "COLORTERM=truecolor"})
		term.Until(0, "Clipping")
		first += time.Since(begun)
		term.Until(0, "finished")
		whole += time.Since(begun)
		term.Press("q")
		if code := term.leave(); code != exitGood {
			b.Fatalf("exit %d", code)
		}
	}
	b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "first-screen-ms")
	b.ReportMetric(float64(whole.Milliseconds())/float64(b.N), "measured-ms")
}
