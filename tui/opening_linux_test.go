package tui

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"quantscope/sessions"
	"quantscope/tui/ptytest"
)

// openingOn starts RunOpening on a terminal; what is opened comes once release
// is closed.
func openingOn(p *ptytest.Terminal, release <-chan struct{}, feed sessions.Feed, err error) <-chan error {
	o := Options{In: p.Slave, Out: p.Slave, Env: func(name string) string { return map[string]string{"TERM": "xterm-256color"}[name] }}
	open := func() (sessions.Feed, error) {
		<-release
		return feed, err
	}
	ended := make(chan error, 1)
	go func() { ended <- RunOpening(context.Background(), "run.qscope", open, o) }()
	return ended
}

// The frame stands before the session is open, and what is typed meanwhile is
// done, not echoed.
func TestOpeningShowsAFrameFirst(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, size := range []struct{ w, h uint16 }{{80, 24}, {20, 6}, {120, 40}} {
		p := ptytest.Open(t, size.w, size.h)
		release := make(chan struct{})
		feed := newFakeFeed(sessions.Saved, demoState(), demoState())
		ended := openingOn(p, release, feed, nil)
		mark := p.Until(0, "run.qscope …")
		p.Press("8")
		close(release)
		if size.w >= MinWidth {
			mark = p.Until(mark, "all measured")
			p.Press("1")
			p.Until(mark, "rel_l2")
		} else {
			p.Until(mark, "finished")
		}
		p.Press("q")
		if err := <-ended; err != nil {
			t.Errorf("RunOpening: %v", err)
		}
		p.Restored()
		if !feed.closed {
			t.Error("the feed stays open")
		}
	}
}

// What cannot be opened ends the program with the error as it is, after the
// terminal has been restored.
func TestOpeningFails(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	p := ptytest.Open(t, 80, 24)
	release := make(chan struct{})
	want := errors.New("run.qscope: not a session")
	ended := openingOn(p, release, nil, want)
	p.Until(0, "opening run.qscope …")
	close(release)
	if err := <-ended; err != want {
		t.Errorf("RunOpening: %v", err)
	}
	p.Restored()
}

// A person who does not want to wait quits, and what is opened after that is
// closed.
func TestOpeningIsLeft(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, key := range []string{"q", "\x03"} {
		p := ptytest.Open(t, 80, 24)
		release := make(chan struct{})
		feed := newFakeFeed(sessions.Saved, demoState(), demoState())
		ended := openingOn(p, release, feed, nil)
		p.Until(0, "opening run.qscope …")
		p.Press(key)
		p.UntilRaw(0, "\x1b[?1049l")
		close(release)
		if err := <-ended; err != nil {
			t.Errorf("RunOpening: %v", err)
		}
		p.Restored()
		if !feed.closed {
			t.Error("the feed stays open")
		}
	}
}
