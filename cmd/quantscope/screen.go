package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/quant/method"
	"quantscope/sessions"
	"quantscope/tui"
	"quantscope/views"
)

// screenFlags are the flags of commands that open the workbench.
type screenFlags struct {
	theme   string
	noMouse bool
	reopen  func(path string) (sessions.Feed, error) // nil: as a saved session; no flag
	first   string                                   // screen, "" for the map; no flag
}

func (f *screenFlags) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.theme, "theme", "", "colours: "+strings.Join(views.ThemeNames(), ", "))
	fl.BoolVar(&f.noMouse, "no-mouse", false, "leave the mouse to the terminal")
	_ = cmd.RegisterFlagCompletionFunc("theme", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return views.ThemeNames(), cobra.ShellCompDirectiveNoFileComp
	})
}

// check refuses colours that there are none of.
func (f screenFlags) check() error {
	if f.theme != "" && !slices.Contains(views.ThemeNames(), f.theme) {
		return usage(fmt.Errorf("--theme %q is none of %s", f.theme, strings.Join(views.ThemeNames(), ", ")))
	}
	return nil
}

// options are the workbench's.
func (f screenFlags) options(std streams) tui.Options {
	o := tui.Options{
		Theme: f.theme, NoMouse: f.noMouse, Screen: f.first, In: std.in, Out: std.out,
		OpenReplay: func(path string) (sessions.Player, error) { return sessions.OpenReplay(path, 1) },
		Reopen:     sessions.OpenSession,
		Export: func(ctx context.Context, kind, session, path string, overwrite bool) error {
			return sessions.ExportFile(ctx, session, path, strings.ToLower(kind), overwrite)
		},
	}
	if f.reopen != nil {
		o.Reopen = f.reopen
	}
	for _, h := range method.Known() {
		o.Known = append(o.Known, tui.Known{Name: h.Name, Help: h.Description, Calibrated: h.Calibrated})
	}
	return o
}

// showSaved runs the workbench on a session file, which is opened while the
// frame stands already: a large one takes a moment.
func showSaved(ctx context.Context, std streams, path string, open func() (sessions.Feed, error), f screenFlags) error {
	return screenError(tui.RunOpening(ctx, filepath.Base(path), open, f.options(std)), "")
}

// show runs the workbench on a feed and closes the feed.
func show(ctx context.Context, std streams, feed sessions.Feed, f screenFlags) error {
	err := tui.Run(ctx, feed, f.options(std))
	if closeErr := feed.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err == nil {
		tellUnfinished(std.err, feed)
	}
	return screenError(err, resumeHint(feed))
}

// tellUnfinished says after the workbench was quit, which is no error, that its
// run is not finished and how to go on with it.
func tellUnfinished(w io.Writer, feed sessions.Feed) {
	live, ok := feed.(*sessions.LiveFeed)
	if !ok {
		return
	}
	// The feed is closed, so this does not wait.
	p, _ := live.Wait(context.Background())
	if p.State == sessions.RunFinished {
		return
	}
	fmt.Fprintf(w, "unfinished: %d of %d are measured and kept%s\n", p.Done, p.Total, resumeHint(feed))
}

// screenError is the error of the program for the way in which the workbench
// ended.
func screenError(err error, hint string) error {
	var stopped *tui.StoppedError
	switch {
	case errors.Is(err, tui.ErrInterrupted):
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: what was measured is kept%s", hint)}
	case errors.As(err, &stopped):
		return environment(err)
	}
	return err
}

// resumeHint says how to go on with the session of a live run.
func resumeHint(feed sessions.Feed) string {
	live, ok := feed.(*sessions.LiveFeed)
	if !ok {
		return ""
	}
	return "; --session " + live.Path() + " goes on"
}
