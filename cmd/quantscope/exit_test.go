package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/recipe"
	"quantscope/sessions"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exitGood},
		{errors.New("unknown flag"), exitUsage},
		{usage(errors.New("x")), exitUsage},
		{&sessions.SettingsError{Path: "s", Setting: "targets", Old: "a", New: "b"}, exitUsage},
		{checkFailed(errSaid), exitCheckFailed},
		{context.Canceled, exitInterrupted},
		{fmt.Errorf("synth: %w", context.Canceled), exitInterrupted},
		{&checkpoint.FileError{File: "f", Reason: "is cut"}, exitBadInput},
		{&sessions.FileError{Path: "s", Reason: "is damaged"}, exitBadInput},
		{fmt.Errorf("x: %w", sessions.ErrNotSession), exitBadInput},
		{fmt.Errorf("x: %w", fs.ErrNotExist), exitBadInput},
		{fmt.Errorf("x: %w", recipe.ErrNothing), exitBadInput},
		{&sessions.EnvError{Path: "s", Reason: "no space"}, exitEnvironment},
		{&sessions.BusyError{Path: "s"}, exitEnvironment},
		{&checkpoint.FileError{File: "f", Reason: "cannot be opened", Err: fs.ErrPermission}, exitEnvironment},
		{&checkpoint.FileError{File: "f", Reason: "write", Err: syscall.ENOSPC}, exitEnvironment},
		{fmt.Errorf("write: %w", syscall.EFBIG), exitEnvironment},
		{fmt.Errorf("write: %w", syscall.EROFS), exitEnvironment},
	} {
		var out bytes.Buffer
		if got := report(streams{err: &out}, c.err); got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
		if silent := c.err == nil || c.want == exitCheckFailed; silent != (out.Len() == 0) {
			t.Errorf("%v: printed %q", c.err, out.String())
		}
		if strings.Contains(out.String(), "context canceled") {
			t.Errorf("%v: printed %q", c.err, out.String())
		}
	}
}

// A fallback fails a run unless it is allowed; a failed tensor and a cancelled
// run fail it either way.
func TestVerdict(t *testing.T) {
	state := func(s sessions.RunState, kind sessions.EventKind, failed int64) *sessions.State {
		return &sessions.State{
			Progress: sessions.Progress{State: s, Failed: failed},
			Log:      []sessions.Event{{Kind: kind, Variant: -1, Tensor: -1, Message: "m"}},
		}
	}
	for _, c := range []struct {
		st    *sessions.State
		allow bool
		want  int
	}{
		{state(sessions.RunFinished, sessions.EventFinished, 0), false, exitGood},
		{state(sessions.RunFinished, sessions.EventFinding, 0), false, exitGood},
		{state(sessions.RunFinished, sessions.EventFallback, 0), false, exitCheckFailed},
		{state(sessions.RunFinished, sessions.EventFallback, 0), true, exitGood},
		{state(sessions.RunFinished, sessions.EventFailed, 1), true, exitBadInput},
		{state(sessions.RunFinished, sessions.EventFailed, 0), false, exitGood}, // failed once, measured on resume
		{state(sessions.RunCancelled, sessions.EventCancelled, 0), true, exitInterrupted},
	} {
		err := verdict("s.qscope", c.st, c.allow, nil)
		got := exitGood
		if err != nil {
			got = exitCode(err)
		}
		if got != c.want {
			t.Errorf("%s after %s, allowed %v: exit %d (%v), want %d", c.st.Progress.State, c.st.Log[0].Kind, c.allow, got, err, c.want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "512MiB": 512 << 20, "2GiB": 2 << 30, "1.5kB": 1500, "3 MB": 3e6, "1TiB": 1 << 40} {
		if got, err := parseBytes(s); err != nil || got != want {
			t.Errorf("%q: %d %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "MiB", "-1", "0", "1e30", "NaN", "12 parsecs", "99999999TiB"} {
		if got, err := parseBytes(s); err == nil {
			t.Errorf("%q is taken as %d", s, got)
		}
	}
}

// A run that a signal ended is never good, whatever it had come to.
func TestInterruptedAtEitherEnd(t *testing.T) {
	for _, c := range []struct {
		state   sessions.RunState
		written *exportDocument
		want    int
	}{
		{sessions.RunIdle, nil, exitInterrupted},
		{sessions.RunIdle, &exportDocument{State: sessions.ExportIncomplete}, exitInterrupted},
		{sessions.RunCancelled, &exportDocument{State: sessions.ExportIncomplete}, exitInterrupted},
		{sessions.RunFinished, &exportDocument{State: sessions.ExportIncomplete}, exitInterrupted},
		{sessions.RunFinished, &exportDocument{State: sessions.ExportPart}, exitGood},
		{sessions.RunFinished, &exportDocument{State: sessions.ExportWhole}, exitGood},
		{sessions.RunFinished, nil, exitGood},
	} {
		st := &sessions.State{}
		st.Progress.State = c.state
		got := exitGood
		if err := verdict("s.qscope", st, false, c.written); err != nil {
			got = exitCode(err)
		}
		if got != c.want {
			t.Errorf("%s, export %+v: exit %d, want %d", c.state, c.written, got, c.want)
		}
	}
}
