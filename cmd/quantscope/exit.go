package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// Exit codes, as docs/commands.md lists them.
const (
	exitGood        = 0
	exitCheckFailed = 1
	exitUsage       = 2
	exitBadInput    = 3
	exitEnvironment = 4
	exitInterrupted = 130
)

// exitError is an error with the exit code that it calls for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error       { return &exitError{exitUsage, err} }
func badInput(err error) error    { return &exitError{exitBadInput, err} }
func environment(err error) error { return &exitError{exitEnvironment, err} }

// checkFailed ends a command whose check did not pass. A nil error says that the
// output has told it already.
func checkFailed(err error) error { return &exitError{exitCheckFailed, err} }

// interrupted ends a run that a person broke off.
func interrupted(session string, written *exportDocument) error {
	if written != nil && written.State != sessions.ExportWhole {
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: what was measured and written is kept; the same command with --session %s --resume goes on", session)}
	}
	return &exitError{exitInterrupted, fmt.Errorf("interrupted: what was measured is kept; --session %s goes on", session)}
}

// errSaid marks an outcome that the command has printed itself.
var errSaid = errors.New("")

// report prints an error as one line on standard error and returns its exit code.
func report(std streams, err error) int {
	if err == nil {
		return exitGood
	}
	if errors.Is(err, context.Canceled) {
		err = &exitError{exitInterrupted, errors.New("interrupted")}
	}
	if text := oneLine(err.Error()); text != "" {
		fmt.Fprintln(std.err, "quantscope: "+text)
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var coded *exitError
	var file *checkpoint.FileError
	var session *sessions.FileError
	var env *sessions.EnvError
	var busy *sessions.BusyError
	var written *sessions.ExportError
	var parts *sessions.MergeError
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EFBIG), errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission),
		errors.As(err, &env), errors.As(err, &busy), errors.Is(err, export.ErrBusy):
		return exitEnvironment
	case errors.As(err, &file), errors.As(err, &session), errors.Is(err, sessions.ErrNotSession), errors.Is(err, fs.ErrNotExist),
		errors.Is(err, recipe.ErrNothing), errors.Is(err, topology.ErrTensors),
		errors.As(err, &written), errors.As(err, &parts), errors.Is(err, export.ErrSource), errors.Is(err, export.ErrMatrix):
		return exitBadInput
	}
	return exitUsage
}

// oneLine keeps an error on one line whatever a name in it holds.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
