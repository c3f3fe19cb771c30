package tui

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"quantscope/sessions"
	"quantscope/tui/ptytest"
)

// runOn starts Run on a terminal.
func runOn(ctx context.Context, p *ptytest.Terminal, feed sessions.Feed, o Options) <-chan error {
	o.In, o.Out = p.Slave, p.Slave
	o.Env = func(name string) string { return map[string]string{"TERM": "xterm-256color"}[name] }
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, feed, o) }()
	return ended
}

// The whole program on a terminal: it draws, takes a new size and the answer
// about the background, and leaves the terminal as it was.
func TestRunOnTerminal(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := ptytest.Open(t, 100, 30)
	whole := demoState()
	ended := runOn(context.Background(), p, newFakeFeed(sessions.Saved, whole, whole), Options{})
	mark := p.Until(0, "✓ finished")
	p.Press("\x1b]11;rgb:ffff/ffff/ffff\x1b\\")
	p.Press("8")
	mark = p.Until(mark, "all measured")
	p.Resize(40, 10)
	p.SignalResize()
	mark = p.Until(mark, "40×10")
	p.Resize(120, 40)
	p.SignalResize()
	p.Until(mark, "all measured")
	p.Press("q")
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	p.Restored()
	if !strings.Contains(p.Written(), "\x1b]11;?") {
		t.Error("the terminal was not asked for its background")
	}
}

// ctrl+c in the middle of a run, a cancelled context and a panic in a command
// each end the program with their error and restore the terminal.
func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(p *ptytest.Terminal, cancel func())
		is   error
		text string
	}{
		{name: "ctrl+c", end: func(p *ptytest.Terminal, _ func()) { p.Press("\x03") }, is: ErrInterrupted},
		{name: "context", end: func(_ *ptytest.Terminal, cancel func()) { cancel() }, is: ErrInterrupted},
		{name: "panic", end: func(p *ptytest.Terminal, _ func()) { p.Press("v\x1b[F\r") }, text: "add: internal error: layers.3.mlp.experts.7.up_proj"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := ptytest.Open(t, 100, 30)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			run := panickyRun{newFakeRun(demoState())}
			ended := runOn(ctx, p, run, Options{Known: []Known{{Name: "nvfp4+sweep"}}})
			p.Until(0, "0/720")
			run.measure(10)
			p.Until(0, "10/720")
			c.end(p, cancel)
			err := <-ended
			if c.is != nil && !errors.Is(err, c.is) || c.text != "" && (err == nil || err.Error() != c.text) {
				t.Errorf("Run: %v", err)
			}
			p.Restored()
		})
	}
}

// panickyRun panics where a variant is added.
type panickyRun struct{ *fakeRun }

func (panickyRun) Add(...string) error { panic("layers.3.mlp.experts.7.up_proj") }

// A program that links the workbench asks its terminal nothing before main
// begins: see package quiet.
func TestNothingIsAskedAtStart(t *testing.T) {
	p := ptytest.Open(t, 80, 24)
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = []string{"TERM=xterm-256color", "HOME=" + t.TempDir()}
	child.Stdin, child.Stdout, child.Stderr = p.Slave, p.Slave, p.Slave
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if out := p.Written(); strings.Contains(out, "\x1b") || !strings.Contains(out, "PASS") {
		t.Errorf("the terminal got %q", out)
	}
	if v, set := os.LookupEnv("CI"); set && v == "quiet" {
		t.Error("the environment was not put back")
	}
}
