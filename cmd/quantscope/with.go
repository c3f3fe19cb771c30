package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"quantscope/sessions"
)

// workbenchOfTwo opens two sessions of one source on one screen, or prints both
// as one where there is no terminal.
func workbenchOfTwo(ctx context.Context, std streams, path, with string, run runFlags, screen screenFlags) error {
	if err := screen.check(); err != nil {
		return err
	}
	for _, p := range []string{path, with} {
		if p == "demo" {
			return usage(errors.New("--with joins two saved sessions; demo is a checkpoint"))
		}
		if err := present(p); err != nil {
			return err
		}
		switch saved, err := sessions.IsSession(p); {
		case err != nil:
			return badInput(err)
		case !saved:
			return usage(fmt.Errorf("--with joins two saved sessions; %s is a checkpoint", p))
		}
	}
	if err := run.checkSaved(path); err != nil {
		return err
	}
	open := func() (sessions.Feed, error) {
		feed, err := sessions.OpenJoined(path, with, labelOf(with, path))
		var join *sessions.JoinError
		if errors.As(err, &join) {
			err = badInput(err)
		}
		return feed, err
	}
	if !run.json && std.terminal {
		screen.first = "compare"
		screen.reopen = func(string) (sessions.Feed, error) { return open() }
		return showSaved(ctx, std, path, open, screen)
	}
	feed, err := open()
	if err != nil {
		return err
	}
	st := feed.Snapshot()
	if err := feed.Close(); err != nil {
		return err
	}
	if run.json {
		return printJSON(std.out, document(path, st))
	}
	return printRun(std.out, path, st)
}

// labelOf is a short name for a session beside another: its file's, with its
// folder's where both files are called the same.
func labelOf(path, other string) string {
	base := func(p string) string { return strings.TrimSuffix(filepath.Base(p), ".qscope") }
	if base(path) != base(other) {
		return base(path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return base(path)
	}
	return filepath.Base(filepath.Dir(abs)) + "/" + base(path)
}
